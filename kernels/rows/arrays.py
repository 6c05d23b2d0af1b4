"""How arrays are seen as rows, and the loops over them."""

from __future__ import annotations

import functools
import math
import struct
from typing import NamedTuple

import numpy as np

from .. import threading
from ..elementwise.arrays import is_half, readable
from ..gemm.workspace import address_of, empty

__all__ = ["FLOAT32", "Dim", "Shape", "Weights", "kept_sizes", "run", "shape_along", "shape_of", "tasks_that_share"]

Dim = int | tuple[int, ...]

LEAST = 1 << 12
"""Numbers from which vectors are worth loading and calling."""

MOST_COLUMNS = 1 << 16
"""Above it sums of float32 in 64 parts would lose more digits than NumPy's, which are made in pairs."""

_LEAST_APART = 8
"""Numbers side by side from which a row of several segments is read in vectors."""

_NUMBERS = 1 << 13
"""Of the rows that a thread takes at a time, or one row."""

_LEAST_SHARING, _MOST_TASKS = 32, 256
"""Rows, at least, that add to the same sums, and how many such sums there are at most."""

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


def shape_of(dim: Dim, *arrays: np.ndarray, halves: bool = False) -> Shape | None:
    """How vectors see arrays whose rows extend along these dimensions; None where they do not."""
    first, dims = arrays[0], dim if isinstance(dim, tuple) else (dim,)
    dtype = first.dtype
    if first.size < LEAST or not (dtype in (FLOAT32, FLOAT64) or (halves and is_half(dtype) and readable(dtype))):
        return None
    if any(each.shape != first.shape or each.dtype != dtype for each in arrays):
        return None
    of_row = {each % first.ndim for each in dims}
    kept = [each for each in range(first.ndim) if each not in of_row] or [0]
    start, stop = (kept[0], kept[-1] + 1) if len(of_row) < first.ndim else (0, 0)
    if len(of_row) + stop - start != first.ndim:
        return None
    shape = Shape(*(math.prod(first.shape[part]) for part in (slice(start), slice(start, stop), slice(stop, None))))
    if not shape.columns <= MOST_COLUMNS >= shape.segments:
        return None
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
def _leaf(names: tuple[str, ...], dtype: np.dtype, strips: bool) -> int:
    from ..gemm.loops import leaf_address
    from ..gemm.sources import ELEMENTS
    from . import functions, loops, standardization

    name, *fields = names
    if fields:
        weights, statistics = fields
        tag = getattr(standardization, name)(standardization.WEIGHTS[weights], standardization.STATISTICS[statistics])
    else:
        tag = getattr(functions, name)()
    return leaf_address((loops.Strips if strips else loops.Rows)(tag, ELEMENTS[dtype.name]))


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
    """How many sums of columns there are, one for the rows that a thread takes at a time."""
    return max(shape.rows // _rows_in_task(shape, dtype, sharing=True), 1)


def _rows_in_task(shape: Shape, dtype: np.dtype, sharing: bool = False) -> int:
    """How many rows a thread takes at a time, at least, with sums of columns that they share."""
    numbers = shape.segments * shape.columns
    if shape.strips:
        lanes = lanes_of_strip(dtype)
        return lanes * max(1, _NUMBERS // (numbers * lanes))
    if sharing:
        return max(_LEAST_SHARING, _NUMBERS // numbers, -(-shape.rows // _MOST_TASKS))
    return max(1, _NUMBERS // numbers)


@functools.lru_cache(4096)
def _where(shape: Shape, dtype: np.dtype, weights: Weights) -> tuple[int, ...]:
    """Where rows lie: the fields of `loops._Blocks` from `rows` on."""
    segments, rows, columns = shape
    size, kept = dtype.itemsize, 8 if dtype == FLOAT64 else 4
    stride, step = rows * columns * size, columns * size
    if weights.pieces > 1:
        segments, columns, stride = weights.pieces, columns // weights.pieces, step // weights.pieces
    of_columns = weights.lie == "columns"
    of_row, of_task = (0, columns * kept) if of_columns else (weights.pieces * kept, 0)
    block = _rows_in_task(shape, dtype, sharing=of_columns)
    return rows, columns, segments, stride, step, weights.period, of_row, of_row, of_task, block


def run(
    names: tuple[str, ...],
    shape: Shape,
    first: np.ndarray,
    second: np.ndarray | None = None,
    out: np.ndarray | None = None,
    *of_rows: np.ndarray | None,
    eps: float = 0.0,
    weights: Weights = NO_WEIGHTS,
) -> np.ndarray:
    """The function of `functions`, or of `standardization`, that has these names, of contiguous copies of one or two
    arrays, in `out` or in an array of its own.

    `of_rows` are one number for each row and another, weights, biases, and the sums that make up their gradients: as
    `weights` says, or for columns one of each for rows that share it, zeros that are added to.
    """
    from . import loops

    first = np.ascontiguousarray(first)
    second = first if second is None else np.ascontiguousarray(second)
    dtype = first.dtype
    out = empty(first.shape, dtype) if out is None else out
    beside = [0 if each is None else address_of(each) for each in of_rows]
    beside += [0] * (6 - len(beside))
    (bits,) = _INTEGER.unpack(_FLOAT.pack(eps))
    places = address_of(first), address_of(second), address_of(out)
    leaf = _leaf(names, dtype, shape.strips)
    loops.run(*threading.pool(), leaf, (*places, *beside, bits, *_where(shape, dtype, weights)))
    return out
