"""Functions of the rows of arrays, float32 or float64, that NumPy makes in many passes: each by passes, as it is
defined, and, for large arrays whose rows extend along all but one dimension, or the last ones, in vectors by all
threads. Softmax and its relatives take half types as well, which they read as float32 and round once.

`dim` is a dimension, or a tuple of several, that make up a row. `BY_ROWS` has each function by name; its `by_passes` is
the definition. Overflow, and rows of nothing, give what NumPy gives.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import threading
from ..elementwise.arrays import is_half, readable
from ..gemm.workspace import address_of, empty

__all__ = [
    "BY_ROWS",
    "Exponentials",
    "Standardized",
    "exponentials",
    "log_softmax",
    "log_softmax_gradient",
    "softmax",
    "softmax_gradient",
    "standardize",
    "standardize_gradient",
    "total",
]

BY_ROWS: dict[str, Callable[..., Any]] = {}

Dim = int | tuple[int, ...]

_LEAST = 1 << 12
"""Numbers from which vectors are worth loading and calling."""

_MOST_COLUMNS = 1 << 16
"""Above it sums of float32 in 64 parts would lose more digits than NumPy's, which are made in pairs."""

_LEAST_APART = 8
"""Numbers side by side from which a row of several segments is read in vectors."""

_FLOATS = np.dtype(np.float32), np.dtype(np.float64)


class _Shape(NamedTuple):
    """An array seen as (segments, rows, columns): a row is all that has one index in the middle."""

    segments: int
    rows: int
    columns: int


def _shape(dim: Dim, *arrays: np.ndarray, halves: bool = False) -> _Shape | None:
    """How vectors see arrays whose rows extend along these dimensions; None where they do not."""
    first, dims = arrays[0], dim if isinstance(dim, tuple) else (dim,)
    if first.size < _LEAST or not (
        first.dtype in _FLOATS or (halves and is_half(first.dtype) and readable(first.dtype))
    ):
        return None
    if any(each.shape != first.shape or each.dtype != first.dtype for each in arrays):
        return None
    of_row = {each % first.ndim for each in dims}
    kept = [each for each in range(first.ndim) if each not in of_row] or [0]
    start, stop = (kept[0], kept[-1] + 1) if len(of_row) < first.ndim else (0, 0)
    if len(of_row) + stop - start != first.ndim:
        return None
    shape = _Shape(*(math.prod(first.shape[part]) for part in (slice(start), slice(start, stop), slice(stop, None))))
    fits = shape.columns <= _MOST_COLUMNS >= shape.segments and (shape.segments == 1 or shape.columns >= _LEAST_APART)
    return shape if fits else None


@functools.cache
def _leaf(tag: str, dtype: np.dtype) -> int:
    from ..gemm.loops import leaf_address
    from ..gemm.sources import ELEMENTS
    from . import functions
    from .loops import Rows

    return leaf_address(Rows(getattr(functions, tag)(), ELEMENTS[dtype.name]))


def _run(
    tag: str,
    shape: _Shape,
    *arrays: np.ndarray,
    out: np.ndarray | None = None,
    one: np.ndarray | None = None,
    other: np.ndarray | None = None,
    eps: float = 0.0,
) -> np.ndarray:
    from . import loops

    arrays = tuple(map(np.ascontiguousarray, arrays))
    first = arrays[0]
    out = empty(first.shape, first.dtype) if out is None else out
    of_rows = [0 if each is None else address_of(each) for each in (one, other)]
    (bits,) = struct.unpack("<q", struct.pack("<d", eps))
    places = address_of(first), address_of(arrays[-1]), address_of(out)
    leaf = _leaf(tag, first.dtype)
    loops.run(*threading.pool(), leaf, *places, *of_rows, bits, *shape, first.itemsize)
    return out


def _by_rows(tag: str) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Declare a function of one or two arrays and `dim` that the class `tag` of `functions` computes too."""

    def declare(by_passes: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        @functools.wraps(by_passes)
        def call(*arrays: np.ndarray, dim: Dim = -1) -> np.ndarray:
            shape = _shape(dim, *arrays, halves=True)
            if shape is not None:
                return _run(tag, shape, *arrays)
            if not is_half(dtype := arrays[0].dtype):
                return by_passes(*arrays, dim=dim)
            return by_passes(*[x.astype(np.float32) for x in arrays], dim=dim).astype(dtype)

        return _declared(call, by_passes)

    return declare


def _declared(call: Callable, by_passes: Callable) -> Callable:
    call.by_passes = by_passes  # type: ignore[attr-defined]
    BY_ROWS[call.__name__] = call
    return call


# Softmax


def _below_largest(x: np.ndarray, dim: Dim) -> np.ndarray:
    """x minus its maximum, so that no exponential overflows."""
    return np.asarray(x - np.maximum.reduce(x, dim, keepdims=True)) if x.size else x.copy()


@_by_rows("Softmax")
def softmax(x: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """exp(x) / sum(exp(x))."""
    out = _below_largest(x, dim)
    np.exp(out, out=out)
    out /= np.add.reduce(out, dim, keepdims=True)
    return out


@_by_rows("SoftmaxGradient")
def softmax_gradient(g: np.ndarray, y: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """Of softmax, from its result: y * (g - sum(g * y))."""
    out = np.asarray(g * y)
    np.subtract(g, np.add.reduce(out, dim, keepdims=True), out=out)
    out *= y
    return out


@_by_rows("LogSoftmax")
def log_softmax(x: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """x - log(sum(exp(x)))."""
    out = _below_largest(x, dim)
    out -= np.log(np.add.reduce(np.exp(out), dim, keepdims=True))
    return out


@_by_rows("LogSoftmaxGradient")
def log_softmax_gradient(g: np.ndarray, y: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """Of log_softmax, from its result: g - exp(y) * sum(g)."""
    out = np.asarray(np.exp(y))
    out *= np.add.reduce(g, dim, keepdims=True)
    return np.subtract(g, out, out=out)


class Exponentials(NamedTuple):
    """What `exponentials` returns: of rows of n numbers (..., n), (..., 1) and (...)."""

    weights: np.ndarray
    total: np.ndarray
    logarithm: np.ndarray


def _exponentials(x: np.ndarray) -> Exponentials:
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = x.max(-1, keepdims=True, initial=-np.inf)
        weights = np.subtract(x, np.where(np.isneginf(largest), 0, largest), out=x)
        total = np.exp(weights, out=weights).sum(-1, keepdims=True)
        logarithm = np.where(total == 0, np.inf, np.log(total) + largest)[..., 0]
    return Exponentials(weights, np.where(total == 0, 1, total), logarithm)


def exponentials(x: np.ndarray) -> Exponentials:
    """Those of each row over that of its largest number, in the memory of x; their sums, or 1 for a row of -inf; and
    the logarithms of the sums of exp(x), or inf."""
    shape = _shape(-1, x)
    if shape is None or not x.flags.c_contiguous:
        return _exponentials(x)
    total, logarithm = np.empty((*x.shape[:-1], 1), x.dtype), np.empty(x.shape[:-1], x.dtype)
    return Exponentials(_run("Exponentials", shape, x, out=x, one=total, other=logarithm), total, logarithm)


# Sums

_LEAST_SUMMED, _MOST_SUMMED = 1 << 16, 1 << 13
"""Numbers from which their sums take threads, and columns up to which these lose no more digits than NumPy's."""


def total(x: np.ndarray, dim: Dim) -> np.ndarray | None:
    """The sums of several rows, in dimensions of size 1; None for arrays that NumPy sums as well."""
    shape = _shape(dim, x) if x.size >= _LEAST_SUMMED and x.flags.c_contiguous else None
    if shape is None or shape.rows == 1 or shape.columns > _MOST_SUMMED:
        return None
    out = np.empty(_kept(x, dim), x.dtype)
    _run("Total", shape, x, out=x, one=out)
    return out


def _kept(x: np.ndarray, dim: Dim) -> list[int]:
    """The sizes of an array whose rows are numbers."""
    of_row = {each % x.ndim for each in (dim if isinstance(dim, tuple) else (dim,))}
    return [1 if each in of_row else size for each, size in enumerate(x.shape)]


# Normalisation


class Standardized(NamedTuple):
    """What `standardize` returns; mean and deviation keep the reduced dimensions with size 1."""

    output: Any
    mean: Any
    deviation: Any


def _mean(array: np.ndarray, dim: Dim) -> np.ndarray:
    """The mean over dimensions that are kept with size 1; np.mean takes 4 us more for small arrays."""
    total = np.add.reduce(array, dim, keepdims=True)
    return total / max(array.size // max(total.size, 1), 1)


def _standardize(x: np.ndarray, *, dim: Dim = -1, eps: float = 0.0) -> Standardized:
    mean = _mean(x, dim)
    output = x - mean
    if dim in (-1, x.ndim - 1, (x.ndim - 1,)):  # no array of squares: 3.2 ms in place of 4.3 for 4096 x 768
        var = np.vecdot(output, output)[..., None] / x.dtype.type(max(x.shape[-1], 1))
    else:
        var = _mean(np.square(output), dim)
    deviation = np.sqrt(var + x.dtype.type(eps))
    output /= deviation
    return Standardized(output, mean, deviation)


def standardize(x: np.ndarray, *, dim: Dim = -1, eps: float = 0.0) -> Standardized:
    """(x - mean) / deviation, with deviation = sqrt(var + eps) of the biased variance; laid out as x is."""
    shape = _shape(dim, x)
    if shape is None:
        return _standardize(x, dim=dim, eps=eps)
    mean, deviation = (np.empty(_kept(x, dim), x.dtype) for _ in range(2))
    output = _run("Standardize", shape, x, one=mean, other=deviation, eps=eps)
    return Standardized(_laid_out_as(x, output), mean, deviation)


def _laid_out_as(x: np.ndarray, result: np.ndarray) -> np.ndarray:
    """A contiguous result of x, copied where x is not, since layers keep channels last."""
    if x.flags.c_contiguous:
        return result
    out = np.empty_like(x)
    out[...] = result
    return out


def _standardize_gradient(g: np.ndarray, y: np.ndarray, deviation: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    out = np.asarray(g * y)
    np.multiply(y, _mean(out, dim), out=out)
    np.subtract(g, out, out=out)
    out -= _mean(g, dim)
    out /= deviation
    return out


def standardize_gradient(g: np.ndarray, y: np.ndarray, deviation: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """Of `standardize`, from its results: (g - mean(g) - y * mean(g * y)) / deviation."""
    shape = _shape(dim, g, y)
    if shape is None or deviation.dtype != g.dtype or deviation.size != shape.rows:
        return _standardize_gradient(g, y, deviation, dim=dim)
    return _laid_out_as(g, _run("StandardizeGradient", shape, g, y, other=np.ascontiguousarray(deviation)))


for _call, _passes in (
    (exponentials, _exponentials),
    (standardize, _standardize),
    (standardize_gradient, _standardize_gradient),
):
    _declared(_call, _passes)
