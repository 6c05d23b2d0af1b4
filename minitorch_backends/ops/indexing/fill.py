"""Writing tensors in place: whole, by mask, on a diagonal, and by a Python function of each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.mutation import is_plain, refuse_unwritable, write_plainly
from ...dispatch.op import Array, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.elementwise import select
from ...tensor.call_errors import install
from ...tensor.casting import cast_checked, cast_unchecked, fitted_number
from ...tensor.dtypes import DType, dtype_of
from ...tensor.tensor import Tensor, adopt, kind_of, refuse_wide_integer
from ..views.broadcasting import broadcast_shapes

__all__ = ["fill", "masked_fill"]


def _filling(name: str, value: np.ndarray, dtype: DType) -> np.ndarray:
    """A fill value in the dtype of the target.

    Raises RuntimeError if it has dimensions or is out of range.
    """
    if value.ndim:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got one of shape {list(value.shape)}"
        )
    return fitted_number(value, dtype)


def _exact(value: Any, dtype: DType, index: int) -> np.ndarray:
    """The value in 64 bits, before the target's dtype is known. Larger ints become floats, which can fill floating
    tensors."""
    return np.asarray(float(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value)


def number_as(value: Any, like: Tensor, name: str, finite: bool = True) -> Tensor:
    """A Python or NumPy number as a 0-dim tensor of the dtype of `like`.

    Raises TypeError for anything else, RuntimeError for a number out of range; floating ones may become infinite unless
    `finite`.
    """
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise TypeError(f"can't assign a {kind_of(value)} to a {like.dtype!r} tensor; use mt.tensor({name})")
    refuse_wide_integer("fill", name, value)
    made = fitted_number if finite and like.dtype.letter != "n" else cast_checked
    return adopt(made(np.asarray(value), dtype_of(like._array)))


def _zeros(shape: tuple[int, ...], dtype: Any) -> Tensor:
    return adopt(np.zeros(shape, dtype))


@op(
    takes=EVERY_DTYPE,
    input=lambda input_shape, input_dtype: _zeros(input_shape, input_dtype),
    src=lambda g: g,
    traits="mutates inplace function unwidened",
    batch="write",
)
def copy(input: Array, src: Array, non_blocking: bool = False) -> None:
    """The elements of `src`, broadcast and converted to the shape and dtype of `input`. Raises RuntimeError for a shape
    that does not broadcast to it."""
    if src.shape != input.shape:
        try:
            src = np.broadcast_to(src, input.shape)
        except ValueError:
            raise RuntimeError(
                f"The expanded size of the tensor {list(input.shape)} must match the existing size {list(src.shape)} "
                "at "
                "every non-singleton dimension: the source of a copy must broadcast to the tensor that is written to"
            ) from None
    input[...] = src if src.dtype == input.dtype else cast_unchecked(src, input.dtype)


_copied = Tensor.copy_


def _copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of `other`, or a number, broadcast and converted to the shape and dtype of this tensor."""
    other = other if isinstance(other, Tensor) else number_as(other, self, "other", finite=False)
    target, source = self._array, other._array
    if source.dtype is target.dtype and source.shape == target.shape and other._node is None and is_plain(self):
        write_plainly(self, target, source)
        return self
    return _copied(self, other, non_blocking)


Tensor.copy_ = _copy_  # type: ignore[assignment, method-assign]


@op(
    takes=EVERY_DTYPE,
    input=lambda input_shape, input_dtype: _zeros(input_shape, input_dtype),
    value=lambda g: g,
    promote=("value",),
    scalar=_exact,
    traits="mutates uniform inplace function unwidened",
    batch="write",
)
def fill(input: Array, value: Array) -> None:
    """A tensor like `input` with every element equal to `value`, a number or a 0-dim tensor.

    Raises RuntimeError for a value out of the range of the dtype, as the other functions here do.
    """
    input[...] = _filling("fill_", value, dtype_of(input))


def _zero_(self: Tensor) -> Tensor:
    """Write zeros to every element of this tensor."""
    if self.dtype.letter in "np":  # the memory, as e8m0 has no zero
        return self.copy_(_zeros(self._array.shape, self._array.dtype))
    return self.fill_(0)


Tensor.zero_ = _zero_  # type: ignore[assignment, method-assign]


@op(
    takes=EVERY_DTYPE,
    traits="row_major inplace unwidened silent",
    input=lambda g, mask: masked_fill(g, mask, 0),
    value=lambda g, mask: masked_fill(g, mask.logical_not(), 0),
    promote=("value",),
    scalar=_exact,
    batch="align",
)
def masked_fill(input: Array, mask: Array, value: Array) -> Array:
    """A copy with `value`, a number or a 0-dim tensor, where `mask` is true. The two broadcast; the dtype is that of
    `input`.

    Raises RuntimeError for a mask that is not boolean, and for a value out of the range of the dtype.
    """
    if mask.dtype != bool:
        raise RuntimeError(
            f"masked_fill only supports boolean masks, but got mask with dtype {dtype_of(mask)!r}; use mask.bool()"
        )
    return select(mask, _filling("masked_fill", value, dtype_of(input)), input)


def _fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal; with `wrap` the diagonal of a tall matrix restarts below it.

    Raises RuntimeError for fewer than two dimensions, and for more than two of different sizes.
    """
    shape = self._array.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(f"fill_diagonal_(): dimensions must be 2, or more of one size, got {list(shape)}")
    rows = np.arange(min(shape))
    places = [rows] * len(shape)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        flat = np.arange(0, shape[0] * shape[1], shape[1] + 1)
        places = [flat // shape[1], flat % shape[1]]
    return self.index_put_(tuple(map(adopt, places)), adopt(np.asarray(fill_value, self._array.dtype)))


def _apply_function(name: str, self: Tensor, function: Callable[..., Any], *others: Tensor) -> Tensor:
    """Write the result of a Python function of each element and the corresponding elements of other tensors."""
    refuse_unwritable(name, self)
    shape = broadcast_shapes(self._array.shape, *(each._array.shape for each in others))
    columns = [np.broadcast_to(each._array, shape).ravel().tolist() for each in (self, *others)]
    values = np.asarray([function(*row) for row in zip(*columns, strict=True)])
    return self.copy_(adopt(cast_unchecked(values.reshape(shape), self._array.dtype)))


def _apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element x by `callable(x)`. Not differentiable, and slow."""
    return _apply_function("apply_", self, callable)


def _map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element x by `callable(x, y)`, with y from `other`. Not differentiable, and slow."""
    return _apply_function("map_", self, callable, other)


def _map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by `callable` of it and the elements of `x` and `y`. Not differentiable, and slow."""
    return _apply_function("map2_", self, callable, x, y)


install(fill_diagonal_=_fill_diagonal_, apply_=_apply_, map_=_map_, map2_=_map2_)
