"""Running sums, products and extrema along one dimension, and the product of all elements, which needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.arrays import sums
from ...kernels.arrays.elementwise.arrays import is_half
from ...kernels.arrays.rows import running_products, running_sums
from ...kernels.arrays.selection import running_extrema
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import FLOATING, bool_, complex128, float32, float64, get_default_dtype
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dim, wrap_dims
from ..elementwise.exponential import logaddexp
from ..gradients import conjugate, restore_dims
from ..indexing.sorting import ValuesIndices
from ..views.join import cat
from .reduce import prepare_sum

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "diff", "gradient", "logcumsumexp", "prod"]

_FLOAT32 = np.dtype(np.float32)


# Sums


@op(
    takes="bifcn",
    traits="row_major unwidened inplace",
    input=lambda g, dim: g.flip(dim).cumsum(dim).flip(dim),
    batch="along",
)
def cumsum(input: Array, dim: int, *, dtype: Any = None) -> Array:
    """Cumulative sums along `dim`, accumulated in float64 for floating dtypes. Integers give int64 unless `dtype` is
    given."""
    array, result = prepare_sum(input, dtype)
    axis, rows = wrap_dim(dim, input.ndim), np.atleast_1d(array)
    found = running_sums(rows, axis)
    if found is None:
        rows = cast_unchecked(rows, _FLOAT32) if is_half(rows.dtype) else rows
        found = np.add.accumulate(
            rows, axis=axis, dtype=np.result_type(rows, np.float64) if rows.dtype.kind in "fc" else None
        )
    return (found if found.dtype == result else cast_unchecked(found, result)).reshape(input.shape)


# Products. Their gradients never divide by an element, so zeros need no special case.


@op(input=lambda g, dim, by: shift(g, dim, -by), traits="function unwidened silent", batch="along")
def shift(input: Array, dim: int, by: int, fill: Any = 0) -> Array:
    """The elements moved along `dim` by one place, up (`by` 1) or down (-1), with `fill` in the place that is left."""
    array, axis = np.atleast_1d(input), wrap_dim(dim, input.ndim)
    out = np.full_like(array, fill)
    source, target = np.moveaxis(array, axis, 0), np.moveaxis(out, axis, 0)
    if by == 1:
        target[1:] = source[:-1]
    else:
        target[:-1] = source[1:]
    return out.reshape(input.shape)


def _factors_gradient(g: Tensor, factors: Tensor, out: Tensor, dim: int, reverse: bool) -> Tensor:
    carried = linear_recurrence(conjugate(factors), g, dim, not reverse)
    return shift(carried, dim, 1) * conjugate(out) if reverse else carried * conjugate(shift(out, dim, 1))


@op(
    factors=_factors_gradient,
    input=lambda g, factors, dim, reverse: linear_recurrence(conjugate(factors), g, dim, not reverse),
    traits="function",
    takes="fc",
    batch="along",
)
def linear_recurrence(factors: Array, input: Array, dim: int, reverse: bool = False) -> Array:
    """out[k] = input[k] + factors[k] * out[k-1] along `dim`; in reverse, out[k] = input[k] + factors[k+1] * out[k+1].

    The two are each other's transposes. Computed by doubling, in log2(size) vectorised steps: Hillis and Steele, "Data
    parallel algorithms", CACM 29 (1986).
    """
    axis = wrap_dim(dim, input.ndim)
    rates, values = (np.moveaxis(np.atleast_1d(each), axis, 0) for each in (factors, input))
    if reverse:
        rates, values = np.concatenate([rates[:1], rates[:0:-1]]), values[::-1]
    rates, values = np.array(rates), np.array(values)
    step = 1
    while step < len(values):
        values[step:] += rates[step:] * values[:-step]
        rates[step:] *= rates[:-step]
        step *= 2
    return np.moveaxis(values[::-1] if reverse else values, 0, axis).reshape(input.shape)


def _product_with_overflow(a: Tensor, b: Tensor) -> Tensor:
    """a * b for products of elements; 0 if one factor is 0 and the other has overflowed although all elements are
    finite.

    The gradient of an overflowed factor is 0 too.
    """
    pairs = ((a, b), (b, a))
    masks = [np.isinf(one._array) & (other._array == 0) for one, other in pairs]
    if not (masks[0].any() or masks[1].any()):
        return a * b
    first, second = (one.masked_fill(adopt(mask), 0) for (one, _), mask in zip(pairs, masks, strict=True))
    return first * second


def _with_range(input: Tensor) -> Tensor:
    """Cast float32 to float64, so that a product that fits float32 does not overflow midway."""
    return input.double() if input.dtype is float32 else input


def _products(x: Tensor, dim: int) -> Tensor:
    """`cumprod`, which is 0 from the first zero on also where the products before it have overflowed."""
    found = cumprod(x, dim)
    if not (np.isnan(found._array).any() and np.isfinite(x._array).all()):
        return found
    return found.masked_fill(found.isnan(), 0)


def _cumprod_gradient(g: Tensor, input: Tensor, dim: int) -> Tensor:
    x = conjugate(_with_range(input))
    before = _products(shift(x, dim, 1, 1), dim)
    return _product_with_overflow(before, linear_recurrence(x, g, dim, True))


@op(traits="row_major inplace", input=_cumprod_gradient, batch="along")
def cumprod(input: Array, dim: int, *, dtype: Any = None) -> Array:
    """Cumulative products along `dim`, accumulated in float64 for floating dtypes. Integers give int64 unless `dtype`
    is given."""
    array, result = prepare_sum(input, dtype)
    axis, rows = wrap_dim(dim, input.ndim), np.atleast_1d(array)
    found = running_products(rows, axis)
    if found is None:
        if array.dtype.kind in "fc":
            rows = rows.astype(np.result_type(rows, np.float64))  # which is faster than to accumulate in it
        found = np.multiply.accumulate(rows, axis=axis)
    return (found if found.dtype == result else cast_unchecked(found, result)).reshape(input.shape)


def _others(input: Tensor, dim: int) -> Tensor:
    """For each element the product of all others along `dim`: of those before it and those after it."""
    x = _with_range(input)
    before = _products(shift(x, dim, 1, 1), dim)
    after = _products(shift(x, dim, -1, 1).flip(dim), dim).flip(dim)
    return _product_with_overflow(before, after)


def _prod_gradient(g: Tensor, input: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        return g * conjugate(_others(input.reshape(-1), 0).reshape(input._array.shape))
    return restore_dims(g, input._array.shape, dim) * conjugate(_others(input, dim))


@op(traits="row_major", input=_prod_gradient, autocast="float32", batch="along")
def prod(input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The product of all elements, or along `dim`. Integers give int64 unless `dtype` is given."""
    array, result = prepare_sum(input, dtype)
    axis: Any = None if dim is None else wrap_dim(dim, input.ndim)
    axis = axis if input.ndim else ()
    return np.asarray(sums.product(array, axis, keepdim)).astype(result, copy=False)


# Logarithms of sums


def _log_cum_sum_exp(array: np.ndarray, axis: int) -> np.ndarray:
    """In float64, as each sum takes over the error of the one before; for complex numbers by doubling, as in
    `linear_recurrence`."""
    if array.dtype.kind != "c":
        return cast_unchecked(np.logaddexp.accumulate(array, axis=axis, dtype=np.float64), array.dtype)
    terms = np.moveaxis(array, axis, 0).astype(np.complex128)
    values, step = terms.copy(), 1
    while step < len(values):
        values[step:] = logaddexp.op.forward(values[step:], values[:-step])
        step *= 2
    return np.moveaxis(_follow_phases(terms, values), 0, axis).astype(array.dtype)


def _follow_phases(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Choose the multiples of 2 pi of logarithms of running sums as sums one by one do: each phase is within half a
    turn of that of the larger of the term and the sum before."""
    if len(values) < 2:
        return values
    turn, phases = 2 * np.pi, values.imag.copy()
    with np.errstate(invalid="ignore"):
        starts = np.concatenate([np.ones((1, *terms.shape[1:]), bool), terms.real[1:] > values.real[:-1]])
        last = np.maximum.accumulate(np.where(starts, np.arange(len(terms)).reshape(-1, *[1] * (terms.ndim - 1)), 0))
        steps = phases - np.where(starts, terms.imag, np.concatenate([phases[:1], phases[:-1]]))
        steps -= turn * np.rint(steps / turn)
        sums = np.cumsum(np.where(starts, 0, steps), 0)
        followed = np.take_along_axis(terms.imag + steps - sums, last, 0) + sums
        phases += turn * np.rint((followed - phases) / turn)
    values.imag = np.where(np.isfinite(phases), phases, values.imag)
    return values


def _log_cum_sum_exp_gradient(g: Tensor, input: Tensor, out: Tensor, dim: int) -> Tensor:
    """exp(input - out) times the sum of g * exp(out - later out), whose ratios are at most 1: nothing overflows. In
    float64, since a sum takes over the errors of all ratios before."""
    kind, wide = g.dtype, complex128 if out.is_complex() else float64
    g, input, out = g.to(wide), input.to(wide), out.to(wide)
    base = out.where(out != -math.inf, 0)  # a sum of nothing, in which nothing has a share
    ratios = conjugate((shift(out, dim, 1, -np.inf) - base).exp())
    return (conjugate((input - base).exp()) * linear_recurrence(ratios, g, dim, True)).to(kind)


@op(input=_log_cum_sum_exp_gradient, takes="fc", batch="along")
def logcumsumexp(input: Array, dim: int) -> Array:
    """log(cumsum(exp(input))) along `dim`, without overflow."""
    return _log_cum_sum_exp(np.atleast_1d(input), wrap_dim(dim, input.ndim)).reshape(input.shape)


# Extrema


def _running(input: np.ndarray, dim: int, largest: bool) -> ValuesIndices:
    """The running extrema and their latest positions; NaN propagates."""
    axis, array = wrap_dim(dim, input.ndim), input if input.ndim else input.reshape(1)
    values, indices = running_extrema(array, axis, largest)
    return ValuesIndices(values.reshape(input.shape), indices.reshape(input.shape))


def _scatter_gradient(g: Any, indices: Tensor, shape: tuple[int, ...], dim: int) -> Tensor:
    """The gradient of elements taken along `dim`, some of them several times."""
    return adopt(np.zeros(shape, g[0]._array.dtype)).scatter_add(dim, indices, g[0])


@op(
    input=lambda g, indices, input_shape, dim: _scatter_gradient(g, indices, input_shape, dim),
    takes="bif",
    traits="silent",
    batch="along",
)
def cummax(input: Array, dim: int) -> ValuesIndices:
    """The largest element up to each one along `dim`, and where it was last reached."""
    return _running(input, dim, True)


@op(
    input=lambda g, indices, input_shape, dim: _scatter_gradient(g, indices, input_shape, dim),
    takes="bif",
    traits="silent",
    batch="along",
)
def cummin(input: Array, dim: int) -> ValuesIndices:
    """The smallest element up to each one along `dim`, and where it was last reached."""
    return _running(input, dim, False)


@composite(widen=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The `n`-th differences of neighbours along `dim`, with `prepend` and `append` put before and after first.

    With n = 0 the input as it is. Raises RuntimeError for a negative n and for 0-dim tensors.
    """
    if not input._array.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional, got a 0-dim tensor; use reshape(1)")
    if n < 0:
        raise RuntimeError(f"diff expects n to be at least 0, got {n}")
    wrap_dim(dim, input._array.ndim)
    if n and (prepend is not None or append is not None):
        input = cat([each for each in (prepend, input, append) if each is not None], dim)
    for _ in range(min(n, input._array.shape[wrap_dim(dim, input._array.ndim)])):
        size = input._array.shape[wrap_dim(dim, input._array.ndim)]
        later, earlier = (input.narrow(dim, start, max(size - 1, 0)) for start in (min(1, size), 0))
        input = later.logical_xor(earlier) if input._array.dtype == bool else later - earlier
    return input


# Derivatives of sampled functions along dimensions, by finite differences


def _steps(spacing: Any, count: int) -> np.ndarray:
    """The distances of neighbours, from one number or from coordinates."""
    if not isinstance(spacing, Tensor) or not spacing.ndim:
        return np.full(count - 1, float(spacing))
    if spacing.shape != (count,):
        raise RuntimeError(f"gradient(): spacing must have {count} coordinates, got shape {list(spacing.shape)}")
    return np.diff(spacing._array.astype(np.float64))


def _edge(input: Tensor, dim: int, steps: Any, edge_order: int) -> Tensor:
    """The one-sided derivative at the first element: `steps` are the distances from there on."""
    first, second = input.narrow(dim, 0, 1), input.narrow(dim, 1, 1)
    if edge_order == 1:
        return (second - first) / float(steps[0])
    a, b = map(float, steps[:2])
    return (
        first * (-(2 * a + b) / (a * (a + b)))
        + second * ((a + b) / (a * b))
        - input.narrow(dim, 2, 1) * (a / (b * (a + b)))
    )


def _along(input: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    count = input.shape[dim]
    if count <= edge_order:
        raise RuntimeError(f"gradient(): dim {dim} must have at least {edge_order + 1} elements, got {count}")
    steps = _steps(spacing, count)
    left, right = (
        adopt(each.reshape(-1, *(1,) * (input.ndim - 1 - dim)).astype(input._array.real.dtype))
        for each in (steps[:-1], steps[1:])
    )
    before, here, after = (input.narrow(dim, start, max(count - 2, 0)) for start in (0, min(1, count), min(2, count)))
    inner = (after - here) / right * (left / (left + right)) + (here - before) / left * (right / (left + right))
    last = _edge(input.flip(dim), dim, -steps[::-1], edge_order)
    return cat([_edge(input, dim, steps, edge_order), inner, last], dim)


@composite(method=False, takes="ifc", widen=True)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative of a sampled function along each of `dim`, by default all: central differences of second order
    inside (of unequal steps weighted to that order: B. Fornberg, 1988), one-sided ones of `edge_order` 1 or 2 at the
    edges.

    `spacing` is the distance of neighbours, one for each dim, or a vector of coordinates for each. Raises RuntimeError
    for booleans, other edge orders, and a spacing of another length than `dim`.
    """
    if input.dtype is bool_:
        raise RuntimeError("gradient(): input must be a tensor of numbers, got mt.bool; use input.int()")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient(): edge_order must be 1 or 2, got {edge_order}")
    dims = wrap_dims(tuple(range(input.ndim)) if dim is None else dim, input.ndim)
    if not isinstance(spacing, (tuple, list)):
        spacing = [1.0 if spacing is None else spacing] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(f"gradient(): spacing must have one entry for each of {len(dims)} dims, got {len(spacing)}")
    if input.dtype.category < FLOATING:
        input = input.to(get_default_dtype())
    return tuple(_along(input, each, space, edge_order) for each, space in zip(dims, spacing, strict=True))
