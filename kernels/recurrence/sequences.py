"""The arrays of a recurrence over a sequence, and the ways through them: step by step, with products of matrices by the
kernels for these, and by one loop that has products of its own."""

from __future__ import annotations

import functools
import math
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays.elementwise.turned import in_order
from ..gemm import Kept, gains_by_keeping, linear, matmul
from ..precisions.rounding import round_operand
from ..registry import ArraySpec, without_observers
from ..runtime import cpu, threading
from ..runtime.context import restore_on_failure
from ..runtime.workspace import Workspace, address_of, empty

NUMBERS = 1 << 11
"""Of states that a thread takes at a time in a step, or one row."""

_LEAST_SHARED = 1 << 18
"""Multiplications and additions of all steps from which a second thread is worth waking."""

_LEAST_STEPS = 4
"""From which on it is worth packing the matrix once."""


class Sequence(NamedTuple):
    """Steps of a function of `cells` on arrays.

    Attributes:
        function: its name.
        states: (length, rows, depth), the left factor of each step's product.
        matrix: (depth, width), the right factor.
        arrays: the other inputs and the outputs of a step: three dimensions for one part per step, two for one shared
            by all steps, one for one shared by all rows too. Numbers of a row are contiguous.
        backward: whether steps run from last to first. The product of the first one is 0.
        columns: numbers of a state.
    """

    function: str
    states: np.ndarray
    matrix: np.ndarray
    arrays: tuple[np.ndarray, ...]
    backward: bool
    columns: int

    @property
    def rows(self) -> int:
        return self.states.shape[1]


@functools.cache
def loops() -> Any:
    """The compiled loops."""
    from . import loops

    return loops


@functools.cache
def leaf_of(kind: str, function: str, dtype: np.dtype, *block: str) -> tuple[int, tuple[int, ...]]:
    """The address of a leaf of `loops` for a function of `cells`, and the numbers of parts of its arrays; `block` names
    the tag of a sequence's blocks."""
    from ..block.loops import leaf_address
    from ..block.sources import ELEMENTS
    from .cells import TAGS

    tag, further = TAGS[function](), [getattr(loops(), each)() for each in block]
    return leaf_address(getattr(loops(), kind)(tag, ELEMENTS[dtype.name], *further)), tag.reads + tag.writes


def _table(sequence: Sequence) -> array[int]:
    """That of `loops`; the arrays must live as long."""
    words = [0, 0, sequence.matrix.shape[1] * sequence.states.itemsize]
    for each in (*sequence.arrays, sequence.states):
        strides = each.strides
        dims = len(strides)
        words += address_of(each), strides[0] if dims == 3 else 0, strides[-2] if dims > 1 else 0
    return array("q", words)


# The ways


def multiplier(
    length: int, rows: int, matrix: np.ndarray, operands: tuple[str, str, str] | None = None, **keywords: Any
) -> Callable[[np.ndarray], np.ndarray]:
    """What multiplies one (rows, depth) after the other by a matrix, which stays as it is: packed once where products
    gain by that. `operands` are the formats of both and how they are rounded: of the matrix once."""
    if operands is not None:
        left, right, rounding = operands
        inner = multiplier(length, rows, np.ascontiguousarray(round_operand(matrix, right, -2, rounding)), **keywords)
        return lambda state: inner(round_operand(state, left, -1, rounding))
    a, b = ArraySpec((rows, matrix.shape[0]), matrix.dtype), ArraySpec(matrix.shape, matrix.dtype)
    if length < _LEAST_STEPS:
        return lambda state: matmul(state, matrix, **keywords)
    if a.dtype == np.float32 and not keywords.keys() & {"prefer", "unit"} and gains_by_keeping(a, b, **keywords):
        kept = Kept(matrix, **keywords)
        return lambda state: linear(state, kept, **keywords)
    call = matmul.prepare(a, b, **keywords)
    return lambda state: call(state, matrix)


@restore_on_failure
def by_steps(sequence: Sequence, **keywords: Any) -> None:
    """Each step's product by the kernels of products, at the precision that keywords name."""
    if not sequence.rows:
        return
    states, block = sequence.states, max(1, NUMBERS // sequence.columns)
    pool = (0, 1) if sequence.rows <= block else threading.pool()
    leaf, table = leaf_of("StepLeaf", sequence.function, states.dtype)[0], _table(sequence)
    where = table.buffer_info()[0]
    run, multiply = loops().run_step, multiplier(len(states), sequence.rows, sequence.matrix, **keywords)
    order = range(len(states))
    with without_observers():
        for number in reversed(order) if sequence.backward else order:
            if sequence.backward and number == len(states) - 1:
                product = np.zeros((sequence.rows, sequence.matrix.shape[1]), states.dtype)
            else:
                product = np.ascontiguousarray(multiply(states[number]))
            run(*pool, leaf, address_of(product), where, number, sequence.rows, sequence.columns, block)


def by_loop(sequence: Sequence) -> None:
    """All products in float32 or float64, computed by the loop itself: threads share the rows and never synchronise."""
    states, rows = sequence.states, sequence.rows
    if not (rows and len(states)):
        return
    (depth, width), compiled = sequence.matrix.shape, loops()
    panels = _in_panels(sequence.matrix, compiled.PANEL)
    alone = len(states) * rows * depth * width < _LEAST_SHARED
    block = compiled.ROWS if alone else max(1, min(compiled.ROWS, -(-rows // threading.get_num_threads())))
    pool = (0, 1) if alone or rows <= block else threading.pool()
    table, memory_bytes = _table(sequence), block * width * states.itemsize
    with Workspace(pool[1] * memory_bytes) as memory:
        of_products = "OneVector" if cpu.refusal("avx512") else "FourVectors"
        leaf, _ = leaf_of("SequenceLeaf", sequence.function, states.dtype, of_products)
        job = compiled.SequenceJob(
            leaf, address_of(panels), depth, table.buffer_info()[0], memory, memory_bytes, len(states),
            -1 if sequence.backward else 1, rows, sequence.columns, block,
        )  # fmt: skip
        compiled.run_sequence(*pool, job)


def _in_panels(matrix: np.ndarray, panel: int) -> np.ndarray:
    """A matrix in panels of columns, followed by the remaining columns."""
    depth, width = matrix.shape
    whole = width // panel * panel
    panels = in_order(matrix[:, :whole].reshape(depth, -1, panel).transpose(1, 0, 2)).reshape(-1)
    return panels if whole == width else np.concatenate([panels, matrix[:, whole:].reshape(-1)])


# Their arrays


def _allocate(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """`empty`, by NumPy for the few numbers of a cell, which takes a sixth of the time."""
    return np.empty(shape, dtype) if math.prod(shape) < NUMBERS else empty(shape, dtype)


def _allocate_states(first: np.ndarray, length: int) -> np.ndarray:
    """Memory for the state before each step, and for that after the last one; so far the first is there."""
    states = _allocate((length + 1, *first.shape), first.dtype)
    states[0] = first
    return states


def _in_lines(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The arrays, or copies of inputs whose rows are not contiguous."""
    return tuple(x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x) for x in arrays)


def _before(first: np.ndarray, states: np.ndarray) -> np.ndarray:
    return np.concatenate([first[np.newaxis], states[:-1]])


_PARTS = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}
"""Gates of each cell."""

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def _check(cell: str, arrays: tuple[np.ndarray, ...], expected: dict[str, tuple[int, ...]]) -> None:
    """Raise RuntimeError for arrays of other shapes, or of several types: loops trust addresses."""
    dtype = arrays[0].dtype
    if dtype not in _DTYPES or len(arrays) != len(expected):
        raise RuntimeError(
            f"{cell}: expected {len(expected)} arrays of float32 or float64, got {len(arrays)} ({dtype})"
        )
    for (name, shape), each in zip(expected.items(), arrays, strict=True):
        if each.shape != shape or each.dtype != dtype:
            raise RuntimeError(
                f"{cell}: expected {name} to be of shape {list(shape)} and {dtype}, got {list(each.shape)} and "
                f"{each.dtype}"
            )


def _sizes(cell: str, sequence: np.ndarray, state: np.ndarray, parts: int) -> tuple[int, int, int, int]:
    """Steps, rows, numbers of a state, and those of all gates, for a sequence that has so many parts of a state."""
    if cell not in _PARTS:
        raise ValueError(f"{cell!r} is not a recurrence; expected one of {', '.join(_PARTS)}")
    if sequence.ndim != 3 or state.ndim < 2:
        raise RuntimeError(
            f"{cell}: expected a sequence (length, rows, {parts} x size) and states (rows, size), got shapes "
            f"{list(sequence.shape)} and {list(state.shape)}"
        )
    size = state.shape[-1]
    return *sequence.shape[:2], size, _PARTS[cell] * size


ELMAN = {"rnn_tanh": "Tanh", "rnn_relu": "Relu"}


@functools.lru_cache(256)
def _shapes_of_inputs(cell: str, length: int, rows: int, size: int, width: int) -> dict[str, tuple[int, ...]]:
    expected: dict[str, tuple[int, ...]] = {
        "projected": (length, rows, width),
        "weight": (width, size),
        "hidden": (rows, size),
    }
    further: dict[str, dict[str, tuple[int, ...]]] = {"lstm": {"cell": (rows, size)}, "gru": {"bias": (width,)}}
    return expected | further.get(cell, {})


def sequence_of(
    cell: str, projected: np.ndarray, weight: np.ndarray, hidden: np.ndarray, *others: np.ndarray
) -> tuple[Sequence, tuple[np.ndarray, ...]]:
    """The steps forward, and the arrays that they fill (`recurrence` says which)."""
    length, rows, size, width = _sizes(cell, projected, hidden, _PARTS.get(cell, 1))
    _check(cell, (projected, weight, hidden, *others), _shapes_of_inputs(cell, length, rows, size, width))
    states = _allocate_states(hidden, length)
    output, shape = states[1:], (length, rows, 4 * size)
    if cell in ELMAN:
        function, arrays, results = ELMAN[cell], (projected, output), (output,)
    elif cell == "lstm":
        cells, gates = _allocate_states(others[0], length), _allocate(shape, projected.dtype)
        function, arrays = "LongShortTerm", (projected, cells, gates, cells[1:], output)
        results = output, cells[1:], gates
    else:
        gates = _allocate(shape, projected.dtype)
        function, arrays = "Gated", (projected, others[0], states, gates, output)
        results = output, gates
    return Sequence(function, states[:-1], weight.T, _in_lines(arrays), False, size), results


@functools.lru_cache(256)
def _shapes_of_gradients(cell: str, length: int, rows: int, size: int, width: int) -> dict[str, tuple[int, ...]]:
    states = length, rows, size
    expected: dict[str, tuple[int, ...]] = {"g": states, "weight": (width, size), "output": states}
    if cell == "lstm":
        expected |= {"the gradient of cells": states, "cell": states[1:], "cells": states}
    if cell == "gru":
        expected["hidden"] = states[1:]
    return expected if cell in ELMAN else expected | {"gates": (length, rows, 4 * size)}


def gradient_of(
    cell: str, g: np.ndarray, weight: np.ndarray, output: np.ndarray, *others: np.ndarray
) -> tuple[Sequence, tuple[np.ndarray, ...]]:
    """The backward steps, and the arrays that they fill: the gradient of the products, that of a GRU's sums, and the
    remaining part for a GRU's first state or an LSTM's first cell."""
    length, rows, size, width = _sizes(cell, g, output, 1)
    dtype = output.dtype
    _check(cell, (g, weight, output, *others), _shapes_of_gradients(cell, length, rows, size, width))
    of_products = _allocate((length + 1, rows, width), dtype)  # the last one stands for what is beyond the sequence
    beside = np.zeros((rows, size), dtype)
    if cell in ELMAN:
        function, arrays = ELMAN[cell] + "Gradient", (g, output, of_products)
        results: tuple[np.ndarray, ...] = (of_products[:-1],)
    elif cell == "lstm":
        of_cells, first, cells, gates = others
        arrays = g, of_cells, beside, gates, cells, _before(first, cells), of_products, beside
        function, results = "LongShortTermGradient", (of_products[:-1], beside)
    else:
        hidden, gates = others
        of_sums = _allocate((length, rows, width), dtype)
        arrays = g, beside, gates, _before(hidden, output), of_sums, of_products, beside
        function, results = "GatedGradient", (of_products[:-1], of_sums, beside)
    return Sequence(function, of_products[1:], weight, _in_lines(arrays), True, size), results
