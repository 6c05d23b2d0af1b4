"""Histograms of numbers and of points. `statistics` has histc and bincount."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from operator import index as as_int
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...tensor.size import addressable
from ...tensor.tensor import Tensor
from ..gradients import no_derivative

__all__ = ["histogram", "histogramdd"]


class Histogram(NamedTuple):
    """The sum of the weights in each bin, and the edges of the bins."""

    hist: Any
    bin_edges: Any


Bins = tuple[int | np.ndarray, ...]


def _edges(values: np.ndarray, count: int, bounds: Sequence[float] | None, dim: int) -> np.ndarray:
    """The edges of equal bins over `bounds`, by default the range of the values."""
    if bounds is None:
        bounds = (values.min(), values.max()) if values.size else (0, 1)
    low, high = map(float, bounds)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histogramdd(): range of dimension {dim} must be finite, got [{low}, {high}]")
    if low > high:
        raise RuntimeError(f"histogramdd(): range of dimension {dim} must not decrease, got [{low}, {high}]")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, count + 1).astype(values.dtype)


def _bin_sums(points: np.ndarray, weight: np.ndarray | None, edges: Sequence[np.ndarray], density: bool) -> np.ndarray:
    """The weights of points (n, d) in each bin. Bins include their lower edges, the last ones both."""
    shape = tuple(each.size - 1 for each in edges)
    places = np.empty(points.shape, np.int64)
    for dim, each in enumerate(edges):
        places[:, dim] = np.searchsorted(each, points[:, dim], "right") - 1
        places[points[:, dim] == each[-1], dim] = shape[dim] - 1
    inside = ((places >= 0) & (places < shape) & ~np.isnan(points)).all(1)
    flat = np.ravel_multi_index(tuple(places[inside].T), shape)
    hist = np.bincount(flat, None if weight is None else weight[inside], math.prod(shape)).reshape(shape)
    if not density:
        return hist
    volumes = np.ones(())
    for each in edges:
        volumes = volumes[..., None] * np.diff(each.astype(np.float64))
    return hist / volumes / np.float64(hist.sum())


@op(
    points=no_derivative("histogram"),
    weight=no_derivative("histogram"),
    takes="f",
    method=False,
    called="histogramdd",
    batch="loop: the elements of one sample",
)
def histogram_of_points(
    points: Array, bins: Any, weight: Array | None = None, range: Any = None, density: bool = False
) -> tuple[np.ndarray, ...]:
    """`histogramdd` of points (n, d), for d counts of bins or arrays of edges: the histogram, and the edges of each
    dimension."""
    bounds = [None] * len(bins) if range is None else [*zip(range[::2], range[1::2], strict=True)]
    edges: list[np.ndarray] = []
    for values, each, limits in zip(points.T, bins, bounds, strict=True):
        given = isinstance(each, np.ndarray)
        edges.append(each.astype(points.dtype) if given else _edges(values, each, limits, len(edges)))
    return (_bin_sums(points, weight, edges, density).astype(points.dtype), *edges)


def _bins_of(name: str, input: Tensor, bins: Sequence[Any]) -> Bins:
    """Counts as ints and edges as arrays. Raises RuntimeError for counts below 1, and for edges other than vectors of
    the input's dtype."""
    found: list[int | np.ndarray] = []
    for dim, each in enumerate(bins):
        if not isinstance(each, Tensor):
            if isinstance(each, bool) or not hasattr(each, "__index__"):
                raise TypeError(f"{name}(): bins must be ints or Tensors, got {each!r}")
            found.append(as_int(each))
        elif each.ndim != 1 or each.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}(): bins of dimension {dim} must be a vector of the input's dtype {input.dtype!r}, got "
                f"{each.dtype!r} of shape {list(each.shape)}"
            )
        else:
            found.append(each._array)
        count = found[-1].size - 1 if isinstance(found[-1], np.ndarray) else found[-1]
        if count < 1:
            raise RuntimeError(f"{name}(): bins must be at least 1, got {count} for dimension {dim}")
    addressable([each.size if isinstance(each, np.ndarray) else each for each in found])
    return tuple(found)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(isinstance(each, numbers.Real) for each in values)


def _histogram(
    name: str, points: Tensor, bins: Sequence[Any], bounds: Any, weight: Tensor | None, density: bool
) -> tuple[Tensor, ...]:
    """Return the histogram of points (..., d). Raises RuntimeError for ranges and weights that do not fit."""
    *batch, dims = points.shape
    known = _bins_of(name, points, bins)
    if bounds is not None and not _are_numbers(bounds):
        raise TypeError(f"{name}(): range must be a sequence of numbers, got {bounds!r}")
    if bounds is not None and len(bounds) != 2 * dims:
        raise RuntimeError(f"{name}(): range must have {2 * dims} elements for {dims} dimensions, got {bounds!r}")
    if weight is not None and (list(weight.shape) != batch or weight.dtype is not points.dtype):
        raise RuntimeError(
            f"{name}(): weight must have shape {batch} and the input's dtype {points.dtype!r}, got "
            f"{weight.dtype!r} of shape {list(weight.shape)}"
        )
    weights = None if weight is None else weight.reshape(-1)
    bounds = None if bounds is None else tuple(map(float, bounds))
    return histogram_of_points(points.reshape(math.prod(batch), dims), known, weights, bounds, density)


@composite(method=False, takes="f")
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """The histogram of points (..., d) with one dimension for each of theirs, and the edges of its bins.

    `bins` is the number of bins, or one for each dimension, or a vector of increasing edges for each; `range` has the
    lowest and the highest edge of each dimension, by default those of the points. Points count by their `weight`, of
    shape (...). With `density` the integral is 1. Raises RuntimeError for bins, ranges and weights that do not fit.
    """
    if input.ndim < 2:
        raise RuntimeError(f"histogramdd(): input must have at least 2 dimensions, got shape {list(input.shape)}")
    dims = input.shape[-1]
    each = bins if isinstance(bins, (tuple, list)) else (bins,) * dims
    if len(each) != dims:
        raise RuntimeError(f"histogramdd(): bins must be given for each of {dims} dimensions, got {len(each)}")
    hist, *edges = _histogram("histogramdd", input, each, range, weight, density)
    return Histogram(hist, tuple(edges))


@composite(takes="f")
def histogram(
    input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """The number of elements in each bin, and the bin edges: `histogramdd` in one dimension.

    `bins` is the number of bins, or a vector of increasing edges, which excludes `range`. Raises TypeError for a range
    beside edges, RuntimeError for weights of another shape.
    """
    if isinstance(bins, Tensor) and range is not None:
        raise TypeError("histogram(): range must be None where bins are edges; leave it out")
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(f"histogram(): weight must have shape {list(input.shape)}, got {list(weight.shape)}")
    return Histogram(*_histogram("histogram", input.unsqueeze(-1), [bins], range, weight, density))
