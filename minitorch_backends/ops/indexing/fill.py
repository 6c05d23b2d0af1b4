"""Writing whole tensors in place, and by mask: copy_, fill_, zero_, masked_fill."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.mutation import is_plain, write_plainly
from ...dispatch.op import Array, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.elementwise import select
from ...tensor.casting import cast_checked, cast_unchecked, fitted_number
from ...tensor.dtypes import DType, dtype_of
from ...tensor.tensor import Tensor, adopt, kind_of, refuse_wide_integer

__all__ = ["masked_fill"]


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
