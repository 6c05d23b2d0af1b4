"""Samples and references of `ops/reductions/statistics.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.reductions.statistics import _INTERPOLATIONS

from ..samples import Sample, between, sample
from ..table import declare


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
