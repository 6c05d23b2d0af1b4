"""Floating-point formats with fewer bits than the arrays that hold their values: rounding to them, and their range.

The definitions are NumPy's own arithmetic, for any format and any rounding. `rounding` has the compiled forms of those
that products use.

Sources: NVIDIA's PTX ISA for TF32; P. Micikevicius et al., "FP8 formats for deep learning", arXiv 2209.05433; the OCP
Microscaling Formats (MX) specification 1.0 for E3M2, E2M3 and E2M1.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import numpy as np

ROUNDINGS = ("rne", "rna", "rz", "stochastic")
"""To nearest with ties to even, or away from zero; toward zero; to either neighbour, the nearer one more often."""


class Format(NamedTuple):
    """A binary floating-point format.

    Attributes:
        significand: bits, the hidden one included.
        least_exponent: of normal numbers; subnormals have its unit.
        largest: the largest finite number.
        has_infinity: whether greater magnitudes become Inf; otherwise they become the largest number.
    """

    name: str
    significand: int
    least_exponent: int
    largest: float
    has_infinity: bool

    @property
    def least_normal(self) -> float:
        return 2.0**self.least_exponent

    @property
    def least_subnormal(self) -> float:
        return 2.0 ** (self.least_exponent + 1 - self.significand)

    @property
    def overflow_threshold(self) -> float:
        """The least magnitude that does not round to a finite number with ties away from zero or to even."""
        exponent = int(np.frexp(self.largest)[1])
        return self.largest + 2.0 ** (exponent - self.significand - 1)


FORMATS = {
    row.name: row
    for row in (
        Format("fp32", 24, -126, (2 - 2.0**-23) * 2.0**127, True),
        Format("tf32", 11, -126, (2 - 2.0**-10) * 2.0**127, True),
        Format("bf16", 8, -126, (2 - 2.0**-7) * 2.0**127, True),
        Format("fp16", 11, -14, 65504.0, True),
        Format("e5m2", 3, -14, 57344.0, True),
        Format("e4m3", 4, -6, 448.0, False),
        Format("e3m2", 3, -2, 28.0, False),
        Format("e2m3", 4, 0, 7.5, False),
        Format("e2m1", 2, 0, 6.0, False),
    )
}
"""Every format by name, the most precise first."""


def format_named(name: str) -> Format:
    """The row of a name; a ValueError that lists the names otherwise."""
    row = FORMATS.get(name)
    if row is None:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return row


def round_to_format(x: np.ndarray, name: str, rounding: str = "rne", uniform: np.ndarray | None = None) -> np.ndarray:
    """`x`, float32 or float64, with each value rounded to a format; the dtype and the sign of zero stay.

    "stochastic" rounds away from zero where `uniform`, numbers in [0, 1) of the shape of `x`, is less than the
    remainder in units of the last place; so the expected value is `x`. It rounds to nearest at the end of the range.
    NaN stays. "rz" gives no Inf for finite values.
    """
    form, magnitude = format_named(name), np.abs(x)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.maximum(np.frexp(magnitude)[1] - 1, form.least_exponent) + 1 - form.significand
        scaled = np.ldexp(magnitude, -exponent)  # in units of the last place: exact, as is all that follows
        whole = np.floor(scaled)
        rest = scaled - whole
        rounded = np.ldexp(whole + _is_rounded_up(whole, rest, rounding, uniform), exponent)
        rounded = np.where(np.isfinite(magnitude), rounded, magnitude).astype(x.dtype, copy=False)
    largest = x.dtype.type(form.largest)
    above = (
        np.isfinite(magnitude) & (rounded > largest) if form.has_infinity and rounding == "rz" else rounded > largest
    )
    beyond = x.dtype.type(np.inf) if form.has_infinity and rounding != "rz" else largest
    return np.copysign(np.where(above, beyond, rounded), x)


def _is_rounded_up(whole: np.ndarray, rest: np.ndarray, rounding: str, uniform: np.ndarray | None) -> np.ndarray:
    if rounding == "rne":
        return (rest > 0.5) | ((rest == 0.5) & (np.fmod(whole, 2) == 1))
    if rounding == "rna":
        return rest >= 0.5
    if rounding == "rz":
        return np.zeros(rest.shape, bool)
    if rounding == "stochastic" and uniform is not None:
        return uniform < rest
    raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")


class RangeCounts(namedtuple("RangeCounts", "overflow saturated underflow subnormal size")):
    """How many values of an array a format's range does not hold as they are, when rounded to nearest, ties to even.

    Attributes:
        overflow: finite values that become Inf.
        saturated: values that become the largest number, of formats without Inf.
        underflow: values that become zero and were not.
        subnormal: values that become subnormal, and so lose bits.
        size: of the array.
    """

    def __add__(self, other: RangeCounts) -> RangeCounts:  # type: ignore[override]
        return RangeCounts(*(a + b for a, b in zip(self, other, strict=True)))


def count_range(x: np.ndarray, name: str) -> RangeCounts:
    """Count the values of a real array that lie outside of a format's normal range."""
    form = format_named(name)
    magnitude = np.abs(x if x.dtype.itemsize >= 4 else x.astype(np.float32))
    with np.errstate(over="ignore"):  # the threshold of fp32 is Inf in float32
        largest = magnitude.dtype.type(form.overflow_threshold)
    tie = form.least_subnormal / 2  # rounds to zero
    least = form.least_normal - tie  # rounds to the least normal number, whose significand is even
    infinite = _count(np.isinf(magnitude))
    beyond, normal = _count(magnitude >= largest), _count(magnitude >= least)
    nonzero, kept = _count(magnitude > 0), _count(magnitude > tie)
    return RangeCounts(
        overflow=beyond - infinite if form.has_infinity else 0,
        saturated=0 if form.has_infinity else beyond,
        underflow=nonzero - kept,
        subnormal=kept - normal,
        size=x.size,
    )


def _count(mask: np.ndarray) -> int:
    return int(np.count_nonzero(mask))
