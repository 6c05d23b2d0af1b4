"""Copies of large arrays in row-major order whose neighbours in memory are others: NumPy walks along one of the two
orders, and reads or writes a cache line for each element."""

from __future__ import annotations

import functools
import math

import numpy as np

from ...runtime import threading
from ...runtime.workspace import address_of, empty

_LEAST, _LEAST_SIDE, _LEAST_MATRIX, _MOST_MATRICES = 1 << 16, 8, 1 << 10, 1 << 14
"""Minimum elements, rows and columns of a matrix for which tiles are faster, and the largest number of matrices for
which a table of them is."""


@functools.cache
def _leaf(size: int) -> int:
    from ...block.loops import leaf_address
    from .turns import WORDS, Turn

    return leaf_address(Turn(WORDS[size]))


def in_order(x: np.ndarray) -> np.ndarray:
    """A new array with the elements of x in row-major order."""
    found = _transpose_tiles(x) if x.size >= _LEAST and not x.flags.c_contiguous else None
    return x.copy("C") if found is None else found


def _transpose_tiles(x: np.ndarray) -> np.ndarray | None:
    """That by tiles, where x has neighbours along another dimension than the last; None where it has not."""
    size = x.itemsize
    axes = [axis for axis in range(x.ndim - 1) if x.strides[axis] == size and x.shape[axis] >= _LEAST_SIDE]
    if x.shape[-1] < _LEAST_SIDE or not axes or size not in (1, 2, 4, 8):
        return None
    rows, columns = axes[-1], x.ndim - 1
    others = [axis for axis in range(x.ndim) if axis not in (rows, columns)]
    items = math.prod(x.shape[axis] for axis in others)
    if items > _MOST_MATRICES or x.shape[rows] * x.shape[columns] < _LEAST_MATRIX:
        return None
    from .turns import run

    out = empty(x.shape, x.dtype)
    places = np.array(((address_of(x),), (address_of(out),)), np.int64)
    for axis in others:
        steps = np.array((x.strides[axis], out.strides[axis]))[:, None, None] * np.arange(x.shape[axis])
        places = (places[:, :, None] + steps).reshape(2, -1)
    at_once, (pool, threads) = max(8, 64 // size), threading.pool()
    run(
        pool, threads, _leaf(size), address_of(places), items, at_once, x.shape[rows], x.shape[columns],
        out.strides[rows], x.strides[columns], size,
    )  # fmt: skip
    return out
