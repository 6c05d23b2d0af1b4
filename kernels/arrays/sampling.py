"""Images and volumes at places between their values: bilinear, nearest or bicubic, by all threads.

Images are (N, C, D, H, W), with a depth of 1 for those of two dimensions, and places (N, points, dims) of the same
dtype, float32 or float64: x, y and z, from -1 to 1. Results are (N, C, points).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.dtypes import FLOATS
from ..runtime.shapes import expect
from ..runtime.workspace import Workspace, address_of

MODES, PADDINGS = ("nearest", "bilinear", "bicubic"), ("zeros", "border", "reflection")

_PIECE, _LEAST_SHARED = 1 << 9, 1 << 13
"""Points of a task, and values of a result from which a second thread is worth waking."""


def takes(images: np.ndarray, places: np.ndarray) -> bool:
    """Whether the loops support the dtype of both."""
    return images.dtype in FLOATS and images.dtype == places.dtype


def sample(images: np.ndarray, places: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """The images at the places. A place that is NaN, or so far that its reflection is, gives NaN."""
    count, channels, *sizes = images.shape
    points, dims = places.shape[1:]
    expect("images", images, (count, channels, *sizes[-3:]), images.dtype)
    expect("places", places, (count, points, min(max(dims, 2), 3)), images.dtype)
    images, places = np.ascontiguousarray(images), np.ascontiguousarray(places)
    out = np.empty((count, channels, points), images.dtype)
    pool = threading.pool() if out.size >= _LEAST_SHARED else (0, 1)
    constants = _constants(tuple(sizes), images.dtype, align)
    loops = _loops()
    with Workspace(pool[1] * loops.SCRATCH) as memory:
        job = loops.Job(
            address_of(images), address_of(places), address_of(out), address_of(constants), memory,
            count, channels, points, dims, MODES.index(mode), PADDINGS.index(padding), _PIECE, images.itemsize,
            *sizes, images.dtype.type(1),
        )  # fmt: skip
        loops.run(*pool, job)
    return out


@functools.lru_cache(256)
def _constants(sizes: tuple[int, ...], dtype: np.dtype, align: bool) -> np.ndarray:
    """For each dimension: the factor and the summand that make an index of a place, the first mirror and the distance
    to the next one, the last index, and how far outside a place is cut off."""
    rows = []
    for size in sizes:
        middle = (size - 1) / 2
        low, span = (0.0, size - 1) if align else (-0.5, size)
        rows.append((middle if align else size / 2, middle, low, span, size - 1, -4, size + 3))
    return np.array(rows, dtype)


@functools.cache
def _loops() -> Any:
    from . import sampling_loops

    return sampling_loops
