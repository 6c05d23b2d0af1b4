"""Samples and references of `ops/reductions/medians.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.gradients import kept_shape

from ..indexing.sorting import distinct_matrix, rank_reference, rank_samples
from ..samples import Sample, between, sample
from ..table import declare


def _median_of_all(input: np.ndarray, ignore_nan: bool = False) -> Any:
    values = input[~np.isnan(input)] if ignore_nan else input.reshape(-1)
    return _median_reference(values, 0)[0] if values.size else np.array(math.nan)


def _median_reference(input: np.ndarray, dim: int, keepdim: bool = False, ignore_nan: bool = False) -> Any:
    if not ignore_nan:
        return rank_reference(input, (np.atleast_1d(input).shape[dim] + 1) // 2, dim, keepdim)
    rows = np.moveaxis(np.atleast_1d(input), dim, -1)
    values, places = np.full(rows.shape[:-1], math.nan), np.zeros(rows.shape[:-1], np.int64)
    for place in np.ndindex(values.shape):
        if (known := np.sort(rows[place][~np.isnan(rows[place])])).size:
            values[place] = known[(known.size - 1) // 2]
            places[place] = np.flatnonzero(rows[place] == values[place])[0]
    shape = kept_shape(input.shape, dim) if keepdim else values.shape
    return values.reshape(shape), places.reshape(shape)


def _along_samples() -> Iterator[Sample]:
    for call in rank_samples():
        yield sample(call.args[0], *call.args[2:] or (-1,))


def _with_nan() -> np.ndarray:
    """Distinct values and two NaN, in different rows and columns."""
    x = between(1, 30, 4, 5)
    x[0, 1] = x[2, 3] = math.nan
    return x


declare(
    "median_along",
    _median_reference,
    lambda: iter(
        [*_along_samples(), sample(_with_nan(), 0, True, True), sample(_with_nan()[:, 1:], 1, ignore_nan=True)]
    ),
)
declare(
    "median_of_all",
    _median_of_all,
    lambda: iter(
        [
            sample(between(-2, 2, 3, 4)),
            sample(between(1, 30, 5)),
            sample(distinct_matrix()),
            sample(between(-2, 2)),
            sample(between(-2, 2, 0)),
            sample(_with_nan(), True),
        ]
    ),
)
declare(
    "median",
    lambda input, dim=None, keepdim=False: (
        _median_of_all(input) if dim is None else _median_reference(input, dim, keepdim)
    ),
    lambda: (sample(call.args[0], *call.args[2:]) for call in rank_samples()),
)
declare(
    "nanmedian",
    lambda input, dim=None, keepdim=False: (
        _median_of_all(input, True) if dim is None else _median_reference(input, dim, keepdim, True)
    ),
    lambda: iter(
        [
            *(sample(call.args[0], *call.args[2:]) for call in rank_samples()),
            sample(np.array([math.nan, 3.0, 1.0, 2.0])),
            sample(np.array([[math.nan, 3.0, 1.0], [4.0, 5.0, 6.0]]), 1, True),
        ]
    ),
)


def _mode_reference(input: np.ndarray, dim: int = -1, keepdim: bool = False) -> Any:
    """Count each value, and return the most frequent one with its last position."""
    rows = np.moveaxis(np.atleast_1d(input), dim, -1)
    values, places = np.zeros(rows.shape[:-1], input.dtype), np.zeros(rows.shape[:-1], np.int64)
    for place in np.ndindex(values.shape):
        row = list(rows[place])
        values[place] = max(sorted(set(row)), key=row.count)
        places[place] = len(row) - 1 - row[::-1].index(values[place])
    shape = kept_shape(input.shape, dim) if keepdim else values.shape
    return values.reshape(shape), places.reshape(shape)


def _mode_samples() -> Iterator[Sample]:
    yield sample(np.array([[3, 1, 3, 1, 0], [2, 2, 5, 5, 5]]))
    yield sample(np.array([[3, 1, 3, 1, 0], [3, 2, 5, 1, 5]]), 0, True)
    yield sample(between(1, 30, 3, 4), 1)
    yield sample(distinct_matrix(), 0)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0, 3))


declare("mode", _mode_reference, _mode_samples)
