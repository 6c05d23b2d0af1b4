"""Bad input: torch's exception, a sentence with the value and the remedy, and nothing changed."""

import contextlib
import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.dispatch.op import Op
from minitorch_backends.tensor import call_errors
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import Tensor, adopt

from ..support.bad_calls import BAD_CALLS, BadCall
from ..support.calls import TABLE, as_dtype, map_arrays
from ..support.processes import python


def surroundings() -> Any:
    """The state that a refused call must not change: flags, the grad mode, the default dtype."""
    return backends.snapshot(), mt.is_grad_enabled(), mt.get_default_dtype()


@pytest.mark.parametrize("bad", BAD_CALLS, ids=lambda bad: bad.name)
def test_bad_call(bad: BadCall) -> None:
    before = surroundings()
    with pytest.raises(bad.error) as raised:
        bad.call(mt)
    message = str(raised.value)
    missing = [text for text in bad.says if text not in message]
    assert not missing, f"the message names no {missing}: {message}"
    assert len(message) >= 20, message
    assert surroundings() == before


def test_names_are_distinct() -> None:
    names = [bad.name for bad in BAD_CALLS]
    assert len(set(names)) == len(names)


# What is unchanged


def test_a_failed_inplace_call_changes_nothing() -> None:
    calls = {
        "add_": (mt.tensor(np.ones((2, 3), np.float32)),),
        "mul_": (1j,),
        "div_": ("a",),
        "sub_": (),
        "exp_": (1, 2, 3),
        "masked_fill_": (mt.tensor(np.ones(2, bool)), 1.0),
        "__setitem__": (slice(0, 2), mt.tensor(np.ones(3, np.float32))),
    }
    x = mt.tensor(np.float32([1, 2, 3]))
    for name, arguments in calls.items():
        with pytest.raises((RuntimeError, TypeError, IndexError)):
            getattr(x, name)(*arguments)
        assert (x.tolist(), x._version, x.requires_grad) == ([1.0, 2.0, 3.0], 0, False), name


def test_a_failed_draw_leaves_the_generator_alone() -> None:
    before = mt.get_rng_state().tolist()
    expanded, leaf, integers = mt.ones(1).expand(3), mt.ones(3, requires_grad=True), mt.ones(3).long()
    fixed = mt.from_numpy(np.broadcast_to(np.float32(1), (1,)))
    draws = [
        lambda: mt.randint(3, 3, (2,)),
        lambda: mt.rand(-1),
        lambda: mt.randn(2, dtype=mt.int64),
        lambda: mt.rand(2, device="nowhere"),
        lambda: mt.randint(3, (2,), requires_grad=True),
        lambda: mt.randperm(3, device="nowhere"),
        lambda: mt.normal(mt.ones(2), 1.0, device="nowhere"),
        lambda: mt.multinomial(mt.ones(3), 2**62, replacement=True),
        integers.normal_,
        lambda: mt.nn.functional.dropout(leaf, inplace=True),
        lambda: mt.nn.functional.rrelu(mt.ones(3), training=True, out=integers),
        lambda: mt.nn.functional.dropout(mt.ones(3), out=integers),
        lambda: mt.nn.init.normal_(mt.ones(2), std=float("nan")),
        lambda: mt.nn.init.uniform_(mt.ones(2), 0.0, mt.ones(2)),
        lambda: mt.nn.TransformerEncoderLayer(4, 2, 8, activation="none"),
        lambda: mt.nn.Transformer(4, 2, dim_feedforward=-1),
        lambda: mt.nn.init.trunc_normal_(mt.ones(2, dtype=mt.complex64)),
        lambda: mt.ones(2, dtype=mt.complex64).exponential_(),
        lambda: mt.ones(2).exponential_(0.0),
    ]
    for name in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_"):
        draws += [getattr(each, name) for each in (expanded, leaf, fixed)]
    for draw in draws:
        with pytest.raises(RuntimeError):
            draw()
    assert mt.get_rng_state().tolist() == before


def _optimizer() -> mt.optim.Optimizer:
    return mt.optim.SGD([mt.ones(2, requires_grad=True)], 0.1)


CONSTRUCTORS = {
    "Bilinear": lambda: mt.nn.Bilinear((2, 2), 2, 1),
    "CircularPad2d": lambda: mt.nn.CircularPad2d(0.5),
    "CosineAnnealingLR": lambda: mt.optim.lr_scheduler.CosineAnnealingLR(_optimizer(), 3, eta_min=(1,)),
    "Dropout1d": lambda: mt.nn.Dropout1d(p=(2,)),
    "GroupNorm": lambda: mt.nn.GroupNorm(2, object()),
    "LBFGS": lambda: mt.optim.LBFGS([mt.ones(2)], tolerance_change=[1e-9]),
    "LSTM": lambda: mt.nn.LSTM([1], 2),
    "ModuleList": lambda: mt.nn.ModuleList(3),
    "MultiStepLR": lambda: mt.optim.lr_scheduler.MultiStepLR(_optimizer(), 0.5),
    "ParameterDict": lambda: mt.nn.ParameterDict((1,)),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_name_the_argument_that_is_wrong(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\): argument '\w+' must be .*, not (tuple|float|object|list|int) "):
        CONSTRUCTORS[name]()


def test_a_failed_backward_changes_no_grad() -> None:
    x, w = mt.tensor(np.ones(2)).requires_grad_(), mt.tensor(np.ones(2)).requires_grad_()
    x.grad = mt.tensor(np.full(2, 7.0))
    y = x * w
    for gradient in (None, mt.tensor(np.ones(3)), "a"):
        with pytest.raises((RuntimeError, TypeError)):
            y.backward(gradient)
    assert x.grad.tolist() == [7.0, 7.0]
    assert w.grad is None
    y.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_a_failed_load_changes_no_parameter() -> None:
    layer = mt.nn.Linear(2, 3)
    before = {name: value.tolist() for name, value in layer.state_dict().items()}
    good = {"weight": mt.zeros(3, 2), "bias": mt.zeros(3)}
    for state in ({**good, "bias": mt.zeros(4)}, {**good, "extra": mt.zeros(1)}, {"weight": mt.zeros(3, 2)}):
        with pytest.raises(RuntimeError):
            layer.load_state_dict(state)
        assert {name: value.tolist() for name, value in layer.state_dict().items()} == before


# Every op


every_op = pytest.mark.parametrize("name", [name for name, op in registry.items() if isinstance(op, Op)])


@every_op
def test_arguments_are_bound_as_python_binds_them(name: str) -> None:
    op = registry[name]
    if op.order and op.order[0] not in op.defaults:
        with pytest.raises(TypeError, match=rf"{name}\(\) is missing the required argument '{op.order[0]}'"):
            op.public()
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'bogus'"):
        op.public(*[mt.tensor(np.ones(1))] * len(op.inputs), bogus=1)
    if op.variadic is None:  # one and two more are deprecated orders of some
        with pytest.raises(TypeError, match=rf"{name}\(\) takes {len(op.order)} positional arguments"):
            op.public(*[mt.tensor(np.ones(1))] * (len(op.order) + 3))


@every_op
def test_inputs_must_be_tensors(name: str) -> None:
    op = registry[name]
    if not op.inputs or op.inputs[0] in op.defaults:
        return
    for value in ("text", None, object(), {"a": 1}):
        named = inspect.signature(op.public).parameters.values()
        keywords = [each.name for each in named if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
        required = [parameter for parameter in op.order if parameter not in op.defaults] + keywords
        arguments = {each: 1.0 if each in op.scalars else mt.tensor(np.ones(1)) for each in required}
        arguments[op.inputs[0]] = value
        with pytest.raises(TypeError, match=re.escape(f"{op.called}(): argument '{op.inputs[0]}' must be")):
            op.public(**arguments)


@every_op
def test_signatures_are_documented(name: str) -> None:
    public = registry[name].public
    assert public.__name__ == name
    assert inspect.getdoc(public), f"{name} has no docstring"


def test_overflow_is_silent():
    printed = python(
        "import minitorch_backends as mt\n"
        "x = mt.tensor([3e38], requires_grad=True)\n"
        "y = x * 10 + x.exp() + x / 0\n"
        "y.sum().backward()\n"
        "print(y.item())"
    )

    assert printed == ("inf\n", "")


def test_numbers_beyond_the_dtype_are_infinite_without_a_warning() -> None:
    printed = python(
        "import minitorch_backends as mt\n"
        "for dtype in (mt.float32, mt.float16, mt.bfloat16):\n"
        "    x = mt.ones(1, dtype=dtype)\n"
        "    found = [x + 1e300, mt.rsub(x, 1e300), x.clamp(max=1e300), mt.where(x > 1, 1e300, x), x * -1e39]\n"
        "    print([each.item() for each in found])"
    )

    assert printed == ("[inf, inf, 1.0, 1.0, -inf]\n" * 3, "")


# Arguments of wrong types

PUBLIC = {name for each in (mt, mt.nn.functional, mt.linalg, mt.fft, Tensor) for name in dir(each)}
OBJECT = object()
STRANGE = (OBJECT, "text", 1.5, None, -1000, [], (None,))
DOCUMENTED = (RuntimeError, TypeError, ValueError, IndexError)


@pytest.mark.parametrize("name", [name for name in registry if name in PUBLIC])
def test_arguments_of_wrong_types_give_errors_that_torch_has(name: str) -> None:
    """Each argument in turn of the op's first sample is replaced: no argument may be an object of no type that is
    known, and what raises, raises a documented kind of error."""
    call = next(TABLE[name].samples())
    names, count = [*call.kwargs], len(call.args)
    values = map_arrays([*call.args, *call.kwargs.values()], lambda array: as_dtype(array, mt.float32))
    errors = (*DOCUMENTED, *(AssertionError,) * (name == "multi_head_attention_forward"))  # as torch's does
    for place in range(len(values)):
        for strange in STRANGE:
            given = map_arrays([*values[:place], strange, *values[place + 1 :]], adopt)
            keywords = dict(zip(names, given[count:], strict=True))
            with pytest.raises(errors) if strange is OBJECT else contextlib.suppress(*errors):
                registry[name].public(*given[:count], **keywords)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: mt.nn.functional.elu(x, "a"), r"elu\(\): argument 'alpha' must be number, not str 'a'"),
        (lambda x: mt.nn.functional.nll_loss(x, 3), r"nll_loss\(\): argument 'target' must be Tensor, not int 3"),
        (lambda x: mt.linalg.vander(x[0], N="a"), r"argument 'N' must be int or None, not str 'a'"),
        (lambda x: x.expand(None), "sizes must be integers, got None"),
        (lambda x: x.permute(None), r"permute\(\): argument 'dims' must be a sequence"),
        (lambda x: mt.split_with_sizes(x, None), r"argument 'split_sizes' must be a sequence of int, not NoneType"),
        (lambda x: mt.nn.functional.layer_norm(x, 1.5), r"'normalized_shape' must be int or a sequence of int, not"),
        (lambda x: mt.cdist(x, x, (1,)), r"cdist\(\): argument 'p' must be number, not tuple \(1,\)"),
        (lambda x: x.cumsum(None), r"a dimension must be an int, not NoneType None"),
        (lambda x: mt.hstack((x, 3)), r"hstack\(\): expected Tensor as element 1 of 'tensors', but got 3"),
    ],
)
def test_the_argument_of_a_wrong_type_is_named(call: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(mt.ones(2, 3))


def test_errors_that_were_meant_are_not_replaced() -> None:
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 7") as raised:
        mt.nn.functional.dropout(mt.ones(2), 7)
    assert raised.value.__cause__ is None


# Numbers

F = mt.nn.functional
NUMBERS = [
    (F.celu, F.celu),
    (lambda x, number: F.elu(x, alpha=number), F.elu),
    (lambda x, number: F.hardtanh(x, -1.0, number), F.hardtanh),
    (lambda x, number: F.threshold(x, 0.5, value=number), lambda x: F.threshold(x, 0.5, 1.0)),
    (F.hardshrink, lambda x: F.hardshrink(x, 1.0)),
    (F.softplus, F.softplus),
    (lambda x, number: mt.add(x, x, alpha=number), lambda x: x + x),
    (lambda x, number: F.pad(x, (1, 1), value=number), lambda x: F.pad(x, (1, 1), value=1.0)),
]


@pytest.mark.parametrize(("call", "expected"), NUMBERS)
def test_numbers_may_be_tensors_without_dimensions_and_nothing_else(call: Any, expected: Any) -> None:
    x = mt.tensor([-2.0, 0.25, 3.0])
    for number in (1, 1.0, np.float32(1), np.array(1.0), mt.tensor(1.0)):
        assert call(x, number).tolist() == expected(x).tolist()
    for wrong in (mt.ones(3), mt.ones(1, 0), (1.0,), "1", {}):
        with pytest.raises(TypeError, match=r"\(\): argument '\w+' must be number, not (Tensor|tuple|str|dict) "):
            call(x, wrong)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: F.interpolate(x[None, None], scale_factor=math.inf), "scale_factor must give sizes of at most 64"),
        (lambda x: F.interpolate(x[None, None], scale_factor=(1.0, 1e30)), "scale_factor must give sizes of at most"),
        (lambda x: mt.nn.Upsample(scale_factor=math.nan)(x[None, None]), "scale_factor must give sizes of at most"),
        (lambda x: F.hardtanh(x.long(), max_val=math.nan), "nan is not in"),
        (lambda x: F.hardtanh(x.to(mt.int8), -1000, 1000), "-1000 is not in -128 to 127"),
        (lambda x: mt.histc(x, mt.tensor([4, 3])), "'bins' must be int"),
        (lambda x: mt.stft(x, True, return_complex=True), "'n_fft' must be int, not bool"),
        (lambda x: mt.stft(x, 2, 1, True, return_complex=True), "'win_length' must be int, not bool"),
        (lambda x: x.sum_to_size((True,)), "sizes must be integers"),
        (lambda x: x.unflatten(0, mt.tensor([1, 2])), "'sizes' must be a tuple of ints, not Tensor"),
        (lambda x: F.log_softmax(2**62, None), "'input' must be Tensor, not int"),
        (lambda x: x.new_tensor([1.0], dtype=np.float32(2)), "cannot hold elements of type float32"),
        (lambda x: x.permute("a", "b"), "a dimension must be an int, not str 'a'"),
        (lambda x: x.hsplit(mt.tensor(1j)), r"must be a tensor of mt\.int64, got mt\.complex64"),
        (lambda x: mt.rot90(x, 1, np.int64(1)), "'dims' must be a tuple of ints, not int64"),
        (lambda x: x[mt.Tensor], "only integers, slices"),
        (lambda x: mt.isin(((1, 2), 3), x), "'elements' must be a Tensor or a number, not tuple"),
        (lambda x: mt.repeat_interleave(x, ((1, 2), 3)), "'repeats' must be int or Tensor, not tuple"),
        (lambda x: mt.linalg.pinv(x, rcond=""), "'rcond' must be number, not str ''"),
        (lambda x: mt.linalg.matrix_rank(x, tol=[1.0, 3]), "'tol' must be number, not list"),
        (lambda x: mt.searchsorted(x, x, sorter=mt.tensor(0)), r"must have the same size, got \[2, 3\] and \[\]"),
        (lambda x: F.affine_grid(x[None], (1, 1, 2.5, 2)), "'size' must be int, not float"),
        (lambda x: F.affine_grid(x[None], (1, 1, 2, 2**62)), "more elements than memory has addresses"),
    ],
)
def test_numbers_that_are_none_are_refused_in_words(call: Any, says: str) -> None:
    with pytest.raises((RuntimeError, TypeError, IndexError), match=says):
        call(mt.ones(2, 3))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda layer, sgd: layer.apply(1), r"apply\(\): argument 'fn' must be callable, not int 1"),
        (lambda layer, sgd: layer.get_buffer(["a"]), r"get_buffer\(\): argument 'target' must be str, not list"),
        (lambda layer, sgd: layer.state_dict(destination=mt.ones(0)), "'destination' must be dict"),
        (lambda layer, sgd: layer.to(mt.float64, out=mt.ones(())), "unexpected keyword argument 'out'"),
        (lambda layer, sgd: sgd.step(("a", "b")), r"step\(\): argument 'closure' must be callable or None, not tuple"),
        (lambda layer, sgd: mt.nn.utils.clip_grad_norm_([0, 1], 1.0), "'parameters' must be Tensor or a sequence of"),
        (lambda layer, sgd: mt.nn.utils.clip_grad_norm_([mt.ones(2)], "a"), "'max_norm' must be number, not str 'a'"),
        (lambda layer, sgd: mt.nn.utils.parameters_to_vector("text"), "'parameters' must be a sequence of"),
        (lambda layer, sgd: mt.nn.utils.fuse(-1), r"fuse\(\): argument 'module' must be Module, not int -1"),
        (lambda layer, sgd: mt.testing.assert_close(1, 2, msg=mt.ones(2)), r"'msg' must be str or callable or None"),
        (lambda layer, sgd: mt.explain.precision_of(0.5), r"precision_of\(\): argument 'name' must be str"),
    ],
)
def test_methods_and_helpers_name_the_argument_that_is_wrong(call: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(mt.nn.Linear(3, 2), _optimizer())


def test_an_out_of_another_dtype_is_refused_before_weights_are_scaled() -> None:
    weight = mt.ones(5, 3)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        F.embedding(mt.tensor([0, 1]), weight, max_norm=0.5, out=mt.zeros(2, 3).long())
    assert weight.tolist() == mt.ones(5, 3).tolist()


def test_an_index_that_is_a_tensor_is_not_written_to() -> None:
    index = mt.tensor(-1)
    assert mt.nn.Embedding(3, 2, padding_idx=index).padding_idx == 2
    assert F.embedding(mt.tensor([2]), mt.ones(3, 2), index).tolist() == [[1.0, 1.0]]
    assert index.item() == -1


def test_integers_meet_every_number() -> None:
    """Bounds are cut off to the type of integers, and places among integers are those of the number itself."""
    x = mt.tensor([0, 5, -3])
    assert F.hardtanh(x, -1.5, 2.7).tolist() == [0, 2, -1]
    assert F.hardtanh(x, 0.5, 2.7).tolist() == [0, 2, 0]
    edges = mt.tensor([1, 3, 3, 7])
    for number, place in ((3.5, 3), (2.5, 1), (-math.inf, 0), (math.inf, 4), (math.nan, 4), (1e30, 4), (3, 1)):
        assert mt.searchsorted(edges, number).item() == mt.bucketize(number, edges).item() == place
    huge = mt.full((2,), math.inf, dtype=mt.bfloat16).nan_to_num(posinf=-(10**30))
    assert huge.tolist() == mt.full((2,), -1e30, dtype=mt.bfloat16).tolist()


def test_a_result_goes_to_one_place() -> None:
    x, out = mt.tensor([-1.0, 1.0]), mt.zeros(2)
    with pytest.raises(TypeError, match="inplace and out"):
        F.relu(x, inplace=True, out=out)
    assert (x.tolist(), out.tolist()) == ([-1.0, 1.0], [0.0, 0.0])


# Numbers beyond every size

FAR = (2**31, 2**40, 2**63 - 1)


@pytest.mark.parametrize("far", [*FAR, *(-each - 1 for each in FAR)])
def test_offsets_beyond_a_matrix_reach_nothing(far: int) -> None:
    x = mt.ones(2, 3)
    for empty in (x.diagonal(far), mt.diag(x, far), mt.linalg.diagonal(x, offset=far)):
        assert (tuple(empty.shape), empty.sum().item()) == ((0,), 0)
    assert mt.tril(x, far).sum().item() == mt.triu(x, -far).sum().item() == (6 if far > 0 else 0)
    assert mt.tril_indices(2, 3, far).shape[1] == mt.triu_indices(2, 3, -far).shape[1] == (6 if far > 0 else 0)
    assert mt.diff(x, n=abs(far)).shape == (2, 0)
    assert mt.round(x * 1.5, decimals=abs(far)).tolist() == (x * 1.5).tolist()


def test_strides_and_dilations_beyond_an_image_reach_one_place() -> None:
    x, one, two = mt.arange(6.0).reshape(1, 1, 6), mt.ones(1, 1, 1), mt.ones(1, 1, 2)
    assert mt.nn.functional.conv1d(x, two, stride=2**63 - 1).tolist() == [[[1.0]]]
    assert mt.nn.functional.conv1d(x, one, dilation=2**63 - 1).tolist() == x.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: mt.repeat_interleave(x, mt.tensor([n, n])),
        mt.repeat_interleave,
        mt.tensor_split,
        lambda x, n: mt.vsplit(mt.ones(0, 2), n),
        lambda x, n: mt.chunk(x[:0], n),
        lambda x, n: x.tile(n, n),
        lambda x, n: mt.arange(n),
        lambda x, n: mt.linspace(0, 1, n),
        lambda x, n: mt.nn.functional.pad(x, (n, n)),
        mt.fft.fft,
        lambda x, n: mt.nn.functional.one_hot(mt.tensor([0]), n),
        lambda x, n: mt.bincount(mt.tensor([0]), minlength=n),
        lambda x, n: mt.multinomial(mt.ones(2), n, True),
        lambda x, n: mt.tril_indices(n, n),
        lambda x, n: mt.diag(x[0], n),
        mt.histc,
        lambda x, n: mt.nonzero_static(x, size=n),
        lambda x, n: mt.nn.functional.interpolate(x[None], n),
        lambda x, n: mt.nn.functional.max_unpool1d(x, mt.tensor([[0, 1]] * 2), n),
        lambda x, n: x.resize_(n, n),
        lambda x, n: x.unfold(0, n, 1),
        lambda x, n: mt.nn.functional.conv1d(x[None], mt.ones(1, 2, 1), padding=n),
        lambda x, n: mt.nn.functional.conv_transpose1d(x[None], mt.ones(2, 1, 1), stride=n),
    ],
)
def test_counts_that_no_memory_holds_are_refused_at_once(call: Any) -> None:
    """In a sentence about them; 2**64 exceeds 64 bits."""
    for count in (2**60, 2**63 - 1, 2**64):
        with pytest.raises((RuntimeError, ValueError, MemoryError)) as raised:
            call(mt.ones(2, 2), count)
        assert re.search(r"\d{9}|sizes?|elements|allocate", str(raised.value)), raised.value


def test_a_small_number_is_not_why_memory_did_not_suffice() -> None:
    """Python's own error has no text."""
    assert call_errors._too_large(MemoryError(), "softmax", [("dim", 1)]) is None
    assert "'n' must be smaller" in str(call_errors._too_large(MemoryError(), "eye", [("n", 2**40)]))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: mt.diag(3, out=x), r"diag\(\): argument 'input' must be Tensor, not int 3"),
        (lambda x: mt.tile("x", 2, out=x), r"tile\(\): argument 'input' must be Tensor, not str 'x'"),
        (lambda x: mt.abs(x, out=()), r"abs\(\): argument 'out' must be a Tensor"),
        (lambda x: mt.fft.fftfreq(2, out=(None,)), r"fftfreq\(\): argument 'out' must be a Tensor"),
        (lambda x: x.view_as(1), r"view_as\(\): argument 'other' must be Tensor, not int 1"),
        (lambda x: x.set_(1), r"set_\(\): argument 'source' must be Tensor or None, not int 1"),
        (lambda x: x.scatter_add_(0, 5, x), r"scatter_add_\(\): argument 'index' must be Tensor, not int 5"),
        (lambda x: mt.nn.functional.relu(1, inplace=True), r"relu\(\): argument 'input' must be Tensor, not int 1"),
        (lambda x: mt.explain.why(3), r"why\(\): argument 'name' must be str, not int 3"),
        (lambda x: x.tril([0]), r"tril\(\): argument 'diagonal' must be int, not list"),
        (lambda x: x.roll("a", 0), r"roll\(\): argument 'shifts' must be int or a sequence of int, not str"),
    ],
)
def test_the_argument_that_is_wrong_is_named_wherever_it_is_used(call: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(mt.ones(2, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.unsqueeze(0),
        lambda x: x.expand(2, *x.shape),
        lambda x: mt.stack([x]),
        lambda x: mt.ones(*x.shape, 1),
    ],
)
def test_results_of_too_many_dimensions_are_refused(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^\w+\(\): tensors have at most 64 dimensions"):
        call(mt.ones((1,) * 64))


def test_errors_of_functions_of_the_users_are_theirs() -> None:
    """Errors of the user's own code are not taken for mistaken arguments."""
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        mt.func.vjp(lambda x: (3).shape, mt.ones(2))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rnn_layer", lambda x: (x, mt.ones(2, 2), mt.ones(2, 2), mt.ones(2))),
        ("fold_windows", lambda x: (x, (2,), (1,), (0,), (1,), (5,))),
        ("gather_flat", lambda x: (x, mt.tensor([5]), 1)),
    ],
)
def test_ops_called_directly_say_which_shapes_do_not_fit(name: str, arguments: Any) -> None:
    with pytest.raises((RuntimeError, TypeError), match=rf"^{name}\(\)"):
        registry[name].public(*arguments(mt.ones(1, 2, 3, 3)))


def test_a_product_of_a_recurrence_says_which_shapes_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(2x3 and 4x5\)"):
        registry["recurrent_product"].public(mt.ones(2, 3), mt.ones(5, 4))


@pytest.mark.parametrize(
    ("call", "function"),
    [
        (lambda x: mt.nn.functional.embedding(x, mt.ones(2, 2)), "embedding"),
        (lambda x: mt.index_put(mt.ones(2), (mt.tensor([0]),), x), "index_put"),
        (mt.sort, "sort"),
        (mt.nonzero, "nonzero"),
        (mt.var_mean, "var_mean"),
        (mt.std, "std"),
        (mt.unique, "unique"),
        (lambda x: mt.nn.functional.pad(x, (1, 1)), "pad"),
        (lambda x: mt.full_like(x, 1), "full_like"),
    ],
)
def test_messages_name_the_function_that_was_called(call: Any, function: str) -> None:
    class Foreign:
        __array__ = np.zeros(2).__array__

    with pytest.raises(TypeError, match=rf"^{function}\(\): argument '\w+' must be .* got "):
        call(Foreign())


def test_dtypes_of_another_library_are_named() -> None:
    class DType:
        def __repr__(self) -> str:
            return "torch.float32"

    with pytest.raises(TypeError, match=r"minitorch_backends dtype, got torch\.float32; use mt\.float32"):
        mt.ones(2).to(dtype=DType())
    with pytest.raises(ValueError, match=r"got 'long'; use 'torch\.FloatTensor'"):
        mt.ones(2).type("long")
