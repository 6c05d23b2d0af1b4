"""Views: random programs of views and writes against a replay that has no views, layouts, and what a view says of
itself.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import Tensor
from minitorch_backends.autograd import gradcheck, gradgradcheck

SHAPE = (3, 4)

STEPS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "rows": lambda x: x[1:],
    "every other": lambda x: x[::2],
    "last axis": lambda x: x[..., :1],
    "new axis": lambda x: x[None],
    "transposed": lambda x: x.mT if isinstance(x, Tensor) else x.swapaxes(-2, -1),
    "flat": lambda x: x.reshape(-1),
    "diagonal": lambda x: x.diagonal(),
    "narrow": lambda x: x.narrow(0, 0, 1) if isinstance(x, Tensor) else x[:1],
    "last": lambda x: x.tensor_split(2)[-1][-1] if isinstance(x, Tensor) else x[-1],
    "window": lambda x: x.unfold(0, 1, 1)[..., 0] if isinstance(x, Tensor) else x[...],
}
"""Steps from a tensor to a view of it, written for tensors and arrays; NumPy refuses some for shapes that lack "
"dimensions."""

NEEDS_MATRIX = ("transposed", "diagonal")

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda v, w: v * w,
    "add": lambda v, w: v + w,
    "square": lambda v, w: v * v,
    "set": lambda v, w: w + 0 * v,
    "zero": lambda v, w: 0 * v,
    "first": lambda v, w: mt.cat([(w * w).reshape(1), v.reshape(-1)[1:]]).reshape(v.shape),
}
"""What a write leaves in the view, of what was there and of a scalar; `write_in_place` does the same in place."""


def write_in_place(name: str, v: Tensor, w: Tensor) -> None:
    if name == "mul":
        v *= w
    elif name == "add":
        v.add_(w)
    elif name == "square":
        v.mul_(v.clone())
    elif name == "set":
        v[...] = w
    elif name == "zero":
        v.zero_()
    else:
        v[(0,) * v.ndim] = w * w


class Replay:
    """The same program without views: the base is replaced as a whole, and a view is read where its elements lie."""

    def __init__(self, base: Tensor) -> None:
        self.base = base
        self.places = [np.arange(base.numel()).reshape(base.shape)]

    def read(self, which: int) -> Tensor:
        return self.base.reshape(-1)[self.places[which].reshape(-1)].reshape(self.places[which].shape)

    def write(self, which: int, value: Tensor) -> None:
        places = mt.tensor(self.places[which].reshape(-1))
        self.base = self.base.reshape(-1).index_put((places,), value.reshape(-1)).reshape(self.base.shape)


commands = st.one_of(
    st.tuples(st.just("view"), st.integers(0, 9), st.sampled_from(sorted(STEPS))),
    st.tuples(st.just("write"), st.integers(0, 9), st.sampled_from(sorted(WRITES))),
)


def applicable(name: str, places: np.ndarray) -> bool:
    return places.ndim >= (2 if name in NEEDS_MATRIX else 1) and (name not in ("row", "last") or places.shape[0] > 1)


def run(program: list[tuple[str, int, str]], x: Tensor, w: Tensor) -> tuple[list[Tensor], Replay]:
    """The views after the program, all in one list with their base, and the replay."""
    start = x * 2
    views, replay = [start], Replay(x * 2)
    for kind, number, name in program:
        which = number % len(views)
        if kind == "write":
            replay.write(which, WRITES[name](replay.read(which), w))
            write_in_place(name, views[which], w)
        elif applicable(name, replay.places[which]):
            made, places = STEPS[name](views[which]), STEPS[name](replay.places[which])
            if made._base is start and places.size:  # `reshape` may have had to copy
                replay.places.append(places)
                views.append(made)
    return views, replay


@given(st.lists(commands, max_size=10), st.booleans())
def test_programs_of_views_and_writes(program: list[tuple[str, int, str]], columns_first: bool) -> None:
    """Values, gradients and second gradients of random programs, also on memory laid out by columns."""
    values = (np.arange(12.0).reshape(SHAPE) + 1) / 7
    x = mt.tensor(np.asfortranarray(values) if columns_first else values).requires_grad_()
    w = mt.tensor(np.array(1.5)).requires_grad_()
    views, replay = run(program, x, w)
    weights = [
        mt.tensor(np.cos(np.arange(view.numel()) + index).reshape(view.shape)) for index, view in enumerate(views)
    ]
    expected = [replay.read(index) for index in range(len(views))]
    for view, wanted in zip(views, expected, strict=True):
        np.testing.assert_allclose(view.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    found = gradients(views, weights, x, w)
    for one, other in zip(found, gradients(expected, weights, x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def gradients(outputs: list[Tensor], weights: list[Tensor], x: Tensor, w: Tensor) -> list[np.ndarray]:
    """First and second derivatives of a weighted sum of the outputs' squares."""
    total = sum(
        ((out * out * weight).sum() for out, weight in zip(outputs, weights, strict=True)), mt.tensor(np.array(0.0))
    )
    first = mt.autograd.grad(total, (x, w), create_graph=True, materialize_grads=True)
    curved = sum(((each * each).sum() for each in first), (x * 0).sum())
    second = mt.autograd.grad(curved, (x, w), materialize_grads=True)
    return [each.detach().numpy() for each in (*first, *second)]


# Layouts


def test_a_write_through_a_view_of_memory_by_columns() -> None:
    """`mT.reshape(-1)` is a view of such memory, and would be a copy of a base laid out by rows."""
    x = mt.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3))).requires_grad_()
    y = x * 1
    flat = y.mT.reshape(-1)
    assert flat._base is y
    flat[1:3].mul_(10)
    (y * mt.tensor(np.arange(6.0).reshape(2, 3))).sum().backward()
    assert y.tolist() == [[0.0, 10.0, 2.0], [30.0, 4.0, 5.0]]
    assert x.grad.tolist() == [[0.0, 10.0, 2.0], [30.0, 4.0, 5.0]]


def test_a_view_of_an_expanded_tensor_gets_sums() -> None:
    x = mt.ones(2, 1, dtype=mt.float64).requires_grad_()
    y = x * 1
    wide = y.expand(2, 3)[:, 1:]
    y.mul_(2)
    (wide * mt.tensor(np.arange(4.0).reshape(2, 2))).sum().backward()
    assert wide.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert x.grad.tolist() == [[2.0], [10.0]]


def test_overlapping_windows_get_sums() -> None:
    x = mt.arange(5.0).requires_grad_()
    y = x * 1
    windows = y.unfold(0, 3, 1)
    y.add_(1)
    windows.sum().backward()
    assert windows.tolist() == [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [3.0, 4.0, 5.0]]
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 2.0, 1.0]


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16, mt.bool, mt.complex64], ids=repr)
def test_expanded_memory_is_shared(dtype: mt.dtype) -> None:
    x = mt.zeros(2, 1, dtype=dtype)
    for source in (x, mt.zeros(4, 3, dtype=dtype)[::2, 1:2]):
        wide = source.expand(3, 2, 5)
        assert (wide.shape, wide._base is not None) == ((3, 2, 5), True)
        source[1] = 1
        assert (wide[:, 1] == 1).all()
        assert not (wide[:, 0] == 1).any()


def test_read_only_memory_can_be_viewed_but_not_written() -> None:
    array = np.arange(3.0)
    array.setflags(write=False)
    x = mt.from_numpy(array)
    assert x.expand(2, 3).tolist() == [[0.0, 1.0, 2.0]] * 2
    for view in (x, x[1:], x.reshape(3, 1)):
        with pytest.raises((ValueError, RuntimeError), match="read-only"):
            view.add_(1)
    assert (x.tolist(), x._version) == ([0.0, 1.0, 2.0], 0)


# What is a view


VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "view": lambda x: x.view(3, 2),
    "reshape": lambda x: x.reshape(-1),
    "same shape": lambda x: x.reshape(2, 3),
    "index": lambda x: x[0],
    "ellipsis": lambda x: x[...],
    "none": lambda x: x[None],
    "tensor of no dimensions": lambda x: x[mt.tensor(1)],
    "slice": lambda x: x[:, ::2],
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "movedim": lambda x: x.movedim(0, 1),
    "expand": lambda x: x.expand(4, 2, 3),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unflatten": lambda x: x.unflatten(1, (3, 1)),
    "diagonal": lambda x: x.diagonal(),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(1, 2),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split(2, 1)[1],
    "chunk": lambda x: x.chunk(3, 1)[1],
    "tensor_split": lambda x: x.tensor_split(2, 1)[0],
    "view of a view": lambda x: x[:, 1:].mT[0],
}

COPIES: dict[str, Callable[[Tensor], Any]] = {
    "clone": lambda x: x.clone(), "list": lambda x: x[[0, 1]], "mask": lambda x: x[x > 0],
    "reshape of a transpose": lambda x: x.mT.reshape(-1), "flip": lambda x: x.flip(0),
    "repeat": lambda x: x.repeat(1, 1), "repeat_interleave": lambda x: x.repeat_interleave(1, 0),
    "diag": lambda x: x.diag(), "rot90": lambda x: mt.rot90(x, 0),
    "contiguous of a transpose": lambda x: x.mT.contiguous(), "to another dtype": lambda x: x.double(),
    "gather": lambda x: x.gather(0, mt.tensor([[0]])),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_views_share_memory_version_and_base(name: str, requires_grad: bool) -> None:
    base = mt.arange(1.0, 7.0).reshape(2, 3).clone().requires_grad_(requires_grad)
    view = VIEWS[name](base)
    assert view._is_view()
    assert view._base is base
    assert view.requires_grad is requires_grad
    assert np.shares_memory(view.detach().numpy(), base.detach().numpy())
    with mt.no_grad():
        base.mul_(2)
    assert (base._version, view._version) == (1, 1)
    assert view.tolist() == VIEWS[name](mt.arange(2.0, 14.0, 2.0).reshape(2, 3)).tolist()


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("recording", [False, True])
def test_copies_share_nothing(name: str, recording: bool) -> None:
    base = mt.arange(1.0, 7.0).reshape(2, 3).clone()
    with mt.set_grad_enabled(recording):
        copy = COPIES[name](base)
    before = copy.tolist()
    assert not copy._is_view() or copy._base is not base
    assert not np.shares_memory(copy.numpy(), base.numpy())
    base.zero_()
    assert copy.tolist() == before
    assert copy._version == 0


def test_the_tensor_itself_where_nothing_changes() -> None:
    x = mt.ones(2, 3)
    for same in (x.contiguous(), x.to(mt.float32), x.float(), x.to("cpu"), x.flatten(0, 0), x.cpu(), x.type_as(x)):
        assert same is x
    assert x.to(mt.float32, copy=True) is not x


def test_view_needs_strides_that_allow_it() -> None:
    x = mt.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match=r"view size \[-1\] is not compatible .*\[3, 2\].*use .reshape"):
        x.mT.view(-1)
    assert x.mT.view(3, 2, 1).tolist() == [[[0.0], [3.0]], [[1.0], [4.0]], [[2.0], [5.0]]]
    assert x.mT[:0].view(0, 7).shape == (0, 7)


def test_view_as_another_dtype_shares_memory() -> None:
    x = mt.tensor([1.0, -2.0])
    bits = x.view(mt.int32)
    assert bits.tolist() == [0x3F800000, 0xC0000000 - (1 << 32)]
    bits[0] = 0x40000000
    assert x.tolist() == [2.0, -2.0]
    assert x._version == 1
    assert mt.ones(2, 4, dtype=mt.uint8).view(mt.int32).tolist() == [[0x01010101]] * 2
    with pytest.raises(RuntimeError, match="contiguous"):
        mt.ones(3, dtype=mt.uint8).view(mt.int32)


def test_a_leaf_is_not_written_through_any_view() -> None:
    x = mt.arange(1.0, 7.0).reshape(2, 3).clone().requires_grad_()
    for name, view in VIEWS.items():
        with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad|single memory location"):
            view(x).add_(1)
        assert (x.tolist(), x._version) == ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 0), name
    with mt.no_grad():
        x.view(-1)[2:4].zero_()
    assert (x.tolist(), x._version, x.is_leaf) == ([[1.0, 2.0, 0.0], [0.0, 5.0, 6.0]], 1, True)


def test_a_view_made_before_its_base_requires_gradients() -> None:
    x = mt.ones(3)
    view = x[1:]
    x.requires_grad_()
    assert view.requires_grad
    (view * mt.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 2.0, 3.0]


def test_writes_to_one_of_several_views_reach_the_others() -> None:
    x = mt.arange(1.0, 5.0).requires_grad_()
    y = x * 1
    first, second = y[:2], y[2:]
    third = y.view(2, 2)
    first.mul_(10)
    second.mul_(third[0].clone())
    assert y.tolist() == [10.0, 20.0, 30.0, 80.0]
    third.sum().backward()
    assert x.grad.tolist() == [10 + 30, 10 + 40, 10.0, 20.0]


def test_one_of_several_views_of_one_call_is_not_written() -> None:
    """The others could not follow. Without gradients there is nothing to follow."""
    for several in (lambda y: y.split(2), lambda y: y.unbind(), lambda y: y.chunk(2), tuple):
        y = mt.arange(1.0, 5.0).requires_grad_() * 1
        with pytest.raises(RuntimeError, match=r"Output 0 of .*(Split|Unbind).*use"):
            several(y)[0].mul_(10)
        assert (y.tolist(), y._version) == ([1.0, 2.0, 3.0, 4.0], 0)
        plain = mt.arange(4.0)
        several(plain)[-1].fill_(7.0)
        assert plain[-1].item() == 7.0


def test_a_constant_written_over_everything_cuts_the_gradient() -> None:
    for write in (
        lambda y: y.zero_(),
        lambda y: y.fill_(mt.tensor(2.0)),
        lambda y: y.copy_(mt.ones(3)),
        lambda y: y.__setitem__(..., 3.0),
        lambda y: y.__setitem__([0, 1, 2], 3.0),
    ):
        x = mt.ones(3, requires_grad=True)
        y = x * 2
        write(y)
        assert y.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_filling_rows_one_by_one() -> None:
    x = mt.arange(1.0, 4.0, dtype=mt.float64).requires_grad_()
    out = mt.zeros(3, 2, dtype=mt.float64)
    for index in range(3):
        out[index, 0] = x[index] ** 2
        out[index, 1] = out[index, 0].clone() * x[index]
    assert out.tolist() == [[1.0, 1.0], [4.0, 8.0], [9.0, 27.0]]
    assert out._version == 6
    out.sum().backward()
    assert x.grad.tolist() == [2 + 3, 4 + 12, 6 + 27]


def test_copy_converts_and_broadcasts() -> None:
    x = mt.zeros(2, 3, dtype=mt.int64)
    assert x.copy_(mt.tensor([1.9, -1.9, 0.0])) is x
    assert x.tolist() == [[1, -1, 0]] * 2
    source = mt.tensor([[1.5], [2.5]], dtype=mt.float64, requires_grad=True)
    y = mt.zeros(2, 3).copy_(source)
    assert y.dtype is mt.float32
    y.sum().backward()
    assert source.grad.tolist() == [[3.0], [3.0]]
    assert source.grad.dtype is mt.float64
    z = mt.arange(5.0)
    z[1:] = z[:-1]
    assert z.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda x: x.transpose(0, 2), IndexError, r"\[-2, 1\], but got 2"),
        (lambda x: x.permute(0, 0), RuntimeError, "dim 0 appears multiple times"),
        (lambda x: x.permute(0), RuntimeError, r"\[0\].*2 dimensions"),
        (lambda x: x.reshape(4, -1), RuntimeError, r"\[4, -1\]' is invalid for input of size 6"),
        (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
        (lambda x: x.reshape(-2, 3), RuntimeError, "invalid shape dimension -2"),
        (lambda x: x[:0].reshape(-1, 0), RuntimeError, "ambiguous"),
        (lambda x: x.reshape(2.0, 3), TypeError, "2.0"),
        (lambda x: x.expand(3), RuntimeError, r"\[3\].*at least|must be greater or equal"),
        (lambda x: x.expand(2, 4), RuntimeError, r"\(4\) must match the existing size \(3\) .* dimension 1"),
        (lambda x: x.expand(-1, 2, 3), RuntimeError, "-1 only for the existing"),
        (lambda x: x.unsqueeze(4), IndexError, r"\[-3, 2\], but got 4"),
        (lambda x: x.squeeze((0, 0)), RuntimeError, "dim 0 appears multiple times"),
        (lambda x: x[0].mT, RuntimeError, r"mT .*\[3\].*unsqueeze"),
        (lambda x: x[None].t(), RuntimeError, "<= 2 dimensions"),
        (lambda x: x[None].H, RuntimeError, "mH"),
        (lambda x: x.diagonal(0, 0, -2), RuntimeError, "identical.*0 and -2"),
        (lambda x: x.narrow(0, 1, 2), RuntimeError, r"start \(1\) \+ length \(2\) exceeds dimension 0 of size 2"),
        (lambda x: x.select(0, 2), IndexError, "index 2 out of range"),
        (lambda x: x.split(0), RuntimeError, "got 0"),
        (lambda x: x.split([1, 2]), RuntimeError, r"sum exactly to 2.*\[1, 2\]"),
        (lambda x: x.chunk(0), RuntimeError, "got: 0"),
        (lambda x: x.sum().unbind(), IndexError, "no dimensions"),
        (lambda x: x.unfold(0, 3, 1), RuntimeError, "is 2 but size is 3"),
        (lambda x: x.movedim((0, 1), 0), RuntimeError, "equally many"),
        (lambda x: x.flatten(1, 0), RuntimeError, "1 and 0"),
        (lambda x: mt.cat([]), ValueError, "non-empty"),
        (lambda x: mt.cat([x, x[0]]), RuntimeError, r"\[2, 3\] but got \[3\] for tensor number 1"),
        (lambda x: mt.cat([x.sum()]), RuntimeError, "zero-dimensional"),
        (lambda x: mt.stack([x, x[0]]), RuntimeError, r"\[3\] at entry 1"),
        (mt.cat, TypeError, "sequence of Tensors"),
        (lambda x: x.repeat(2), RuntimeError, "can not be smaller"),
        (lambda x: x[0].tril(), RuntimeError, "at least 2 dimensions"),
        (lambda x: x.to("cuda"), AssertionError, "'cuda'.*flags"),
        (lambda x: x.to("float99"), RuntimeError, "float99"),
        (lambda x: x.copy_(mt.ones(2)), RuntimeError, r"\[2, 3\].*\[2\]"),
        (lambda x: x.fill_(mt.ones(2)), RuntimeError, r"0-dimensional.*\[2\]"),
        (lambda x: x.fill_(1j), RuntimeError, "without overflow.*1j"),
        (lambda x: x.copy_("1"), TypeError, "can't assign a str"),
    ],
)
def test_refusals(call: Callable[[Tensor], Any], error: type[Exception], says: str) -> None:
    x = mt.arange(6.0).reshape(2, 3)
    with pytest.raises(error, match=says):
        call(x)
    assert (x.tolist(), x._version) == ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 0)


IN_ROWS = {
    "cat": lambda x: mt.cat([x, x]),
    "stack": lambda x: mt.stack([x, x]),
    "roll": lambda x: x.roll(1, 0),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "pad": lambda x: mt.nn.functional.pad(x, (1, 1)),
    "topk": lambda x: x.topk(2, 0)[0],
    "tril": lambda x: x.tril(),
    "layer_norm": lambda x: mt.nn.functional.layer_norm(x, x.shape[-1:]),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    **{
        name: lambda x, name=name: getattr(x, name)(0)
        for name in ("sum", "mean", "prod", "any", "all", "amax", "var", "std", "logsumexp", "count_nonzero")
    },
    "max": lambda x: x.max(0)[0],
    "norm": lambda x: x.norm(dim=0),
}


@pytest.mark.parametrize("name", IN_ROWS)
def test_results_that_lie_in_rows_however_inputs_lie(name: str) -> None:
    """So that `view` takes them, as in torch."""
    x = mt.arange(24.0).reshape(2, 3, 4).permute(2, 1, 0)
    for grad in (False, True):
        result = IN_ROWS[name](x.detach().requires_grad_(grad))
        assert result.is_contiguous()
        assert result.view(-1).shape == (result.numel(),)
        assert result.equal(IN_ROWS[name](x.contiguous()))


def test_channels_stay_last() -> None:
    x = mt.randn(2, 5, 6, 3).permute(0, 3, 1, 2)
    for result in (mt.cat([x, x], 1), mt.nn.functional.pad(x, (1, 1)), x.masked_fill(x > 0, 1.0), x.cumsum(2)):
        assert result.permute(0, 2, 3, 1).is_contiguous()


def test_view_as_complex_copies_nothing() -> None:
    x = mt.zeros(3, 4)
    mt.view_as_complex(x.view(3, 2, 2)[::2]).fill_(1 + 2j)
    assert x.tolist() == [[1, 2, 1, 2], [0, 0, 0, 0], [1, 2, 1, 2]]
    with pytest.raises(RuntimeError, match=r"stride 1, and it is 2 of shape \[3, 2\]; use contiguous"):
        mt.view_as_complex(x[:, ::2])


def test_parts_of_complex_numbers_can_be_assigned() -> None:
    z = mt.zeros(2, dtype=mt.complex64)
    z.real, z.imag = mt.ones(2), 2
    assert z.tolist() == [1 + 2j, 1 + 2j]
    assert (float(mt.tensor(1 + 0j)), int(mt.tensor(2 + 0j))) == (1.0, 2)
    with pytest.raises(RuntimeError, match="imaginary part"):
        float(mt.tensor(1 + 1j))


def test_stale_views_are_printed() -> None:
    y = mt.ones(4, requires_grad=True) * 1
    view = y.chunk(2)[0]
    y.mul_(2)
    assert repr(view) == "tensor([2., 2.], grad_fn=<Invalid>)"


def test_windows_and_pieces_of_odd_tensors() -> None:
    assert mt.tensor(3.0).unfold(0, 1, 1).tolist() == [3.0]
    assert [each.tolist() for each in mt.arange(4).tensor_split(mt.tensor([1, 3]))] == [[0], [1, 2], [3]]
    assert [each.tolist() for each in mt.arange(4).tensor_split(mt.tensor(3))] == [[0, 1], [2], [3]]
    with pytest.raises(IndexError, match="tensor has no dimensions"):
        mt.tensor(2.5).roll(1, 0)


COMPLEX_VIEWS: dict[str, Any] = {
    "complex of real": lambda y: mt.view_as_complex(y.view(3, 2, 2)),
    "by columns": lambda y: mt.view_as_complex(y.T),
    "expanded": lambda y: mt.view_as_complex(y.view(3, 2, 2)).expand(2, 3, 2),
    "at odd places": lambda y: mt.view_as_complex(y[:, 1:3]),
    "parts": lambda y: mt.view_as_real(mt.view_as_complex(y.view(6, 2)))[:, 1],
    "imaginary parts, expanded": lambda y: mt.view_as_complex(y.view(6, 2)).imag.expand(2, 6),
    "windows": lambda y: mt.view_as_complex(y.view(6, 2)).unfold(0, 3, 1).real,
}
"""Views of a tensor of shape (3, 4), or (2, 6) where it lies in memory by columns."""


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("name", COMPLEX_VIEWS)
def test_views_as_complex_numbers_follow_their_base_and_write_to_it(name: str, recreated: bool) -> None:
    def function(x: mt.Tensor) -> mt.Tensor:
        y = (x.view(2, 6).T.contiguous().T if name == "by columns" else x) * 1
        view = COMPLEX_VIEWS[name](y)
        if recreated:
            y.mul_(2)
        elif "expanded" in name or name == "windows":
            y[0].mul_(2)
        else:
            view.mul_(1j if view.is_complex() else 2)
        flat = mt.view_as_real(view).reshape(-1) if view.is_complex() else view.reshape(-1)
        return (flat**2 * mt.arange(1.0, len(flat) + 1, dtype=mt.float64)).sum() + (y.T**3).sum()

    x = mt.tensor(np.linspace(0.5, 1.5, 12).reshape(3, 4), requires_grad=True)
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.parametrize("far", [2**31, 2**32 - 1, 2**63 - 1, -(2**63)])
def test_permute_takes_no_dimension_that_is_cut_to_another(far):
    with pytest.raises(IndexError, match="Dimension out of range"):
        mt.ones(6, 4).permute(far, 0)


@pytest.mark.parametrize("cut", [lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.chunk(2**40), list])
def test_more_views_than_memory_holds_are_refused_at_once(cut):
    with pytest.raises(RuntimeError, match="must be cut into at most"):
        cut(mt.ones(1).expand(2**40))


def test_a_view_that_is_reshaped_in_place_follows_writes_to_its_base() -> None:
    """The step from the base to the view comes before the step that reshaped it."""
    x = mt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    base = x * 1
    row = base[1]
    row.unsqueeze_(0)
    base.mul_(3)
    (row * mt.tensor([[1.0, 10.0]])).sum().backward()
    assert row.tolist() == [[9.0, 12.0]]
    assert x.grad.tolist() == [[0.0, 0.0], [3.0, 30.0]]
