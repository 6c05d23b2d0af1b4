"""Other shapes, orders and memory for a tensor in place: t_, transpose_, squeeze_, unsqueeze_, as_strided_, resize_,
set_."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.inference import refuse_inference
from ...autograd.modes import derives_from, is_grad_enabled
from ...autograd.mutation import bump
from ...autograd.nodes import Leaf
from ...autograd.views import reshape_in_place
from ...tensor.call_errors import install
from ...tensor.size import addressable
from ...tensor.tensor import Tensor
from ..dims import shape_of
from .shape import squeeze, unsqueeze
from .strided import strided_window, window_of
from .transpose import transpose


def _refuse_leaf(tensor: Tensor, name: str) -> None:
    refuse_inference(tensor, "Inplace update to inference tensor")
    if type(tensor._node) is Leaf and is_grad_enabled():
        raise RuntimeError(
            f"{name}_: a leaf Variable that requires grad is being used in an in-place operation; do it under "
            "no_grad(), or use the out-of-place form"
        )


def _viewing(op: Any) -> Any:
    """The method that makes a tensor the view of itself that `op` makes of it."""
    name = op.name

    def method(self: Tensor, *args: Any, **named: Any) -> Tensor:
        _refuse_leaf(self, name)
        bound = op.bind((self, *args), named)
        reshape_in_place(self, op, {key: bound[key] for key in op.metadata_names})
        return _count_write(self)

    method.__name__ = method.__qualname__ = name + "_"
    method.__wrapped__ = op.public  # type: ignore[attr-defined]
    method.__doc__ = f"`{name}`, of this tensor itself."
    return method


def _as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """`as_strided`, of this tensor itself."""
    _refuse_leaf(self, "as_strided")
    window = window_of("as_strided_", self, size, stride, storage_offset, self, whole=derives_from(self))
    reshape_in_place(self, strided_window.op, window)
    return _count_write(self)


def _t_(self: Tensor) -> Tensor:
    """`t`, of this tensor itself."""
    if self.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self.ndim}D; use transpose_")
    return self.transpose_(0, 1) if self.ndim == 2 else self.transpose_(0, 0) if self.ndim else _count_write(self)


def _count_write(tensor: Tensor) -> Tensor:
    bump(tensor)
    return tensor


def _refuse_gradients(tensor: Tensor, name: str) -> None:
    refuse_inference(tensor, "Inplace update to inference tensor")
    if tensor.requires_grad:
        raise RuntimeError(f"{name}: cannot resize variables that require grad; use tensor.detach().clone() first")


def _resize_(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Give this tensor another shape: of its first elements, in row-major order, or with undefined ones after them.

    Raises RuntimeError for a tensor that requires gradients, and for negative sizes.
    """
    _refuse_gradients(self, "resize_")
    shape = shape_of(sizes if size is None else (size,))
    if any(length < 0 for length in shape):
        raise RuntimeError(f"resize_: sizes are at least 0, got {list(shape)}")
    wanted, flat = math.prod(addressable(shape)), self._array.reshape(-1)
    if wanted > flat.size:
        grown = np.empty(wanted, flat.dtype)
        grown[: flat.size] = flat
        flat = grown
    self._array = flat[:wanted].reshape(shape)
    return _count_write(self)


def _resize_as_(self: Tensor, the_template: Tensor) -> Tensor:
    """`resize_` to the shape of another tensor."""
    return self.resize_(tuple(the_template.shape))


def _set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """Replace memory and shape by those of `source`, or by empty memory. Versions are counted separately.

    Raises RuntimeError for a tensor that requires gradients and for a source of another dtype.
    """
    _refuse_gradients(self, "set_")
    if source is not None and source.dtype is not self.dtype:
        raise RuntimeError(
            f"set_: expected a source of dtype {self.dtype!r}, got {source.dtype!r}; convert it with .to()"
        )
    self._array = np.empty(0, self._array.dtype) if source is None else source._array
    return _count_write(self)


for _public in (transpose, squeeze, unsqueeze):
    _op = _public.op  # type: ignore[union-attr]
    install(**{_op.name + "_": _viewing(_op)})
Tensor.swapaxes_ = Tensor.swapdims_ = Tensor.transpose_  # type: ignore[method-assign]
install(as_strided_=_as_strided_, t_=_t_, resize_=_resize_, resize_as_=_resize_as_, set_=_set_)
