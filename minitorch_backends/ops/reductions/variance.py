"""Variances and standard deviations, norms, and logsumexp, over some or all dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.arrays import sums
from ...kernels.arrays.elementwise import each
from ...kernels.arrays.elementwise.arrays import is_half
from ...kernels.arrays.rows import log_sum_exp
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import FLOATING, dtype_of, to_dtype
from ...tensor.tensor import Tensor
from ..gradients import axes_of, conjugate, restore_dims, zero
from .reduce import count_reduced, mean

__all__ = ["logsumexp", "std", "std_mean", "var", "var_mean"]


# Variances


def _centre(input: Tensor, dim: Any) -> Tensor:
    """Less the mean, twice: a small spread would show what rounding the mean leaves."""
    apart = input - mean(input, dim, True)
    return apart - mean(apart, dim, True)


def _over_freedom(times: float, shape: tuple[int, ...], dim: Any, correction: float) -> float:
    """A multiple of the reciprocal of the degrees of freedom; NaN if there are none."""
    freedom = count_reduced(shape, axes_of(dim, len(shape))) - correction
    return times / freedom if freedom > 0 else math.nan


def _variance_gradient(g: Tensor, input: Tensor, dim: Any, correction: float) -> Tensor:
    shape = input._array.shape
    return restore_dims(g, shape, dim) * _over_freedom(2, shape, dim, correction) * _centre(input, dim)


def _deviation_gradient(g: Tensor, input: Tensor, out: Tensor, dim: Any, correction: float) -> Tensor:
    """The gradient of a standard deviation: that of the root of the variance, and 0 if all elements are equal."""
    shape = input._array.shape
    spread = restore_dims(out != 0, shape, dim)
    directions = _centre(input, dim) / restore_dims(out, shape, dim).where(spread, 1)
    return restore_dims(g, shape, dim) * _over_freedom(1, shape, dim, correction) * directions


def _variance(input: np.ndarray, dim: Any, correction: float, keepdim: bool) -> np.ndarray:
    """In two passes, first the mean, then the squared distances from it; in float64."""
    axes = axes_of(dim, input.ndim)
    mean = np.asarray(sums.sum(input, axes, True, mean=True, wide=True))
    squares = sums.sum_of_squares(input, axes, keepdim, about=mean, wide=True)
    return squares / max(count_reduced(input.shape, axes) - correction, 0)


@op(traits="row_major function", input=_variance_gradient, takes="fc", batch="reduce")
def variance(input: Array, dim: int | Sequence[int] | None, correction: float, keepdim: bool) -> Array:
    """The sum of squared distances from the mean, over the number of elements less `correction`."""
    return _round_to_real(_variance(input, dim, correction, keepdim), input)


@op(traits="row_major function", input=_deviation_gradient, takes="fc", batch="reduce")
def standard_deviation(input: Array, dim: int | Sequence[int] | None, correction: float, keepdim: bool) -> Array:
    """The root of `variance`, which may leave the range of the type."""
    return _round_to_real(np.sqrt(_variance(input, dim, correction, keepdim)), input)


def _resolve_correction(dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """`dim` and the correction from torch's forms: var(dim, correction=1), var(dim, unbiased) and var(unbiased)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is None:
        return dim, 1 if correction is None else correction
    if not isinstance(unbiased, (bool, np.bool_)):
        raise TypeError(f"unbiased is True or False, got {unbiased!r}; several dimensions are given as a tuple")
    if correction is not None:
        raise TypeError(f"got both unbiased={unbiased} and correction={correction}; pass correction alone")
    return dim, int(unbiased)


@composite(takes="fc")
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variance over `dim`, an int or several; over all dimensions by default; real for complex numbers.

    The sum of squared distances from the mean is divided by the number of elements less `correction`, which is 1, or 0
    for `unbiased=False`. NaN or inf where that leaves nothing. Raises RuntimeError for integers.
    """
    return variance(input, *_resolve_correction(dim, unbiased, correction), keepdim)


@composite(takes="fc")
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The root of `var`, which has the arguments. Its gradient is 0 where all elements are equal."""
    return standard_deviation(input, *_resolve_correction(dim, unbiased, correction), keepdim)


@composite(widen=True, takes="fc", method=False)
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """`var` and `mean`."""
    dim, correction = _resolve_correction(dim, unbiased, correction)
    return variance(input, dim, correction, keepdim), mean(input, dim, keepdim)


@composite(widen=True, takes="fc", method=False)
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """`std` and `mean`."""
    dim, correction = _resolve_correction(dim, unbiased, correction)
    return standard_deviation(input, dim, correction, keepdim), mean(input, dim, keepdim)


# The logarithm of a sum of exponentials


def _log_sum_exp(input: np.ndarray, axes: Any, keepdim: bool) -> np.ndarray:
    """log(sum(exp)), with the largest term factored out, so that no exponential overflows."""
    found = None if axes is None or input.dtype.kind == "c" else log_sum_exp(input, axes)
    if found is not None:
        return found if keepdim else np.squeeze(found, axis=axes)
    peak = np.maximum.reduce(input.real, axis=axes, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0).astype(peak.dtype)
    out = each(np.log, sums.sum(each(np.exp, input - peak), axes, True)) + peak
    return out if keepdim else np.squeeze(out, axis=axes)


@op(
    traits="row_major",
    input=lambda g, input, out, dim: (
        restore_dims(g, input._array.shape, dim) * conjugate((input - restore_dims(out, input._array.shape, dim)).exp())
    ),
    promote="float",
    batch="reduce",
)
def logsumexp(input: Array, dim: int | Sequence[int], keepdim: bool = False) -> Array:
    """log(sum(exp(input))) over `dim`, an int or several, without overflow; -inf for nothing."""
    return _log_sum_exp(input, axes_of(dim, input.ndim), keepdim)


# Norms


def _order(p: Any) -> float:
    if p is None or p == "fro":
        return 2.0
    if isinstance(p, str):
        raise RuntimeError(
            f"norm() takes a number, inf, -inf or 'fro' for p, got {p!r}; norms of matrices are in linalg"
        )
    return float(p)


def _norm_gradient(g: Tensor, input: Tensor, out: Tensor, p: Any, dim: Any) -> Tensor:
    """g * sgn(input) * (|input| / out)^(p - 1), written so that zeros give 0 and ties share."""
    order, shape = _order(p), input._array.shape
    kind = dtype_of(out._array)
    input = input.to(kind.to_complex() if input.is_complex() else kind)  # the dtype of the computation
    g, out = restore_dims(g, shape, dim), restore_dims(out, shape, dim)
    if order == 0:
        return zero(g.expand(shape))
    if order == 1:
        return g * input.sgn()
    length = out.where(out != 0, 1)
    if order == 2:
        return g * (input / length)
    if math.isinf(order):
        ties = input.abs() == out
        return g * input.sgn() * ties / ties.sum(dim, True)
    ratio = (input.abs() / length).where(input != 0, 1)
    found = g * input.sgn() * ratio ** (order - 1)
    return found if order > 0 else found.masked_fill(out == 0, 0)  # with a 0, which excludes all others


@op(name=("norm_of_elements", "norm"), traits="function row_major", input=_norm_gradient, takes="fc", batch="reduce")
def norm_of_elements(
    input: Array, p: Any = "fro", dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """`norm` of vectors."""
    order, axes = _order(p), axes_of(dim, input.ndim)
    if input.dtype.kind == "c" and dtype is not None and not to_dtype(dtype).is_complex:
        raise RuntimeError(f"norm(): dtype should be complex for complex inputs, got {dtype!r}; use mt.complex128")
    if dtype is not None and to_dtype(dtype).category < FLOATING:
        raise RuntimeError(f"norm(): dtype must be floating point or complex, got {dtype!r}; use mt.float32")
    count = count_reduced(input.shape, axes)
    if not count and (order < 0 or math.isinf(order)):
        raise RuntimeError(
            f"norm() with p={p} has no value where nothing lies along {dim=} of {list(input.shape)}; use another p"
        )
    if dtype is None:
        return _norm_along(input, order, axes, keepdim, count)
    input = cast_unchecked(input, to_dtype(dtype).dtype)
    wide = cast_unchecked(input, np.dtype(np.float32)) if is_half(input.dtype) else input
    found = _norm_along(wide, order, axes, keepdim, count)
    return cast_unchecked(np.asarray(found), to_dtype(dtype).to_real().dtype)


def _norm_along(input: np.ndarray, order: float, axes: Any, keepdim: Any, count: int) -> Any:
    if order == 1 and input.dtype.kind == "f":
        return sums.sum_of_magnitudes(input, axes, keepdim)
    if count != 1 and order not in (0, 1) and not math.isinf(order):
        return _round_to_real(sums.norm(input, order, axes, keepdim), input)
    size = np.abs(input)
    if order == 0:
        return np.add.reduce(size != 0, axis=axes, keepdims=keepdim, dtype=size.dtype)
    if order == 1 or count == 1:
        return sums.sum(size, axes, keepdim)
    return (np.maximum if order > 0 else np.minimum).reduce(size, axis=axes, keepdims=keepdim)


def _round_to_real(found: Any, input: np.ndarray) -> np.ndarray:
    """A float64 number for the real type of an input."""
    return cast_unchecked(np.asarray(found), input.real.dtype)
