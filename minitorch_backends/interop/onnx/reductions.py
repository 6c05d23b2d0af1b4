"""Reductions over axes, sums along an axis, and the places of the largest values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import linalg
from ...ops import names as ops
from ...ops.dims import wrap_dims
from ...ops.limits import iinfo
from ...tensor.dtypes import DType, bool_
from ...tensor.tensor import Tensor
from .table import operator


def _product(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    for axis in axes:
        x = ops.prod(x, axis, keepdim=True)
    return x if keepdim else ops.squeeze(x, tuple(axes)) if axes else x


def _of_absolute(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return ops.sum(ops.abs(x), axes, keepdim=keepdim)


def _of_squares(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return ops.sum(x * x, axes, keepdim=keepdim)


def _length(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    if not x.is_floating_point():
        return ops.sqrt(_of_squares(x.double(), axes, keepdim)).to(x.dtype)
    return linalg.vector_norm(x, 2, axes, keepdim)


def _extremum(function: Callable[..., Tensor], of_nothing: str) -> Callable[..., Tensor]:
    """amax or amin; that of no numbers is the limit of their type."""

    def extremum(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
        if not x.numel():
            shape = [size or int(axis in axes) for axis, size in enumerate(x.shape)]
            x = ops.full(shape, _limit(x.dtype, of_nothing), dtype=x.dtype)
        return function(x, axes, keepdim)

    return extremum


def _limit(dtype: DType, which: str) -> float:
    if dtype.is_floating_point:
        return -math.inf if which == "min" else math.inf
    return float(which == "max") if dtype is bool_ else getattr(iinfo(dtype), which)


def _log_of_sum(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return ops.log(ops.sum(x, axes, keepdim=keepdim))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": _of_absolute, "ReduceL2": _length, "ReduceLogSum": _log_of_sum, "ReduceLogSumExp": ops.logsumexp,
    "ReduceMax": _extremum(ops.amax, "min"), "ReduceMean": ops.mean, "ReduceMin": _extremum(ops.amin, "max"),
    "ReduceProd": _product, "ReduceSum": ops.sum, "ReduceSumSquare": _of_squares,
}  # fmt: skip


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Tensor, axes: list[int] | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        """Over the axes, or over all; they were an attribute before opset 18, of ReduceSum 13."""
        if not axes and noop_with_empty_axes:
            return x
        chosen = list(wrap_dims(axes, x.ndim)) if axes and x.ndim else list(range(x.ndim))
        return function(x, chosen, bool(keepdims)).to(x.dtype)

    return reduce


for _name, _function in _FUNCTIONS.items():
    operator(_name)(_reduction(_function))


def _extreme(function: Callable[..., Tensor], x: Tensor, axis: int, keepdims: int, last: int) -> Tensor:
    if not last:
        return function(x, axis, keepdim=bool(keepdims))
    return x.shape[axis] - 1 - function(ops.flip(x, (axis,)), axis, keepdim=bool(keepdims))


@operator("ArgMax")
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _extreme(ops.argmax, x, axis, keepdims, select_last_index)


@operator("ArgMin")
def argmin(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _extreme(ops.argmin, x, axis, keepdims, select_last_index)


@operator("CumSum")
def cumulative_sum(x: Tensor, axis: int, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Sums of all values before, and, unless `exclusive`, of the value itself; from the end with `reverse`."""
    seen = ops.flip(x, (axis,)) if reverse else x
    found = ops.cumsum(seen, axis).to(x.dtype)
    if exclusive:
        found = found - seen
    return ops.flip(found, (axis,)) if reverse else found


@operator("TopK")
def top_k(x: Tensor, k: int, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The k largest or smallest values along an axis, and their places; of equal values the first."""
    values, places = ops.sort(x, dim=axis, descending=bool(largest), stable=True)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)
