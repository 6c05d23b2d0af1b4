"""LSTM, GRU and RNN, with ONNX's order of gates (iofc, zrh) and options.

Variants that torch's layers support run in one call for all steps. Other activations, peepholes, limits, lengths and
the GRU with the reset before the product run step by step. All products run at the precision of recurrences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...nn import functional as F
from ...nn.recurrent import LayerWeights, States, gru_sequence, lstm_sequence, rnn_sequence
from ...ops import names as ops
from ...ops.recurrent import recurrent_product
from ...tensor.tensor import Tensor
from .table import choice, operator

_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], Sequence[float]]] = {
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "elu": (F.elu, (1.0,)),
    "hardsigmoid": (lambda x, a, b: ops.clamp(a * x + b, 0.0, 1.0), (0.2, 0.5)),
    "leakyrelu": (F.leaky_relu, (0.01,)),
    "relu": (F.relu, ()),
    "scaledtanh": (lambda x, a, b: a * ops.tanh(b * x), (1.0, 1.0)),
    "sigmoid": (ops.sigmoid, ()),
    "softplus": (F.softplus, ()),
    "softsign": (F.softsign, ()),
    "tanh": (ops.tanh, ()),
    "thresholdedrelu": (lambda x, a: F.threshold(x, a, 0.0), (1.0,)),
}
"""By the name in lower case, with the defaults of alpha and beta."""


_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
"""The number of directions by the attribute's value."""


class Direction(NamedTuple):
    """One direction of a layer, with the rows of weights and biases in ONNX's order.

    Attributes:
        peepholes: of an LSTM, (3 x hidden).
        activations: one function for each of the cell's.
        names: their names, in lower case.
    """

    weight: Tensor
    recurrence: Tensor
    bias: Tensor | None
    recurrence_bias: Tensor | None
    peepholes: Tensor | None
    activations: Sequence[Callable[[Tensor], Tensor]]
    names: Sequence[str]


class Options(NamedTuple):
    """Options of both directions.

    Attributes:
        clip: the bound on the inputs of activations; None for none.
        coupled: whether an LSTM's forget gate is 1 minus its input gate.
        reset_after: whether a GRU's reset comes after the product.
        lengths: the length of each sequence; None if all are complete.
    """

    clip: float | None
    coupled: bool
    reset_after: bool
    lengths: Sequence[int] | None


# Cells: one step. `given` is the input's part for all gates, `of` the direction.


def _clip(x: Tensor, options: Options) -> Tensor:
    return x if options.clip is None else ops.clamp(x, -options.clip, options.clip)


def _rnn_step(given: Tensor, of: Direction, before: States, options: Options) -> States:
    [f] = of.activations
    return (f(_clip(given + _recurrent(before[0], of.recurrence, of.recurrence_bias), options)),)


def _recurrent(state: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found = recurrent_product(state, weight)
    return found if bias is None else found + bias


def _gru_step(given: Tensor, of: Direction, before: States, options: Options) -> States:
    f, g = of.activations
    [hidden] = before
    size = hidden.shape[1]
    both, last = of.recurrence[: 2 * size], of.recurrence[2 * size :]
    bias = of.recurrence_bias
    start = None if bias is None else bias[: 2 * size]
    gates = f(_clip(given[:, : 2 * size] + _recurrent(hidden, both, start), options))
    kept, reset = gates[:, :size], gates[:, size:]
    end = None if bias is None else bias[2 * size :]
    inner = reset * _recurrent(hidden, last, end) if options.reset_after else _recurrent(reset * hidden, last, end)
    new = g(_clip(given[:, 2 * size :] + inner, options))
    return ((1 - kept) * new + kept * hidden,)


def _lstm_step(given: Tensor, of: Direction, before: States, options: Options) -> States:
    f, g, h = of.activations
    hidden, cell = before
    entering, showing, keeping, candidate = (given + _recurrent(hidden, of.recurrence, of.recurrence_bias)).chunk(4, 1)
    peep_in, peep_out, peep_keep = (0, 0, 0) if of.peepholes is None else of.peepholes.chunk(3)
    entered = f(_clip(entering + peep_in * cell, options))
    kept = 1 - entered if options.coupled else f(_clip(keeping + peep_keep * cell, options))
    cell = kept * cell + entered * g(_clip(candidate, options))
    shown = f(_clip(showing + peep_out * cell, options))
    return shown * h(cell), cell


# Layers


class Cell(NamedTuple):
    """A kind of recurrence.

    Attributes:
        states: the number of states that each step passes on.
        activations: the names of the defaults.
        step: one step.
        gates: torch's order of the gates, as positions in ONNX's.
    """

    states: int
    activations: Sequence[str]
    step: Callable[[Tensor, Direction, States, Options], States]
    gates: Sequence[int]


_RNN = Cell(1, ("tanh",), _rnn_step, (0,))
_GRU = Cell(1, ("sigmoid", "tanh"), _gru_step, (1, 0, 2))
_LSTM = Cell(2, ("sigmoid", "tanh", "tanh"), _lstm_step, (0, 2, 3, 1))


def _in_torch_order(x: Tensor | None, cell: Cell) -> Any:
    if x is None or cell.gates == (0,):
        return x
    parts = x.chunk(len(cell.gates))
    return ops.cat([parts[place] for place in cell.gates])


def _whole(x: Tensor, of: Direction, before: States, options: Options, cell: Cell) -> tuple[Tensor, States] | None:
    """All steps in one call, or None if torch's layers do not compute this."""
    usual = list(of.names) == list(cell.activations) or (cell is _RNN and of.names[0] == "relu")
    if not usual or options.clip is not None or options.coupled or options.lengths is not None or not len(x):
        return None
    if of.peepholes is not None or (cell is _GRU and not options.reset_after):
        return None
    weights = LayerWeights(*(_in_torch_order(each, cell) for each in of[:4]))
    if cell is _RNN:
        return rnn_sequence(x, weights, before, of.names[0])
    return (gru_sequence if cell is _GRU else lstm_sequence)(x, weights, before)


def _by_steps(x: Tensor, of: Direction, before: States, options: Options, cell: Cell) -> tuple[Tensor, States]:
    given = recurrent_product(x.flatten(0, 1), of.weight)
    given = (given if of.bias is None else given + of.bias).unflatten(0, tuple(x.shape[:2]))
    states, outputs = before, []
    for number in range(len(x)):
        found = cell.step(given[number], of, states, options)
        if options.lengths is None:
            states = found
            outputs.append(found[0])
            continue
        runs = ops.tensor([number < length for length in options.lengths]).unsqueeze(1)
        states = tuple(ops.where(runs, new, old) for new, old in zip(found, states, strict=True))
        outputs.append(ops.where(runs, found[0], ops.zeros_like(found[0])))
    return ops.stack(outputs), states


def _reverse(x: Tensor, lengths: Sequence[int] | None) -> Tensor:
    """The steps in reverse order, within the length of each sequence."""
    if lengths is None:
        return ops.flip(x, (0,))
    columns = zip(x.unbind(1), lengths, strict=True)
    return ops.stack([ops.cat([ops.flip(each[:length], (0,)), each[length:]]) for each, length in columns], 1)


def _layer(
    cell: Cell, inputs: Sequence[Any], options: Options, hidden_size: int, direction: str, layout: int,
    names: Sequence[str] | None, alphas: Sequence[float] | None, betas: Sequence[float] | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A layer: the states of all steps, (length, directions, batch, hidden), and the last ones of each direction."""
    x, weight, recurrence, bias, lengths, peepholes, *initial = inputs
    x = x.transpose(0, 1) if layout else x
    if lengths is not None and any(length != len(x) for length in lengths):
        options = options._replace(lengths=lengths)
    start: States = tuple(
        ops.zeros(len(weight), x.shape[1], hidden_size, dtype=x.dtype) if each is None
        else each.transpose(0, 1) if layout else each
        for each in initial
    )  # fmt: skip
    if len(weight) != choice(_DIRECTIONS, direction, "direction"):
        raise ValueError(f"weights must be of the directions {direction!r}, got {len(weight)}")
    half = recurrence.shape[1]
    functions = _activations(cell, len(weight), names, alphas, betas)
    count = len(cell.activations)
    outputs, ends = [], []
    for place in range(len(weight)):
        b, own = (None, None) if bias is None else (bias[place, :half], bias[place, half:])
        p = None if peepholes is None else peepholes[place]
        names, chosen = zip(*functions[place * count : (place + 1) * count], strict=True)
        of = Direction(weight[place], recurrence[place], b, own, p, chosen, names)
        backward = direction == "reverse" or place == 1
        seen = _reverse(x, options.lengths) if backward else x
        before = tuple(each[place] for each in start)
        found = _whole(seen, of, before, options, cell)
        output, end = _by_steps(seen, of, before, options, cell) if found is None else found
        outputs.append(_reverse(output, options.lengths) if backward else output)
        ends.append(end)
    states = [ops.stack(each) for each in zip(*ends, strict=True)]
    if layout:
        return ops.stack(outputs, 1).permute(2, 0, 1, 3), *(each.transpose(0, 1) for each in states)
    return ops.stack(outputs, 1), *states


def _activations(
    cell: Cell, directions: int, names: Sequence[str] | None, alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
) -> list[tuple[str, Callable[[Tensor], Tensor]]]:  # fmt: skip
    """The name and the function of each activation; alphas and betas are assigned in order to those that take them."""
    given = [list(alphas or ()), list(betas or ())]
    found = []
    for name in (each.lower() for each in names or list(cell.activations) * directions):
        if name not in _ACTIVATIONS:
            raise ValueError(f"activations must be among {', '.join(_ACTIVATIONS)}, got {name!r}")
        function, defaults = _ACTIVATIONS[name]
        numbers = [values.pop(0) if values else default for values, default in zip(given, defaults, strict=False)]
        found.append((name, _bind(function, numbers)))
    return found


def _bind(function: Callable[..., Tensor], numbers: Sequence[float]) -> Callable[[Tensor], Tensor]:
    return lambda x: function(x, *numbers)


@operator("RNN")
def rnn(
    x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None = None, lengths: list[int] | None = None,
    initial_h: Tensor | None = None, *, hidden_size: int, direction: str = "forward", layout: int = 0,
    clip: float | None = None, activations: list[str] | None = None, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    inputs = (x, weight, recurrence, bias, lengths, None, initial_h)
    options = Options(clip, False, False, None)
    return _layer(_RNN, inputs, options, hidden_size, direction, layout, activations, activation_alpha, activation_beta)


@operator("GRU")
def gru(
    x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None = None, lengths: list[int] | None = None,
    initial_h: Tensor | None = None, *, hidden_size: int, direction: str = "forward", layout: int = 0,
    clip: float | None = None, activations: list[str] | None = None, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    inputs = (x, weight, recurrence, bias, lengths, None, initial_h)
    options = Options(clip, False, bool(linear_before_reset), None)
    return _layer(_GRU, inputs, options, hidden_size, direction, layout, activations, activation_alpha, activation_beta)


@operator("LSTM")
def lstm(
    x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None = None, lengths: list[int] | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, peepholes: Tensor | None = None, *,
    hidden_size: int, direction: str = "forward", layout: int = 0, clip: float | None = None,
    activations: list[str] | None = None, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, input_forget: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    inputs = (x, weight, recurrence, bias, lengths, peepholes, initial_h, initial_c)
    options = Options(clip, bool(input_forget), False, None)
    return _layer(
        _LSTM, inputs, options, hidden_size, direction, layout, activations, activation_alpha, activation_beta
    )
