"""Recurrent layers and cells, beside their definition step by step in float64."""

import importlib
import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, nn

KINDS = {"RNN": (1, 1), "LSTM": (4, 2), "GRU": (3, 1)}
PRODUCTS = ("matmul", "linear", "recurrence", "recurrence_gradient")
every_kind = pytest.mark.parametrize("kind", KINDS)


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(module: Any, suffix: str, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
    """The next states, by the definition."""
    w_ih, w_hh, *biases = (
        getattr(module, name + suffix).detach().numpy().astype(np.float64)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        if hasattr(module, name + suffix)
    )
    b_ih, b_hh = biases or (0, 0)
    given, before, h = x @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh, states[0]
    if "LSTM" in type(module).__name__:
        i, f, g, o = np.split(given + before, 4, -1)
        c = logistic(f) * states[1] + logistic(i) * np.tanh(g)
        projection = getattr(module, f"weight_hr{suffix}", None)
        h = logistic(o) * np.tanh(c)
        return [h if projection is None else h @ projection.detach().numpy().astype(np.float64).T, c]
    if "GRU" in type(module).__name__:
        (xr, xz, xn), (hr, hz, hn) = np.split(given, 3, -1), np.split(before, 3, -1)
        z, n = logistic(xz + hz), np.tanh(xn + logistic(xr + hr) * hn)
        return [(1 - z) * n + z * h]
    return [np.tanh(given + before) if module.nonlinearity == "tanh" else np.maximum(given + before, 0)]


def reference(module: Any, x: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The result of a layer for (length, batch, input_size)."""
    sequence, after = x.astype(np.float64), [np.array(each, np.float64) for each in states]
    directions = 1 + module.bidirectional
    for layer in range(module.num_layers):
        outputs = []
        for direction in range(directions):
            place, now = layer * directions + direction, []
            current = [each[place] for each in after]
            for row in sequence[:: 1 - 2 * direction]:
                current = step(module, f"_l{layer}" + "_reverse" * direction, row, current)
                now.append(current[0])
            outputs.append(np.array(now)[:: 1 - 2 * direction])
            for each, state in zip(after, current, strict=True):
                each[place] = state
        sequence = np.concatenate(outputs, -1)
    return sequence, after


def tuple_of(states: Any) -> tuple[Any, ...]:
    return states if isinstance(states, tuple) else (states,)


def as_tensors(states: list[np.ndarray]) -> Any:
    tensors = tuple(map(mt.tensor, states))
    return tensors if len(tensors) > 1 else tensors[0]


@every_kind
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}],
    ids=["plain", "no bias", "two layers, both ways", "batch first"],
)
@pytest.mark.parametrize("length", [1, 5])
def test_layers_are_their_definition(kind: str, options: dict[str, Any], length: int) -> None:
    mt.manual_seed(0)
    module, rng = getattr(nn, kind)(5, 7, **options), np.random.default_rng(0)
    x = rng.standard_normal((length, 3, 5)).astype(np.float32)
    rows = module.num_layers * (1 + module.bidirectional)
    states = [rng.standard_normal((rows, 3, 7)).astype(np.float32) for _ in range(KINDS[kind][1])]
    output, after = reference(module, x, states)
    turned = module.batch_first
    got, last = module(mt.tensor(x.transpose(1, 0, 2) if turned else x), as_tensors(states))
    assert np.allclose(got.detach().numpy().transpose(1, 0, 2) if turned else got.detach().numpy(), output, atol=2e-6)
    for one, other in zip(tuple_of(last), after, strict=True):
        assert np.allclose(one.detach().numpy(), other, atol=2e-6)
    with mt.no_grad():
        assert np.array_equal(
            module(mt.tensor(x.transpose(1, 0, 2) if turned else x), as_tensors(states))[0], got.detach()
        )


def test_states_of_an_lstm_are_projected() -> None:
    mt.manual_seed(0)
    module, rng = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2), np.random.default_rng(0)
    x, states = rng.standard_normal((4, 3, 3)).astype("f"), [rng.standard_normal((4, 3, n)).astype("f") for n in (2, 5)]
    output, after = reference(module, x, states)
    got, last = module(mt.tensor(x), as_tensors(states))
    assert np.allclose(got.detach(), output, atol=2e-6)
    for one, other in zip(last, after, strict=True):
        assert np.allclose(one.detach(), other, atol=2e-6)
    assert [each.shape for each in module.all_weights[0]] == [(20, 3), (20, 2), (20,), (20,), (2, 5)]
    packed = nn.utils.rnn.pack_padded_sequence(mt.tensor(x), [4, 4, 4])
    assert mt.allclose(module(packed)[0].data, module(mt.tensor(x))[0].flatten(0, 1), atol=1e-6)
    got.sum().backward()
    assert all(each.grad.abs().sum() > 0 for each in module.parameters())


def test_relu_is_a_nonlinearity() -> None:
    module, x = nn.RNN(5, 7, 1, "relu"), np.random.default_rng(0).standard_normal((4, 2, 5)).astype(np.float32)
    assert np.allclose(module(mt.tensor(x))[0].detach(), reference(module, x, [np.zeros((1, 2, 7))])[0], atol=2e-6)


@every_kind
def test_a_cell_is_one_step_and_a_row_may_come_alone(kind: str) -> None:
    mt.manual_seed(0)
    layer, cell = getattr(nn, kind)(5, 7), getattr(nn, kind + "Cell")(5, 7)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = mt.randn(3, 5)
    after = tuple_of(cell(x))
    for one, other in zip(after, tuple_of(layer(x.unsqueeze(0))[1]), strict=True):
        assert mt.equal(one, other.squeeze(0))
    for one, other in zip(tuple_of(cell(x[1])), after, strict=True):
        assert one.shape == (7,)
        assert mt.allclose(one, other[1], atol=1e-6)
    output, last = layer(x)
    assert output.shape == (3, 7)
    assert mt.equal(tuple_of(last)[0][0], output[-1])


@every_kind
def test_gradients_reach_everything(kind: str) -> None:
    mt.manual_seed(0)
    module = getattr(nn, kind)(3, 4, 2, bidirectional=True, dtype=mt.float64)
    x = mt.randn(3, 2, 3, dtype=mt.float64).requires_grad_()
    states = tuple(mt.randn(4, 2, 4, dtype=mt.float64).requires_grad_() for _ in range(KINDS[kind][1]))

    def call(x: Any, *states: Any) -> Any:
        output, last = module(x, states if len(states) > 1 else states[0])
        return (output * output).sum() + sum((each**3).sum() for each in tuple_of(last))

    assert mt.autograd.gradcheck(call, (x, *states))
    call(x, *states).backward()
    assert all(each.grad is not None and bool((each.grad != 0).any()) for each in module.parameters())


@every_kind
@pytest.mark.parametrize("dtype", [mt.float64, mt.float32, mt.bfloat16])
def test_gradients_in_vectors_are_those_made_of_ops(kind: str, dtype: Any) -> None:
    mt.manual_seed(0)
    module, x = getattr(nn, kind)(5, 19, dtype=dtype), mt.randn(6, 3, 5, dtype=dtype).requires_grad_()
    states = tuple(mt.randn(1, 3, 19, dtype=dtype).requires_grad_() for _ in range(KINDS[kind][1]))
    output, last = module(x, states if len(states) > 1 else states[0])
    loss = (output.float() ** 2).sum() + sum((each.float() ** 3).sum() for each in tuple_of(last))
    inputs = [x, *states, *module.parameters()]
    wanted = mt.autograd.grad(loss, inputs, create_graph=True)
    tolerance = {mt.float64: 1e-12, mt.float32: 1e-5, mt.bfloat16: 0.05}[dtype]
    for one, other in zip(mt.autograd.grad(loss, inputs), wanted, strict=True):
        assert one.dtype is dtype
        assert float((one - other).abs().max()) <= tolerance * float(other.abs().max())


@every_kind
def test_precision_flags_of_recurrences_govern_every_product(kind: str) -> None:
    mt.manual_seed(0)
    module, x = getattr(nn, kind)(16, 24), mt.randn(6, 5, 16)
    with backends.flags(fp32_precision="ieee"), explain.record() as exact:
        plain = module(x)[0]
    with backends.cudnn.rnn.flags(fp32_precision="tf32"), explain.record() as log:
        output = module(x)[0]
        output.sum().backward()
    products = [each for each in log if each.kernel in PRODUCTS]
    assert len(products) >= 2 * len([each for each in exact if each.kernel in PRODUCTS]) > 0
    assert {each.kernel for each in products} >= {"recurrence", "recurrence_gradient"}
    assert {each.precision for each in products} == {"tf32"}
    assert all("cudnn.rnn.fp32_precision" in each.decided_by for each in products)
    assert 0 < float((plain - output).abs().max()) < 1e-2
    with backends.cuda.matmul.flags(fp32_precision="tf32"):
        assert mt.equal(module(x)[0], plain)


def test_the_forward_precision_may_be_recorded() -> None:
    module, x = nn.GRU(16, 24), mt.randn(6, 5, 16)
    with backends.flags(backward_precision="recorded"):
        with backends.mkldnn.rnn.flags(fp32_precision="bf16"):
            loss = module(x)[0].sum()
        with explain.record() as log:
            loss.backward()
    assert {each.precision for each in log if each.kernel in PRODUCTS} == {"bf16"}


@every_kind
def test_half_types(kind: str) -> None:
    module = getattr(nn, kind)(5, 7)
    x = mt.randn(4, 3, 5)
    wanted = module(x)[0]
    got = module.to(mt.bfloat16)(x.to(mt.bfloat16))[0]
    assert got.dtype is mt.bfloat16
    assert float((got.float() - wanted).abs().max()) < 0.05


@every_kind
@pytest.mark.parametrize("cell", [False, True])
@pytest.mark.parametrize("dtype", [mt.float64, mt.float16])
def test_one_dtype_for_all(kind: str, cell: bool, dtype: Any) -> None:
    module, shape = getattr(nn, kind + "Cell" * cell)(3, 64), (2, 64) if cell else (1, 2, 64)
    x, states = mt.randn(*(2, 3) if cell else (4, 2, 3)), [mt.zeros(*shape) for _ in range(KINDS[kind][1])]
    for place in range(len(states)):
        given = [each.to(dtype) if index == place else each for index, each in enumerate(states)]
        with pytest.raises(RuntimeError, match="expected input, states, weights and biases to have one dtype"):
            module(x, given if len(given) > 1 else given[0])
    with pytest.raises(RuntimeError, match="one dtype"):
        module(x.to(dtype))
    for name, parameter in list(module.named_parameters()):
        setattr(module, name, nn.Parameter(parameter.detach().to(dtype)))
        with pytest.raises(RuntimeError, match="one dtype"):
            module(x)
        setattr(module, name, nn.Parameter(parameter.detach()))


@every_kind
def test_weights_of_other_shapes_are_refused(kind: str) -> None:
    rows = KINDS[kind][0] * 4
    for name, shape, says in (
        ("weight_hh_l0", (2, 2), f"weight_hh to have {rows} rows, got"),
        ("weight_ih_l0", (1, 3), f"weight_ih to have {rows} rows, got"),
        ("bias_ih_l0", (1,), f"bias_ih to have {rows} rows, got"),
        ("weight_hh_l0", (rows, 5), "expected weight to be of shape"),
    ):
        module = getattr(nn, kind)(3, 4)
        setattr(module, name, nn.Parameter(mt.zeros(*shape)))
        with pytest.raises(RuntimeError, match=says):
            module(mt.ones(5, 2, 3))


@every_kind
def test_what_a_cell_returns_may_be_written_to(kind: str) -> None:
    cell = getattr(nn, kind + "Cell")(3, 4)
    after = tuple_of(cell(mt.randn(2, 3)))
    for each in after:
        each[0] = 0.0
    sum(each.sum() for each in after).backward()
    assert all(each.grad is not None for each in cell.parameters())


def test_half_types_are_no_matter_of_precision_flags() -> None:
    module, x = nn.LSTM(16, 16).half(), mt.randn(5, 3, 16).half()
    plain = module(x)[0]
    with backends.mkldnn.rnn.flags(fp32_precision="bf16"), backends.cudnn.rnn.flags(fp32_precision="tf32"):
        assert mt.equal(module(x)[0], plain)


@every_kind
def test_forward_mode_is_the_directional_derivative(kind: str) -> None:
    mt.manual_seed(0)
    module, x = getattr(nn, kind)(3, 5, dtype=mt.float64), mt.randn(4, 2, 3, dtype=mt.float64)
    direction, step = mt.randn(4, 2, 3, dtype=mt.float64), 1e-6
    with mt.autograd.forward_ad.dual_level():
        output = module(mt.autograd.forward_ad.make_dual(x, direction))[0]
        tangent = mt.autograd.forward_ad.unpack_dual(output).tangent
    differences = (module(x + step * direction)[0] - module(x - step * direction)[0]) / (2 * step)
    assert mt.allclose(tangent, differences, atol=1e-8)


def test_dropout_is_between_layers_in_training() -> None:
    mt.manual_seed(0)
    module, x = nn.LSTM(4, 64, 2, dropout=0.5), mt.randn(3, 2, 4)
    assert not mt.equal(module(x)[0], module(x)[0])
    module.eval()
    assert mt.equal(module(x)[0], module(x)[0])
    with pytest.warns(UserWarning, match="does nothing for num_layers=1"):
        single = nn.LSTM(4, 64, dropout=0.5)
    assert mt.equal(single(x)[0], single(x)[0])


def test_parameters_have_torchs_names_and_range() -> None:
    module = nn.GRU(5, 16, 2, bidirectional=True)
    names = [f"{name}_l{layer}{way}" for layer in (0, 1) for way in ("", "_reverse")
             for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]  # fmt: skip
    assert list(module.state_dict()) == names
    assert module.weight_ih_l1.shape == (48, 32)
    assert all(float(each.abs().max()) <= 1 / math.sqrt(16) for each in module.parameters())
    assert repr(module) == "GRU(5, 16, num_layers=2, bidirectional=True)"
    assert repr(nn.LSTMCell(3, 4, bias=False)) == "LSTMCell(3, 4, bias=False)"
    assert repr(nn.RNNCell(3, 4, nonlinearity="relu")) == "RNNCell(3, 4, nonlinearity=relu)"
    assert nn.GRUCell(3, 4, bias=False).bias_ih is None
    assert [len(each) for each in module.all_weights] == [4] * 4
    assert (module.mode, nn.RNN(3, 4).mode) == ("GRU", "RNN_TANH")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.LSTM(3, 0), ValueError, "hidden_size must be greater than zero, got 0"),
        (lambda: nn.LSTM(3, 4, 0), ValueError, "num_layers must be greater than zero"),
        (lambda: nn.LSTM(3, 4, 2**40), RuntimeError, r"LSTM\(\): num_layers must be at most \d+ in"),
        (lambda: nn.Transformer(2, 1, 2**40), RuntimeError, r"TransformerEncoder\(\): num_layers must be at most"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), ValueError, "expected 'tanh' or 'relu'"),
        (lambda: nn.RNNCell(3, 4, nonlinearity="gelu"), ValueError, "expected 'tanh' or 'relu'"),
        (lambda: nn.GRU(3, 4, dropout=2), ValueError, "a probability, got 2"),
        (lambda: nn.GRU(3, 4)(mt.randn(2)), ValueError, "Expected input to be 2D or 3D, got 1D"),
        (lambda: nn.GRU(3, 4)(mt.randn(2, 2, 5)), RuntimeError, "Expected 3, got 5"),
        (lambda: nn.GRU(3, 4)(mt.randn(0, 2, 3)), RuntimeError, "sequence length to be larger than 0"),
        (lambda: nn.GRU(3, 4)(mt.randn(2, 2, 3), mt.zeros(1, 3, 4)), RuntimeError, r"Expected hidden size \(1, 2, 4\)"),
        (lambda: nn.LSTM(3, 4)(mt.randn(2, 2, 3), mt.zeros(1, 2, 4)), RuntimeError, "2 tensors"),
        (lambda: nn.LSTM(3, 4)(mt.randn(2, 2, 3), (mt.zeros(1, 2, 4), mt.zeros(4))), RuntimeError, "cell size"),
        (lambda: nn.GRUCell(3, 4)(mt.randn(2, 3), mt.zeros(3, 4)), RuntimeError, r"states of shape \[2, 4\]"),
        (lambda: nn.GRUCell(3, 4)(mt.randn(2, 2, 3)), ValueError, "1D or 2D, got 3D"),
        (lambda: nn.GRU(3, 4)(mt.randn(2, 2, 3, dtype=mt.float64)), RuntimeError, "one dtype, got mt.float64"),
        (lambda: nn.GRU(3, 4, dropout=True), ValueError, "got True"),
        (lambda: nn.RNN(0, 4), ValueError, "input_size must be greater than zero"),
        (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "smaller than hidden_size, got 4"),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "GRU: proj_size must be 0 for layers other than LSTM"),
        (lambda: nn.GRU(3, 4)(mt.randn(2, 2, 3), 3), RuntimeError, "expected hx to be a tensor, got int"),
        (lambda: nn.GRUCell(3, 4)(mt.randn(3), mt.randn(5)), RuntimeError, r"states of shape \[4\], got \[5\]"),
        (lambda: nn.RNNCell(3, 4)(mt.randn(3), mt.randn(1, 4)), RuntimeError, r"shape \[4\], got \[1, 4\]"),
        (lambda: nn.GRU(3, 4)(np.zeros((2, 2, 3))), TypeError, "expected input to be a Tensor, got numpy.ndarray"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", [mt.nn.RNN, mt.nn.LSTM, mt.nn.GRU])
def test_packed_sequences_give_what_each_sequence_gives_alone(kind):
    rnn = importlib.import_module("minitorch_backends.nn.utils.rnn")
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    sequences = [mt.randn(length, 3, requires_grad=True) for length in (2, 5, 4)]
    packed, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-7.0)
    assert lengths.tolist() == [2, 5, 4]
    assert (padded[2:, 0] == -7).all()
    states = state if isinstance(state, tuple) else (state,)
    for place, sequence in enumerate(sequences):
        output, alone = layer(sequence)
        mt.testing.assert_close(padded[: len(sequence), place], output)
        for one, other in zip(states, alone if isinstance(alone, tuple) else (alone,), strict=True):
            mt.testing.assert_close(one[:, place], other)
        [gradient] = mt.autograd.grad(output.square().sum(), sequence)
        [through] = mt.autograd.grad(packed.data.square().sum(), sequence, retain_graph=True)
        mt.testing.assert_close(through, gradient)
    assert all(
        each.equal(sequences[i]) for i, each in enumerate(rnn.unpack_sequence(rnn.pack_sequence(sequences, False)))
    )
    with pytest.raises(RuntimeError, match="lengths must decrease"):
        rnn.pack_sequence(sequences)
