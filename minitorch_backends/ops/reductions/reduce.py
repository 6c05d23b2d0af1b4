"""Sums and means, and the truth of all or of any elements, over some or all dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, composite, op
from ...kernels.arrays import sums
from ...kernels.arrays.rows import join_rows as joined_rows
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import FLOATING, dtype_of, float32, int64, to_dtype
from ...tensor.tensor import Tensor
from ..dims import shape_of
from ..elementwise.comparison import isnan
from ..gradients import axes_of, spread

__all__ = ["all", "any", "count_nonzero", "mean", "nanmean", "nansum", "sum", "sum_to_size"]


def join_elements(name: str, join: np.ufunc, array: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    """`join.reduce`, which `kernels.arrays.rows` calls `name`, by all threads where that gains."""
    found = joined_rows(name, array, axis)
    if found is None:
        return join.reduce(array, axis=axis, keepdims=keepdims)
    if axis is None:
        return found.reshape((1,) * array.ndim) if keepdims else found
    return found if keepdims else found.squeeze(axis)


def prepare_sum(array: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.dtype]:
    """The input of a sum or product, cast, and the dtype of the result: `dtype` if given, otherwise int64 for integers.

    Requested half types are summed in float32. Raises NotImplementedError for 8-bit floats.
    """
    if (wanted := dtype_of(array) if dtype is None else to_dtype(dtype)).letter in "np":
        raise NotImplementedError(f"sums are not rounded to {wanted!r}; pass dtype=mt.float32")
    if dtype is None:
        return array, int64.dtype if array.dtype.kind in "biu" else array.dtype
    if array.dtype != wanted.dtype:
        array = cast_unchecked(array, wanted.dtype)
    return array.astype(np.float32) if wanted.category == FLOATING and wanted.itemsize == 2 else array, wanted.dtype


@op(takes="bifcn", traits="row_major unwidened silent", input=spread, ufunc=sums.sum_of_all, batch="reduce")
def sum(input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The sum over `dim`, an int or several; over all dimensions by default. int64 for integers, or else of `dtype`."""
    array, result = prepare_sum(input, dtype)
    out = sums.sum(array, axes_of(dim, input.ndim), keepdim)
    return out if out.dtype == result else cast_unchecked(out, result)


# Sums to a smaller shape, on the way back through broadcasts


def _summed_to(array: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """The sum of `array` over what broadcasting added to `size`. Raises RuntimeError where it did not."""
    shape = array.shape
    if size == shape:
        return array
    new = len(shape) - len(size)
    if new >= 0 and shape[new:] == size:
        return sums.sum(array, tuple(range(new)) if size else None)
    axes = tuple(range(new)) + tuple(new + axis for axis, each in enumerate(size) if each == 1)
    if new < 0 or [1 if axis in axes else each for axis, each in enumerate(shape)][new:] != list(size):
        raise RuntimeError(
            f"size {list(size)} is not expandable to size {list(shape)}; sizes must be 1 or equal, from the last on"
        )
    return sums.sum(array, axes, True).reshape(size)


@op(
    input=lambda g, input_shape: g.expand(input_shape),
    name="sum_to_size",
    forms=Forms(variadic="size"),
    traits="function",
    batch="loop: the size of one sample",
)
def _sum_to_size(input: Array, size: Any) -> Array:
    return np.array(_summed_to(input, shape_of(size)), dtype=np.int64 if input.dtype.kind in "biu" else None)


def sum_to_size(*args: Any, **named: Any) -> Tensor:
    """`sum_to_size(input, *size)`: the sum over what broadcasting adds to `size`; the transpose of `expand`.

    The tensor itself when it has that size. Raises RuntimeError for a size that does not broadcast to the tensor's.
    """
    if len(args) > 1 and not named and isinstance(args[0], Tensor):
        input, array = args[0], args[0]._array
        size = args[1] if len(args) == 2 and type(args[1]) is tuple else shape_of(args[1:])
        if array.shape == size and (size or array.dtype.kind in "fc"):
            return input
    return _sum_to_size(*args, **named)


sum_to_size.__wrapped__ = _sum_to_size  # type: ignore[attr-defined]
_sum_to_size.op.public = sum_to_size
Tensor.sum_to_size = sum_to_size  # type: ignore[method-assign]


# Means


def count_reduced(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> int:
    """The number of elements that each result of a reduction over `axes` combines."""
    return math.prod(shape if axes is None else [shape[axis] for axis in axes])


@op(
    takes="bifcn",
    traits="row_major unwidened",
    input=lambda g, input_shape, dim: spread(
        g / count_reduced(input_shape, axes_of(dim, len(input_shape))), input_shape, dim
    ),
    ufunc=sums.mean_of_all,
    batch="reduce",
)
def mean(input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The mean over `dim`, an int or several; over all dimensions by default; NaN of nothing.

    Raises RuntimeError for integers, unless a floating `dtype` is given.
    """
    array, result = prepare_sum(input, dtype)
    if result.kind in "biu":
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {input.dtype if dtype is None else dtype}; pass dtype=mt.float32, for example"
        )
    out = sums.sum(array, axes_of(dim, input.ndim), keepdim, mean=True)
    return out if out.dtype == result else cast_unchecked(out, result)


@composite(takes="bif")
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """`sum` of the elements that are not NaN. Raises RuntimeError for complex numbers, NotImplementedError for complex
    numbers."""
    if input.is_complex():
        raise NotImplementedError(f"nansum() is not implemented for {input.dtype!r}; expected real tensors")
    return sum(input.where(~isnan(input), 0), dim, keepdim, dtype=dtype)


@composite(takes="f")
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """`mean` of the elements that are not NaN. Raises RuntimeError for other than floating types, NotImplementedError
    for other than floating types."""
    if not input.is_floating_point():
        raise NotImplementedError(f"nanmean() is not implemented for {input.dtype!r}; expected floating tensors")
    if dtype is not None and to_dtype(dtype).category < FLOATING:
        raise RuntimeError(f"nanmean(): dtype must be floating point or complex, got {dtype!r}; use mt.float32")
    wanted = input.dtype if dtype is None else to_dtype(dtype)
    total = nansum(input, dim, keepdim, dtype=float32 if wanted.itemsize == 2 else wanted)
    return (total / sum(~isnan(input), dim, keepdim)).to(wanted)


# Truth


def _truth(reduce: Any, input: np.ndarray, dim: Any, keepdim: bool) -> np.ndarray:
    """uint8 for uint8 and boolean for all other types, as in torch; an empty tuple of dims reduces none."""
    axis = () if isinstance(dim, (tuple, list)) and not dim else axes_of(dim, input.ndim)
    out = reduce(input, axis=axis, keepdims=keepdim)
    return out.astype(np.uint8) if input.dtype == np.uint8 else out


@op(takes="bifcn", traits="row_major silent", batch="reduce")
def all(input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """Whether all elements are non-zero, over `dim`, an int or several; over all dimensions by default."""
    return _truth(np.logical_and.reduce, input, dim, keepdim)


@op(takes="bifcn", traits="row_major silent", batch="reduce")
def any(input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """Whether any element is non-zero, over `dim`, an int or several; over all dimensions by default."""
    return _truth(np.logical_or.reduce, input, dim, keepdim)


@op(traits="row_major silent", batch="reduce")
def count_nonzero(input: Array, dim: int | Sequence[int] | None = None) -> Array:
    """The number of nonzero elements over `dim`, an int or several; over all dimensions by default."""
    return np.add.reduce(input != 0, axis=axes_of(dim, input.ndim), dtype=np.int64)
