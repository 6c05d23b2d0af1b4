"""How arrays are seen as rows, and the loops over them."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...runtime import threading
from ...runtime.invariance import isa_demanded
from ...runtime.shapes import expect
from ...runtime.workspace import address_of, empty
from ..elementwise.arrays import back, is_half, readable

Dim = int | tuple[int, ...]

LEAST = 1 << 5
"""Numbers from which vectors are worth loading; calling them takes less than passes of NumPy do for any number."""

_LEAST_APART = 8
"""Numbers side by side from which a row of several segments is read in vectors."""

_NUMBERS = 1 << 13
"""Of the rows that a thread takes at a time, or one row."""

_LEAST_SHARING, _MOST_TASKS = 32, 256
"""Rows, at least, that add to the same sums, and how many such sums there are at most."""

_ALIGNED = 1 << 16
"""Bytes from which it is felt where a result begins."""

_NONE = (0,) * 6
"""Addresses of what a function keeps for no row."""

_FLOAT, _INTEGER = struct.Struct("<d"), struct.Struct("<q")

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Shape(NamedTuple):
    """An array seen as (segments, rows, columns): a row is all that has one index in the middle."""

    segments: int
    rows: int
    columns: int

    @property
    def strips(self) -> bool:
        """Whether rows lie side by side, so that each has a lane of a vector."""
        return self.columns == 1 < self.segments


def lanes_of_strip(dtype: np.dtype) -> int:
    return 16 if dtype == FLOAT64 else 32


@functools.lru_cache(4096)
def shape_of(dim: Dim, sizes: tuple[int, ...], dtype: np.dtype, halves: bool = False) -> Shape | None:
    """How vectors see an array whose rows extend along these dimensions; None where they do not."""
    ndim, dims = len(sizes), dim if isinstance(dim, tuple) else (dim,)
    if math.prod(sizes) < LEAST or not (dtype in (FLOAT32, FLOAT64) or (halves and is_half(dtype) and readable(dtype))):
        return None
    of_row = {each % ndim for each in dims}
    kept = [each for each in range(ndim) if each not in of_row] or [0]
    start, stop = (kept[0], kept[-1] + 1) if len(of_row) < ndim else (0, 0)
    if len(of_row) + stop - start != ndim:
        return None
    shape = Shape(*(math.prod(sizes[part]) for part in (slice(start), slice(start, stop), slice(stop, None))))
    if shape.strips:
        return shape if shape.rows >= lanes_of_strip(dtype) else None
    return shape if shape.segments == 1 or shape.columns >= _LEAST_APART else None


def shape_along(dim: int, x: np.ndarray) -> Shape | None:
    """How vectors see an array whose rows of any length lie along its last or its first dimension; None for others."""
    size = x.shape[dim]
    if x.size < LEAST or not size or not (x.dtype in (FLOAT32, FLOAT64) or (is_half(x.dtype) and readable(x.dtype))):
        return None
    if dim == x.ndim - 1:
        return Shape(1, x.size // size, size)
    fits = dim == 0 and size > 1 and x.size // size >= lanes_of_strip(x.dtype)
    return Shape(size, x.size // size, 1) if fits else None


def kept_sizes(x: np.ndarray, dim: Dim) -> list[int]:
    """The sizes of an array whose rows are numbers."""
    of_row = {each % x.ndim for each in (dim if isinstance(dim, tuple) else (dim,))}
    return [1 if each in of_row else size for each, size in enumerate(x.shape)]


@functools.cache
def _leaf(names: tuple[str, ...], dtype: np.dtype, strips: bool, fused: bool) -> int:
    from ...block.loops import leaf_address
    from ...block.sources import ELEMENTS, UNFUSED
    from . import functions, loops, standardization

    name, *fields = names
    if fields:
        weights, statistics = fields
        tag = getattr(standardization, name)(standardization.WEIGHTS[weights], standardization.STATISTICS[statistics])
    else:
        tag = getattr(functions, name)()
    return leaf_address((loops.Strips if strips else loops.Rows)(tag, (ELEMENTS if fused else UNFUSED)[dtype.name]))


class Weights(NamedTuple):
    """Where weights and biases of rows lie.

    Attributes:
        lie: "rows", one for each, "segments", for each segment of a row, or "columns", for each number of a row.
        period: after so many rows they are the same again.
        pieces: segments into which a row is divided.
    """

    lie: str = "rows"
    period: int = 1
    pieces: int = 1


NO_WEIGHTS = Weights()


def tasks_that_share(shape: Shape, dtype: np.dtype) -> int:
    """The number of column sums, one per task of rows."""
    return max(shape.rows // _rows_in_task(shape, dtype, sharing=True), 1)


def _rows_in_task(shape: Shape, dtype: np.dtype, sharing: bool = False) -> int:
    """The minimum number of rows per task for shared column sums."""
    numbers = shape.segments * shape.columns
    if shape.strips:
        lanes = lanes_of_strip(dtype)
        return lanes * max(1, _NUMBERS // (numbers * lanes))
    if sharing:
        return max(_LEAST_SHARING, _NUMBERS // numbers, -(-shape.rows // _MOST_TASKS))
    return max(1, _NUMBERS // numbers)


class Plan(NamedTuple):
    """What does a function of rows of arrays of one shape.

    Attributes:
        function: `loops.run`.
        leaf: its address.
        where: rows lie: the fields of `loops._task` from `rows` on.
        alone: whether there is work for one thread.
    """

    function: Callable[..., None]
    leaf: int
    where: tuple[int, ...]
    alone: bool


def plan(names: tuple[str, ...], shape: Shape, dtype: np.dtype, weights: Weights = NO_WEIGHTS) -> Plan:
    """Of the function of `functions`, or of `standardization`, that has these names."""
    return _plan(names, shape, dtype, weights, not isa_demanded())


@functools.lru_cache(4096)
def _plan(names: tuple[str, ...], shape: Shape, dtype: np.dtype, weights: Weights, fused: bool) -> Plan:
    from . import loops

    segments, rows, columns = shape
    size, kept = dtype.itemsize, 8 if dtype == FLOAT64 else 4
    stride, step = rows * columns * size, columns * size
    if weights.pieces > 1:
        segments, columns, stride = weights.pieces, columns // weights.pieces, step // weights.pieces
    of_columns = weights.lie == "columns"
    of_row, of_task = (0, columns * FLOAT64.itemsize) if of_columns else (weights.pieces * kept, 0)
    block = _rows_in_task(shape, dtype, sharing=of_columns)
    where = rows, columns, segments, stride, step, weights.period, of_row, of_row, of_task, block
    return Plan(loops.run, _leaf(names, dtype, shape.strips, fused), where, rows < 2 * block)


def plan_of(
    names: tuple[str, ...], dim: Dim, sizes: tuple[int, ...], dtype: np.dtype, halves: bool = False
) -> Plan | None:
    """The same of an array whose rows extend along these dimensions; None where vectors do not see them."""
    return _plan_of(names, dim, sizes, dtype, halves, not isa_demanded())


@functools.lru_cache(4096)
def _plan_of(
    names: tuple[str, ...], dim: Dim, sizes: tuple[int, ...], dtype: np.dtype, halves: bool, fused: bool
) -> Plan | None:
    shape = shape_of(dim, sizes, dtype, halves)
    return None if shape is None else _plan(names, shape, dtype, NO_WEIGHTS, fused)


def alone(names: tuple[str, ...], *arrays: np.ndarray, dim: Dim) -> np.ndarray:
    """The function of one or two arrays of one shape and dtype, of a row by itself, whose numbers lie side by side in a
    copy: in an order that follows from their count."""
    first, dtype = arrays[0], arrays[0].dtype
    if not readable(dtype):
        return alone(names, *[x.astype(FLOAT32) for x in arrays], dim=dim).astype(dtype)
    of_row = {each % first.ndim for each in (dim if isinstance(dim, tuple) else (dim,))}
    order = tuple(each for each in range(first.ndim) if each not in of_row) + tuple(sorted(of_row))
    columns = math.prod(first.shape[each] for each in of_row)
    turned = [x.transpose(order) for x in arrays]
    if names == ("Softmax",):
        rows = in_whole_chains(turned[0].reshape(-1, columns))
        found = run(plan(names, Shape(1, *rows.shape), dtype), rows, None, rows)[:, :columns]
        return back(np.ascontiguousarray(found).reshape(turned[0].shape), order)
    out = run(plan(names, Shape(1, first.size // columns, columns), dtype), *map(np.ascontiguousarray, turned))
    return back(out, order)


_WHOLE = 64
"""Numbers that all chains of a row take in turn (`elementwise.sweeps`)."""


def in_whole_chains(x: np.ndarray) -> np.ndarray:
    """A copy of rows (rows, n) with -inf behind them, so that exponentials are summed in an order that is the same when
    more places follow, which are masked: those of the keys of an attention."""
    columns = x.shape[1]
    padded = np.empty((len(x), -(-columns // _WHOLE) * _WHOLE), x.dtype)
    padded[:, :columns], padded[:, columns:] = x, -np.inf
    return padded


@functools.lru_cache(256)
def _bits(value: float) -> int:
    return _INTEGER.unpack(_FLOAT.pack(value))[0]


def run(
    plan: Plan, first: np.ndarray, second: np.ndarray | None = None, out: np.ndarray | None = None,
    *of_rows: np.ndarray | None, eps: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """The function of contiguous copies of one or two arrays, in `out` or in an array of its own.

    `of_rows` are one number for each row and another, weights, biases, and the sums that make up their gradients: as
    the plan's weights say, or for columns one of each for rows that share it, zeros that are added to.
    """
    function, leaf, where, lone = plan
    first = np.ascontiguousarray(first)
    of_first = of_second = address_of(first)
    if second is not None:
        expect("second", second, first.shape, first.dtype)
        second = np.ascontiguousarray(second)
        of_second = address_of(second)
    if out is None:
        out = np.empty(first.shape, first.dtype) if first.nbytes < _ALIGNED else empty(first.shape, first.dtype)
    beside = [0 if each is None else address_of(each) for each in of_rows]
    places = of_first, of_second, address_of(out), *beside, *_NONE[len(beside) :]
    pool, threads = (0, 1) if lone else threading.pool()
    function(pool, threads, leaf, (*places, _bits(eps), *where))
    return out
