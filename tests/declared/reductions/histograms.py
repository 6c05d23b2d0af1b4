"""Samples and references of `ops/reductions/histograms.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


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


def _histogram_reference(
    input: np.ndarray, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    hist, edges = np.histogram(input, bins, range, density, weight)
    return hist.astype(np.float64), edges


declare("histogram", _histogram_reference, _histogram_samples)
