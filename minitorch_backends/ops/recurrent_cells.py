"""One step of a recurrence, as an op of its own: both products, the biases, and the cell's function.

Each op returns the new states, and what its gradient needs of the step, apart from them: users may write to the states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..autograd.modes import derives
from ..backends.operands import Roles, of_gradient
from ..backends.precision_policy import resolve
from ..dispatch.op import Array, op
from ..kernels.recurrence import step, step_gradient
from ..tensor.casting import cast_unchecked
from ..tensor.tensor import Tensor, adopt
from .gradients import counts
from .matmul.dispatch import product
from .matmul.shapes import refuse_mixed
from .recurrent import (
    KIND,
    GatedRecurrence,
    LongShortTermMemory,
    gru_gradient,
    lstm_gradient,
    of_weight_times,
    rnn_gradient,
    times,
)


def _run(
    cell: str, input: np.ndarray, hidden: np.ndarray, weights: tuple[Any, ...], precision: str | None, *others: Any
) -> tuple[np.ndarray, ...]:
    """The results of a step: `weights` are weight_ih, weight_hh, bias_ih and bias_hh; biases may be None.

    Half types are computed in float32 and rounded once, except products where flags round their sums.
    """
    dtype, (weight_ih, weight_hh, bias, bias_hh) = hidden.dtype, weights
    half, width = dtype.itemsize == 2, weight_hh.shape[0]
    for each in (input, *weights, *others) if half else ():  # otherwise products and the step refuse them
        if each is not None and each.dtype is not dtype:
            refuse_mixed(each, hidden)
    for each in (bias, bias_hh):
        if each is not None and (each.dtype is not dtype or each.shape != (width,)):
            raise RuntimeError(f"{cell}: expected a bias of {width} values of {dtype}, got {each.dtype}{each.shape}")
    exact = precision if isinstance(precision, Roles) else "ieee"
    if half and not resolve(KIND, dtype, precision).keywords.keys() & {"sums", "unit", "partial"}:
        input, hidden, weight_ih, weight_hh, precision = *map(_widen, (input, hidden, weight_ih, weight_hh)), exact
    sums, products = product(input, weight_ih.T, precision, KIND), product(hidden, weight_hh.T, precision, KIND)
    if half:
        sums, products, hidden = map(_widen, (sums, products, hidden))
        others = tuple(map(_widen, others))
        bias, bias_hh = (None if each is None else _widen(each) for each in (bias, bias_hh))
    if cell == "gru":
        others = (np.zeros(width, sums.dtype) if bias_hh is None else bias_hh, hidden)
    elif bias_hh is not None:
        bias = bias_hh if bias is None else bias + bias_hh
    if bias is not None:
        sums += bias
    found = step(cell, products, sums, *others)
    return tuple([cast_unchecked(each, dtype) for each in found]) if half else found


def _widen(array: np.ndarray) -> np.ndarray:
    return cast_unchecked(array, np.dtype(np.float32))


def _gradients(
    edges: tuple[Any, ...], input: Tensor, hidden: Tensor, weight_ih: Tensor, precision: Any, of_sums: Tensor,
    of_products: Tensor, *of_states: Tensor | None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Those of all inputs of a cell that need one, given those of both products and of the states."""
    of_weight = getattr(precision, "weight", precision)
    of_bias = of_products.sum(0) if edges[-1] or edges[-2] else None
    return (
        times(of_sums, weight_ih, of_gradient(precision, 0)) if edges[0] else None,
        *of_states,
        of_weight_times(of_sums, input, of_weight) if edges[-4] else None,
        of_weight_times(of_products, hidden, of_weight) if edges[-3] else None,
        of_bias if of_sums is of_products or of_bias is None else of_sums.sum(0),
        of_bias,
    )


# With tanh or relu


class ElmanStep(NamedTuple):
    """What `rnn_cell` returns: the state, twice."""

    output: Any
    gates: Any


def _of_rnn(
    g: Any, input: Tensor, hidden: Tensor, weight_ih: Tensor, weight_hh: Tensor, gates: Tensor, nonlinearity: str,
    precision: Any, edges: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    of_hidden: Tensor | None
    of_state = g[0] + g[1] if derives() or counts(g[1]) else g[0]
    if derives():
        of_state, kept = _sequences(of_state, gates)
        of_sums, of_hidden = rnn_gradient(of_state, weight_hh, hidden, kept, nonlinearity, precision)
        of_sums = of_sums.squeeze(0)
    else:
        of_sums = adopt(step_gradient(f"rnn_{nonlinearity}", of_state._array, gates._array)[0])
        of_hidden = times(of_sums, weight_hh, of_gradient(precision, 0)) if edges[1] else None
    return _gradients(edges, input, hidden, weight_ih, precision, of_sums, of_sums, of_hidden)


def _sequences(*steps: Tensor) -> list[Tensor]:
    """Steps as sequences of length 1."""
    return [each.unsqueeze(0) for each in steps]


_DECLARED: dict[str, Any] = {
    "takes": "f", "method": False, "widen": False, "widen_rules": True, "product": KIND,
    "roles": {"input": "activation", "weight_ih": "weight"},
}  # fmt: skip


@op(gradients=_of_rnn, **_DECLARED, autocast="lower", batch="loop: a fixed number of dimensions")
def rnn_cell(
    input: Array, hidden: Array, weight_ih: Array, weight_hh: Array, bias_ih: Array | None = None,
    bias_hh: Array | None = None, nonlinearity: str = "tanh", *, precision: str | None = None,
) -> ElmanStep:  # fmt: skip
    """The state f(input @ weight_ih.T + bias_ih + hidden @ weight_hh.T + bias_hh), f being "tanh" or "relu"."""
    weights = weight_ih, weight_hh, bias_ih, bias_hh
    return ElmanStep(*_run(f"rnn_{nonlinearity}", input, hidden, weights, precision))


# Long short-term memory


def _of_lstm(
    g: Any, input: Tensor, hidden: Tensor, cell: Tensor, weight_ih: Tensor, weight_hh: Tensor, gates: Tensor,
    precision: Any, edges: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    of_hidden: Tensor | None
    size = cell._array.shape[1]
    if derives() or counts(g[2]):
        of_steps = _sequences(g[0], g[1] + g[2][:, 4 * size :], g[2][:, : 4 * size])
        cells, of_step = _sequences(gates[:, 4 * size :], gates[:, : 4 * size])
        of_sums, of_hidden, of_cell = lstm_gradient(of_steps, weight_hh, hidden, cell, cells, of_step, precision)
        of_sums = of_sums.squeeze(0)
    else:
        arrays = [each._array for each in (g[0], g[1], cell, gates)]
        of_sums, _, of_cell = map(adopt, step_gradient("lstm", *arrays))
        of_hidden = times(of_sums, weight_hh, of_gradient(precision, 0)) if edges[1] else None
    return _gradients(edges, input, hidden, weight_ih, precision, of_sums, of_sums, of_hidden, of_cell)


@op(gradients=_of_lstm, **_DECLARED, autocast="lower", batch="loop: a fixed number of dimensions")
def lstm_cell(
    input: Array, hidden: Array, cell: Array, weight_ih: Array, weight_hh: Array, bias_ih: Array | None = None,
    bias_hh: Array | None = None, *, precision: str | None = None,
) -> LongShortTermMemory:  # fmt: skip
    """One step of `lstm_layer`: the state, the cell, and the gates with the cell beside them."""
    return LongShortTermMemory(*_run("lstm", input, hidden, (weight_ih, weight_hh, bias_ih, bias_hh), precision, cell))


# Gated recurrent units


def _of_gru(
    g: Any, input: Tensor, hidden: Tensor, weight_ih: Tensor, weight_hh: Tensor, gates: Tensor, precision: Any,
    edges: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    of_hidden: Tensor | None
    if derives() or counts(g[1]):
        output, of_step = _sequences(hidden, gates)
        found = gru_gradient(_sequences(*g), weight_hh, hidden, output, of_step, precision)
        of_products, of_hidden, of_sums = found[0].squeeze(0), found[1], found[2].squeeze(0)
    else:
        arrays = [each._array for each in (g[0], hidden, gates)]
        of_sums, of_products, beside = map(adopt, step_gradient("gru", *arrays))
        of_hidden = times(of_products, weight_hh, of_gradient(precision, 0)) + beside if edges[1] else None
    return _gradients(edges, input, hidden, weight_ih, precision, of_sums, of_products, of_hidden)


@op(gradients=_of_gru, **_DECLARED, batch="loop: a fixed number of dimensions")
def gru_cell(
    input: Array, hidden: Array, weight_ih: Array, weight_hh: Array, bias_ih: Array | None = None,
    bias_hh: Array | None = None, *, precision: str | None = None,
) -> GatedRecurrence:  # fmt: skip
    """One step of `gru_layer`: the state, and the gates with the candidate's recurrent part."""
    return GatedRecurrence(*_run("gru", input, hidden, (weight_ih, weight_hh, bias_ih, bias_hh), precision))
