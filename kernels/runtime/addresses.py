"""Where the matrices of a batch lie."""

from __future__ import annotations

import numpy as np

from .workspace import address_of


def addresses(x: np.ndarray, batch: tuple[int, ...], without: int = 0) -> np.ndarray:
    """The address of each matrix of x, whose leading dimensions broadcast to `batch`; only of the first ones along so
    many of its last dimensions."""
    found = np.full(1, address_of(x), np.int64)
    missing, kept = len(batch) + 2 - x.ndim, len(batch) - without
    strides, lengths = (0,) * missing + x.strides[:-2], (1,) * missing + x.shape[:-2]
    for length, own, stride in zip(batch[:kept], lengths[:kept], strides[:kept], strict=True):
        steps = np.arange(length, dtype=np.int64) * (stride if own > 1 else 0)
        found = (found[:, None] + steps).reshape(-1)
    return found
