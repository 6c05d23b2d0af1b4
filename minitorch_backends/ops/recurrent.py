"""Recurrences: the product that their precision flags govern, and a layer in one direction as one op.

A layer's op takes `projected`, (length, batch, gates x hidden), which is weight_ih applied to the whole sequence in one
product, and the matrix weight_hh, (gates x hidden, hidden), applied to the state before each step. Gates lie as torch's
do. The gradients go backward through time in ops, so that they have gradients themselves; that of the weight is one
product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..kernels.registry import ArraySpec
from ..op import Array, op
from ..samples import Sample, between, sample
from ..tensor import Tensor
from .gradients import counts
from .join import cat, stack
from .matmul import refuse_mixed
from .products import product, repeated

__all__ = ["gru_layer", "lstm_layer", "recurrent_product", "rnn_layer"]

_KIND = "rnn"


# The product


def _factors() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 4), between(-1, 1, 2, 4, seed=1))
    yield sample(between(-1, 1, 8, 4)[::2, ::-2], between(-1, 1, 2, 3, seed=1).T)
    yield sample(between(-1, 1, 0, 4), between(-1, 1, 2, 4, seed=1))


@op(
    takes="f",
    method=False,
    product=_KIND,
    input=lambda g, weight, precision: recurrent_product(g, weight.mT, precision=precision),
    weight=lambda g, input, precision: recurrent_product(g.mT, input.mT, precision=precision),
    reference=lambda input, weight: input @ weight.T,
    samples=_factors,
)
def recurrent_product(input: Array, weight: Array, *, precision: str | None = None) -> np.ndarray:
    """input @ weight.T of matrices, at the precision of recurrences (`explain.precision_of("rnn")`)."""
    refuse_mixed(input, weight)
    return product(input, weight.T, precision, _KIND)


def _of_weight(of_sums: Tensor, hidden: Tensor, output: Tensor, precision: str | None) -> Tensor:
    """The gradient of weight_hh from those of what it gave in all steps."""
    before = cat([hidden.unsqueeze(0), output[:-1]])
    return recurrent_product(of_sums.flatten(0, 1).mT, before.flatten(0, 1).mT, precision=precision)


# What the forwards share


_LEAST_STEPS = 4
"""From which on it is worth packing the weight once."""


def _stepping(projected: np.ndarray, weight: np.ndarray, precision: str | None) -> Callable[[np.ndarray], np.ndarray]:
    """What applies the weight to a state."""
    (length, rows, _), size = projected.shape, weight.shape[1]
    if length < _LEAST_STEPS:
        return lambda state: product(state, weight.T, precision, _KIND)
    return repeated(ArraySpec((rows, size), weight.dtype), weight.T, precision, _KIND)


def _outputs(projected: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    return np.empty((len(projected), *hidden.shape), projected.dtype)


def _sigmoid(x: np.ndarray) -> None:
    """In place; where e**-x overflows, it is 0."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def _sequences(gates: int, *states: str, bias: bool = False) -> Callable[[], Iterator[Sample]]:
    """Samples of a layer's op: a sequence, one step, and a batch of nothing."""

    def samples() -> Iterator[Sample]:
        for length, rows, size in ((3, 2, 3), (1, 1, 2), (2, 0, 2)):
            weight = between(-1, 1, gates * size, size, seed=1)
            further = [between(-1, 1, gates * size, seed=2)] if bias else []
            start = [between(-1, 1, rows, size, seed=3 + each) for each in range(len(states))]
            yield sample(between(-2, 2, length, rows, gates * size), weight, *further, *start)
        turned = [between(-1, 1, 2, 2, seed=3 + each).T for each in range(len(states))]
        weight = between(-1, 1, 2, 2 * gates, seed=1).T
        yield sample(between(-2, 2, 2 * gates, 2, 3).T, weight, *further, *turned)

    return samples


# With tanh or relu


def _rnn_reference(projected: Any, weight: Any, hidden: Any, nonlinearity: str = "tanh") -> np.ndarray:
    states = [hidden]
    for step in projected:
        total = step + states[-1] @ weight.T
        states.append(np.tanh(total) if nonlinearity == "tanh" else np.maximum(total, 0))
    return np.array(states[1:])


def _of_rnn(
    g: Tensor, weight: Tensor, hidden: Tensor, out: Tensor, nonlinearity: str, precision: str | None
) -> tuple[Tensor, Tensor, Tensor]:
    slopes = 1 - out * out if nonlinearity == "tanh" else (out > 0).to(out.dtype)
    carried, of_sums = hidden * 0, []
    for step in reversed(range(len(out))):
        of_sums.append((g[step] + carried) * slopes[step])
        carried = recurrent_product(of_sums[-1], weight.mT, precision=precision)
    of_projected = stack(of_sums[::-1])
    return of_projected, _of_weight(of_projected, hidden, out, precision), carried


def _rnn_samples() -> Iterator[Sample]:
    for args, _ in _sequences(1, "hidden")():
        yield sample(*args)
        yield sample(*args, "relu")


@op(
    takes="f",
    method=False,
    product=_KIND,
    gradients=_of_rnn,
    reference=_rnn_reference,
    samples=_rnn_samples,
)
def rnn_layer(
    projected: Array, weight: Array, hidden: Array, nonlinearity: str = "tanh", *, precision: str | None = None
) -> np.ndarray:
    """The states h = f(projected + h_before @ weight.T), f being "tanh" or "relu"; `hidden` is the first one before."""
    output, multiply = _outputs(projected, hidden), _stepping(projected, weight, precision)
    for step, out in zip(projected, output, strict=True):
        np.add(step, multiply(hidden), out=out)
        hidden = np.tanh(out, out=out) if nonlinearity == "tanh" else np.maximum(out, 0, out=out)
    return output


# Long short-term memory


class LongShortTermMemory(NamedTuple):
    """What `lstm_layer` returns: every state and cell, (length, batch, hidden), and every gate, (..., 4 hidden)."""

    output: Any
    cells: Any
    gates: Any


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm_reference(projected: Any, weight: Any, hidden: Any, cell: Any) -> LongShortTermMemory:
    steps = []
    for step in projected:
        i, f, g, o = np.split(step + hidden @ weight.T, 4, -1)
        i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
        cell = f * cell + i * g
        hidden = o * np.tanh(cell)
        steps.append((hidden, cell, np.concatenate([i, f, g, o], -1)))
    return LongShortTermMemory(*map(np.array, zip(*steps, strict=True)))


def _of_lstm(
    g: Any, weight: Tensor, hidden: Tensor, cell: Tensor, output: Tensor, cells: Tensor, gates: Tensor,
    precision: str | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """`to_gates` is what the gradient of a cell is multiplied by for what the first three gates are of, and `to_last`
    that of a state for the last one."""
    of_output, of_cells, of_gates = g
    entered, kept, candidate, shown = gates.chunk(4, -1)
    slopes = cat([each * (1 - each) for each in (entered, kept)] + [1 - candidate * candidate, shown * (1 - shown)], -1)
    bent, before = cells.tanh(), cat([cell.unsqueeze(0), cells[:-1]])
    to_gates, to_cell = (
        cat([candidate, before, entered], -1) * slopes[..., : 3 * cell.shape[1]],
        shown - shown * bent * bent,
    )
    to_last, direct = bent * slopes[..., 3 * cell.shape[1] :], of_gates * slopes if counts(of_gates) else None
    of_hidden, of_cell, of_sums = hidden * 0, cell * 0, []
    for step in reversed(range(len(output))):
        of_hidden = of_output[step] + of_hidden
        of_cell = of_cells[step] + of_cell + of_hidden * to_cell[step]
        total = cat([of_cell, of_cell, of_cell, of_hidden], 1) * cat([to_gates[step], to_last[step]], 1)
        of_sums.append(total if direct is None else total + direct[step])
        of_hidden = recurrent_product(of_sums[-1], weight.mT, precision=precision)
        of_cell = of_cell * kept[step]
    of_projected = stack(of_sums[::-1])
    return of_projected, _of_weight(of_projected, hidden, output, precision), of_hidden, of_cell


@op(
    takes="f",
    method=False,
    product=_KIND,
    gradients=_of_lstm,
    reference=_lstm_reference,
    samples=_sequences(4, "hidden", "cell"),
)
def lstm_layer(
    projected: Array, weight: Array, hidden: Array, cell: Array, *, precision: str | None = None
) -> LongShortTermMemory:
    """With i, f, g, o of projected + h_before @ weight.T, all but g (tanh) by the logistic function: the cells
    c = f * c_before + i * g and the states h = o * tanh(c) (S. Hochreiter and J. Schmidhuber, 1997; F. Gers, 2000)."""
    output, cells, gates = _outputs(projected, hidden), _outputs(projected, cell), np.array(projected, order="C")
    multiply, size = _stepping(projected, weight, precision), hidden.shape[1]
    for gate, out, now in zip(gates, output, cells, strict=True):
        gate += multiply(hidden)
        entered, kept, candidate, shown = (gate[:, each * size : (each + 1) * size] for each in range(4))
        _sigmoid(gate[:, : 2 * size])
        np.tanh(candidate, out=candidate)
        _sigmoid(shown)
        np.multiply(kept, cell, out=now)
        now += entered * candidate
        np.tanh(now, out=out)
        out *= shown
        hidden, cell = out, now
    return LongShortTermMemory(output, cells, gates)


# Gated recurrent units


class GatedRecurrence(NamedTuple):
    """What `gru_layer` returns: every state, (length, batch, hidden), and every gate with what the weight gave for the
    new state, (..., 4 hidden)."""

    output: Any
    gates: Any


def _gru_reference(projected: Any, weight: Any, bias: Any, hidden: Any) -> GatedRecurrence:
    steps = []
    for step in projected:
        (xr, xz, xn), (hr, hz, hn) = np.split(step, 3, -1), np.split(hidden @ weight.T + bias, 3, -1)
        r, z = _logistic(xr + hr), _logistic(xz + hz)
        n = np.tanh(xn + r * hn)
        hidden = (1 - z) * n + z * hidden
        steps.append((hidden, np.concatenate([r, z, n, hn], -1)))
    return GatedRecurrence(*map(np.array, zip(*steps, strict=True)))


def _of_gru(
    g: Any, weight: Tensor, hidden: Tensor, output: Tensor, gates: Tensor, precision: str | None
) -> tuple[Tensor, ...]:
    of_output, of_gates = g
    reset, kept, new, given = gates.chunk(4, -1)
    before, size = cat([hidden.unsqueeze(0), output[:-1]]), hidden.shape[1]
    to_new, to_kept = (1 - kept) * (1 - new * new), (before - new) * kept * (1 - kept)
    slope, bends, direct = reset * (1 - reset), 1 - new * new, counts(of_gates)
    of_hidden, of_sums, of_given = hidden * 0, [], []
    for step in reversed(range(len(output))):
        of_hidden = of_output[step] + of_hidden
        of_new, of_kept = of_hidden * to_new[step], of_hidden * to_kept[step]
        if direct:
            of_new = of_new + of_gates[step][:, 2 * size : 3 * size] * bends[step]
            of_kept = of_kept + of_gates[step][:, size : 2 * size] * kept[step] * (1 - kept[step])
        of_reset = of_new * given[step]
        of_what_is_given = of_new * reset[step]
        if direct:
            of_reset = of_reset + of_gates[step][:, :size]
            of_what_is_given = of_what_is_given + of_gates[step][:, 3 * size :]
        of_reset = of_reset * slope[step]
        of_sums.append(cat([of_reset, of_kept, of_new], 1))
        of_given.append(cat([of_reset, of_kept, of_what_is_given], 1))
        back = recurrent_product(of_given[-1], weight.mT, precision=precision)
        of_hidden = of_hidden * kept[step] + back
    of_products = stack(of_given[::-1])
    of_weight = _of_weight(of_products, hidden, output, precision)
    return stack(of_sums[::-1]), of_weight, of_products.sum((0, 1)), of_hidden


@op(
    takes="f",
    method=False,
    product=_KIND,
    gradients=_of_gru,
    reference=_gru_reference,
    samples=_sequences(3, "hidden", bias=True),
)
def gru_layer(
    projected: Array, weight: Array, bias: Array, hidden: Array, *, precision: str | None = None
) -> GatedRecurrence:
    """With r, z and n of projected and of h_before @ weight.T + bias: r and z the logistic function of the sums of
    both, n = tanh(n_projected + r * n_before), and the states h = (1 - z) * n + z * h_before (K. Cho et al., 2014, with
    r behind the product, as in cuDNN and torch)."""
    length, rows, size = len(projected), *hidden.shape
    output, gates = _outputs(projected, hidden), np.empty((length, rows, 4 * size), projected.dtype)
    multiply = _stepping(projected, weight, precision)
    for step, gate, out in zip(projected, gates, output, strict=True):
        before = np.add(multiply(hidden), bias)
        reset, kept, new, given = (gate[:, each * size : (each + 1) * size] for each in range(4))
        np.add(step[:, : 2 * size], before[:, : 2 * size], out=gate[:, : 2 * size])
        _sigmoid(gate[:, : 2 * size])
        given[...] = before[:, 2 * size :]
        np.multiply(reset, given, out=new)
        new += step[:, 2 * size :]
        np.tanh(new, out=new)
        np.subtract(hidden, new, out=out)
        out *= kept
        out += new
        hidden = out
    return GatedRecurrence(output, gates)
