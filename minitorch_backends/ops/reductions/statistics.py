"""Statistics beyond means and variances: quantiles, counts, covariances, areas under curves."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from operator import index as as_int
from typing import Any, NamedTuple

import numpy as np

from ...autograd.half_types import product_precision, rounding_once, widen
from ...dispatch.op import Array, composite, op
from ...tensor.dtypes import FLOATING, INTEGER, bool_, get_default_dtype, int64, promote_types
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..creation.from_data import array_from
from ..dims import integer, wrap_dim
from ..gradients import kept_shape, no_derivative, shared_among_ties
from ..indexing.sorting import ValuesIndices, of_selected, select_rank, sorted_pair, take_along
from ..matmul.matmul import times

__all__ = [
    "bincount", "corrcoef", "cov", "cumulative_trapezoid", "histc", "histogram", "histogramdd", "median", "mode",
    "nanmedian", "nanquantile", "quantile", "trapezoid", "trapz",
]  # fmt: skip


# Quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, how: str, skip_nan: bool) -> Tensor:
    if input.dtype.category != FLOATING:
        raise NotImplementedError(f"{name}() is not implemented for {input.dtype!r}; expected floating tensors")
    if how not in _INTERPOLATIONS:
        raise RuntimeError(f"{name}(): interpolation must be one of {', '.join(_INTERPOLATIONS)}, got {how!r}")
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty, and its shape is {list(input.shape)}")
    parts = _parts_of(name, input, q)
    x, ndim = widen(input), input.ndim
    rows = x.reshape(-1) if dim is None or not ndim else x.movedim(wrap_dim(dim, ndim), -1)
    found = _at_ranks(rows.sort(-1).values, parts.reshape(-1), how, skip_nan).to(input.dtype)
    if keepdim and ndim:
        found = found.reshape([1] * ndim + [-1]) if dim is None else found.unsqueeze(wrap_dim(dim, ndim))
    return found.movedim(-1, 0) if parts.ndim else found.squeeze(-1)


def _parts_of(name: str, input: Tensor, q: Any) -> Tensor:
    """`q` in float64, so that ranks are exact; a tensor keeps its history."""
    if isinstance(q, Tensor) and (q.dtype is not input.dtype or q.ndim > 1):
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor, and a number or a vector; got {q.dtype!r}"
            f"{list(q.shape)} for an input of {input.dtype!r}"
        )
    parts = q.double() if isinstance(q, Tensor) else adopt(array_from(q, np.float64))
    if not ((parts._array >= 0) & (parts._array <= 1)).all():
        raise RuntimeError(f"{name}(): q must be in the range [0, 1], got {parts.tolist()}")
    return parts


def _at_ranks(rows: Tensor, parts: Tensor, how: str, skip_nan: bool) -> Tensor:
    """Of sorted rows, whose NaN are last, those of the ranks parts * (count - 1), in a last dimension."""
    missing = np.isnan(rows._array).sum(-1, keepdims=True)
    last = rows.shape[-1] - 1
    if skip_nan:
        ranks = parts * adopt(np.maximum(last - missing, 0.0))
    else:
        ranks = (parts * last).where(adopt(missing == 0), last)
    if how != "linear" and how != "midpoint":
        return rows.gather(-1, {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}[how]().long())
    below = ranks.detach().floor()
    weights = 0.5 if how == "midpoint" else (ranks - below).to(rows.dtype)
    lower, upper = (rows.gather(-1, each.long()) for each in (below, ranks.detach().ceil()))
    return lower.lerp(upper, weights)


@composite(takes="f", autocast="float32")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles (a number, or a vector, which adds a first dimension) of all elements, or along `dim`; NaN if any
    element is NaN.

    Interpolation between two elements: "linear", "lower", "higher", "midpoint", "nearest". Raises RuntimeError for q
    outside [0, 1] or of another dtype, and for empty inputs.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, skip_nan=False)


@composite(takes="f", autocast="float32")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of the elements that are not NaN, and NaN of none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, skip_nan=True)


# Counts


@op(takes="bif", traits="unwidened silent", batch="loop: a size that depends on values")
def bincount(input: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """The number of occurrences of each integer from 0 to the largest, or to `minlength` - 1, int64.

    With weights, the sums of their values, in their dtype (float64 for integers). input: a vector of non-negative
    integers. Raises RuntimeError for other inputs and for weights of another shape.
    """
    if input.ndim != 1 or input.dtype.kind not in "iu" or (input.size and input.min() < 0):
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, got {input.dtype}{list(input.shape)}"
            + (f" with {input.min()}" if input.size and input.dtype.kind in "if" else "")
        )
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    addressable((max(minlength, int(input.max()) + 1 if input.size else 0),))
    if weights is None:
        return np.bincount(input, None, minlength)
    if weights.shape != input.shape:
        raise RuntimeError(
            f"bincount: weights should have the shape {list(input.shape)} of the input, not {list(weights.shape)}"
        )
    return np.bincount(input, weights, minlength).astype(np.float32 if weights.dtype == np.float32 else np.float64)


@op(takes="f", traits="silent", batch="loop: the elements of one sample")
def histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """The number of elements in each of `bins` equal parts of [min, max], in the input's dtype.

    If min equals max, the range of the elements is used. Elements outside, and NaN, do not count. Raises RuntimeError
    for no bins, and for a range that is not finite or ends before it begins.
    """
    bins = integer("histc", "bins", bins)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
    addressable((bins,))
    low, high = float(min), float(max)
    if low == high and input.size:
        low, high = float(input.min()), float(input.max())
    if low == high:
        low, high = low - 1, high + 1
    if low == high:  # 1 is nothing beside numbers of this size
        low, high = (float(np.nextafter(low, end)) for end in (-math.inf, math.inf))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"histc: max must be larger than min, got [{low}, {high}]")
    inside = input[(input >= low) & (input <= high)].astype(np.float64)
    places = np.minimum(((inside - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    edges = np.linspace(low, high, bins + 1)  # the product may round across one
    places -= inside < edges[places]
    places += (inside >= edges[places + 1]) & (places < bins - 1)
    return np.bincount(places, None, bins).astype(input.dtype)


# Covariances


@composite(takes="ifc", product="matmul")
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix of variables, the rows of a matrix whose columns are observations; of a vector, its
    variance.

    `correction` is subtracted from the number of observations. `fweights` are the numbers of repetitions of each
    observation, `aweights` their weights. Raises RuntimeError for more than two dimensions and mismatched weights.
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got {input.ndim}")
    return _covariances(input, correction, fweights, aweights, product_precision(input))


@rounding_once
def _covariances(
    input: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None, precision: str | None
) -> Tensor:
    if input._array.dtype.kind == "b":
        raise NotImplementedError(
            f"cov() is not implemented for {input.dtype!r}; expected integer, floating, complex tensors"
        )
    input = input.to(get_default_dtype()) if input.dtype.category < FLOATING else input
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    dtype = rows.dtype.to_real()
    if aweights is not None:
        dtype = promote_types(dtype, aweights.dtype)
    weights = _of_observations(rows.shape[1], fweights, aweights).to(dtype)
    total = weights.sum()
    share = 1 if aweights is None else (weights * aweights.to(dtype)).sum() / total
    apart = rows - (rows * weights).sum(1, keepdim=True) / total
    products = times(apart * weights, apart.mH if apart.is_complex() else apart.mT, precision)
    return (products / (total - correction * share).clamp(0)).reshape(() if len(rows) == 1 else products.shape)


def _of_observations(count: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """What each observation weighs."""
    weights = adopt(np.ones(count))
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            category = INTEGER if name == "fweights" else FLOATING
            if given.shape != (count,) or given.dtype.category != category or (given < 0).any():
                kind = "integers" if category == INTEGER else "floating numbers"
                raise RuntimeError(
                    f"cov(): {name} must be {count} non-negative {kind}, got {given.dtype!r}{list(given.shape)}"
                )
            weights = weights * given
    return weights


@composite(takes="ifc", product="matmul")
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables, the rows of a matrix whose columns are observations; of a vector 1. Raises
    RuntimeError for more than two dimensions."""
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got {input.ndim}")
    return _correlations(input, product_precision(input))


@rounding_once
def _correlations(input: Tensor, precision: str | None) -> Tensor:
    c = _covariances(input, 1, None, None, precision)
    if not c.ndim:
        return c / c
    deviations = (c.diagonal().real if c.is_complex() else c.diagonal()).sqrt()
    return c / deviations.unsqueeze(1) / deviations


# Areas


def _widths(name: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int) -> tuple[Tensor, Any, int]:
    """The sums of neighbours along a dimension, their distances, and the dimension."""
    if x is not None and dx is not None:
        raise TypeError(f"{name}(): expected x or dx, got both")
    if any(each is not None and each.dtype is bool_ for each in (y, x)):
        raise NotImplementedError(
            f"{name}() is not implemented for mt.bool; expected integer, floating, complex tensors"
        )
    if not y.ndim:
        raise IndexError(f"{name}(): expected y of at least one dimension, got a 0-dim tensor; use reshape(1)")
    dim = wrap_dim(dim, y.ndim)
    size = max(y.shape[dim] - 1, 0)
    if y.dtype.category < FLOATING:  # sums of neighbours, and their differences, which a small type may not hold
        y = y.to(int64)
    if x is not None and x.dtype.category < FLOATING:
        x = x.to(int64)
    sums = y.narrow(dim, min(1, y.shape[dim]), size) + y.narrow(dim, 0, size)
    if x is None:
        return sums, 1.0 if dx is None else dx, dim
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(
                f"{name}(): There must be one `x` value for each sample point, {y.shape[dim]}, got {x.shape[0]}"
            )
        return sums, x.diff().reshape([-1 if axis == dim else 1 for axis in range(y.ndim)]), dim
    return sums, x.diff(dim=wrap_dim(dim - y.ndim, x.ndim)), dim


@composite(widen=True, takes="ifc", method=False)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoidal rule, at places x or with the step `dx`, 1 by default."""
    sums, widths, dim = _widths("trapezoid", y, x, dx, dim)
    return (sums * widths).sum(dim) / 2


trapz = trapezoid


@composite(widen=True, takes="ifc", method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The area up to each point but the first (`trapezoid`)."""
    sums, widths, dim = _widths("cumulative_trapezoid", y, x, dx, dim)
    return (sums * widths).cumsum(dim) / 2


# Histograms of numbers and of points. `statistics` has histc and bincount


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
    traits="function",
    name=("histogram_of_points", "histogramdd"),
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


# Medians and modes, of all elements or along one dimension


def _axis_of(name: str, input: np.ndarray, dim: int) -> int:
    """`dim` counted from the front. Raises IndexError for a dimension without elements."""
    axis = wrap_dim(dim, input.ndim)
    if input.ndim and not input.shape[axis]:
        raise IndexError(
            f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(input.shape)}"
        )
    return axis


def _reduced_shape(shape: tuple[int, ...], axis: int, keepdim: bool) -> tuple[int, ...]:
    return kept_shape(shape, axis) if keepdim else tuple(size for each, size in enumerate(shape) if each != axis)


# Medians


def _median_with_nan(array: np.ndarray, axis: int) -> ValuesIndices:
    """The median of the non-NaN values in each sorted row, which come first."""
    found = sorted_pair(array, axis, False)
    last = np.maximum((~np.isnan(array)).sum(axis, keepdims=True) - 1, 0) // 2
    return ValuesIndices(*(take_along(each, last, axis) for each in found))


@op(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    traits="function silent",
    takes="if",
    name=("median_along", "median"),
    batch="along",
)
def median_along(input: Array, dim: int, keepdim: bool = False, ignore_nan: bool = False) -> ValuesIndices:
    """The lower median along `dim` and its index. NaN if any element is NaN, or with `ignore_nan` if all are."""
    axis, array = _axis_of("median", input, dim), np.atleast_1d(input)
    missing = np.isnan(array) if input.dtype.kind == "f" else np.zeros((), bool)
    if ignore_nan and missing.any():
        values, indices = _median_with_nan(array, axis)
        shape = _reduced_shape(input.shape, axis, keepdim)
        return ValuesIndices(values.reshape(shape), indices.reshape(shape))
    values, indices = select_rank(array, (array.shape[axis] + 1) // 2, axis, keepdim, input.shape)
    if missing.any():
        first, unknown = (find(missing, axis=axis).reshape(indices.shape) for find in (np.argmax, np.any))
        return ValuesIndices(np.where(unknown, np.nan, values).astype(input.dtype), np.where(unknown, first, indices))
    return ValuesIndices(values, indices)


@op(
    input=lambda g, input, out: shared_among_ties(g, input, out, None),
    traits="function silent",
    takes="if",
    name=("median_of_all", "median"),
    batch="loop: the elements of one sample",
)
def median_of_all(input: Array, ignore_nan: bool = False) -> Array:
    """The lower median of all elements. NaN if any element is NaN, or if there are none; ties share the gradient.

    With `ignore_nan`, the median of the elements that are not NaN.
    """
    values = input[~np.isnan(input)] if ignore_nan and input.dtype.kind == "f" else input
    if not values.size:
        if input.dtype.kind in "iu":
            raise NotImplementedError(f"median() of no elements is not implemented for {input.dtype}; use float()")
        return np.array(math.nan, input.dtype)
    middle, last = (values.size - 1) // 2, values.size - 1
    found = np.partition(values, [middle, last], None)
    return found[last] if found[last] != found[last] else found[middle]  # NaN is the largest


@composite(takes="if")
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or along `dim` with its indices. NaN if any element is NaN."""
    return median_of_all(input) if dim is None else median_along(input, dim, keepdim)


@composite(takes="if")
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN; NaN if there are none."""
    return median_of_all(input, True) if dim is None else median_along(input, dim, keepdim, True)


# Modes


@op(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    traits="silent",
    takes="bif",
    batch="along",
)
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along `dim`, of several the smallest, and the index of its last occurrence.

    Raises IndexError for a dimension without elements.
    """
    axis = _axis_of("mode", input, dim)
    values, places = (np.moveaxis(each, axis, -1) for each in sorted_pair(np.atleast_1d(input), axis, False))
    index = np.arange(values.shape[-1])
    begins = np.ones(values.shape, bool)
    begins[..., 1:] = values[..., 1:] != values[..., :-1]
    run = index - np.maximum.accumulate(np.where(begins, index, 0), -1)  # number of equal elements before each
    last = run.argmax(-1)[..., None]
    shape = _reduced_shape(input.shape, axis, keepdim)
    return ValuesIndices(*(take_along(each, last, values.ndim - 1).reshape(shape) for each in (values, places)))
