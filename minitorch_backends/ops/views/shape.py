"""Other shapes of the same memory: reshape, expand, transpose and their kin.

All are views where NumPy can make them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.views import shares_memory
from ...dispatch.op import Array, Forms, composite, op
from ...kernels.arrays.elementwise import LARGE, in_order
from ...kernels.runtime.shapes import strided_view
from ...tensor.call_errors import install
from ...tensor.dtypes import to_dtype
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..dims import shape_of, wrap_dim, wrap_dims

__all__ = ["flatten", "ravel", "reshape", "squeeze", "unflatten", "unsqueeze"]


def resolve_size(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """`shape` with its -1 filled in for `size` elements. Raises RuntimeError where they do not fit."""
    for position, each in enumerate(shape):
        if each < -1:
            raise RuntimeError(
                f"invalid shape dimension {each} at index {position} of shape {list(shape)}; sizes are at least 0, "
                "or -1 once"
            )
    known = math.prod(each for each in shape if each != -1)
    unknown = shape.count(-1)
    if unknown > 1:
        raise RuntimeError(f"only one dimension can be inferred, and shape {list(shape)} has {unknown} sizes of -1")
    if unknown and known == 0 and size == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous; write the size out"
        )
    if (known == 0 or size % known) if unknown else known != size:
        raise RuntimeError(
            f"shape '{list(shape)}' is invalid for input of size {size}; the sizes' product must be {size}"
        )
    return tuple(size // known if each == -1 else each for each in shape)


@op(
    input=lambda g, input_shape: reshape(g, input_shape),
    traits="view unwidened",
    forms=Forms(variadic="shape"),
    batch="reshape",
)
def reshape(input: Array, shape: Any) -> Array:
    """The elements in row-major order in another shape; one size may be -1. A view if the strides allow it, otherwise a
    copy.

    Raises RuntimeError for a shape with another number of elements.
    """
    try:
        if not shape or min(shape) >= -1:
            return _in_shape(input, shape)
    except ValueError:
        pass
    except TypeError:
        shape = shape_of(shape)
    return _in_shape(input, resolve_size(shape, input.size))


def _in_shape(array: np.ndarray, shape: Any) -> np.ndarray:
    if array.size < LARGE or array.flags.c_contiguous:
        return array.reshape(shape)
    try:
        return array.reshape(shape, copy=False)
    except ValueError:  # a view cannot have it
        return in_order(array).reshape(shape)


def _view(input: Tensor, *shape: Any) -> Tensor:
    """The same memory in another shape, or, given a dtype, its bytes read as another type (without gradients).

    Raises RuntimeError when the strides do not allow it without a copy; `reshape` copies then.
    """
    if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list, np.integer)):
        return _reinterpret(input, shape[0])
    array, sizes = input._array, shape_of(shape)
    if (
        not array.flags.c_contiguous
        and not shares_memory(array.reshape(resolve_size(sizes, array.size)), array)
        and array.size
    ):
        raise RuntimeError(
            f"view size {list(sizes)} is not compatible with input tensor's size {list(array.shape)} and stride "
            f"{list(input.stride())}: "
            "at least one dimension spans across two contiguous subspaces; use .reshape(...) instead"
        )
    return reshape(input, sizes)


def _reinterpret(input: Tensor, dtype: Any) -> Tensor:
    wanted = to_dtype(dtype)
    try:
        array = input._array.view(wanted.dtype)
    except ValueError as error:
        raise RuntimeError(
            "self.size(-1) must be divisible by the ratio of the element sizes and self.stride(-1) must be 1 to "
            f"view {input.dtype!r}"
            f"{list(input.shape)} as {wanted!r} ({error}); use .contiguous() first, or .to(dtype) to convert values"
        ) from None
    if input._cell is None:
        input._cell = [0]
    tensor = adopt(array)
    tensor._cell = input._cell
    return tensor


view = composite(name="view", aliases={"size": "shape", "dtype": "shape"})(_view)


def _refuse_expansion(shape: tuple[int, ...], size: tuple[int, ...]) -> None:
    """Raise the error that explains why a tensor of `shape` does not expand to `size`."""
    new = len(size) - len(shape)
    if new < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(size)}, {list(size)}) must be greater or equal to the "
            "number of "
            f"dimensions in the tensor ({len(shape)}, {list(shape)})"
        )
    if min(size[:new], default=0) < 0 or min(size, default=0) < -1:
        raise RuntimeError(
            f"expand: sizes {list(size)} may be -1 only for the existing dimensions of {list(shape)}, the last "
            f"{len(shape)}"
        )
    dim = next(
        dim for dim, (one, other) in enumerate(zip(size[new:], shape, strict=True), new) if -1 != one != other != 1
    )
    raise RuntimeError(
        f"The expanded size of the tensor ({size[dim]}) must match the existing size ({shape[dim - new]}) at "
        "non-singleton "
        f"dimension {dim}. Target sizes: {list(size)}. Tensor sizes: {list(shape)}"
    )


def expand_view(array: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """A writable view of `array` broadcast to `size`; -1 keeps a size.

    It is faster than np.broadcast_to, whose result is read-only. Raises RuntimeError for sizes that do not broadcast.
    """
    new = len(size) - array.ndim
    wanted, strides = list(size[:new]) if new > 0 else [], [0] * new
    if new < 0 or (new and min(wanted) < 0):
        _refuse_expansion(array.shape, size)
    for want, old, stride in zip(size[new:], array.shape, array.strides, strict=True):
        if want in (old, -1):
            wanted.append(old)
            strides.append(stride)
        elif old == 1 and want >= 0:
            wanted.append(want)
            strides.append(0)
        else:
            _refuse_expansion(array.shape, size)
    try:
        return np.ndarray(wanted, array.dtype, array, 0, strides)
    except (ValueError, TypeError, BufferError):
        addressable(wanted)
        # The memory has gaps or is read-only, or the buffer protocol does not support the dtype.
        return strided_view(array, wanted, strides)


@op(input=lambda g: g, traits="view unwidened", forms=Forms(variadic="size"), batch="expand")
def expand(input: Array, size: Any) -> Array:
    """A view with dimensions of size 1 expanded to `size` without copying; -1 keeps a size, new dimensions come
    first."""
    return expand_view(input, shape_of(size))


def _expand_as(self: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of `other`."""
    return expand(self, other._array.shape)


def _reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of `other`."""
    return reshape(self, other._array.shape)


def _view_as(self: Tensor, other: Tensor) -> Tensor:
    """`view` in the shape of `other`."""
    return view(self, other._array.shape)


install(expand_as=_expand_as, reshape_as=_reshape_as, view_as=_view_as)


@op(input=lambda g, input_shape: reshape(g, input_shape), traits="view unwidened", batch="squeeze")
def squeeze(input: Array, dim: int | Sequence[int] | None = None) -> Array:
    """A view without dimensions of size 1: all of them, or those in `dim` that have it.

    Raises IndexError for a dim out of range.
    """
    shape = input.shape
    if dim is None:
        return input.reshape([size for size in shape if size != 1])
    dims = (wrap_dim(dim, len(shape)),) if type(dim) is int else wrap_dims(dim, len(shape))
    return input.reshape([size for each, size in enumerate(shape) if size != 1 or each not in dims])


@op(input=lambda g, input_shape: reshape(g, input_shape), traits="view unwidened", batch="insert dim")
def unsqueeze(input: Array, dim: int) -> Array:
    """A view with a dimension of size 1 put in at `dim`. Raises IndexError for a dim out of range."""
    dim = wrap_dim(dim, input.ndim + 1)
    shape = input.shape
    return input.reshape((*shape[:dim], 1, *shape[dim:]))


@composite()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` as one.

    Itself when that changes nothing; a 0-dim tensor gets one dimension. Raises RuntimeError if start_dim comes after
    end_dim.
    """
    shape = input._array.shape
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError(
            f"flatten() has invalid args: start_dim cannot come after end_dim, got {start_dim} and {end_dim}"
        )
    if start == end and shape:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view of a contiguous tensor, a copy of others."""
    return reshape(input.contiguous(), (-1,) if input._array.size else (0,))


@composite()
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """Split dimension `dim` into several of the given `sizes`; one may be -1. Raises TypeError for sizes other than a
    tuple, IndexError for 0-dim tensors."""
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if not shape:
        raise IndexError(f"unflatten: dimension specified as {dim} but tensor has no dimensions; use reshape()")
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(f"unflatten(): argument 'sizes' must be a tuple of ints, not {type(sizes).__name__}")
    return reshape(input, (*shape[:dim], *resolve_size(shape_of(sizes), shape[dim]), *shape[dim + 1 :]))
