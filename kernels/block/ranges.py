"""Which magnitudes loops that split operands may be given, so that the product keeps the contract of its precision.

TDPBF16PS flushes subnormal operands and results to zero. A part of an operand may be subnormal where the operand is
not, and a product or a difference of products where neither operand is. Parts to nearest round up to Inf next to the
largest float, and a split Inf or NaN poisons the cross terms. Packing finds the least non-zero and the greatest
magnitude of each operand.

Where something may overflow the product is refused, and another implementation takes it. Where something may be flushed
the result decides: what is flushed changes it by an amount that the magnitudes bound, and a value that this cannot move
by a unit in the last place keeps the bound of its precision. One number of 1e-40 beside others, as a GELU leaves them,
costs a look at the results; a product that is refused costs 3 to 15 times as much. Results near or at zero may be sums
of tiny products alone: if there are any, other than those of rows and columns of zeros, the product is refused.

The rules are sufficient, not necessary: they look at the extremes, whichever values meet, and are those of tiles on
vector units as well, which flush nothing but lose the small parts of what is as small. All are about exponents.
"""

from __future__ import annotations

import struct

import numpy as np

from ..registry import Refused
from ..runtime.errstate import restore, silence

_LEAST_NORMAL = -126
# A flushed part or product is an error of at most 2**-126. 24 bits above, that is the rounding of fp32 accumulation.
_LEAST_PRODUCT = _LEAST_NORMAL + 24
# Three parts of 8 bits reach 23 binades below a value.
_LEAST_SPLIT = _LEAST_NORMAL + 23
_LARGEST_SUM = 126
_PARTS_FLUSHED = 2
"""All flushed parts of one value are less than 2 ** (_LEAST_NORMAL + this)."""
_STEPS_FLUSHED = 5
"""Steps of all terms (each may flush its sum) are at most 2 ** this for each product."""
_LOSE_PARTS = ("bf16", "bf16x3")
"""Precisions whose small parts are rounded, and lost. Others cut parts off the bits (`packing.cut_parts`), where those
that a part does not hold get into its neighbour."""
_UNITS = 25
"""Binades from what is flushed to results whose rounding hides it: 24 bits, and one for what is rounded before."""
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
    return _underflow(precision, least_a, least_b)


def _floor(precision: str) -> int:
    """The exponent below which parts of a value are flushed."""
    return _LEAST_NORMAL if precision == "bf16" else _LEAST_SPLIT


def _underflow(precision: str, least_a: int, least_b: int) -> str | None:
    """What may be flushed, as a sentence, or None."""
    if precision == "fp16":  # whose values are multiples of 2**-24
        return None
    floor = _floor(precision)
    for least in (least_a, least_b):
        if _has_small_parts(precision, least):
            return f"an operand holds {_value(least):.3g}, whose parts are flushed to zero, as below 2**{floor}"
    least = _exponent(least_a) + _exponent(least_b)
    if least < _LEAST_PRODUCT and least_a and least_b:
        return f"the least product may be 2**{least}, below 2**{_LEAST_PRODUCT}, and subnormal sums are flushed to zero"
    return None


def certain_from(precision: str, depth: int, found_a: int, found_b: int) -> float:
    """Return the magnitude from which results keep the bound of a precision whatever is flushed; 0.0 where nothing is.

    The arguments are those of `refusal`. Raises `Refused` where something may overflow.
    """
    sentence = refusal(precision, depth, found_a, found_b)
    if sentence is None:
        return 0.0
    if sentence != _underflow(precision, found_a & 0xFFFFFFFF, found_b & 0xFFFFFFFF):
        raise Refused(sentence)
    if precision not in _LOSE_PARTS and (_has_small_parts(precision, found_a) or _has_small_parts(precision, found_b)):
        raise Refused(sentence)
    return 2.0 ** (_flush_bound(precision, depth, found_a, found_b) + _UNITS)


def _has_small_parts(precision: str, found: int) -> bool:
    """Whether an operand with these magnitudes holds values with subnormal parts."""
    least = found & 0xFFFFFFFF
    return least != 0 and _exponent(least) < _floor(precision)


def _flush_bound(precision: str, depth: int, found_a: int, found_b: int) -> int:
    """The exponent of a bound of all that a result may lose: flushed parts times the other factors, and sums."""
    lost = _LEAST_NORMAL + _STEPS_FLUSHED
    for found, other in ((found_a, found_b), (found_b, found_a)):
        if _has_small_parts(precision, found):
            known = other >> 32 >= other & 0xFFFFFFFF  # small products at bf16 find no greatest magnitudes
            lost = max(lost, _LEAST_NORMAL + _PARTS_FLUSHED + (_exponent(other >> 32) + 1 if known else 128))
    return lost + depth.bit_length() + 2


def refuse_uncertain(least: float, out: np.ndarray, a: np.ndarray | None = None, b: np.ndarray | None = None) -> None:
    """Raise `Refused` if values of `out` are below `least`, and so may lose more than their bound to what is flushed,
    or NaN, as zero times Inf is where a factor was flushed to zero.

    Given the factors a (..., m, k) and b (..., k, n), the zeros of rows of zeros of a and columns of zeros of b pass.
    """
    if not least:
        return
    token = silence()  # of NaN
    try:
        small = ~(np.abs(out if out.dtype.itemsize > 2 else out.astype(np.float32)) >= np.float32(least))
        if small.any() and a is not None:
            small &= a.any(-1)[..., None]
        if b is not None and small.any():
            small &= b.any(-2)[..., None, :]
    finally:
        restore(token)
    if small.any():
        raise Refused(
            f"a result is {np.abs(out[small].astype(np.float64)).min():.3g}; below {least:.3g} what is flushed to zero "
            "may count"
        )


def admitted_magnitudes(precision: str, depth: int) -> tuple[int, int]:
    """Between which magnitudes, as float32 bits, operands are never refused at any depth up to this one."""
    greatest = (_LARGEST_SUM - 2 - depth.bit_length()) // 2
    if precision == "fp16":
        greatest = min(greatest, _exponent(_FP16_OVERFLOW) - 1)
    return (-(-_LEAST_PRODUCT // 2) + 127) << 23, ((greatest + 128) << 23) - 1
