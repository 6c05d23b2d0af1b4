"""Values along one dimension as weighted sums of others, and the transpose: by all threads.

Arrays are (lead, size, rest), contiguous, of float32 or float64. Results are made of `parts` values each: those at
`places`, int64 (parts, count), times `shares`, (parts, count), added up in this order.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.dtypes import FLOATS
from ..runtime.shapes import expect, expect_indices
from ..runtime.workspace import address_of, empty

_LEAST = 1 << 12
"""Numbers from which loops are worth calling."""

_PIECE = 1 << 13
"""Numbers of the result that a task makes, at least."""


def takes(array: np.ndarray) -> bool:
    """Whether there are many numbers, in a dtype that the loops support."""
    return array.size >= _LEAST and array.dtype in FLOATS


def resample(array: np.ndarray, places: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(lead, count, rest): number i of a row is the sum of row[places[part, i]] * shares[part, i] over the parts."""
    return _run(False, array, places.shape[1], places, shares)


def back(array: np.ndarray, size: int, places: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(lead, size, rest): the transpose, which adds array[:, i] * shares[part, i] at each place, in the order of i."""
    return _run(True, array, size, places, shares)


def _run(transposed: bool, array: np.ndarray, count: int, places: np.ndarray, shares: np.ndarray) -> np.ndarray:
    lead, size, rest = array.shape
    expect_indices("places", places, count if transposed else size)
    expect("places", places, (len(shares), size if transposed else count), np.int64)
    expect("shares", shares, places.shape, shares.dtype)
    out = empty((lead, count, rest), array.dtype)
    array, places = np.ascontiguousarray(array), np.ascontiguousarray(places)
    shares = np.ascontiguousarray(shares, array.dtype)
    addresses = (address_of(each) for each in (array, out, places, shares))
    sizes, leads = (lead, size, count, rest, len(places)), max(1, _PIECE // max(count * rest, 1))
    job = _loops().Job(transposed, *addresses, *sizes, leads, FLOATS[array.dtype], array.itemsize)
    _loops().run(*threading.pool(), job)
    return out


@functools.cache
def _loops() -> Any:
    from . import resampling_loops

    return resampling_loops
