"""`target[indices] += values` on arrays, where indices may repeat: the adjoint of every kind of look-up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import accumulate

__all__ = ["add_at", "add_rows"]


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
            np.add.at(target, indices, values)
        return
    sizes = target.shape[first : first + count]
    arrays = [_from_front(indices[dim], target.shape[dim], dim) for dim in dims]
    index = arrays[0] if count == 1 else np.ravel_multi_index(np.broadcast_arrays(*arrays), sizes)
    lead, rest = target.shape[:first], target.shape[first + count :]
    values = np.broadcast_to(values, lead + index.shape + rest).reshape(*lead, index.size, *rest)
    rows = target if count == 1 else target.reshape(*lead, math.prod(sizes), *rest)
    add_rows(np.moveaxis(rows, first, 0), index.reshape(-1), np.moveaxis(values, first, 0))


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
        np.add.at(rows, index, values)
    elif rows.size <= values.size:
        rows[...] = _sums(rows, index, values)
    else:
        named, places = np.unique(index, return_inverse=True)
        rows[named] = _sums(rows[named], places, values)


def _sums(rows: np.ndarray, index: Any, values: np.ndarray) -> np.ndarray:
    """The rows and what is added to them, in float64."""
    wide = rows.astype(np.result_type(rows, np.float64))
    np.add.at(wide, index, values)
    return wide


def _rounds(target: np.ndarray, count: int) -> bool:
    """Whether so many numbers, added one after the other, may lose more digits than a sum of theirs should."""
    return count > accumulate.FEW and target.dtype.kind in "fc" and target.real.dtype != np.float64
