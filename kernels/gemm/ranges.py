"""Which magnitudes tiles may be given, so that the product keeps the contract of its precision.

TDPBF16PS flushes subnormal operands and results to zero. A part of an operand may be subnormal where the operand is
not, and a product or a difference of products where neither operand is. Parts to nearest round up to Inf next to the
largest float, and a split Inf or NaN poisons the cross terms. Packing finds the least non-zero and the greatest
magnitude of each operand; a product that these do not admit is refused, and another implementation takes it.

The rules are sufficient, not necessary: they look at the extremes, whichever values meet.
"""

from __future__ import annotations

import math
import struct

__all__ = ["refusal"]

_LEAST_NORMAL = -126
# A flushed part or product is an error of at most 2**-126. 24 bits above, that is the rounding of fp32 accumulation.
_LEAST_PRODUCT = _LEAST_NORMAL + 24
# Three parts of 8 bits reach 23 binades below a value.
_LEAST_SPLIT = _LEAST_NORMAL + 23
_SPLIT_OVERFLOW = 0x7F7F8000  # bits of the least float32 that rounds to Inf in bf16
_FP16_OVERFLOW = 0x477FF000  # 65520


def _value(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def _refused_operand(least: int, greatest: int, precision: str) -> str | None:
    single = precision == "bf16"
    floor = _LEAST_NORMAL if single else _LEAST_SPLIT
    if precision != "fp16" and least and _value(least) < 2.0**floor:
        return f"an operand holds {_value(least):.3g}, which tiles flush to zero; they take 2**{floor} and above"
    if single:
        return None
    overflow = _FP16_OVERFLOW if precision == "fp16" else _SPLIT_OVERFLOW
    if greatest >= overflow:
        return f"an operand holds {_value(greatest):.6g}; parts for tiles must stay below {_value(overflow):.6g}"
    return None


def refusal(precision: str, depth: int, found_a: int, found_b: int) -> str | None:
    """Why operands with these magnitudes (greatest << 32 | least but zero, as float32 bits) are not multiplied by
    tiles at this precision, or None."""
    limits = [(found & 0xFFFFFFFF, found >> 32) for found in (found_a, found_b)]
    for least, greatest in limits:
        sentence = _refused_operand(least, greatest, precision)
        if sentence is not None:
            return sentence
    (least_a, greatest_a), (least_b, greatest_b) = limits
    if precision == "fp16" or not (least_a and least_b):  # products of float16 are at least 2**-48
        return None
    least = math.frexp(_value(least_a))[1] + math.frexp(_value(least_b))[1] - 2
    if least < _LEAST_PRODUCT:
        return f"the least product may be 2**{least}, below 2**{_LEAST_PRODUCT}, and tiles flush subnormal sums to zero"
    greatest = math.frexp(_value(greatest_a))[1] + math.frexp(_value(greatest_b))[1] + depth.bit_length()
    if precision != "bf16" and greatest > 126:
        return f"the sum may be 2**{greatest}; beyond 2**126 the parts of a product may overflow on their own"
    return None
