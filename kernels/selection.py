"""The first few of many numbers in order, without sorting them all: by all threads, each with rows of its own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import threading
from .gemm.workspace import address_of, empty
from .kinds import NUMBERS

__all__ = ["leading", "takes"]

_LEAST = 1 << 9
"""Numbers from which loops are worth calling: a row of 512 takes NumPy 20 us."""

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
    values, places = empty((lead, count), rows.dtype), empty((lead, count), np.dtype(np.int64))
    addresses = (address_of(each) for each in (rows, values, places))
    _loops().lead(*threading.pool(), *addresses, lead, size, count, largest, NUMBERS[rows.dtype], rows.itemsize)
    return values, places


@functools.cache
def _loops() -> Any:
    from . import selection_loops

    return selection_loops
