"""Rounding rows of float32 numbers in blocks, each with its scale (`scaling`). Importing this module imports Numba."""

from __future__ import annotations

import numpy as np

from .jit import njit

__all__ = ["E4M3", "E8M0", "TENSOR", "round_rows"]

TENSOR, E8M0, E4M3 = 0, 1, 2
"""Scales: one of the tensor alone; powers of two; numbers in E4M3 times one of the tensor."""

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


@njit
def _power(exponent):
    """2**exponent, from the least normal number on."""
    return np.uint32(np.uint32(exponent + 127) << np.uint32(23)).view(np.float32)


@njit
def _unit(magnitude, significand, least):
    """The exponent of the unit in which a format counts numbers of this magnitude."""
    exponent = np.int32(np.float32(magnitude).view(np.uint32) >> np.uint32(23)) - np.int32(127)
    return np.int32(max(exponent, least) + np.int32(1) - significand)


@njit
def _nearest(counted):
    """To a whole number, ties to even; of numbers below 2**22."""
    return np.float32(np.float32(counted + np.float32(2.0**23)) - np.float32(2.0**23))


@njit
def _uniform(place, seed):
    """A number in [0, 1), a multiple of 2**-16: MurmurHash3's mixing of the place and the seed."""
    mixed = np.uint32(np.uint32(place) * np.uint32(0x9E3779B9) + seed)
    mixed = np.uint32(np.uint32(mixed ^ np.uint32(mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    mixed = np.uint32(np.uint32(mixed ^ np.uint32(mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.float32(np.uint32(mixed >> np.uint32(16))) * np.float32(2.0**-16)


@njit
def _in_e4m3(x):
    """A number that is not negative, rounded to E4M3."""
    unit = _unit(x, np.int32(4), np.int32(-6))
    return np.float32(min(_nearest(x * _power(-unit)) * _power(unit), np.float32(448.0)))


@njit
def _largest(x, row, start, stop):
    """The bits of the largest finite magnitude."""
    found = np.uint32(0)
    for i in range(start, stop):
        bits = np.uint32(np.float32(x[row, i]).view(np.uint32) & _MAGNITUDE)
        found = max(found, bits if bits < _INFINITY else np.uint32(0))
    return found


@njit
def round_rows(x, out, block, kind, tensor, significand, least, greatest, emax, stochastic, seed):
    """Round the rows of x (rows, k), in blocks, to a format, times the scale of the block but not the tensor's.

    The scale is `kind`, and `tensor` that of the tensor; `emax` is the exponent of `greatest`. Returns how many numbers
    were cut to the greatest, became zero, and became subnormal, and the least exponent of a power of two among the
    scales. Inf and NaN stay.
    """
    saturated, vanished, subnormal, lowest = 0, 0, 0, np.int32(127)
    rows, k = x.shape
    normal = _power(least)
    for row in range(rows):
        for start in range(0, k, block):
            stop = min(start + block, k)
            divisor, factor = np.float32(tensor), np.float32(1.0)
            if kind != TENSOR:
                bits = _largest(x, row, start, stop)
                if kind == E8M0:
                    exponent = np.int32(max(np.int32(bits >> np.uint32(23)) - np.int32(127) - emax, np.int32(-127)))
                    # The least power is subnormal.
                    factor = np.float32(2.0**-127) if exponent == np.int32(-127) else _power(exponent)
                    divisor = factor
                    lowest = min(lowest, exponent) if bits else lowest
                else:
                    factor = _in_e4m3(
                        np.float32(np.uint32(bits).view(np.float32) / np.float32(greatest * np.float32(tensor)))
                    )
                    divisor = np.float32(factor * np.float32(tensor))
            for i in range(start, stop):
                value = np.float32(x[row, i])
                magnitude = np.float32(abs(value))
                scaled = np.float32(magnitude / divisor) if divisor > 0 else np.float32(0.0)
                unit = _unit(scaled, significand, least)
                counted = np.float32(scaled * _power(-unit))
                above = np.float32(np.floor(counted + _uniform(row * k + i, seed))) if stochastic else np.float32(0)
                whole = above if stochastic else _nearest(counted)
                rounded = np.float32(whole * _power(unit))
                finite = np.uint32(magnitude.view(np.uint32)) < _INFINITY
                saturated += 1 if finite and rounded > greatest else 0
                vanished += 1 if rounded == 0 and magnitude > 0 else 0
                subnormal += 1 if np.float32(0) < rounded < normal else 0
                kept = np.float32(min(rounded, greatest) * factor)
                out[row, i] = np.copysign(kept, value) if finite else value
    return saturated, vanished, subnormal, lowest
