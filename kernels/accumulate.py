"""Sums at places: rows of values added to rows of an array, of which each may be named any number of times."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import threading
from .gemm.workspace import address_of

__all__ = ["add_rows", "takes"]

_LEAST = 1 << 11
"""Values from which loops are worth calling: `numpy.add.at` takes 8 ns for each."""

_DTYPES = {np.dtype(dtype): dtype(0) for dtype in (np.float32, np.float64, np.int64)}
"""A number by which the loops know the type."""


def takes(rows: np.ndarray, values: np.ndarray) -> bool:
    """Whether `add_rows` does it: many values, of one of its types, and rows that lie in order."""
    known = values.size >= _LEAST and rows.dtype is values.dtype and rows.dtype in _DTYPES
    return bool(known and rows.flags.c_contiguous and rows.flags.writeable)


def add_rows(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """rows[index[k]] += values[k] for every k, in that order, whatever the number of threads: each takes columns.

    rows: (count, ...); index: (k) int64, from 0 to count - 1, which is not checked; values: (k, ...).
    """
    index, values = np.ascontiguousarray(index, np.int64), np.ascontiguousarray(values)
    places = address_of(rows), address_of(index), address_of(values)
    width = math.prod(rows.shape[1:])
    _loops().add_rows(*threading.pool(), *places, index.size, width, _DTYPES[rows.dtype], rows.itemsize)


@functools.cache
def _loops() -> Any:
    from . import accumulate_loops

    return accumulate_loops
