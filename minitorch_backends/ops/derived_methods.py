"""Methods and functions composed of others: writes to diagonals, element-wise Python functions, and forms that
torch keeps for its own graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.mutation import refuse_unwritable
from ..dispatch.op import composite
from ..tensor.call_errors import argument_errors, install, refuse_other_than_tensor
from ..tensor.casting import cast_unchecked
from ..tensor.size import addressable
from ..tensor.tensor import Tensor, adopt
from .elementwise.special import polygamma
from .predicates import declare_method
from .views.broadcasting import broadcast_shapes

__all__ = [
    "fill", "narrow_copy", "nonzero_static", "resolve_neg", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
]  # fmt: skip


@composite()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, padded with `fill_value` if there are fewer.

    Raises RuntimeError for a negative size.
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static(): argument 'size' must be a non-negative integer, got {size}")
    return adopt(_pad_rows(np.argwhere(input._array), size, fill_value))


def _pad_rows(rows: np.ndarray, size: int, fill_value: int) -> np.ndarray:
    out = np.full(addressable((size, rows.shape[1])), fill_value, np.int64)
    out[: len(rows)] = rows[:size]
    return out


@composite()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    return input.narrow(dim, start, length).clone()


@declare_method
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: no view negates, here."""
    return input


@declare_method
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`."""
    return input.chunk(chunks, dim)


@declare_method
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`."""
    return input.split(split_size, dim)


@declare_method
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`."""
    return input.split_with_sizes(split_sizes, dim)


@argument_errors
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` with every element equal to `value`."""
    refuse_other_than_tensor("fill", "input", input)
    return input.clone().fill_(value)


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


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The `n`-th derivative of `digamma`."""
    return polygamma(n, self)


def _polygamma_(self: Tensor, n: int) -> Tensor:
    """`polygamma`, written into this tensor."""
    return self.copy_(polygamma(n, self))


def _is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both see the same memory by the same shape and strides."""
    ours, theirs = self._array, tensor._array
    alike = (ours.shape, ours.strides, ours.dtype) == (theirs.shape, theirs.strides, theirs.dtype)
    return alike and ours.ctypes.data == theirs.ctypes.data


def _is_nonzero(self: Tensor) -> bool:
    """Whether its only element is not zero. Raises RuntimeError for another number of elements."""
    return bool(self)


install(fill_diagonal_=_fill_diagonal_, apply_=_apply_, map_=_map_, map2_=_map2_, is_set_to=_is_set_to)
install(polygamma=_polygamma, polygamma_=_polygamma_, is_nonzero=_is_nonzero)
