"""Reductions and running sums as the standard has them: over any axes, in its types of sums.

The axis may also be given by position, as in NumPy.
"""

from __future__ import annotations

from typing import Any

from ...ops import names as ops
from ...ops.dims import wrap_dim
from ...tensor.dtypes import INTEGER, DType, bool_, int64, uint64
from ...tensor.tensor import Tensor

__all__ = [
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum",
    "var",
]  # fmt: skip

Axes = int | tuple[int, ...] | None


def _sum_dtype(x: Tensor, dtype: Any) -> DType | None:
    """The dtype of sums: 64-bit for small integers, signed or unsigned; otherwise that of the elements."""
    if dtype is not None or x.dtype.category > INTEGER:
        return dtype
    return int64 if x.dtype.is_signed or x.dtype is bool_ else uint64


def over(x: Tensor, axis: Axes, keepdims: bool) -> tuple[Tensor, Axes, bool]:
    """The arguments of a reduction of ours: over no axis at all for (), where torch reduces all."""
    return (x[..., None], -1, False) if axis == () else (x, axis, keepdims)


def sum(x: Tensor, /, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of elements."""
    return ops.sum(*over(x, axis, keepdims), dtype=_sum_dtype(x, dtype))


def prod(x: Tensor, /, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product of elements."""
    dtype = _sum_dtype(x, dtype)
    if not isinstance(axis, tuple):
        return ops.prod(x, axis, keepdims, dtype=dtype)
    x = x if dtype is None else x.to(dtype)
    for each in sorted((wrap_dim(each, x.ndim) for each in axis), reverse=True):
        x = ops.prod(x, each, keepdims)
    return x


def cumulative_sum(
    x: Tensor, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the first elements along an axis, beginning with that of none if `include_initial`."""
    return _cumulative(ops.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: Tensor, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the first elements along an axis, beginning with that of none if `include_initial`."""
    return _cumulative(ops.cumprod, x, axis, dtype, include_initial, 1)


def _cumulative(function: Any, x: Tensor, axis: int | None, dtype: Any, include_initial: bool, first: int) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{function.__name__}(): axis must be given for an array of {x.ndim} dimensions")
    axis = 0 if axis is None else axis
    out = function(x, axis, dtype=_sum_dtype(x, dtype))
    if not include_initial:
        return out
    one = [1 if dim == axis % x.ndim else size for dim, size in enumerate(x.shape)]
    return ops.cat([ops.full(tuple(one), first, dtype=out.dtype), out], axis)


def count_nonzero(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements that are not 0."""
    return ops.sum(*over(x != 0, axis, keepdims))


def max(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest elements."""
    return ops.amax(*over(x, tuple(range(x.ndim)) if axis is None else axis, keepdims))


def min(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The smallest elements."""
    return ops.amin(*over(x, tuple(range(x.ndim)) if axis is None else axis, keepdims))


def all(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether all elements are true."""
    return ops.all(*over(x, axis, keepdims)).bool()


def any(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Whether some element is true."""
    return ops.any(*over(x, axis, keepdims)).bool()


def mean(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean of elements."""
    return ops.mean(*over(x, axis, keepdims))


def std(x: Tensor, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation of elements, with `correction` subtracted from their number."""
    x, axis, keepdims = over(x, axis, keepdims)
    return ops.std(x, axis, correction=correction, keepdim=keepdims)


def var(x: Tensor, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance of elements, with `correction` subtracted from their number."""
    x, axis, keepdims = over(x, axis, keepdims)
    return ops.var(x, axis, correction=correction, keepdim=keepdims)
