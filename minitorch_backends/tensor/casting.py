"""Casts of arrays: C conversions between dtypes, and checked conversions of values that a user wrote."""

from __future__ import annotations

import cmath

import numpy as np

from ..kernels.arrays.elementwise import LARGE, cast
from ..kernels.precisions.float8 import PACKED, float32_to_odd, from_float32, is_float8, to_float32
from ..kernels.runtime.errstate import restore, silence
from .dtypes import COMPLEX, FLOATING, INTEGER, DType


def cast_unchecked(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast an array to `dtype` with C's conversions, into new memory.

    Values out of range raise no warning. A cast from complex to real drops the imaginary part. Raises
    NotImplementedError for packed formats (two numbers in a byte).
    """
    if PACKED in (array.dtype, dtype):
        return _copy_packed(array, dtype)
    if is_float8(array.dtype):
        return array.copy("K") if array.dtype == dtype else cast_unchecked(to_float32(array), dtype)
    if array.dtype.kind == "O":  # integers of more than 64 bits
        array = array.astype(np.complex128 if dtype.kind == "c" else np.float64)
    if array.dtype.kind == "c" and dtype.kind != "c":
        array = array != 0 if dtype.kind == "b" else array.real
    narrow = is_float8(dtype)
    if (narrow or dtype.kind == "V") and array.dtype.itemsize >= 4 and array.dtype != np.float32:
        array = float32_to_odd(array)
    if narrow:
        return from_float32(array if array.dtype == np.float32 else cast_unchecked(array, np.dtype(np.float32)), dtype)
    if array.size >= LARGE and (found := cast(array, dtype)) is not None:
        return found
    token = silence()
    try:
        return array.astype(dtype)
    finally:
        restore(token)


def _copy_packed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Copy an array of packed bytes (two numbers each). Any other dtype raises NotImplementedError."""
    if array.dtype == dtype:
        return array.copy("K")
    raise NotImplementedError(
        "to(): the dtype must hold one number in an element, got mt.float4_e2m1fn_x2; use view(mt.uint8) and unpack"
    )


def cast_checked(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Cast numbers that a user wrote to `dtype`, into new memory. Integer dtypes truncate fractions.

    Raises RuntimeError for a number out of the range of an integer dtype, and for a complex number in a real dtype.
    Negative integers wrap around in unsigned dtypes, as in torch.
    """
    kind = array.dtype.kind
    if kind == "c" and dtype.category < COMPLEX:
        raise _overflow(dtype, f"{array.flat[0]} is complex")
    if dtype.category == INTEGER and kind in "iufO" and array.dtype != dtype.dtype:
        limits = np.iinfo(dtype.dtype)
        low = -limits.max if kind == "i" and not limits.min else limits.min
        outside = ~((array >= low) & (array <= limits.max) & (array < limits.max + 1))  # last: the float 2**63
        if outside.any():
            raise _overflow(dtype, f"{array[outside].flat[0]} is not in {low} to {limits.max}")
    return cast_unchecked(array, dtype.dtype)


def fitted_number(number: np.ndarray, dtype: DType) -> np.ndarray:
    """Cast one fill value like `cast_checked`, to shape (). Also raises RuntimeError if a finite number would become
    infinite."""
    number = number.reshape(())
    found = cast_checked(number, dtype)
    if dtype.letter == "n" and _is_beyond(number, dtype.dtype):
        raise _overflow(dtype, f"{number} is out of its range; assign to a slice of a tensor, or cast, to saturate")
    if dtype.category >= FLOATING and cmath.isinf(found) and not cmath.isinf(number):
        raise _overflow(dtype, f"{number} would become infinite; use math.inf if that is intended")
    return found


def _is_beyond(number: np.ndarray, dtype: np.dtype) -> bool:
    """Whether a number lies outside the range of an 8-bit format."""
    values = to_float32(np.arange(256, dtype=np.uint8).view(dtype))
    finite = values[np.isfinite(values)]
    return bool(number > finite.max() or number < finite.min()) and number not in values


def _overflow(dtype: DType, reason: str) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {dtype!r} without overflow: {reason}")
