"""One step of a recurrence whose product is given, that of a cell. Arrays are (rows, parts x size)."""

from __future__ import annotations

from array import array

import numpy as np

from ..runtime import threading
from ..runtime.workspace import address_of
from .sequences import ELMAN, NUMBERS, leaf_of, loops


def step(cell: str, product: np.ndarray, projected: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """The state after a step, of an LSTM also its cell, and what gradients need: a copy of the state (`rnn_tanh`,
    `rnn_relu`), the gates and the cell (`lstm`, whose cell before is given), or the gates with the n of product and
    bias (`gru`, whose bias and state before are given).
    """
    rows, width = product.shape
    if cell in ELMAN:
        output = np.empty((rows, width), product.dtype)
        _run(ELMAN[cell], product, projected, output)
        return output, output.copy()
    size = width // (4 if cell == "lstm" else 3)
    output = np.empty((rows, size), product.dtype)
    if cell == "lstm":
        gates = np.empty((rows, 5 * size), product.dtype)
        after = gates[:, 4 * size :]
        _run("LongShortTerm", product, projected, *others, gates[:, : 4 * size], after, output)
        return output, after.copy(), gates
    gates = np.empty((rows, 4 * size), product.dtype)
    _run("Gated", product, projected, *others, gates, output)
    return output, gates


def step_gradient(cell: str, g: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """The gradients of `projected`, of the product (of an LSTM the same), and of the cell or the state before, without
    the product. Takes those of the state and of an LSTM's cell, the cell or a GRU's state before, and what `step` kept.
    """
    rows, size = g.shape
    none = np.zeros((rows, size), g.dtype)
    if cell in ELMAN:
        of_sums = np.empty((rows, size), g.dtype)
        _run(ELMAN[cell] + "Gradient", none, g, *others, of_sums)
        return of_sums, of_sums
    before, of_sums = np.empty((rows, size), g.dtype), np.empty((rows, (4 if cell == "lstm" else 3) * size), g.dtype)
    if cell == "lstm":
        of_cell, first, gates = others
        inputs = g, of_cell, none, gates[:, : 4 * size], gates[:, 4 * size :], first
        _run("LongShortTermGradient", none, *inputs, of_sums, before)
        return of_sums, of_sums, before
    first, gates = others
    of_products = np.empty_like(of_sums)
    _run("GatedGradient", none, g, none, gates, first, of_sums, of_products, before)
    return of_sums, of_products, before


def _run(function: str, product: np.ndarray, *arrays: np.ndarray) -> None:
    """Run a function of `cells` on rows. Raises RuntimeError for arrays of other shapes or dtypes: it reads addresses.

    Inputs with rows that are not contiguous are copied.
    """
    rows, width = product.shape
    leaf, parts = leaf_of("StepLeaf", function, product.dtype)
    size, dtype = width // parts[0], product.dtype
    words, held = [0, 0, width * product.itemsize], []
    for each, count in zip(arrays, parts[1:], strict=True):
        strides = each.strides
        if each.shape not in ((rows, count * size), (count * size,)) or each.dtype != dtype:
            raise RuntimeError(
                f"{function}: expected an array of shape {[rows, count * size]} and {dtype}, got {list(each.shape)} "
                f"and {each.dtype}"
            )
        if strides[-1] != each.itemsize:
            held.append(each := np.ascontiguousarray(each))
            strides = each.strides
        words += address_of(each), 0, strides[0] if len(strides) == 2 else 0
    if not rows:
        return
    block, table, product = max(1, NUMBERS // size), array("q", words), np.ascontiguousarray(product)
    pool = (0, 1) if rows <= block else threading.pool()
    loops().run_step(*pool, leaf, address_of(product), table.buffer_info()[0], 0, rows, size, block)
