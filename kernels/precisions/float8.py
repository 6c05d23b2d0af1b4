"""8-bit floating formats as dtypes: conversion from and to float32 by tables, with torch's rules.

A float32 is first truncated to 16 bits, whose last bit is set if bits were lost (rounding to odd). Formats of at most 4
significant bits round these correctly (S. Boldo and G. Melquiond, Emulation of FMA and correctly rounded sums, 2008),
so a table of all 2**16 values rounds every float32. All formats round to nearest, ties to even, except e8m0, which has
no significand: it drops the sign, and rounds up from 1.5 times a power of two. Above the largest number e4m3fn
saturates, including Inf; e5m2 gives Inf; the others give NaN.

Source: P. Micikevicius et al., FP8 formats for deep learning, arXiv 2209.05433; the OCP Microscaling Formats (MX)
specification 1.0.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..runtime.first_use import load

FORMATS = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz"}
"""The types that are multiplied, by name, and the formats of operands (`elements.ELEMENTS`) that they hold."""

PACKED = np.dtype([("float4_e2m1fn_x2", np.uint8)])
"""Two numbers of e2m1 in a byte, the first in the low bits: an element type that is copied and never converted."""


def is_float8(dtype: np.dtype) -> bool:
    """Whether a dtype is one of the 8-bit floating formats; `PACKED` is not."""
    return dtype.itemsize == 1 and dtype.kind in "fV" and dtype != PACKED


def to_float32(array: np.ndarray) -> np.ndarray:
    """The values of an 8-bit format, exactly, as a new float32 array."""
    return np.asarray(_values(array.dtype).take(array.view(np.uint8)))


def from_float32(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float32 values rounded to an 8-bit format, as a new array."""
    bits = array.view(np.uint32)
    leading = (bits >> np.uint32(16)).astype(np.uint16)
    leading |= (bits & np.uint32(0xFFFF)) != 0
    return np.asarray(_codes(dtype).take(leading)).view(dtype)


_LEAST_NORMAL, _LEAST = 2.0**-126, 2.0**-149
"""The smallest normal and subnormal numbers of float32."""


def float32_to_odd(array: np.ndarray) -> np.ndarray:
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


_E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)


def unpack(array: np.ndarray, axis: int) -> np.ndarray:
    """The values of pairs of e2m1 as a float32 array of twice the size along an axis, the low bits of a byte first."""
    values = np.concatenate([_E2M1, -_E2M1])
    pairs = np.stack([values.take(array.view(np.uint8) & 15), values.take(array.view(np.uint8) >> 4)], axis + 1)
    return pairs.reshape(*array.shape[:axis], 2 * array.shape[axis], *array.shape[axis + 1 :])


@functools.cache
def _values(dtype: np.dtype) -> np.ndarray:
    """The float32 value of each byte."""
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)


@functools.cache
def _codes(dtype: np.dtype) -> np.ndarray:
    """The byte for each bfloat16, by its bits."""
    leading = np.arange(1 << 16, dtype=np.uint32)
    if dtype.name == "float8_e8m0fnu":
        exponent, fraction = leading >> 7 & 0xFF, leading & 0x7F
        rounded = exponent + np.where(exponent == 0, fraction > 0x40, fraction >= 0x40)
        return np.where(exponent == 255, 255, rounded).astype(np.uint8)
    values = (leading << np.uint32(16)).view(np.float32)
    if dtype.name == "float8_e4m3fn":
        largest = float(load("ml_dtypes").finfo(dtype).max)
        values = values.clip(-largest, largest)
    with np.errstate(all="ignore"):
        codes = values.astype(dtype).view(np.uint8)
    if dtype.name == "float8_e5m2":
        codes[np.isnan(values)] |= 0x7F  # torch's payload
    return codes
