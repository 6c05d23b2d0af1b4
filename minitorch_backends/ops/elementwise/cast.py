"""Copies and casts: to another dtype, or to new memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.elementwise import in_order
from ...tensor.call_errors import install
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype_of,
    dtypes,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    to_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ...tensor.memory import contiguous_format, in_format, is_in_format, preserve_format, refuse_device
from ...tensor.memory import device as Device
from ...tensor.size import repeats
from ...tensor.tensor import Tensor, is_foreign, not_a_tensor

__all__ = ["clone"]


@op(takes=EVERY_DTYPE, input=lambda g: g, traits="function unwidened")
def to_copy(input: Array, dtype: Any) -> Array:
    """The elements converted to `dtype`, in new memory."""
    return cast_unchecked(np.ascontiguousarray(input) if repeats(input) else input, to_dtype(dtype).dtype)


@op(takes=EVERY_DTYPE, input=lambda g: g, traits="unwidened")
def clone(input: Array, *, memory_format: Any = None) -> Array:
    """A copy in new memory, through which gradients flow.

    Strides are kept, unless `memory_format` requests another order. Raises TypeError for an invalid memory format.
    """
    if memory_format is None or memory_format is preserve_format:
        return input.copy("C" if repeats(input) else "K")
    return in_order(input) if memory_format is contiguous_format else in_format("clone", input, memory_format)


@composite()
def contiguous(input: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if its elements lie in row-major order without gaps, or in another memory format, else a copy
    that does. Raises RuntimeError for `preserve_format`, which names no order."""
    if memory_format is preserve_format:
        raise RuntimeError("contiguous(): memory_format must name an order, got preserve_format; use clone()")
    if memory_format is contiguous_format:
        return input if input._array.flags.c_contiguous else clone(input, memory_format=memory_format)
    return input if is_in_format(input._array, memory_format) else clone(input, memory_format=memory_format)


@composite()
def to(
    input: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Cast to another dtype: `to(dtype)`, `to("cpu", dtype)` or `to(other)`, which takes `other`'s dtype.
    `memory_format` requests an order of elements in memory.

    Returns the tensor itself if nothing changes, unless `copy=True`. Raises RuntimeError or AssertionError for a device
    other than the CPU.
    """
    for value in args:
        if isinstance(value, Tensor):
            dtype = value._array.dtype
        elif isinstance(value, bool):
            non_blocking, copy = value, non_blocking
        elif isinstance(value, (Device, int)) or (isinstance(value, str) and value not in dtypes):
            device = value
        elif isinstance(value, np.ndarray) or is_foreign(value):
            raise not_a_tensor("to", "other", value)
        elif value is not None:
            dtype = value
    refuse_device(device)
    same = dtype is None or input._array.dtype is dtype or to_dtype(dtype) is dtype_of(input._array)
    if memory_format is not None and not (same and is_in_format(input._array, memory_format)):
        return clone(input if same else to_copy(input, dtype), memory_format=memory_format)
    if same:
        return clone(input) if copy else input
    return to_copy(input, dtype)


def _conversion(dtype: DType) -> Any:
    def convert(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
        if memory_format is not preserve_format:
            return to(self, dtype, memory_format=memory_format)
        return self if dtype_of(self._array) is dtype else to_copy(self, dtype)

    convert.__doc__ = f"The tensor with elements of type {dtype.name}; itself when they already are."
    return convert


_conversions = {
    "float": float32,
    "double": float64,
    "half": float16,
    "bfloat16": bfloat16,
    "cfloat": complex64,
    "cdouble": complex128,
    "bool": bool_,
    "byte": uint8,
    "char": int8,
    "short": int16,
    "int": int32,
    "long": int64,
}
for _name, _dtype in _conversions.items():
    _method = _conversion(_dtype)
    _method.__name__ = _method.__qualname__ = _name
    setattr(Tensor, _name, _method)


TYPES = {
    f"torch.{name}Tensor": dtype
    for name, dtype in {
        "Float": float32,
        "Double": float64,
        "Half": float16,
        "BFloat16": bfloat16,
        "ComplexFloat": complex64,
        "ComplexDouble": complex128,
        "Bool": bool_,
        "Byte": uint8,
        "Char": int8,
        "Short": int16,
        "Int": int32,
        "Long": int64,
        "UInt16": uint16,
        "UInt32": uint32,
        "UInt64": uint64,
    }.items()
} | {f"torch.{name.capitalize()}Tensor": dtype for name, dtype in dtypes.items() if dtype.letter in "np"}
"""Names of tensors of each dtype, as `type` gives and takes them."""


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, "torch.FloatTensor" for float32; or the tensor cast to `dtype`.

    `dtype` may be such a name or an old class such as FloatTensor. Raises ValueError for an unknown name.
    """
    if dtype is None:
        return next(name for name, each in TYPES.items() if each is self.dtype)
    if isinstance(dtype, str) and dtype not in TYPES and dtype not in dtypes:
        raise ValueError(f"type(): dtype must be a dtype or the name of a type, got {dtype!r}; use 'torch.FloatTensor'")
    return to(self, TYPES.get(dtype, dtype) if isinstance(dtype, str) else getattr(dtype, "dtype", dtype))


def _type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor with elements of the dtype of `other`."""
    return to(self, dtype_of(other._array))


def _cpu(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
    """The tensor itself, which is on the CPU already."""
    return self if memory_format is preserve_format else contiguous(self, memory_format)


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Raises AssertionError, as torch without CUDA does: tensors are on the CPU."""
    refuse_device("cuda" if device is None else device)
    return self


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: without a device, pinned memory has no effect."""
    return self


def _is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned for copies to a device: False."""
    return False


install(type=_type, type_as=_type_as, cpu=_cpu, cuda=_cuda, pin_memory=_pin_memory, is_pinned=_is_pinned)
