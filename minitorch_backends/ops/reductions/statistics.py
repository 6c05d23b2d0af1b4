"""Statistics beyond means and variances: quantiles, counts, covariances, areas under curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.half_types import product_precision, rounding_once, widen
from ...dispatch.op import Array, composite, op
from ...tensor.dtypes import FLOATING, INTEGER, bool_, get_default_dtype, int64, promote_types
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..creation.from_data import array_from
from ..dims import integer, wrap_dim
from ..matmul.matmul import times

__all__ = [
    "bincount", "corrcoef", "cov", "cumulative_trapezoid", "histc", "nanquantile", "quantile", "trapezoid", "trapz",
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


@op(takes="bif", widen=False, warns=False, batch="loop: a size that depends on values")
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


@op(takes="f", warns=False, batch="loop: the elements of one sample")
def histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """The number of elements in each of `bins` equal parts of [min, max], in the input's dtype.

    If min equals max, the range of the elements is used. Elements outside, and NaN, do not count. Raises RuntimeError
    for no bins, and for a range that is not finite or ends before it begins.
    """
    bins = integer("histc", "bins", bins)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
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
