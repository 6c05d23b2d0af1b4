"""Floating-point formats with fewer bits than the arrays that hold their values: rounding to them, and their range.

The definitions are NumPy's own arithmetic, for any format and any rounding. `parts` has the compiled forms of those
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


class Element(NamedTuple):
    """A format of single numbers."""

    significand: int
    """Bits of the significand, the hidden one included."""
    least: int
    """The least exponent of normal numbers; subnormals have its unit."""
    greatest: float
    """The greatest finite number."""
    rounding: str = "rne"
    """How products round their operands to it, a key of `products.ROUNDINGS`."""
    has_infinity: bool = False
    """Whether greater magnitudes become Inf; otherwise they become the greatest number."""

    @property
    def has_range_of_fp32(self) -> bool:
        return self.least == _LEAST_FP32

    @property
    def is_integer(self) -> bool:
        return self.greatest < self.least_normal

    @property
    def least_normal(self) -> float:
        return 2.0**self.least

    @property
    def least_subnormal(self) -> float:
        return 2.0 ** (self.least + 1 - self.significand)

    @property
    def overflow_threshold(self) -> float:
        """The least magnitude that does not round to a finite number with ties away from zero or to even."""
        exponent = int(np.frexp(self.greatest)[1])
        return self.greatest + 2.0 ** (exponent - self.significand - 1)


_LEAST_FP32 = -126


def _with_range_of_fp32(significand: int, rounding: str = "rne") -> Element:
    return Element(significand, _LEAST_FP32, (2 - 2.0 ** (1 - significand)) * 2.0**127, rounding, True)


ELEMENTS = {
    "fp32": _with_range_of_fp32(24), "tf32": _with_range_of_fp32(11, "rna"), "bf16": _with_range_of_fp32(8),
    "fp16": Element(11, -14, 65504.0, has_infinity=True), "e5m2": Element(3, -14, 57344.0, has_infinity=True),
    "e4m3": Element(4, -6, 448.0), "e3m2": Element(3, -2, 28.0), "e2m3": Element(4, 0, 7.5), "e2m1": Element(2, 0, 6.0),
    "e5m2fnuz": Element(3, -15, 57344.0), "e4m3fnuz": Element(4, -7, 240.0), "int8": Element(8, 7, 127.0),
    "int4": Element(4, 3, 7.0),
}  # fmt: skip
"""Every element by name, of precisions, formats of operands and the matrix units of devices. Integers are those whose
numbers all lie on the grid of subnormals."""


def find_element(name: str) -> Element:
    """The row of a name; a ValueError that lists the names otherwise."""
    row = ELEMENTS.get(name)
    if row is None:
        raise ValueError(f"format must be one of {', '.join(ELEMENTS)}, got {name!r}")
    return row


def round_to_format(x: np.ndarray, name: str, rounding: str = "rne", uniform: np.ndarray | None = None) -> np.ndarray:
    """`x`, float32 or float64, with each value rounded to a format; the dtype and the sign of zero stay.

    "stochastic" rounds away from zero where `uniform`, numbers in [0, 1) of the shape of `x`, is less than the
    remainder in units of the last place; so the expected value is `x`. It rounds to nearest at the end of the range.
    NaN stays. "rz" gives no Inf for finite values.
    """
    form, magnitude = find_element(name), np.abs(x)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.maximum(np.frexp(magnitude)[1] - 1, form.least) + 1 - form.significand
        scaled = np.ldexp(magnitude, -exponent)  # in units of the last place: exact, as is all that follows
        whole = np.floor(scaled)
        rest = scaled - whole
        rounded = np.ldexp(whole + _is_rounded_up(whole, rest, rounding, uniform), exponent)
        rounded = np.where(np.isfinite(magnitude), rounded, magnitude).astype(x.dtype, copy=False)
    largest = x.dtype.type(form.greatest)
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
    form = find_element(name)
    magnitude = np.abs(x if x.dtype.itemsize >= 4 else x.astype(np.float32))
    with np.errstate(over="ignore"):  # the threshold of fp32 is Inf in float32
        largest = magnitude.dtype.type(form.overflow_threshold)
    tie = form.least_subnormal / 2  # rounds to zero
    least = form.least_normal - tie  # rounds to the least normal number, whose significand is even
    infinite = _count(np.isinf(magnitude))
    beyond, normal = _count(magnitude >= largest), _count(magnitude >= least)
    nonzero, kept = _count(magnitude > 0), _count(magnitude > tie)
    return RangeCounts(
        overflow=beyond - infinite if form.has_infinity else 0, saturated=0 if form.has_infinity else beyond,
        underflow=nonzero - kept, subnormal=0 if form.is_integer else kept - normal, size=x.size,
    )  # fmt: skip


def _count(mask: np.ndarray) -> int:
    return int(np.count_nonzero(mask))
