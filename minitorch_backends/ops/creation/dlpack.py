"""Import and export of arrays by the DLPack protocol (dmlc.github.io/dlpack).

NumPy exchanges only its own dtypes. The other formats travel as integers of the same size, and this module rewrites the
type field of the capsule.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ...tensor.dtypes import dtype_of, to_dtype
from ...tensor.tensor import Tensor

_INTEGER = 0
"""DLPack's type code of signed integers."""

_TYPES = {
    "bfloat16": (4, 16, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
}
"""Type code, bits per number and numbers per element of the dtypes that NumPy cannot exchange, by name (dlpack.h,
version 1.1)."""

_NAMES = {key: name for name, key in _TYPES.items()}

_CODES = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Byte offset of the type field in the struct of a capsule, by the capsule's name: DLPack before version 1, and
since."""

_is_valid, _pointer_of = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
_is_valid.argtypes = _pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer_of.restype = ctypes.c_void_p


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]

    @property
    def key(self) -> tuple[int, int, int]:
        return self.code, self.bits, self.lanes

    def rename(self, code: int, bits: int, lanes: int) -> None:
        self.code, self.bits, self.lanes = code, bits, lanes


def _type_in(capsule: Any) -> _Type | None:
    """The type field of a capsule, read and written in place; None for a capsule that NumPy rejects."""
    name = next((name for name in _CODES if _is_valid(capsule, name)), None)
    return None if name is None else _Type.from_address(_pointer_of(capsule, name) + _CODES[name])


def _export(
    self: Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Export the memory, or a copy of it if `copy`, as a capsule for another library's `from_dlpack`.

    `stream` must be None or -1, since the CPU has no streams. Raises BufferError for values that a capsule of
    `max_version` cannot hold, such as negative strides, and for another device.
    """
    if stream not in (None, -1):
        raise RuntimeError(f"__dlpack__(): stream must be None or -1 on the CPU, got {stream!r}")
    if self.requires_grad:
        raise BufferError(
            "can't export tensors that require gradients, since writes would go unrecorded; use tensor.detach()"
        )
    array = self._array
    if copy:
        array = np.asarray(array, order="C")
    elif min(array.strides, default=0) < 0:
        strides = [stride // array.itemsize for stride in array.strides]
        raise BufferError(
            f"can't export strides {strides}, since DLPack consumers expect no negative strides; use contiguous()"
        )
    elif not array.flags.writeable and (max_version is None or max_version[0] < 1):
        raise BufferError("can't export read-only memory to consumers of DLPack before version 1; use tensor.clone()")
    options: dict[str, Any] = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    if (name := dtype_of(array).name) not in _TYPES:
        return array.__dlpack__(**options)
    capsule = array.view(f"i{array.itemsize}").__dlpack__(**options)
    if (held := _type_in(capsule)) is not None:
        held.rename(*_TYPES[name])
    return capsule


class _Renamed:
    """Another library's array whose capsule presents dtypes unknown to NumPy as integers.

    Attributes:
        dtype: the name of the renamed dtype, or None.
    """

    def __init__(self, array: Any) -> None:
        self.array: Any = array
        self.dtype: str | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__(**options)
        held = _type_in(capsule)
        if held is not None and held.key in _NAMES:
            self.dtype = _NAMES[held.key]
            held.rename(_INTEGER, max(8, held.bits), 1)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def from_capsule(x: Any, copy: bool | None) -> np.ndarray:
    """Import `x` as an array that shares its memory. Raises RuntimeError, ValueError or BufferError as NumPy does."""
    source = _Renamed(x)
    array = np.from_dlpack(source, copy=copy)
    return array if source.dtype is None else array.view(to_dtype(source.dtype).dtype)


def _device(self: Tensor) -> tuple[int, int]:
    return self._array.__dlpack_device__()


Tensor.__dlpack__ = _export  # type: ignore[assignment, method-assign]
Tensor.__dlpack_device__ = _device  # type: ignore[assignment, method-assign]
