"""Reductions of arrays of any layout along some dimensions: sums and others.

Every sum of the project outside products is computed here. NumPy adds rows one after another, so a million float32
numbers along an outer dimension lose 1e-2 of their sum. Here float32 and half types are summed in float64 and rounded
once, and float64 in blocks. The order depends on shape and strides only, never on the number of threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import partial_sums
from ...runtime import threading
from ...runtime.invariance import is_demanded
from ...runtime.workspace import Workspace, address_of
from ..elementwise.arrays import is_half, readable

__all__ = ["mean_of_all", "norm", "product", "sum", "sum_of_all", "sum_of_magnitudes", "sum_of_squares"]

Axes = int | tuple[int, ...] | None

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)
_PARTS: dict[np.dtype, np.dtype] = {_FLOAT32: _FLOAT32, _FLOAT64: _FLOAT64, _COMPLEX64: _FLOAT32, _COMPLEX128: _FLOAT64}

_FEW, _FEW_IN_ALL, _FEW_IN_ORDER = 8, 256, 64
"""Limits below which NumPy is used: sequential sums with an error of at most 3 units in the last place, small arrays
where it is faster, and contiguous sums in 8 chains."""

_LEAST_SHARED = 1 << 16
"""Numbers of an array from which threads gain."""

_LEAST_ROOT = 2.0**-450
"""Norms from which squares of float64 that underflow do not count."""


def sum(x: np.ndarray, axes: Axes = None, keepdims: bool = False, mean: bool = False, wide: bool = False) -> Any:
    """The sums over some dimensions, or all, or their means. Those of integers and booleans are NumPy's.

    The results of half types are float32; with `wide`, real ones are float64, complex ones complex128. Sums that are
    not wide may be in parts (`partial_sums`).
    """
    if partial_sums.possible and not wide and x.size and x.ndim and x.dtype.kind not in "biu" and axes != ():
        how = partial_sums.of_caller()
        if how is not None:
            return partial_sums.reduce(functools.partial(_reduce, "Value"), x, axes, keepdims, mean, how)
    return _reduce("Value", x, axes, keepdims, mean, wide)


def sum_of_all(x: np.ndarray) -> Any:
    """The sum of all numbers; 0.3 us faster than `sum` for a few."""
    if x.size <= _FEW_IN_ORDER and x.flags.c_contiguous and x.dtype.itemsize > 2 and not _is_demanded():
        return np.add.reduce(x, None)
    return sum(x)


def mean_of_all(x: np.ndarray) -> Any:
    """The mean of all numbers, likewise."""
    if x.size <= _FEW_IN_ORDER and x.flags.c_contiguous and x.dtype.itemsize > 2 and not _is_demanded():
        return np.add.reduce(x, None) / x.size
    return sum(x, None, False, True)


def _is_demanded() -> bool:
    """Whether the caller demands an order of sums."""
    return partial_sums.possible or is_demanded()


def sum_of_magnitudes(x: np.ndarray, axes: Axes = None, keepdims: bool = False) -> Any:
    """The sums of the absolute values of real floating-point numbers."""
    return _reduce("Magnitude", x, axes, keepdims)


def sum_of_squares(
    x: np.ndarray, axes: Axes = None, keepdims: bool = False, *, about: np.ndarray | None = None, wide: bool = False
) -> Any:
    """The sums of the squares of floating-point numbers, of magnitudes if complex; or of their distances from `about`,
    which are float64 or complex128 and have the dimensions that are summed over with size 1."""
    if about is None:
        return _reduce("Square", x, axes, keepdims, False, wide)
    if not (x.size and readable(x.dtype)):
        return _reduce("Square", x - about, axes, keepdims, False, wide)
    if x.dtype.kind == "c":
        parts = ((x.real, about.real), (x.imag, about.imag))
        real, imaginary = (sum_of_squares(part, axes, keepdims, about=mean, wide=wide) for part, mean in parts)
        return real + imaginary
    found = _reduce("SquaredDistance", x, axes, keepdims, False, True, np.ascontiguousarray(about, _FLOAT64))
    return found if wide or x.dtype == _FLOAT64 else found.astype(_FLOAT32)


def norm(x: np.ndarray, order: float, axes: Axes = None, keepdims: bool = False) -> Any:
    """sum(|x| ** order) ** (1 / order) of floating-point numbers, in float64; `order` is finite and not 0.

    Magnitudes are divided by their largest, or by their least for a negative order, so that no power leaves the range
    of the type. Squares of float32 need no division in float64, and those of float64 only where a norm is extreme.
    """
    if order == 2:
        found = np.sqrt(sum_of_squares(x, axes, keepdims, wide=True))
        if x.real.dtype != _FLOAT64 or not found.size or (found.min() > _LEAST_ROOT and found.max() < np.inf):
            return found
    size = np.abs(x)
    extreme = np.maximum if order > 0 else np.minimum
    peak = extreme.reduce(size, axis=axes, keepdims=True, initial=0 if order > 0 else np.inf)
    peak = np.where((peak > 0) & (peak < np.inf), peak, 1).astype(size.dtype)
    found = sum((size / peak) ** order, axes, True, wide=True) ** (1 / order) * peak
    return found if keepdims else np.squeeze(found, axis=axes)


def product(x: np.ndarray, axes: Axes = None, keepdims: bool = False) -> Any:
    """The products along some dimensions, or of all; of half types in float32; of complex numbers in complex128,
    rounded once; of other types as NumPy's."""
    return _reduce("Product", x, axes, keepdims)


_JOINS: dict[str, Callable[..., Any]] = {
    "Value": np.add.reduce,
    "Magnitude": lambda x, **named: np.add.reduce(np.abs(x), **named),
    "Square": lambda x, **named: np.add.reduce(np.square(np.abs(x) if x.dtype.kind == "c" else x), **named),
    "Product": np.multiply.reduce,
}
"""What NumPy does for a few numbers, and for other types."""


def _reduce(
    name: str, x: np.ndarray, axes: Axes = None, keepdims: bool = False, mean: bool = False, wide: bool = False,
    about: np.ndarray | None = None,
) -> Any:  # fmt: skip
    if is_demanded() and x.dtype.kind not in "biu" and x.size:
        return _in_fixed_order(name, x, axes, keepdims, mean, wide, about)
    plan = _plan(name, x.shape, x.strides, x.dtype, axes, keepdims, mean, wide)
    if plan is None and is_half(x.dtype):
        return _reduce(name, x.astype(_FLOAT32), axes, keepdims, mean, wide)
    if plan is None:
        return _by_numpy(name, x, axes, keepdims, mean, wide)
    return _by_loops(plan, x, about)


def _by_loops(plan: _Plan, x: np.ndarray, about: np.ndarray | None) -> np.ndarray:
    shape, dtype, run, leaf, table, _, start, out_start, totals, alone, expanded = plan
    out = np.empty(shape, dtype)
    pool, threads = (0, 1) if alone else threading.pool()
    subtracted = 0 if about is None else address_of(about) + out_start
    places = address_of(x) + start, address_of(out) + out_start, subtracted
    if totals:
        with Workspace(totals) as memory:
            run(pool, threads, leaf, table, *places, memory)
    else:
        run(pool, threads, leaf, table, *places, 0)
    if expanded is None:
        return out
    repeated = np.empty(expanded, dtype)
    repeated[...] = out
    return repeated


def _in_fixed_order(
    name: str, x: np.ndarray, axes: Axes, keepdims: bool, mean: bool, wide: bool, about: np.ndarray | None
) -> np.ndarray:
    """The same, each result by itself, from a copy in which its numbers lie side by side: in an order that follows from
    their count."""
    if is_half(x.dtype) and not readable(x.dtype):
        x = x.astype(_FLOAT32)
    given = range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    reduced = tuple(dict.fromkeys(axis % x.ndim for axis in given if -x.ndim <= axis < x.ndim))
    if len(reduced) < len(given) or not (readable(x.dtype) and (x.dtype in _PARTS or is_half(x.dtype))):
        return _by_numpy(name, x, axes, keepdims, mean, wide)  # which says what is wrong
    if x.dtype.kind == "c" and name == "Product":
        raise RuntimeError("products of complex numbers are NumPy's, whose order backends.invariant does not allow")
    kept = tuple(axis for axis in range(x.ndim) if axis not in reduced)
    sizes = tuple(x.shape[axis] for axis in kept)
    rows = np.ascontiguousarray(x.transpose(kept + reduced)).reshape(math.prod(sizes), -1)
    found = _by_loops(_plan(name, rows.shape, rows.strides, rows.dtype, 1, False, mean, wide, True), rows, about)
    return found.reshape([1 if axis in reduced else size for axis, size in enumerate(x.shape)] if keepdims else sizes)


def _by_numpy(name: str, x: np.ndarray, axes: Axes, keepdims: bool, mean: bool, wide: bool) -> Any:
    if wide and x.dtype.kind in "fc":
        x = x.astype(_COMPLEX128 if x.dtype.kind == "c" else _FLOAT64)
    narrow = x.dtype == _COMPLEX64 and name == "Product"
    found = _JOINS[name](x.astype(_COMPLEX128) if narrow else x, axis=axes, keepdims=keepdims)
    if mean:
        return found / max(x.size // max(np.size(found), 1), 1 if x.size else 0)
    return found.astype(_COMPLEX64) if narrow else found


@functools.cache
def _leaf(name: str, dtype: np.dtype) -> int:
    from ...block.loops import leaf_address
    from ...block.sources import ELEMENTS
    from .loops import Reduction
    from .vectors import FUNCTIONS

    return leaf_address(Reduction(FUNCTIONS[name], ELEMENTS[dtype.name]))


class _Plan(NamedTuple):
    """How an array is reduced.

    Attributes:
        shape, dtype: of the result, with size 1 along expanded dimensions.
        run, leaf: the loops: `loops.run`, and the address of the compiled leaf for this dtype.
        table, words: the address of their table, and its memory.
        start, out_start: byte offsets of the first input and result.
        totals: bytes of the totals of chunks.
        alone: whether one thread suffices.
        expanded: the shape of the result, if the array is expanded along kept dimensions.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    run: Callable[..., None]
    leaf: int
    table: int
    words: np.ndarray
    start: int
    out_start: int
    totals: int
    alone: bool
    expanded: tuple[int, ...] | None


@functools.lru_cache(4096)
def _plan(
    name: str, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, axes: Axes, keepdims: bool,
    mean: bool, wide: bool, fixed: bool = False,
) -> _Plan | None:  # fmt: skip
    """The plan of a reduction; None if NumPy is as fast, or reports the error. With `fixed`, of rows whose numbers lie
    side by side, in an order that follows from their count."""
    ndim, count = len(sizes), math.prod(sizes)
    given = range(ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    reduced = {axis % ndim for axis in given if -ndim <= axis < ndim}
    each = math.prod(sizes[axis] for axis in reduced)
    in_order = each == count <= _FEW_IN_ORDER and strides == _row_major(sizes, dtype.itemsize)
    added = in_order and name != "Product"  # products are not made in chains
    few = name != "SquaredDistance" and (added or (each <= _FEW and count <= _FEW_IN_ALL))
    loops = (dtype in _PARTS or (is_half(dtype) and readable(dtype))) and not (dtype.kind == "c" and name == "Product")
    if (few and not fixed) or not loops or not count or len(reduced) != len(given):
        return None
    from .layout import Dim, layout
    from .loops import run

    element: np.dtype = _PARTS.get(dtype, dtype)
    pairs = dtype.kind == "c" and name != "Square"
    result = _FLOAT64 if wide or element == _FLOAT64 else _FLOAT32
    size, equal = result.itemsize, name != "SquaredDistance"  # results along an expanded dimension
    whole = [1 if axis in reduced else size for axis, size in enumerate(sizes)]
    kept = [1 if equal and not strides[axis] else size for axis, size in enumerate(whole)]
    outs = _row_major(tuple(kept), 2 * size if pairs else size)
    dims = [
        Dim(sizes[axis], strides[axis], 0, False) if axis in reduced else Dim(kept[axis], strides[axis], outs[axis])
        for axis in range(ndim)
    ]
    if dtype.kind == "c":
        dims.append(Dim(2, element.itemsize, size if pairs else 0, pairs))
    repeats = math.prod(dim.size for dim in dims if not (dim.stride or dim.kept)) if name != "Product" else 1
    dims = [dim for dim in dims if dim.stride or dim.kept or name == "Product"]
    laid = layout(dims, element.itemsize, size, each if mean else 1, repeats, fixed)
    shape, expanded = (
        tuple(of if keepdims else [size for axis, size in enumerate(of) if axis not in reduced]) for of in (kept, whole)
    )
    return _Plan(
        shape, (_COMPLEX128 if size == 8 else _COMPLEX64) if pairs else result, run, _leaf(name, element),
        address_of(laid.table), laid.table, laid.start, laid.out_start, 8 * laid.totals, count < _LEAST_SHARED,
        None if shape == expanded else expanded,
    )  # fmt: skip


def _row_major(sizes: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of a contiguous array."""
    return tuple(itemsize * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
