"""`target[indices] += values` on arrays, where indices may repeat: the adjoint of every kind of look-up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...kernels.arrays import accumulate

_MOST_DIMS = 32
"""The largest number of dimensions for `ufunc.at`: with more, NumPy 2.4 writes out of bounds."""


def selected_ndim(array: np.ndarray, arrays: tuple[Any, ...] | None) -> int:
    """The number of dimensions of `array` indexed by `arrays`."""
    given = [each.ndim for each in arrays or () if isinstance(each, np.ndarray)]
    return array.ndim - len(given) + max(given, default=0)


def apply_at(ufunc: np.ufunc, target: np.ndarray, indices: Any, values: np.ndarray) -> None:
    """`ufunc.at(target, indices, values)` for arrays of any number of dimensions.

    NumPy's own crashes the process if `target` or the indexed array has more than 32 dimensions, or `values` has more
    than the latter. Raises RuntimeError for values that do not broadcast.
    """
    given = indices if isinstance(indices, tuple) else (indices,)
    positions: Any = tuple(each if isinstance(each, slice) else np.asarray(each) for each in given)
    selected = selected_ndim(target, positions)
    extra = values.ndim - selected
    if max(target.ndim, selected) <= _MOST_DIMS and extra <= 0:
        ufunc.at(target, positions, values)
        return
    places, flat = np.arange(target.size).reshape(target.shape)[positions], target.reshape(-1)
    if extra > 0 and all(size == 1 for size in values.shape[:extra]):
        values = values.reshape(values.shape[extra:])
    if values.ndim > places.ndim:
        raise RuntimeError(f"values of shape {list(values.shape)} cannot be broadcast to {list(places.shape)}")
    ufunc.at(flat, places.reshape(-1), np.broadcast_to(values, places.shape).reshape(-1))
    target[...] = flat.reshape(target.shape)


def add_at(target: np.ndarray, indices: tuple[Any, ...], values: np.ndarray) -> None:
    """Add `values` to the elements of `target` at `indices`, as often as each is named.

    `indices` holds integer arrays that broadcast with each other, and slices of everything. Raises IndexError out of
    bounds.
    """
    dims = [dim for dim, each in enumerate(indices) if isinstance(each, np.ndarray)]
    if not dims:
        target[indices] += values
        return
    first, count = dims[0], len(dims)
    adjacent = dims[-1] - first + 1 == count
    if not adjacent or (count > 1 and not target.flags.c_contiguous):
        if _rounds(target, values.size):
            target[...] = _sums(target, indices, values)
        else:
            apply_at(np.add, target, indices, values)
        return
    sizes = target.shape[first : first + count]
    arrays = [_from_front(indices[dim], target.shape[dim], dim) for dim in dims]
    index = arrays[0] if count == 1 else flat_positions(arrays, sizes)
    lead, rest = target.shape[:first], target.shape[first + count :]
    values = np.broadcast_to(values, lead + index.shape + rest).reshape(*lead, index.size, *rest)
    rows = target if count == 1 else target.reshape(*lead, math.prod(sizes), *rest)
    add_rows(np.moveaxis(rows, first, 0), index.reshape(-1), np.moveaxis(values, first, 0))


def flat_positions(arrays: Iterable[np.ndarray], sizes: Iterable[int]) -> np.ndarray:
    """The positions, in a flattened array of these sizes, of index arrays in bounds, which broadcast with each other.

    `np.ravel_multi_index` takes at most 32 dimensions.
    """
    flat = np.zeros((), np.int64)
    for array, size in zip(arrays, sizes, strict=True):
        flat = flat * size + array
    return flat


def _from_front(index: np.ndarray, size: int, dim: int) -> np.ndarray:
    """`index` with negative positions counted from the front. Raises IndexError out of bounds."""
    if index.size == 0:
        return index
    low, high = index.min(), index.max()
    if low < -size or high >= size:
        raise IndexError(f"index {low if low < -size else high} is out of bounds for dimension {dim} with size {size}")
    return np.where(index < 0, index + size, index) if low < 0 else index


def add_rows(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Add `values[k]` to `rows[index[k]]` for every k, in that order; `index` is a vector of positions in bounds."""
    if accumulate.takes(rows, values):
        accumulate.add_rows(rows, index, values)
        return
    if not _rounds(rows, index.size):
        apply_at(np.add, rows, index, values)
    elif rows.size <= values.size:
        rows[...] = _sums(rows, index, values)
    else:
        named, places = np.unique(index, return_inverse=True)
        rows[named] = _sums(rows[named], places, values)


def _sums(rows: np.ndarray, index: Any, values: np.ndarray) -> np.ndarray:
    """The rows and their sums, in float64."""
    wide = rows.astype(np.result_type(rows, np.float64))
    apply_at(np.add, wide, index, values)
    return wide


def _rounds(target: np.ndarray, count: int) -> bool:
    """Whether adding so many numbers one after another may lose more digits than a sum should."""
    return count > accumulate.FEW and target.dtype.kind in "fc" and target.real.dtype != np.float64
