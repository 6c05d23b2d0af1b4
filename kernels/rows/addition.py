"""Sums of many rows that lie one after the other, whose rounding errors grow slowly."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["summed_first", "summed_over"]

_LONG, _FOLDS, _BLOCK = 128, 16, 64
"""Rows from which they are not added one after the other, how many are at a time, and in arrays with gaps."""


def summed_first(x: np.ndarray) -> np.ndarray:
    """The sums over the first dimension, with rounding errors that grow with the logarithm of its size.

    NumPy adds rows one after the other: a million rows of 0.1 in float32 lose 1e-2 of the sum. Here a sixteenth of them
    is added to the next one, and so on down to a few: they lose 4e-7, and rows of few numbers are added in long loops.
    """
    count = len(x)
    if count < _LONG or not x.size:
        return np.asarray(np.add.reduce(x, axis=0))
    if not x.flags.c_contiguous:
        blocks = (x[first : first + _BLOCK] for first in range(0, count, _BLOCK))
        return summed_first(np.stack([np.add.reduce(each, axis=0) for each in blocks]))
    whole = count // _FOLDS * _FOLDS
    folded = np.add.reduce(x[:whole].reshape(_FOLDS, whole // _FOLDS, *x.shape[1:]), axis=0)
    found = summed_first(folded)
    return found if whole == count else found + np.add.reduce(x[whole:], axis=0)


def summed_over(x: np.ndarray, dims: int | tuple[int, ...]) -> np.ndarray:
    """The sums over several dimensions, which are kept with size 1."""
    given = dims if isinstance(dims, tuple) else (dims,)
    count = len(given)
    first = 0 < count < x.ndim and {dim % x.ndim for dim in given} == set(range(count))
    if not first or not x.flags.c_contiguous:
        return np.add.reduce(x, dims, keepdims=True)
    rows = x.reshape(math.prod(x.shape[:count]), *x.shape[count:])
    return summed_first(rows).reshape((1,) * count + x.shape[count:])
