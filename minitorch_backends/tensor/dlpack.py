"""Arrays in and out by the DLPack protocol (dmlc.github.io/dlpack).

bfloat16, which NumPy does not carry, goes as 16-bit integers whose type is renamed in what the capsule holds.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..kernels.first_use import load

__all__ = ["exported", "imported"]

_INTEGER, _BFLOAT = 0, 4
"""The protocol's codes of types."""

_CODES = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Where the code of the type stands in what capsules of these names hold: version 0 of the protocol, and since 1."""

_is_valid, _pointer_of = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
_is_valid.argtypes = _pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer_of.restype = ctypes.c_void_p


def _code(capsule: Any) -> Any:
    """The code of the type, to be read and written; None for a capsule of another kind, which NumPy refuses."""
    name = next((name for name in _CODES if _is_valid(capsule, name)), None)
    return None if name is None else ctypes.c_uint8.from_address(_pointer_of(capsule, name) + _CODES[name])


def exported(array: np.ndarray, **options: Any) -> Any:
    """A capsule for `from_dlpack` of another library."""
    if not array.flags.writeable and options.get("max_version") is None:
        raise BufferError("can't export read-only memory to consumers of DLPack before version 1; use tensor.clone()")
    if array.dtype.name != "bfloat16":
        return array.__dlpack__(**options)
    capsule = array.view(np.int16).__dlpack__(**options)
    _code(capsule).value = _BFLOAT
    return capsule


class _Renamed:
    """Another library's array, with integers in the place of bfloat16."""

    def __init__(self, array: Any) -> None:
        self.array, self.renamed = array, False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__(**options)
        code = _code(capsule)
        if code is not None and code.value == _BFLOAT:
            code.value, self.renamed = _INTEGER, True
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def imported(x: Any, copy: bool | None) -> np.ndarray:
    """An array that shares the memory of `x`. Raises RuntimeError, ValueError or BufferError as NumPy does."""
    source = _Renamed(x)
    array = np.from_dlpack(source, copy=copy)
    if not source.renamed:
        return array
    return array.view(load("ml_dtypes").bfloat16)
