"""Rounding float32 arrays to bf16, fp16 and tf32, and splitting them in parts, exact to the bit.

Values stay float32 arrays whose significands are short. The kernels work on bits: adding to the bits of a magnitude and
clearing the low ones rounds it, a carry runs into the exponent as it should, subnormals are fixed-point numbers on
which the same addition is right, and what passes the largest float becomes Inf. Sources: the conversion instructions
of NVIDIA's PTX (`cvt.rna.tf32.f32`) and Intel's VCVTNEPS2BF16, whose flush of subnormals is not followed.

Importing this module imports Numba.
"""

from __future__ import annotations

import functools

import numpy as np

from ..runtime.jit import njit, subroutine
from . import products as precisions
from .elements import ELEMENTS, Element

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_QUIET = np.uint32(0x00400000)
_LEAST_NORMAL = np.uint32(0x00800000)


def _rounding_constants(significand: int, rounding: str) -> tuple[np.uint32, np.uint32, np.uint32]:
    """The arguments (shift, bias, odd) with which `_round_significand` rounds to a number of bits in a given way."""
    shift = 24 - significand
    bias, odd = {"rna": (1 << (shift - 1), 0), "rne": ((1 << (shift - 1)) - 1, 1), "rz": (0, 0)}[rounding]
    return np.uint32(shift), np.uint32(bias), np.uint32(odd)


def _range_constants(operand: Element) -> tuple[np.uint32, np.uint32, np.uint32]:
    """The arguments (greatest, least_normal, fixed) with which `_round_narrow` rounds to a format."""
    fixed = 2.0 ** (operand.least + 1 - operand.significand + 23)
    bits = np.array([operand.greatest, 2.0**operand.least, fixed], np.float32).view(np.uint32)
    return bits[0], bits[1], bits[2]


@subroutine
def _bits(value):
    return np.float32(value).view(np.uint32)


@subroutine
def _value(bits):
    return np.uint32(bits).view(np.float32)


# Numba widens the result of uint32 arithmetic to 64 bits; each np.uint32() below keeps a vector register at 16 lanes.


@subroutine
def _round_significand(bits, shift, bias, odd):
    """The bits of a float32 rounded to 24 - shift significant bits (fewer for a subnormal: to the format's grid).

    All arguments (`_rounding_constants` gives the last three) and the result are uint32. Inf stays. A NaN keeps its
    sign and the payload that fits, and becomes quiet: one whose payload lies in the low bits only would turn into Inf.
    """
    mask = np.uint32(np.uint32(0xFFFFFFFF) << shift)
    tie = np.uint32(np.uint32(bits >> shift) & odd)
    rounded = np.uint32(np.uint32(bits + bias) + tie)
    magnitude = np.uint32(bits & _MAGNITUDE)
    special = np.uint32(bits | _QUIET) if magnitude > _INFINITY else bits
    return np.uint32((special if magnitude >= _INFINITY else rounded) & mask)


@subroutine
def _round_narrow(bits, shift, bias, odd, greatest, least_normal, fixed):
    """The same for a format of fewer exponents than float32, ties to even, from the bits of its greatest and its least
    normal number and of the number whose unit in the last place is that of its subnormals. Inf is beyond the greatest.
    """
    magnitude = np.uint32(bits & _MAGNITUDE)
    normal = _round_significand(magnitude, shift, bias, odd)
    normal = _INFINITY if greatest < normal < _INFINITY else normal
    point = _value(fixed)
    subnormal = _bits(np.float32(_value(magnitude) + point) - point)  # rounds to that unit
    return np.uint32((subnormal if magnitude < least_normal else normal) | np.uint32(bits & _SIGN))


@subroutine
def _leading(bits, shift, bias, odd, truncated_from):
    """The largest part of a float32: `_round_significand` with all its bits for subnormals too, and never Inf.

    A subnormal is multiplied by 2**24 and the result divided again, both exact. A magnitude from `truncated_from`, the
    first that would round to Inf, is truncated.
    """
    magnitude = np.uint32(bits & _MAGNITUDE)
    small = magnitude < _LEAST_NORMAL
    up = np.float32(2.0**24) if small else np.float32(1.0)
    down = np.float32(2.0**-24) if small else np.float32(1.0)
    scaled = _bits(_value(bits) * up)
    rounded = _round_significand(scaled, shift, bias, odd)
    nearest = _bits(_value(rounded) * down)
    truncated = np.uint32(bits & np.uint32(np.uint32(0xFFFFFFFF) << shift))
    return truncated if truncated_from <= magnitude < _INFINITY else nearest


@subroutine
def _remainder(bits, part):
    """Bits of x - part, which is exact; zero where x is Inf or NaN."""
    difference = _bits(_value(bits) - _value(part))
    return np.uint32(0) if np.uint32(bits & _MAGNITUDE) >= _INFINITY else difference


@subroutine
def _second(bits, rest, shift, bias, odd, truncated_from):
    """Part 1 of a float32 from what part 0 left: truncated where part 0 is, or else the two could sum to 2**128."""
    edge = np.uint32(bits & _MAGNITUDE) >= truncated_from
    rest_bias, rest_odd = (np.uint32(0), np.uint32(0)) if edge else (bias, odd)
    return _leading(rest, shift, rest_bias, rest_odd, truncated_from)


@njit
def _round_array(source, out, shift, bias, odd):
    bits, rounded = source.view(np.uint32), out.view(np.uint32)
    for i in range(bits.size):
        rounded[i] = _round_significand(bits[i], shift, bias, odd)


@njit
def _round_array_narrow(source, out, shift, bias, odd, greatest, least_normal, fixed):
    bits, rounded = source.view(np.uint32), out.view(np.uint32)
    for i in range(bits.size):
        rounded[i] = _round_narrow(bits[i], shift, bias, odd, greatest, least_normal, fixed)


@njit
def _split_in_two(source, high, low, shift, bias, odd, truncated_from):
    bits, first, second = source.view(np.uint32), high.view(np.uint32), low.view(np.uint32)
    for i in range(bits.size):
        x = bits[i]
        part = _leading(x, shift, bias, odd, truncated_from)
        first[i] = part
        second[i] = _second(x, _remainder(x, part), shift, bias, odd, truncated_from)


@njit
def _split_in_three(source, high, middle, low, shift, bias, odd, truncated_from):
    bits = source.view(np.uint32)
    first, second, third = high.view(np.uint32), middle.view(np.uint32), low.view(np.uint32)
    for i in range(bits.size):
        x = bits[i]
        part = _leading(x, shift, bias, odd, truncated_from)
        rest = _remainder(x, part)
        next_part = _second(x, rest, shift, bias, odd, truncated_from)
        first[i] = part
        second[i] = next_part
        third[i] = _remainder(rest, next_part)


def _kernel_input(array: np.ndarray) -> np.ndarray:
    """`array`, or a copy where the kernels could not take it: they are compiled for dense, aligned, writable arrays."""
    array = np.asarray(array)
    if array.dtype != np.float32:
        raise TypeError(f"precisions round float32 arrays, and this one is {array.dtype}; convert it to float32 first")
    dense = array.flags.c_contiguous or array.flags.f_contiguous
    return array if dense and array.flags.behaved else np.array(array, order="K" if dense else "C")


def _run(kernel, array: np.ndarray, count: int, *constants: np.uint32) -> tuple[np.ndarray, ...]:
    """`count` results of an elementwise kernel, in the memory order of the input."""
    source = _kernel_input(array)
    results = tuple(np.empty_like(source) for _ in range(count))
    kernel(source.ravel("K"), *(result.ravel("K") for result in results), *constants)
    return results


def round_to(array: np.ndarray, precision: str, rounding: str | None = None) -> np.ndarray:
    """`array` with each value rounded to the operands of `precision`.

    Arguments:
        array: float32, any shape and strides.
        precision: one of operands in one part: "bf16", "fp16", "tf32", or "ieee", which rounds nothing and returns
            `array` itself.
        rounding: "rna", "rne" or "rz", for tf32, which defaults to "rna"; the others round ties to even.

    Returns:
        a new float32 array. Magnitudes that round beyond the format's largest become Inf.
    """
    row = precisions.find_precision(precision)
    if row.parts != 1:
        raise ValueError(f"{precision!r} has operands of {row.parts} parts; use split(array, {precision!r})")
    operand = ELEMENTS[row.operand]
    if operand.significand == 24:
        return array
    way = precisions.acting_rounding(row.name, rounding) or operand.rounding
    if way not in precisions.ROUNDINGS:
        raise ValueError(f"{way!r} is not a rounding; expected one of {', '.join(precisions.ROUNDINGS)}")
    constants = _rounding_constants(operand.significand, way)
    if operand.has_range_of_fp32:
        return _run(_round_array, array, 1, *constants)[0]
    return _run(_round_array_narrow, array, 1, *constants, *_range_constants(operand))[0]


def split(array: np.ndarray, precision: str) -> tuple[np.ndarray, ...]:
    """The parts of each value of a float32 array, largest first, as float32 arrays: one, two or three of them.

    Each part has the precision's number of significant bits, and fp32's range: nothing is lost to underflow. Three
    parts sum to the value exactly, two to within 2**(-2 * significand) of it. The parts below the first of an Inf or
    NaN are zero. A precision of one part gives (round_to(array, precision),).
    """
    row = precisions.find_precision(precision)
    if row.parts == 1:
        return (round_to(array, precision),)
    kernel = _split_in_two if row.parts == 2 else _split_in_three
    shift, bias, odd = _rounding_constants(row.significand, row.rounding)
    # The first magnitude that rounds to Inf: the largest part and a half of its last place.
    truncated_from = np.uint32(0x7F800000 - (1 << (int(shift) - 1)))
    return _run(kernel, array, row.parts, shift, bias, odd, truncated_from)


def round_to_parts(array: np.ndarray, precision: str, rounding: str | None = None) -> np.ndarray:
    """The sum of the parts of each value of a float32 array, which is exact: what is multiplied where no product of
    parts is left out. A precision of one part gives round_to(array, precision, rounding)."""
    if precisions.find_precision(precision).parts == 1:
        return round_to(array, precision, rounding)
    return functools.reduce(np.add, split(array, precision))
