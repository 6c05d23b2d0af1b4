"""Sums at places: rows of values added to rows of an array, of which each may be named any number of times."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import threading
from .gemm.workspace import address_of
from .kinds import NUMBERS

__all__ = ["add_rows", "takes"]

_LEAST = 1 << 11
"""Values from which loops are worth calling: `numpy.add.at` takes 8 ns for each."""


def takes(rows: np.ndarray, values: np.ndarray) -> bool:
    """Whether `add_rows` does it: many values, of one of its types or of complex numbers of them."""
    known = values.size >= _LEAST and rows.dtype is values.dtype and rows.flags.writeable
    return bool(known and rows.real.dtype in NUMBERS)


def add_rows(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """rows[index[k]] += values[k] for every k, in that order, whatever the number of threads: each takes columns.

    rows: (count, ...); index: (k) integers from 0 to count - 1; values: (k, ...). Index and values may share the memory
    of rows. Raises IndexError for an index out of range, and ValueError for values of another number.
    """
    index = np.array(index, np.int64)  # of its own, which nobody can change after it has been checked
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < len(rows):
        wrong = index[(index < 0) | (index >= len(rows))][0]
        raise IndexError(f"index {wrong} is out of bounds for dimension 0 with size {len(rows)}")
    if values.shape != (index.size, *rows.shape[1:]):
        raise ValueError(f"values have shape {values.shape}; expected {(index.size, *rows.shape[1:])}")
    target = np.ascontiguousarray(rows)  # rows themselves, where they lie in order
    values = values.copy() if np.may_share_memory(target, values) else np.ascontiguousarray(values)
    real, width = target.real.dtype, math.prod(rows.shape[1:]) * (2 if rows.dtype.kind == "c" else 1)
    places = address_of(target), address_of(index), address_of(values)
    _loops().add_rows(*threading.pool(), *places, index.size, width, NUMBERS[real], real.itemsize)
    if target is not rows:
        rows[...] = target


@functools.cache
def _loops() -> Any:
    from . import accumulate_loops

    return accumulate_loops
