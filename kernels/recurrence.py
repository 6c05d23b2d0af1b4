"""Recurrences over sequences of float32 or float64: the product of each state with a matrix, by who calls, and what is
done with it, in vectors, by compiled loops. `recurrence_loops` says what the steps compute.

Sequences are (length, rows, parts x size) and states (rows, size); products and gates have several parts, side by side.
`multiply` applies the matrix to a state; for gradients, its transpose to the gradient of what it gave.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import threading
from .gemm.workspace import address_of, empty

__all__ = ["elman", "elman_gradient", "gated", "gated_gradient", "long_short_term", "long_short_term_gradient"]

Multiply = Callable[[np.ndarray], np.ndarray]

_NUMBERS = 1 << 11
"""Of states that a thread takes at a time, or one row."""


class _Steps:
    """What does a function's steps on arrays, of which those of three dimensions have one part for each step, and those
    of one dimension the same for all rows. They may lie anywhere but for the numbers of a row, side by side."""

    def __init__(self, function: str, columns: int, *arrays: np.ndarray) -> None:
        self._arrays = [each if _in_line(each) else np.ascontiguousarray(each) for each in arrays]  # to live as long
        rows, dtype = arrays[0].shape[1], arrays[0].dtype
        leaf, parts = _leaf(function, dtype)
        words = [0, 0, parts * columns * dtype.itemsize]
        for each in self._arrays:
            words += [
                address_of(each),
                each.strides[0] if each.ndim == 3 else 0,
                each.strides[-2] if each.ndim > 1 else 0,
            ]
        self._table = np.array(words)
        block = max(1, _NUMBERS // max(columns, 1))
        self._pool = (0, 1) if rows <= block else threading.pool()
        self._where = leaf, address_of(self._table)
        self._sizes = rows, columns, block

    def __call__(self, number: int, product: np.ndarray) -> None:
        product = np.ascontiguousarray(product)
        leaf, table = self._where
        _loops().run(*self._pool, leaf, address_of(product), table, number, *self._sizes)


def _in_line(array: np.ndarray) -> bool:
    return array.strides[-1] == array.itemsize


@functools.cache
def _loops() -> Any:
    from . import recurrence_loops

    return recurrence_loops


@functools.cache
def _leaf(function: str, dtype: np.dtype) -> tuple[int, int]:
    """The address of a function's loops, and how many parts products have."""
    from .gemm.loops import leaf_address
    from .gemm.sources import ELEMENTS

    tag = _loops().TAGS[function]
    return leaf_address(_loops().Step(tag(), ELEMENTS[dtype.name])), tag.reads[0]


def _after(first: np.ndarray, states: np.ndarray) -> np.ndarray:
    """What each step began with."""
    return np.concatenate([first[np.newaxis], states[:-1]])


# With tanh or relu


def elman(projected: np.ndarray, multiply: Multiply, hidden: np.ndarray, nonlinearity: str) -> np.ndarray:
    """The states h = f(projected + multiply(h_before)), f being "tanh" or "relu"."""
    output = empty(projected.shape, projected.dtype)
    step = _Steps(nonlinearity.capitalize(), hidden.shape[1], projected, output)
    for number, out in enumerate(output):
        step(number, multiply(hidden))
        hidden = out
    return output


def elman_gradient(
    g: np.ndarray, multiply: Multiply, output: np.ndarray, nonlinearity: str
) -> tuple[np.ndarray, np.ndarray]:
    """Of what was projected, and of the first state."""
    of_sums = empty(output.shape, output.dtype)
    carried = np.zeros(output.shape[1:], output.dtype)
    step = _Steps(nonlinearity.capitalize() + "Gradient", output.shape[2], g, output, of_sums)
    for number in reversed(range(len(output))):
        step(number, carried)
        carried = multiply(of_sums[number])
    return of_sums, carried


# Long short-term memory


class LongShortTermMemory(NamedTuple):
    """Every state and cell, (length, rows, size), and every gate, (..., 4 size)."""

    output: Any
    cells: Any
    gates: Any


def long_short_term(
    projected: np.ndarray, multiply: Multiply, hidden: np.ndarray, cell: np.ndarray
) -> LongShortTermMemory:
    """With i, f, g, o of projected + multiply(h_before), all but g (tanh) by the logistic function: the cells c = f *
    c_before + i * g and the states h = o * tanh(c)."""
    length, (rows, size), dtype = len(projected), hidden.shape, projected.dtype
    gates, output = empty(projected.shape, dtype), empty((length, rows, size), dtype)
    cells = empty((length + 1, rows, size), dtype)
    cells[0] = cell
    step = _Steps("LongShortTerm", size, projected, cells, gates, cells[1:], output)
    for number, out in enumerate(output):
        step(number, multiply(hidden))
        hidden = out
    return LongShortTermMemory(output, cells[1:], gates)


def long_short_term_gradient(
    of_output: np.ndarray,
    of_cells: np.ndarray,
    multiply: Multiply,
    cell: np.ndarray,
    cells: np.ndarray,
    gates: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what was projected, and of the first state and cell."""
    of_sums = empty(gates.shape, gates.dtype)
    carried, of_cell = (np.zeros(cell.shape, cell.dtype) for _ in range(2))
    step = _Steps(
        "LongShortTermGradient",
        cell.shape[1],
        of_output,
        of_cells,
        of_cell,
        gates,
        cells,
        _after(cell, cells),
        of_sums,
        of_cell,
    )
    for number in reversed(range(len(gates))):
        step(number, carried)
        carried = multiply(of_sums[number])
    return of_sums, carried, of_cell


# Gated recurrent units


class GatedRecurrence(NamedTuple):
    """Every state, (length, rows, size), and every gate r, z, n with what the product gave for n, (..., 4 size)."""

    output: Any
    gates: Any


def gated(projected: np.ndarray, multiply: Multiply, bias: np.ndarray, hidden: np.ndarray) -> GatedRecurrence:
    """With r, z and n of projected and of multiply(h_before) + bias: r and z the logistic function of the sums of both,
    n = tanh(n_projected + r * n_before), and the states h = (1 - z) * n + z * h_before."""
    length, (rows, size), dtype = len(projected), hidden.shape, projected.dtype
    gates, states = empty((length, rows, 4 * size), dtype), empty((length + 1, rows, size), dtype)
    states[0] = hidden
    step = _Steps("Gated", size, projected, bias, states, gates, states[1:])
    for number in range(length):
        step(number, multiply(states[number]))
    return GatedRecurrence(states[1:], gates)


def gated_gradient(
    g: np.ndarray, multiply: Multiply, hidden: np.ndarray, output: np.ndarray, gates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what was projected, of what the products gave, and of the first state."""
    length, (rows, size), dtype = len(g), hidden.shape, g.dtype
    of_sums, of_products = (empty((length, rows, 3 * size), dtype) for _ in range(2))
    product, beside = (np.zeros(hidden.shape, dtype) for _ in range(2))
    step = _Steps("GatedGradient", size, g, beside, gates, _after(hidden, output), of_sums, of_products, beside)
    for number in reversed(range(length)):
        step(number, product)
        product = multiply(of_products[number])
    return of_sums, of_products, product + beside
