"""Euclidean distances between all pairs of vectors, and the sums of differences for their gradients.

Differences are taken before squaring, so that small distances are accurate. Arrays are (batch, count, size),
contiguous, float32 or float64. No array holds all differences.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.dtypes import FLOATS
from ..runtime.shapes import expect
from ..runtime.workspace import address_of, empty
from . import sums
from .elementwise import in_order

_LEAST = 1 << 13
"""Differences from which loops are worth calling."""

_LEAST_ROOTS = {4: 2.0**-40, 8: 2.0**-450}
"""Distances from which squares that underflow do not count, by the bytes of a number."""

_PAIRS = 1 << 12
"""Pairs of vectors whose differences are held at a time."""


def takes(x: np.ndarray, y: np.ndarray, *weights: np.ndarray) -> bool:
    """Whether there are many differences, in a dtype that the loops support."""
    one_type = all(each.dtype is x.dtype for each in (y, *weights))
    return one_type and x.dtype in FLOATS and x.size * y.shape[-2] >= _LEAST


def distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(batch, m, n): the Euclidean norm of x[i] - y[j]; again by `sums.norm` where squares may leave the range of the
    type."""
    (batch, m, size), n = x.shape, y.shape[1]
    expect("y", y, (batch, n, size), x.dtype)
    out = empty((batch, m, n), x.dtype)
    x, turned = np.ascontiguousarray(x), in_order(y.transpose(0, 2, 1))
    _run("distances", (x, turned, out), batch, m, n, size)
    np.sqrt(out, out=out)
    least = _LEAST_ROOTS[out.itemsize]
    if not (out.min() > least and out.max() < np.inf):
        outside = np.flatnonzero(~((out > least) & (out < np.inf)))
        for start in range(0, len(outside), _PAIRS):
            batches, rows, columns = pairs = np.unravel_index(outside[start : start + _PAIRS], out.shape)
            out[pairs] = sums.norm(x[batches, rows] - y[batches, columns], 2, 1)
    return out


def weighted_differences(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(batch, m, size): the sums over j of weights[i, j] * (x[i] - y[j]), in float64."""
    (batch, m, size), n = x.shape, y.shape[1]
    expect("y", y, (batch, n, size), x.dtype)
    expect("weights", weights, (batch, m, n), x.dtype)
    out = empty((batch, m, size), x.dtype)
    arrays = (*map(np.ascontiguousarray, (weights, x, y)), out)
    _run("add_differences", arrays, batch, m, n, size)
    return out


def _run(name: str, arrays: tuple[np.ndarray, ...], batch: int, m: int, n: int, size: int) -> None:
    out = arrays[-1]
    addresses = map(address_of, arrays)
    getattr(_loops(), name)(*threading.pool(), *addresses, batch, m, n, size, FLOATS[out.dtype], out.itemsize)


@functools.cache
def _loops() -> Any:
    from . import distances_loops

    return distances_loops
