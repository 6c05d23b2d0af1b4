"""Numbers into another type: as C converts them, or as a user may write them."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from ..kernels.elementwise import LARGE, cast
from ..kernels.float8 import PACKED, from_float32, is_float8, to_float32
from ..kernels.quiet import restore, silence
from .dtypes import COMPLEX, FLOATING, INTEGER, DType

__all__ = ["converted", "fitted", "fitted_number"]


_LEAST_NORMAL, _LEAST = 2.0**-126, 2.0**-149
"""The smallest normal and subnormal numbers of float32."""


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A new array of another type, as C converts: no warning for what does not fit, imaginary parts dropped.

    Raises NotImplementedError for what is packed in bytes.
    """
    if PACKED in (array.dtype, dtype):
        return _packed(array, dtype)
    if is_float8(array.dtype):
        return array.copy("K") if array.dtype == dtype else converted(to_float32(array), dtype)
    if array.dtype.kind == "O":  # integers of more than 64 bits
        array = array.astype(np.complex128 if dtype.kind == "c" else np.float64)
    if array.dtype.kind == "c" and dtype.kind != "c":
        array = array != 0 if dtype.kind == "b" else array.real
    narrow = is_float8(dtype)
    if (narrow or dtype.kind == "V") and array.dtype.itemsize >= 4 and array.dtype != np.float32:
        array = _float32_to_odd(array)
    if narrow:
        return from_float32(array if array.dtype == np.float32 else converted(array, np.dtype(np.float32)), dtype)
    if array.size >= LARGE and (found := cast(array, dtype)) is not None:
        return found
    token = silence()
    try:
        return array.astype(dtype)
    finally:
        restore(token)


def _packed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy of an array of bytes that hold two numbers each, which have no other form."""
    if array.dtype == dtype:
        return array.copy("K")
    raise NotImplementedError(
        "to(): mt.float4_e2m1fn_x2, two numbers in a byte, is not converted; use view(mt.uint8) and unpack the bytes"
    )


def _float32_to_odd(array: np.ndarray) -> np.ndarray:
    """Numbers of more digits than float32 has, cut off to it, with a last bit of 1 where that loses something.

    A number between two neighbours in bfloat16, or in a format of fewer digits, stays on its side of their middle: to
    round the result, which is done by way of float32, rounds once (S. Boldo and G. Melquiond, Emulation of FMA and
    correctly rounded sums, 2008).
    """
    if array.dtype.kind in "iu" and array.itemsize == 8:  # first to the 53 bits of float64, in the same way
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


def fitted(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers that a user wrote, as a new array of type `dtype`; fractions are cut off for integers.

    Raises RuntimeError for a number out of the range of an integer type, and for complex numbers in other types.
    Negative integers wrap around in unsigned types, as in torch.
    """
    kind = array.dtype.kind
    if kind == "c" and dtype.category < COMPLEX:
        raise _overflow(dtype, f"{array.flat[0]} is complex")
    if dtype.category == INTEGER and kind in "iufO" and array.dtype != dtype.dtype:
        limits = np.iinfo(dtype.dtype)
        low = -limits.max if kind == "i" and not limits.min else limits.min
        outside = ~((array >= low) & (array <= limits.max) & (array < limits.max + 1))  # the last for floats of 2**63
        if outside.any():
            raise _overflow(dtype, f"{array[outside].flat[0]} is not in {low} to {limits.max}")
    return converted(array, dtype.dtype)


def fitted_number(number: np.ndarray, dtype: DType) -> np.ndarray:
    """`fitted` for one number, of shape (), that everything is filled with: RuntimeError too where it would become
    infinite.
    """
    number = number.reshape(())
    found = fitted(number, dtype)
    if dtype.letter == "n" and _is_beyond(number, dtype.dtype):
        raise _overflow(dtype, f"{number} is out of its range; write to a part of a tensor, or convert, to saturate")
    if dtype.category >= FLOATING and cmath.isinf(found) and not cmath.isinf(number):
        raise _overflow(dtype, f"{number} would be infinite; write math.inf if that is meant")
    return found


def _is_beyond(number: np.ndarray, dtype: np.dtype) -> bool:
    """Whether a number lies outside of the range of an 8-bit format, which may have Inf."""
    values = to_float32(np.arange(256, dtype=np.uint8).view(dtype))
    finite = values[np.isfinite(values)]
    return bool(number > finite.max() or number < finite.min()) and number not in values


def _overflow(dtype: DType, reason: str) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {dtype!r} without overflow: {reason}")
