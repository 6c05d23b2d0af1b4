"""Distances and similarities of tensors and of all pairs of vectors, and vectors shortened to a norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd.half_types import product_precision, rounding_once
from ..dispatch.op import Array, composite, op
from ..kernels.arrays import distances, sums
from ..kernels.runtime.shapes import broadcast_shapes as shape_of_all
from ..tensor.dtypes import FLOATING, promote_types
from ..tensor.tensor import Tensor, adopt
from .dims import wrap_dim
from .functional import functional
from .matmul.matmul import times
from .views.broadcasting import broadcast_shapes

__all__ = ["cdist", "dist", "renorm"]

_BY_PRODUCTS = "use_mm_for_euclid_dist"
_MODES = ("use_mm_for_euclid_dist_if_necessary", _BY_PRODUCTS, "donot_use_mm_for_euclid_dist")


def _differences(x1: Any, x2: Any) -> Any:
    """Of all pairs of vectors (..., m, k) and (..., n, k): (..., m, n, k)."""
    return x1[..., :, None, :] - x2[..., None, :, :]


def _batch(*arrays: np.ndarray) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """The batches that arrays broadcast to, and each array with these as one dimension."""
    batch = shape_of_all(*(each.shape[:-2] for each in arrays))
    wide = [np.broadcast_to(each, (*batch, *each.shape[-2:])) for each in arrays]
    return batch, [each.reshape(math.prod(batch), *each.shape[-2:]) for each in wide]


def _gradient_of_weights(g: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    return (g.unsqueeze(-2) * (x1.unsqueeze(-2) - x2.unsqueeze(-3))).sum(-1)


@op(
    traits="function",
    takes="f",
    weights=_gradient_of_weights,
    x1=lambda g, weights: g * weights.sum(-1, True),
    x2=lambda g, weights: -(weights.mT @ g),
    batch="loop: operands that broadcast in pairs",
)
def weighted_differences(weights: Array, x1: Array, x2: Array) -> Array:
    """The sums over j of weights[..., i, j] * (x1[..., i, :] - x2[..., j, :]), (..., m, k)."""
    if not distances.takes(x1, x2, weights):
        return np.asarray(sums.sum(weights[..., None] * _differences(x1, x2), -2))
    batch, arrays = _batch(weights, x1, x2)
    return distances.weighted_differences(*arrays).reshape(*batch, *x1.shape[-2:])


def _toward(g: Tensor, x1: Tensor, x2: Tensor, out: Tensor) -> Tensor:
    """The gradient of x1: unit vectors from each x2, times g; 0 where the distance is."""
    apart = out >= np.finfo(out._array.dtype).tiny  # whose reciprocals are finite
    return weighted_differences((g / out.where(apart, 1)).where(apart, 0), x1, x2)


@op(
    traits="function",
    takes="f",
    x1=_toward,
    x2=lambda g, x1, x2, out: _toward(g.mT, x2, x1, out.mT),
    batch="loop: operands that broadcast in pairs",
)
def euclidean_distances(x1: Array, x2: Array) -> Array:
    """`cdist` of p = 2, without an array of all differences."""
    if not distances.takes(x1, x2):
        return np.asarray(sums.norm(_differences(x1, x2), 2, -1), x1.dtype)
    batch, arrays = _batch(x1, x2)
    return distances.distances(*arrays).reshape(*batch, x1.shape[-2], x2.shape[-2])


@composite(method=False, takes="f", product="matmul", autocast="float32")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distances between all vectors of x1 (..., m, k) and x2 (..., n, k), as (..., m, n).

    Differences are taken before squaring, which loses no digits. With p = 2 and `compute_mode` =
    "use_mm_for_euclid_dist" the squared distance is the sum of squares minus twice a matrix product, at the precision
    of the flags. This halves the time for long vectors, but the error is then relative to the squared norms. The
    gradient at distance 0 is 0.

    Raises RuntimeError for mismatched shapes and a negative p, and ValueError for unknown modes.
    """
    if x1.is_complex() or x2.is_complex() or x1.dtype.category < FLOATING:
        raise RuntimeError(f"cdist only supports floating-point dtypes, X1 got: {x1.dtype!r}, and X2 {x2.dtype!r}")
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            "cdist(): expected (..., m, k) and (..., n, k), at least two-dimensional, got shapes "
            f"{list(x1.shape)} and {list(x2.shape)}"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode is not None and compute_mode not in _MODES:
        raise ValueError(f"{compute_mode!r} is not a valid value for compute_mode; expected None or one of {_MODES}")
    if not x1.shape[-1] or (p == 2 and compute_mode != _BY_PRODUCTS):
        return euclidean_distances(x1, x2)
    if p != 2:
        return _by_differences(x1, x2, p)
    return _by_products(x1, x2, product_precision(x1))


@rounding_once
def _by_differences(x1: Tensor, x2: Tensor, p: float) -> Tensor:
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


@rounding_once
def _by_products(x1: Tensor, x2: Tensor, precision: str | None) -> Tensor:
    squares = (x1 * x1).sum(-1, True) + (x2 * x2).sum(-1).unsqueeze(-2) - 2 * times(x1, x2.mT, precision)
    apart = squares > 0
    return squares.where(apart, 1).sqrt().where(apart, 0)


@functional
@composite(method=False, takes="f", widen=True, autocast="unchanged")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows i < j, in the order of (0, 1), (0, 2), ..., (1, 2), ...

    Raises RuntimeError unless `input` is a floating matrix and p at least 0.
    """
    if input.ndim != 2 or not input.is_floating_point():
        raise RuntimeError(
            f"pdist(): input must be a floating matrix, got {input.dtype!r} of shape {list(input.shape)}"
        )
    if not p >= 0:
        raise RuntimeError(f"pdist(): p must be at least 0, got {p}")
    first, second = map(adopt, np.triu_indices(len(input), 1))
    return cdist(input, input, p)[first, second]


@composite(widen=True, takes="fc", also="i")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of all elements of input - other, which broadcast."""
    return (input - other).norm(p)


@composite(widen=True, inplace=True, takes="fc")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along `dim`, those with a p-norm above `maxnorm` scaled down to it (as torch: to norm + 1e-7).

    Raises RuntimeError for fewer than two dimensions, unless p is above 0 and maxnorm at least 0.
    """
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if not (p > 0 and maxnorm >= 0):
        raise RuntimeError(f"renorm: non-positive-norm not supported, and maxnorm at least 0; got {p=} and {maxnorm=}")
    kept = wrap_dim(dim, input.ndim)
    norm = input.norm(p, tuple(axis for axis in range(input.ndim) if axis != kept), True)
    return input.where(norm <= maxnorm, input / (norm + 1e-7) * maxnorm)


@functional
@composite(method=False, takes="f", also="bi", widen=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; lengths below `eps` count as `eps`."""
    shape, dtype = broadcast_shapes(x1.shape, x2.shape), promote_types(x1.dtype, x2.dtype)
    first, second = (each.to(dtype).expand(shape) for each in (x1, x2))
    first, second = (each / each.norm(2, dim, keepdim=True).clamp(min=eps) for each in (first, second))
    return (first * second).sum(dim)


@functional
@composite(method=False, widen=True, takes="ifc")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)
