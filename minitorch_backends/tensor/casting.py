"""Casts of arrays: C conversions between dtypes, and checked conversions of values that a user wrote."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from ..kernels.elementwise import LARGE, cast
from ..kernels.float8 import PACKED, from_float32, is_float8, to_float32
from ..kernels.quiet import restore, silence
from .dtypes import COMPLEX, FLOATING, INTEGER, DType

_LEAST_NORMAL, _LEAST = 2.0**-126, 2.0**-149
"""The smallest normal and subnormal numbers of float32."""


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
        array = _float32_to_odd(array)
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


def _float32_to_odd(array: np.ndarray) -> np.ndarray:
    """Cast wider numbers to float32 with rounding to odd: truncate, and set the last bit if that loses anything.

    A value between two neighbours in bfloat16 or a narrower format stays on its side of their midpoint. Rounding the
    float32 result to that format is then a single rounding (S. Boldo and G. Melquiond, Emulation of FMA and correctly
    rounded sums: proved algorithms using rounding to odd, 2008).
    """
    if array.dtype.kind in "iu" and array.itemsize == 8:  # to the 53 bits of float64 first, also rounding to odd
        lost = ((array & 0x7FF) != 0).astype(array.dtype)
        array = np.where(np.abs(array) >> 53, array >> 11 << 11 | lost << 11, array)
    if array.size == 1 and (near := np.asarray(array.astype(np.float32))) == array:
        return near
    flags, kinds = ["external_loop", "buffered", "zerosize_ok"], [np.float64, np.float32]
    options: dict[str, Any] = {"flags": flags, "op_dtypes": kinds, "casting": "same_kind", "buffersize": 1 << 14}
    with np.nditer([array, None], **options) as parts:
        for exact, out in parts:
            bits = exact.view(np.int64)
            lost = bits & 0x1FFFFFFF
            cut = (bits - lost | (lost != 0).astype(np.int64) << 29).view(np.float64)
            small = np.abs(exact) < _LEAST_NORMAL
            if small.any():
                units = exact[small] / _LEAST
                below = np.trunc(units)
                inexact = (below != units) & (below % 2 == 0)
                cut[small] = (below + np.copysign(inexact, units)) * _LEAST
            out[...] = cut
        return parts.operands[1]


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
