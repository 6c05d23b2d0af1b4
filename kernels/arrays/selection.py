"""The first few of many numbers in order, without sorting them all, and running extrema: by all threads, each with
rows of its own."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.dtypes import NUMBERS
from ..runtime.workspace import address_of, empty

_LEAST, _LEAST_SHARED = 1 << 5, 1 << 13
"""Numbers from which loops are worth loading, and a second thread is worth waking."""

_INT64 = np.dtype(np.int64)

_MOST = 64
"""Maximum number of selected elements, since each new candidate shifts those behind it."""


def takes(array: np.ndarray, count: int) -> bool:
    """Whether `leading` finds `count` elements of rows of an array."""
    return array.size >= _LEAST and 0 < count <= _MOST and array.dtype in NUMBERS


def leading(rows: np.ndarray, count: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The `count` largest, or smallest, numbers of each row in order, and their places: of equal ones the first come
    first, and NaN is larger than all numbers.

    rows: (lead, size) with size >= count. Returns two arrays (lead, count), the second of int64.
    """
    lead, size = rows.shape
    if not 0 < count <= min(size, _MOST):
        raise ValueError(f"count must be from 1 to {min(size, _MOST)}, got {count}")
    rows = np.ascontiguousarray(rows)
    alone = rows.size < _LEAST_SHARED
    allocate, pool = (np.empty, (0, 1)) if alone else (empty, threading.pool())
    values, places = allocate((lead, count), rows.dtype), allocate((lead, count), _INT64)
    _loops().lead(
        *pool, address_of(rows), address_of(values), address_of(places), lead, size, count, largest,
        NUMBERS[rows.dtype], rows.itemsize,
    )  # fmt: skip
    return values, places


def running_extrema(x: np.ndarray, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest, or smallest, number up to each one along a dimension, and the latest place where it was reached,
    int64; NaN stays. x: integers, booleans, float32 or float64."""
    if x.dtype not in NUMBERS:
        flip = np.int64(-(1 << 63)) if x.dtype == np.uint64 else np.int64(0)
        values, places = running_extrema(x.astype(_INT64) ^ flip, dim, largest)
        return (values ^ flip).astype(x.dtype), places
    x, outer, inner = np.ascontiguousarray(x), math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    values, places = np.empty(x.shape, x.dtype), np.empty(x.shape, _INT64)
    if x.size:
        pool, threads = (0, 1) if x.size < _LEAST_SHARED else threading.pool()
        addresses = address_of(x), address_of(values), address_of(places)
        sizes = outer, x.shape[dim], inner
        _loops().run_extrema(pool, threads, *addresses, *sizes, largest, NUMBERS[x.dtype], x.itemsize)
    return values, places


@functools.cache
def _loops() -> Any:
    from . import selection_loops

    return selection_loops
