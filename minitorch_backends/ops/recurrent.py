"""Recurrences: the product governed by their precision flags, and a layer in one direction as one op.

A layer's op takes `projected` (length, batch, gates x hidden), which is weight_ih applied to the whole sequence in one
product, and weight_hh (gates x hidden, hidden), applied to the state before each step. Gates have torch's order. The
backward pass through time runs in a kernel, or in ops if it is recorded. The gradient of the weight is one product over
all steps.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..autograd.modes import derives
from ..backends.operands import Operands, Roles, of_gradient, swap
from ..backends.precision_policy import resolve
from ..dispatch.op import Array, op
from ..kernels.recurrence import recurrence as kernel
from ..kernels.recurrence import recurrence_gradient as kernel_gradient
from ..kernels.recurrence import step, step_gradient
from ..kernels.registry import Kernel
from ..tensor.casting import cast_unchecked
from ..tensor.tensor import Tensor, adopt
from .gradients import counts, zero
from .matmul.by_role import refuse_unfit_format, round_along, to_dtype, with_remainders
from .matmul.dispatch import product, refuse_mixed
from .matmul.matmul import is_plain
from .views.join import cat, stack

KIND, _FLOAT32 = "rnn", np.dtype(np.float32)
ROLES = {"input": "activation", "weight": "weight"}
LAYER_ROLES = {"projected": "activation", "weight": "weight"}


# The product


def times(a: Tensor, b: Tensor, precision: str | None) -> Tensor:
    """a @ b, without an op where nothing is recorded."""
    if is_plain(a, b):
        return adopt(product(a._array, b._array, precision, KIND))
    return recurrent_product(a, b.mT, precision=precision)


def transposed_times(a: Tensor, b: Tensor, precision: str | None) -> Tensor:
    """a.mT @ b, likewise."""
    if is_plain(a, b):
        return adopt(product(a._array.T, b._array, precision, KIND))
    return recurrent_product(a.mT, b.mT, precision=precision)


def of_weight_times(of_sums: Tensor, states: Tensor, precision: Any) -> Tensor:
    """The gradient of a weight: of_sums.mT @ states."""
    return transposed_times(of_sums, states, swap(of_gradient(precision, 1)))


@op(
    takes="f",
    traits="function unwidened",
    product=(KIND, ROLES),
    input=lambda g, weight, precision: times(g, weight, precision),
    weight=lambda g, input, precision: transposed_times(g, input, swap(precision)),
    batch="loop: a fixed number of dimensions",
)
def recurrent_product(input: Array, weight: Array, *, precision: str | None = None) -> np.ndarray:
    """input @ weight.T of matrices, at the precision of recurrences (`explain.precision_of("rnn")`)."""
    return product(input, weight.T, precision, KIND)


def _of_weight(of_sums: Tensor, hidden: Tensor, output: Tensor, precision: str | None) -> Tensor:
    """The gradient of weight_hh, from those of its products in all steps."""
    before = cat([hidden.unsqueeze(0), output[:-1]])
    return of_weight_times(of_sums.flatten(0, 1), before.flatten(0, 1), precision)


# Shared by the layers


def _run(cell: str, *arrays: np.ndarray, precision: str | None, of: Kernel = kernel) -> tuple[np.ndarray, ...]:
    """The kernel's results, at the precision of the call or of the flags; half types are rounded at the end."""
    dtype = arrays[1].dtype
    for each in arrays:
        if each.dtype is not dtype:
            refuse_mixed(each, arrays[1])
    call = resolve("recurrence", dtype, precision)
    keywords = {**call.keywords}
    if (operands := keywords.pop("operands", None)) is not None:
        axis = 1 if of is kernel or operands.stored_across else 0
        if not operands.is_pair:
            arrays, keywords = _with_stored(cell, arrays, operands, axis), {**resolve("recurrence", dtype).keywords}
        else:
            for name in operands[:2]:  # the states have the weight's K
                refuse_unfit_format(cell, str(name), arrays[1].shape, axis, operands)
            keywords["operands"] = operands.left, operands.right, operands.rounding
    wide = arrays if dtype.itemsize > 2 else [cast_unchecked(each, _FLOAT32) for each in arrays]
    decided_by = call.decided_by
    if operands is not None:
        decided_by = with_remainders(operands, (arrays[1].shape[axis],) * 2).decided_by
    found = of(*wide, cell=cell, decided_by=decided_by, **keywords)
    return found if dtype.itemsize > 2 else tuple([cast_unchecked(each, dtype) for each in found])


def _with_stored(cell: str, arrays: tuple[np.ndarray, ...], operands: Operands, axis: int) -> tuple[np.ndarray, ...]:
    """The arrays of a call with the weight in its format. Raises RuntimeError for a format of the states alone."""
    if operands.right is None:
        raise RuntimeError(
            f"{operands.decided_by} rounds the states between steps, which needs a format of weights too; set "
            "backends.operands.weight, for example to 'bf16'"
        )
    stored = round_along(cell, arrays[1], operands.right, axis, operands).values
    return arrays[0], to_dtype(stored, arrays[1].dtype), *arrays[2:]


def _run_back(cell: str, *tensors: Tensor, precision: str | None) -> tuple[Tensor, ...]:
    arrays = [each._array for each in tensors]
    found = _run(cell, *arrays, precision=of_gradient(precision, 0), of=kernel_gradient)
    return tuple(map(adopt, found))


# With tanh or relu


def _of_rnn(
    g: Tensor, weight: Tensor, hidden: Tensor, out: Tensor, nonlinearity: str, precision: str | None
) -> tuple[Tensor, Tensor, Tensor]:
    if derives():
        of_projected, of_hidden = rnn_gradient(g, weight, hidden, out, nonlinearity, precision)
    else:
        arrays = g, weight, out
        of_projected, of_hidden = _run_back(f"rnn_{nonlinearity}", *arrays, precision=precision)
    return of_projected, _of_weight(of_projected, hidden, out, precision), of_hidden


def rnn_gradient(
    g: Tensor, weight: Tensor, hidden: Tensor, out: Tensor, nonlinearity: str, precision: str | None
) -> tuple[Tensor, Tensor]:
    slopes = 1 - out * out if nonlinearity == "tanh" else (out > 0).to(out.dtype)
    carried, of_sums = zero(hidden), []
    for t in reversed(range(len(out))):
        of_sums.append((g[t] + carried) * slopes[t])
        carried = recurrent_product(of_sums[-1], weight.mT, precision=of_gradient(precision, 0))
    return stack(of_sums[::-1]), carried


@op(
    takes="f",
    traits="function unwidened wide_rules",
    product=(KIND, LAYER_ROLES),
    gradients=_of_rnn,
    autocast="lower",
    batch="loop: a fixed number of dimensions",
)
def rnn_layer(
    projected: Array, weight: Array, hidden: Array, nonlinearity: str = "tanh", *, precision: str | None = None
) -> np.ndarray:
    """The states h = f(projected + h_before @ weight.T), f being "tanh" or "relu"; `hidden` is the first one before."""
    return _run(f"rnn_{nonlinearity}", projected, weight, hidden, precision=precision)[0]


# Long short-term memory


class LongShortTermMemory(NamedTuple):
    """What `lstm_layer` returns: every state and cell, (length, batch, hidden), and every gate, (..., 4 hidden)."""

    output: Any
    cells: Any
    gates: Any


def _of_lstm(
    g: Any, weight: Tensor, hidden: Tensor, cell: Tensor, output: Tensor, cells: Tensor, gates: Tensor,
    precision: str | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    if derives() or counts(g[2]):
        found = lstm_gradient(g, weight, hidden, cell, cells, gates, precision)
    else:
        arrays = g[0], weight, output, g[1], cell, cells, gates
        found = _run_back("lstm", *arrays, precision=precision)
    of_projected, of_hidden, of_cell = found
    return of_projected, _of_weight(of_projected, hidden, output, precision), of_hidden, of_cell


def lstm_gradient(
    g: Any, weight: Tensor, hidden: Tensor, cell: Tensor, cells: Tensor, gates: Tensor,
    precision: str | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    of_output, of_cells, of_gates = g
    entered, kept, candidate, shown = gates.chunk(4, -1)
    slopes = cat([each * (1 - each) for each in (entered, kept)] + [1 - candidate * candidate, shown * (1 - shown)], -1)
    bent, before, size = cells.tanh(), cat([cell.unsqueeze(0), cells[:-1]]), cell.shape[1]
    of_cell_to_gates = cat([candidate, before, entered], -1) * slopes[..., : 3 * size]
    of_hidden_to_last, of_hidden_to_cell = bent * slopes[..., 3 * size :], shown - shown * bent * bent
    direct = of_gates * slopes
    of_hidden, of_cell, of_sums = zero(hidden), zero(cell), []
    for t in reversed(range(len(cells))):
        of_hidden = of_output[t] + of_hidden
        of_cell = of_cells[t] + of_cell + of_hidden * of_hidden_to_cell[t]
        of_three = cat([of_cell, of_cell, of_cell], 1) * of_cell_to_gates[t]
        of_sums.append(cat([of_three, of_hidden * of_hidden_to_last[t]], 1) + direct[t])
        of_hidden = recurrent_product(of_sums[-1], weight.mT, precision=of_gradient(precision, 0))
        of_cell = of_cell * kept[t]
    return stack(of_sums[::-1]), of_hidden, of_cell


@op(
    takes="f",
    traits="function unwidened wide_rules",
    product=(KIND, LAYER_ROLES),
    gradients=_of_lstm,
    autocast="lower",
    batch="loop: a fixed number of dimensions",
)
def lstm_layer(
    projected: Array, weight: Array, hidden: Array, cell: Array, *, precision: str | None = None
) -> LongShortTermMemory:
    """With i, f, g, o of projected + h_before @ weight.T, all but g (tanh) by the logistic function: the cells
    c = f * c_before + i * g and the states h = o * tanh(c) (S. Hochreiter and J. Schmidhuber, 1997; F. Gers, 2000)."""
    return LongShortTermMemory(*_run("lstm", projected, weight, hidden, cell, precision=precision))


# Gated recurrent units


class GatedRecurrence(NamedTuple):
    """The result of `gru_layer`: every state, (length, batch, hidden), and every gate with the candidate's recurrent
    part, (..., 4 hidden)."""

    output: Any
    gates: Any


def _of_gru(
    g: Any, weight: Tensor, hidden: Tensor, output: Tensor, gates: Tensor, precision: str | None
) -> tuple[Tensor, ...]:
    if derives() or counts(g[1]):
        found = gru_gradient(g, weight, hidden, output, gates, precision)
    else:
        arrays = g[0], weight, output, hidden, gates
        found = _run_back("gru", *arrays, precision=precision)
    of_products, of_hidden, of_projected = found
    return of_projected, _of_weight(of_products, hidden, output, precision), of_products, of_hidden


def gru_gradient(
    g: Any, weight: Tensor, hidden: Tensor, output: Tensor, gates: Tensor, precision: str | None
) -> tuple[Tensor, ...]:
    of_output, of_gates = g
    reset, kept, new, given = gates.chunk(4, -1)
    before, size = cat([hidden.unsqueeze(0), output[:-1]]), hidden.shape[1]
    bends, slopes = 1 - new * new, gates[..., : 2 * size] * (1 - gates[..., : 2 * size])
    of_hidden, of_sums, of_products = zero(hidden), [], []
    for t in reversed(range(len(output))):
        of_hidden, direct = of_output[t] + of_hidden, of_gates[t].chunk(4, 1)
        of_new = (of_hidden * (1 - kept[t]) + direct[2]) * bends[t]
        of_both = cat([of_new * given[t] + direct[0], of_hidden * (before - new)[t] + direct[1]], 1) * slopes[t]
        of_sums.append(cat([of_both, of_new], 1))
        of_products.append(cat([of_both, of_new * reset[t] + direct[3]], 1))
        of_hidden = of_hidden * kept[t] + recurrent_product(
            of_products[-1], weight.mT, precision=of_gradient(precision, 0)
        )
    return stack(of_products[::-1]), of_hidden, stack(of_sums[::-1])


@op(
    takes="f",
    traits="function unwidened wide_rules",
    product=(KIND, LAYER_ROLES),
    gradients=_of_gru,
    batch="loop: a fixed number of dimensions",
)
def gru_layer(
    projected: Array, weight: Array, bias: Array, hidden: Array, *, precision: str | None = None
) -> GatedRecurrence:
    """Let r, z and n be the parts of projected and of h_before @ weight.T + bias. r and z are logistic functions of the
    sums, n = tanh(n_projected + r * n_before), and h = (1 - z) * n + z * h_before (K. Cho et al., 2014, with r applied
    after the product, as in cuDNN and torch)."""
    return GatedRecurrence(*_run("gru", projected, weight, hidden, bias, precision=precision))


# One step of a recurrence, as an op of its own: both products, the biases, and the cell's function.
#
# Each op returns the new states, and what its gradient needs of the step, apart from them: users may write to the
# states.


def _run_cell(
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


def _rnn_cell_gradient(
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


_cell: Any = functools.partial(
    op, takes="f", traits="function unwidened wide_rules", batch="loop: a fixed number of dimensions",
    product=(KIND, {"input": "activation", "weight_ih": "weight"}),
)  # fmt: skip


@_cell(gradients=_rnn_cell_gradient, autocast="lower")
def rnn_cell(
    input: Array, hidden: Array, weight_ih: Array, weight_hh: Array, bias_ih: Array | None = None,
    bias_hh: Array | None = None, nonlinearity: str = "tanh", *, precision: str | None = None,
) -> ElmanStep:  # fmt: skip
    """The state f(input @ weight_ih.T + bias_ih + hidden @ weight_hh.T + bias_hh), f being "tanh" or "relu"."""
    weights = weight_ih, weight_hh, bias_ih, bias_hh
    return ElmanStep(*_run_cell(f"rnn_{nonlinearity}", input, hidden, weights, precision))


# Long short-term memory


def _lstm_cell_gradient(
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


@_cell(gradients=_lstm_cell_gradient, autocast="lower")
def lstm_cell(
    input: Array, hidden: Array, cell: Array, weight_ih: Array, weight_hh: Array, bias_ih: Array | None = None,
    bias_hh: Array | None = None, *, precision: str | None = None,
) -> LongShortTermMemory:  # fmt: skip
    """One step of `lstm_layer`: the state, the cell, and the gates with the cell beside them."""
    return LongShortTermMemory(
        *_run_cell("lstm", input, hidden, (weight_ih, weight_hh, bias_ih, bias_hh), precision, cell)
    )


# Gated recurrent units


def _gru_cell_gradient(
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


@_cell(gradients=_gru_cell_gradient)
def gru_cell(
    input: Array, hidden: Array, weight_ih: Array, weight_hh: Array, bias_ih: Array | None = None,
    bias_hh: Array | None = None, *, precision: str | None = None,
) -> GatedRecurrence:  # fmt: skip
    """One step of `gru_layer`: the state, and the gates with the candidate's recurrent part."""
    return GatedRecurrence(*_run_cell("gru", input, hidden, (weight_ih, weight_hh, bias_ih, bias_hh), precision))
