"""Rounding float32 numbers in blocks, each with its scale (`scaling`). Importing this module imports Numba."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import job_class, launch
from ..runtime.raw_memory import allocate, free, pointer

TENSOR, E8M0, E4M3, FP32, BF16, RCEIL, CEIL, EVEN = range(8)
"""Scales: one of the tensor alone; powers of two by OCP's floor; numbers in E4M3 times one of the tensor; float32 and
bfloat16 numbers; powers of two not below the largest divided by the format's greatest, by the next power of two above
the largest, and by that of the largest rounded to the format's significand."""

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


@subroutine
def _power(exponent):
    """2**exponent, from the least normal number on."""
    return np.uint32(np.uint32(exponent + 127) << np.uint32(23)).view(np.float32)


@subroutine
def _unit(magnitude, significand, least):
    """The exponent of the format's unit in the last place at this magnitude."""
    exponent = np.int32(np.float32(magnitude).view(np.uint32) >> np.uint32(23)) - np.int32(127)
    return np.int32(max(exponent, least) + np.int32(1) - significand)


@subroutine
def _nearest(counted):
    """To a whole number, ties to even; of numbers below 2**22."""
    return np.float32(np.float32(counted + np.float32(2.0**23)) - np.float32(2.0**23))


@subroutine
def _uniform(place, seed):
    """A number in [0, 1), a multiple of 2**-16: MurmurHash3's mixing of the place and the seed."""
    mixed = np.uint32(np.uint32(place) * np.uint32(0x9E3779B9) + seed)
    mixed = np.uint32(np.uint32(mixed ^ np.uint32(mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    mixed = np.uint32(np.uint32(mixed ^ np.uint32(mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.float32(np.uint32(mixed >> np.uint32(16))) * np.float32(2.0**-16)


@subroutine
def _in_e4m3(x):
    """A number that is not negative, rounded to E4M3."""
    unit = _unit(x, np.int32(4), np.int32(-6))
    return np.float32(min(_nearest(x * _power(-unit)) * _power(unit), np.float32(448.0)))


@subroutine
def _factors(bits, kind, tensor, greatest, emax, half):
    """The divisor for the numbers of a block, and the multiplier for the rounded ones, from the bits of the largest
    magnitude. `half` is a half of the last place of the format at the magnitude, as bits of a float32."""
    if kind == TENSOR:
        return np.float32(tensor), np.float32(1.0)
    if kind in (FP32, BF16):
        factor = np.float32(np.uint32(bits).view(np.float32) / greatest)
        if kind == BF16:
            whole = np.uint32(factor.view(np.uint32))
            nearest = np.uint32(whole + np.uint32(0x7FFF) + np.uint32(np.uint32(whole >> np.uint32(16)) & np.uint32(1)))
            factor = np.uint32(nearest & np.uint32(0xFFFF0000)).view(np.float32)
        return factor, factor
    if kind != E4M3:
        if kind == RCEIL:
            bits, emax = np.uint32(np.float32(np.uint32(bits).view(np.float32) / greatest).view(np.uint32)), np.int32(0)
        if kind in (RCEIL, CEIL):
            bits = np.uint32(bits + np.uint32(0x7FFFFF))
        elif kind == EVEN:
            bits = np.uint32(bits + half)
        exponent = np.int32(max(np.int32(bits >> np.uint32(23)) - np.int32(127) - emax, np.int32(-127)))
        power = np.float32(2.0**-127) if exponent == np.int32(-127) else _power(exponent)  # the least is subnormal
        return power, power
    factor = _in_e4m3(np.float32(np.uint32(bits).view(np.float32) / np.float32(greatest * np.float32(tensor))))
    return np.float32(factor * np.float32(tensor)), factor


@subroutine
def _round_scaled(value, divisor, factor, form, stochastic, place, seed):
    """A number in its format, times the factor of its block; whether it is cut to the greatest, became zero, and is
    subnormal. `form` is the significand, the least exponent, the greatest and the least normal number."""
    significand, least, greatest, normal = form
    magnitude = np.float32(abs(value))
    scaled = np.float32(magnitude / divisor) if divisor > 0 else np.float32(0.0)
    unit = _unit(scaled, significand, least)
    counted = np.float32(scaled * _power(-unit))
    above = np.float32(np.floor(counted + _uniform(place, seed))) if stochastic else np.float32(0)
    rounded = np.float32((above if stochastic else _nearest(counted)) * _power(unit))
    finite = np.uint32(magnitude.view(np.uint32)) < _INFINITY
    kept = np.copysign(np.float32(min(rounded, greatest) * factor), value) if finite else value
    cut, vanished = finite and rounded > greatest, rounded == 0 and magnitude > 0
    return kept, np.int32(cut), np.int32(vanished), np.int32(np.float32(0) < rounded < normal)


@subroutine
def _larger(found, value):
    """The larger of the bits of a magnitude and those of a number, unless that is not finite."""
    bits = np.uint32(np.float32(value).view(np.uint32) & _MAGNITUDE)
    return max(found, bits if bits < _INFINITY else np.uint32(0))


@njit
def round_rows(x, out, block, kind, tensor, form, emax, stochastic, seed):
    """Round x (rows, k), in blocks along k, to a format, times the scale of the block without the tensor's.

    The scale is of the `kind`, and `tensor` is the scale of the tensor; `emax` is the exponent of the format's largest
    number. Returns the numbers of values that saturated, became zero, and became subnormal, and the smallest power of
    two among the scales, or 1. Inf and NaN are unchanged.
    """
    cut, vanished, subnormal, lowest = 0, 0, 0, np.float32(1.0)
    half = np.uint32(1 << (23 - form[0]))
    rows, k = x.shape
    for row in range(rows):
        for start in range(0, k, block):
            stop, found = min(start + block, k), np.uint32(0)
            if kind != TENSOR:
                for i in range(start, stop):
                    found = _larger(found, x[row, i])
            divisor, factor = _factors(found, kind, tensor, form[2], emax, half)
            lowest = min(lowest, factor) if found and factor > 0 else lowest
            for i in range(start, stop):
                kept, a, b, c = _round_scaled(x[row, i], divisor, factor, form, stochastic, row * k + i, seed)
                out[row, i] = kept
                cut, vanished, subnormal = cut + a, vanished + b, subnormal + c
    return cut, vanished, subnormal, lowest


@subroutine
def _largest(x):
    """The bits of the largest finite magnitude, of bits."""
    found = np.uint32(0)
    for i in range(len(x)):
        magnitude = np.uint32(x[i] & _MAGNITUDE)
        found = max(found, magnitude if magnitude < _INFINITY else np.uint32(0))
    return found


@subroutine
def _round_scaled_bits(bits, scaled, factor, tensor, shift, least, greatest):
    """The bits of a number whose magnitude, divided by its scale, is `scaled`: rounded, times both factors.

    A float32 whose last place is the format's at `scaled` is added and subtracted again. `shift` is 24 minus the
    significand, `least` the biased least exponent.
    """
    exponent = np.uint32(max(np.uint32(np.float32(scaled).view(np.uint32) >> np.uint32(23)), least) + shift)
    anchor = np.uint32(exponent << np.uint32(23)).view(np.float32)
    rounded = np.float32(np.float32(scaled + anchor) - anchor)
    kept = np.float32(np.float32(min(rounded, greatest) * factor) * tensor).view(np.uint32)
    finite = np.uint32(bits & _MAGNITUDE) < _INFINITY
    return np.uint32(kept | np.uint32(bits & ~_MAGNITUDE)) if finite else bits


@subroutine
def _round_block(x, out, divisor, factor, exact, job):
    """Round a block; the least of the bits of its results minus 1, zeros being the greatest. `exact` says that the
    divisor is a power of two, whose reciprocal multiplies as well."""
    low, inverse = np.uint32(0xFFFFFFFF), np.float32(np.float32(1.0) / divisor) if divisor > 0 else np.float32(0.0)
    tensor, shift, least, greatest = job.tensor, job.shift, job.least, job.greatest
    if exact or not divisor > 0:
        for i in range(len(x)):
            scaled = np.float32(np.uint32(x[i] & _MAGNITUDE).view(np.float32) * inverse)
            kept = _round_scaled_bits(x[i], scaled, factor, tensor, shift, least, greatest)
            low = min(low, np.uint32(np.uint32(kept & _MAGNITUDE) - np.uint32(1)))
            out[i] = kept
    else:
        for i in range(len(x)):
            scaled = np.float32(np.uint32(x[i] & _MAGNITUDE).view(np.float32) / divisor)
            kept = _round_scaled_bits(x[i], scaled, factor, tensor, shift, least, greatest)
            low = min(low, np.uint32(np.uint32(kept & _MAGNITUDE) - np.uint32(1)))
            out[i] = kept
    return low


_Rows = namedtuple("_Rows", "x out lows rows k block lines kind tensor emax half shift least greatest")


@subroutine
def _round_task(task, worker, job):
    low, zero = np.uint32(0xFFFFFFFF), np.uint32(0)
    for row in range(task * job.lines, min((task + 1) * job.lines, job.rows)):
        for start in range(0, job.k, job.block):
            place, count = 4 * (row * job.k + start), min(job.block, job.k - start)
            x = carray(pointer(job.x + place, zero), count)
            out = carray(pointer(job.out + place, zero), count)
            divisor, factor = _factors(_largest(x), job.kind, job.tensor, job.greatest, job.emax, job.half)
            low = min(low, _round_block(x, out, divisor, factor, job.kind == E8M0 or job.kind > BF16, job))
    carray(pointer(job.lows + 4 * task, zero), 1)[0] = low


Rows = job_class("Rows", _Rows._fields, _round_task)
"""The addresses of x (rows, k), of the result, and of a number for each task, which takes so many lines: the least
bits of its results, minus 1. The rest are those of `round_rows`, to nearest."""


@njit
def run(pool, threads, job):
    launch(pool, threads, (job.rows + job.lines - 1) // job.lines, job)


@njit
def round_columns(x, out, block, kind, tensor, form, emax, stochastic, seed):
    """The same of x (outer, k, columns), whose columns are rounded side by side."""
    cut, vanished, subnormal, lowest = 0, 0, 0, np.float32(1.0)
    half = np.uint32(1 << (23 - form[0]))
    outer, k, columns = x.shape
    largest = allocate(columns, np.uint32(0))
    divisors, factors = allocate(columns, np.float32(0)), allocate(columns, np.float32(0))
    for index in range(outer):
        for start in range(0, k, block):
            stop = min(start + block, k)
            largest[:] = np.uint32(0)
            if kind != TENSOR:
                for i in range(start, stop):
                    for j in range(columns):
                        largest[j] = _larger(largest[j], x[index, i, j])
            for j in range(columns):
                divisors[j], factors[j] = _factors(largest[j], kind, tensor, form[2], emax, half)
                lowest = min(lowest, factors[j]) if largest[j] and factors[j] > 0 else lowest
            for i in range(start, stop):
                place = (index * k + i) * columns
                for j in range(columns):
                    kept, a, b, c = _round_scaled(
                        x[index, i, j], divisors[j], factors[j], form, stochastic, place + j, seed
                    )
                    out[index, i, j] = kept
                    cut, vanished, subnormal = cut + a, vanished + b, subnormal + c
    free(largest)
    free(divisors)
    free(factors)
    return cut, vanished, subnormal, lowest
