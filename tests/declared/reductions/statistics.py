"""Samples and references of `ops/reductions/statistics.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.gradients import kept_shape
from minitorch_backends.ops.reductions.statistics import _INTERPOLATIONS
from tests.declared.indexing.sorting import distinct_matrix, rank_reference, rank_samples
from tests.declared.samples import Sample, between, sample, strided_matrix
from tests.declared.table import declare


def _quantile_samples() -> Iterator[Sample]:
    x = between(-2, 2, 3, 5)
    yield sample(x, 0.3)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, 0.75, 1)
    yield sample(x, 0.5, 0, keepdim=True)
    yield sample(between(-2, 2), 0.25)
    for interpolation in _INTERPOLATIONS:
        yield sample(x, 0.6, 1, interpolation=interpolation)


def _quantile_reference(
    input: np.ndarray, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: Any = "linear"
) -> np.ndarray:
    return np.quantile(input, q, axis=dim, keepdims=keepdim, method=interpolation)


declare("quantile", _quantile_reference, _quantile_samples)


def _nan_samples() -> Iterator[Sample]:
    yield from _quantile_samples()
    yield sample(np.where(between(-2, 2, 3, 5) > 1, np.nan, between(-2, 2, 3, 5)), 0.6, 1)


def _nan_reference(
    input: np.ndarray, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: Any = "linear"
) -> np.ndarray:
    return np.nanquantile(input, q, axis=dim, keepdims=keepdim, method=interpolation)


declare("nanquantile", _nan_reference, _nan_samples)


def _count_samples() -> Iterator[Sample]:
    yield sample(np.array([3, 1, 1, 0, 5]))
    yield sample(np.array([3, 1, 1, 0, 5]), None, 9)
    yield sample(np.zeros(0, np.int64), None, 2)


declare("bincount", lambda input, weights=None, minlength=0: np.bincount(input, weights, minlength), _count_samples)


def _histogram_reference(input: np.ndarray, bins: int = 100, min: float = 0, max: float = 0) -> np.ndarray:
    if min == max:
        min, max = (input.min(), input.max()) if input.size else (0, 0)
    if min == max:
        min, max = min - 1, max + 1
    return np.histogram(input, bins, (min, max))[0].astype(np.float64)


declare(
    "histc",
    _histogram_reference,
    lambda: iter(
        [
            sample(between(-2, 2, 3, 7), 4, -2, 2),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, 5, -1, 1.5),
            sample(between(-2, 2), 3),
            sample(between(-2, 2, 0, 3), 2),
        ]
    ),
)


def _covariance_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 5))
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T)
    yield sample(between(-2, 2, 6))
    yield sample(between(-2, 2, 3, 5), correction=0)
    yield sample(between(-2, 2, 3, 5), fweights=np.array([1, 2, 0, 1, 3]))
    yield sample(between(-2, 2), correction=0)
    yield sample(between(-2, 2, 0, 3), correction=0)


def _covariance_reference(
    input: np.ndarray, *, correction: int = 1, fweights: Any = None, aweights: Any = None
) -> np.ndarray:
    if not input.size:
        return np.zeros((0, 0), input.dtype)
    return np.cov(input, ddof=correction, fweights=fweights, aweights=aweights)


declare("cov", _covariance_reference, _covariance_samples)


def _correlation_samples() -> Iterator[Sample]:
    yield from (each for each in _covariance_samples() if not each.kwargs)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0, 3))


def _correlation_reference(input: np.ndarray) -> np.ndarray:
    if input.ndim and input.size:
        return np.corrcoef(input)
    return np.zeros((0, 0), input.dtype) if input.ndim else np.array(np.nan, input.dtype)


declare("corrcoef", _correlation_reference, _correlation_samples)


def _area_samples() -> Iterator[Sample]:
    y = between(-2, 2, 3, 5)
    yield sample(y)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, dx=0.5, dim=0)
    yield sample(y, np.sort(between(0, 3, 5, seed=1)))
    yield sample(y, np.sort(between(0, 3, 3, 5, seed=1), 0), dim=0)
    yield sample(between(-2, 2, 0, 3))
    yield sample(between(-2, 2, 3, 1))


def _area_reference(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> np.ndarray:
    return np.trapezoid(y, x, dx, dim)


declare("trapezoid", _area_reference, _area_samples)


def _running_area_reference(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> np.ndarray:
    y = np.moveaxis(y, dim, -1)
    x = np.arange(y.shape[-1]) * dx if x is None else np.asarray(x) if np.ndim(x) == 1 else np.moveaxis(x, dim, -1)
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) * np.diff(x) / 2, -1), -1, dim)


declare("cumulative_trapezoid", _running_area_reference, _area_samples)


def _points_samples() -> Iterator[Sample]:
    points, weight = between(-2, 2, 6, 2), between(0.5, 2, 6, seed=1)
    yield sample(points, (3, 2))
    yield sample(points, (2, 2), weight, (-1.0, 1.0, -2.0, 1.5), True)
    yield sample(strided_matrix(), (2, 3))
    yield sample(between(-2, 2, 0, 2), (2, 1))


def _points_reference(
    points: np.ndarray, bins: Any, weight: Any = None, range: Any = None, density: bool = False
) -> tuple[np.ndarray, ...]:
    ranges = None if range is None else [*zip(range[::2], range[1::2], strict=True)]
    hist, edges = np.histogramdd(points, bins, ranges, density, weight)
    return hist, *edges


declare("histogram_of_points", _points_reference, _points_samples)


def _histogramdd_samples() -> Iterator[Sample]:
    points, weight = between(-2, 2, 6, 2), between(0.5, 2, 6, seed=1)
    yield sample(points, 3)
    yield sample(points, (3, 2), weight=weight)
    yield sample(points.reshape(3, 2, 2), [2, 2], [-1.0, 1.0, -2.0, 1.5], weight.reshape(3, 2), True)
    yield sample(strided_matrix(), [2, 3])
    yield sample(points, [np.array([-1.5, 0.0, 1.0]), np.array([-2.0, 2.0])])
    yield sample(between(-2, 2, 0, 2), [2, 1])


def _histogramdd_reference(
    input: np.ndarray, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    dims = input.shape[-1]
    weights = None if weight is None else weight.reshape(-1)
    each = (bins,) * dims if isinstance(bins, int) else bins
    hist, *edges = _points_reference(input.reshape(-1, dims), each, weights, range, density)
    return hist, tuple(edges)


declare("histogramdd", _histogramdd_reference, _histogramdd_samples)


def _histogram_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), 5)
    yield sample(between(-2, 2, 3, 4), 4, range=(-1.0, 1.5), weight=between(0.5, 2, 3, 4, seed=1), density=True)
    yield sample(strided_matrix(), np.array([-1.0, 0.0, 0.5, 2.0]))
    yield sample(between(-2, 2), 2)
    yield sample(between(-2, 2, 0, 3), 2)


def _histogram_reference_of_histograms(
    input: np.ndarray, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    hist, edges = np.histogram(input, bins, range, density, weight)
    return hist.astype(np.float64), edges


declare("histogram", _histogram_reference_of_histograms, _histogram_samples)


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
