"""Which magnitudes loops that split operands may be given, so that the product keeps the contract of its precision.

TDPBF16PS flushes subnormal operands and results to zero. A part of an operand may be subnormal where the operand is
not, and a product or a difference of products where neither operand is. Parts to nearest round up to Inf next to the
largest float, and a split Inf or NaN poisons the cross terms. Packing finds the least non-zero and the greatest
magnitude of each operand; a product that these do not admit is refused, and another implementation takes it.

The rules are sufficient, not necessary: they look at the extremes, whichever values meet, and are those of tiles on
vector units as well, which flush nothing but lose the small parts of what is as small. All are about exponents.
"""

from __future__ import annotations

import struct

__all__ = ["admitted", "refusal"]

_LEAST_NORMAL = -126
# A flushed part or product is an error of at most 2**-126. 24 bits above, that is the rounding of fp32 accumulation.
_LEAST_PRODUCT = _LEAST_NORMAL + 24
# Three parts of 8 bits reach 23 binades below a value.
_LEAST_SPLIT = _LEAST_NORMAL + 23
_LARGEST_SUM = 126
_SPLIT_OVERFLOW = 0x7F7F8000  # bits of the least float32 that rounds to Inf in bf16
_FP16_OVERFLOW = 0x477FF000  # 65520


def _value(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def _exponent(bits: int) -> int:
    """Of a float32: the largest power of two that is not above it; -127 for subnormals."""
    return (bits >> 23) - 127


def refusal(precision: str, depth: int, found_a: int, found_b: int) -> str | None:
    """Why operands with these magnitudes (greatest << 32 | least but zero, as float32 bits) are not multiplied in
    parts at this precision, or None. A least magnitude of 0 says that all values are zero."""
    least_a, greatest_a = found_a & 0xFFFFFFFF, found_a >> 32
    least_b, greatest_b = found_b & 0xFFFFFFFF, found_b >> 32
    if precision != "bf16":
        overflow = _FP16_OVERFLOW if precision == "fp16" else _SPLIT_OVERFLOW
        greatest = max(greatest_a, greatest_b)
        if greatest >= overflow:
            return f"an operand holds {_value(greatest):.6g}; parts must stay below {_value(overflow):.6g}"
        largest = _exponent(greatest_a) + _exponent(greatest_b) + 2 + depth.bit_length()
        if largest > _LARGEST_SUM:
            return f"the sum may be 2**{largest}; beyond 2**{_LARGEST_SUM} a part of it may overflow on its own"
    if precision == "fp16":  # whose values are multiples of 2**-24
        return None
    floor = _LEAST_NORMAL if precision == "bf16" else _LEAST_SPLIT
    for least in (least_a, least_b):
        if least and _exponent(least) < floor:
            return f"an operand holds {_value(least):.3g}, of which parts are flushed to zero, as below 2**{floor}"
    least = _exponent(least_a) + _exponent(least_b)
    if least < _LEAST_PRODUCT and least_a and least_b:
        return f"the least product may be 2**{least}, below 2**{_LEAST_PRODUCT}, and subnormal sums are flushed to zero"
    return None


def admitted(precision: str, depth: int) -> tuple[int, int]:
    """Between which magnitudes, as float32 bits, operands are never refused at any depth up to this one."""
    greatest = (_LARGEST_SUM - 2 - depth.bit_length()) // 2
    if precision == "fp16":
        greatest = min(greatest, _exponent(_FP16_OVERFLOW) - 1)
    return (-(-_LEAST_PRODUCT // 2) + 127) << 23, ((greatest + 128) << 23) - 1
