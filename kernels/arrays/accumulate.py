"""Scatter-add of rows: rows of values added to rows of an array; an index may repeat."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.dtypes import NUMBERS
from ..runtime.workspace import address_of

_LEAST = 1 << 11
"""Values from which loops are worth calling: `numpy.add.at` takes 8 ns for each."""

FEW = 8
"""Values that a row is added one after the other in float32, which loses 3 units in the last place at most. More are
added in float64 and rounded once."""

_SPARSE = 16
"""Times the indices that a table of counts may have, before they are sorted instead."""


def takes(rows: np.ndarray, values: np.ndarray) -> bool:
    """Whether `add_rows` does it: many values, of one of its types or of complex numbers of them."""
    known = values.size >= _LEAST and rows.dtype is values.dtype and rows.flags.writeable
    return bool(known and rows.real.dtype in NUMBERS)


def add_rows(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """rows[index[k]] += values[k] for every k, in that order, whatever the number of threads: each takes columns.
    Float32 rows of more than `FEW` values are added up in float64, and all of them where they are fewer than values.

    rows: (count, ...); index: (k) integers from 0 to count - 1; values: (k, ...). Index and values may share the memory
    of rows. Raises IndexError for an index out of range, and ValueError for values of another number.
    """
    index = np.array(index, np.int64)  # a private copy, which cannot change after the check
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < len(rows):
        wrong = index[(index < 0) | (index >= len(rows))][0]
        raise IndexError(f"index {wrong} is out of bounds for dimension 0 with size {len(rows)}")
    if values.shape != (index.size, *rows.shape[1:]):
        raise ValueError(f"values have shape {values.shape}; expected {(index.size, *rows.shape[1:])}")
    target = np.ascontiguousarray(rows)  # rows themselves, where they lie in order
    values = values.copy() if np.may_share_memory(target, values) else np.ascontiguousarray(values)
    if rows.real.dtype != np.float32:
        _add(target, index, values)
    elif rows.size <= values.size:
        wide = target.astype(np.result_type(rows.dtype, np.float64))
        _add(wide, index, values)
        target[...] = wide
    else:
        _add_to_some(target, index, values)
    if target is not rows:
        rows[...] = target


def _add_to_some(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Add to rows; most rows receive no value."""
    named, places = many_valued(index)
    if places is not None:
        wide = rows[named].astype(np.result_type(rows.dtype, np.float64))
        _add(wide, places, values)
        rows[named] = wide
        index = np.where(places < 0, index, -1)
    _add(rows, index, values)


def many_valued(index: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The indices that occur more than `FEW` times, and the position of each index among them (-1 for others); None if
    there are none."""
    if index.size <= FEW:
        return index[:0], None
    if index.max() < _SPARSE * index.size:
        counts = np.bincount(index)
        many = np.flatnonzero(counts > FEW)
        if not many.size:
            return many, None
        places = np.full(len(counts), -1)
        places[many] = np.arange(many.size)
        return many, places[index]
    found, inverse, counts = np.unique(index, return_inverse=True, return_counts=True)
    places = np.where(counts > FEW, np.cumsum(counts > FEW) - 1, -1)
    return found[counts > FEW], places[inverse] if counts.max() > FEW else None


def _add(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Add to contiguous rows, which may have more digits than the values; nothing at -1."""
    width = math.prod(rows.shape[1:]) * (2 if rows.dtype.kind == "c" else 1)
    places = address_of(rows), address_of(index), address_of(values)
    kinds = [(NUMBERS[each.real.dtype], each.real.itemsize) for each in (rows, values)]
    _loops().add_rows(*threading.pool(), *places, index.size, width, *kinds[0], *kinds[1])


@functools.cache
def _loops() -> Any:
    from . import accumulate_loops

    return accumulate_loops
