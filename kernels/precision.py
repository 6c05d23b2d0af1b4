"""What each precision of a float32 product means: how operands are rounded or split, and which products are summed.

A product at reduced precision replaces each float32 operand x by one or more *parts*, part 0 the largest, each with a
short significand. The products of parts listed in `terms` are exact (22 bits at most) and are summed in fp32. The term
(0, 0) comes last, and it alone decides where Inf and NaN appear: the parts below 0 of an Inf or NaN are zero, and a sum
of the other terms that is not finite is ignored.

* bf16, fp16 and tf32 round each operand once, to the format of that name, its subnormals and its overflow included.
* bf16x3, bf16x6 and bf16x9 split each operand in two or three parts of 8 bits: the leading 3, 6 or all 9 products.
* tf32x3 splits in two parts of 11 bits.
* ieee is fp32 arithmetic on the operands as they are.

Parts of a split keep fp32's exponent range, so that a split loses nothing to underflow, whatever the size of x. Next to
the largest float, where the nearest part 0 would be Inf, the parts are truncated instead. Three parts represent every
finite float32 exactly; two lose at most 2**(-2 * significand) of it. A leading product may overflow where the exact
result lies below the largest float by less than a factor of 1 + 2**(1 - significand).

Sources: G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
computations", arXiv 1904.06376; H. Ootomo, R. Yokota, "Recovering single precision accuracy from tensor cores while
surpassing the FP32 theoretical peak performance", arXiv 2203.03341.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

__all__ = [
    "ALIASES",
    "OF_HALF",
    "PRECISIONS",
    "PRODUCT_BOUND",
    "ROUNDINGS",
    "ExpectedError",
    "Precision",
    "named",
    "predicted_error",
    "without_alias",
]

ROUNDINGS = {
    "rna": "to nearest, ties away from zero",
    "rne": "to nearest, ties to even",
    "rz": "toward zero",
}
"""How the precision tf32 rounds its operands; the other precisions have one way each."""

ALIASES = {"bfx9": "bf16x9"}
"""Second spellings, each with the name in `PRECISIONS`, wherever a precision is taken."""

# Mean square of 2**floor(log2|x|) for x ~ N(0, 1), the square of the unit in which a significand of x counts.
_MEAN_SQUARE_BINADE = 0.5429
# Mean of |x| * 2**floor(log2|x|) for the same x: what truncation, which always errs toward zero, is correlated with.
_MEAN_BINADE = 0.7225


class Precision(NamedTuple):
    """One row of `PRECISIONS`."""

    name: str
    significand: int
    """Bits of each part's significand, the hidden one included."""
    parts: int
    terms: tuple[tuple[int, int], ...]
    """Pairs (part of a, part of b) whose products are summed, in this order: small ones first, (0, 0) last."""
    rounding: str
    """How a part is rounded, a key of `ROUNDINGS`."""
    meaning: str
    """One sentence for tables and messages."""

    @property
    def exact_split(self) -> bool:
        """Whether the parts of every finite float32 sum to it."""
        return self.significand * self.parts >= 24

    @property
    def product_error(self) -> float:
        """Largest |result - a * b| / |a * b| of one product, in the formats' normal range, accumulation aside."""
        unit = 2.0**-self.significand
        return self._dropped([1.0, unit, unit * unit, unit**3][: self._sizes()])

    def product_variance(self, rounding: str | None = None) -> float:
        """Mean square of result - a * b for one product of normal variates, accumulation aside."""
        bits, unit = self.significand, 2.0 ** (1 - self.significand)
        first = _MEAN_SQUARE_BINADE * unit**2 / 12
        # The remainder after part 0 is uniform in +-2**(e - bits): 1/7 is the mean square of its own unit.
        second = _MEAN_SQUARE_BINADE * unit**2 * 2.0 ** (-2 * bits) / 84
        if self.parts == 1 and (rounding or self.rounding) == "rz" and not self.exact_split:
            return 2 * 4 * first + 2 * (_MEAN_BINADE * unit / 2) ** 2
        return self._dropped([1.0, first, second, 0.0][: self._sizes()])

    def _sizes(self) -> int:
        """How many parts have a size: those that are kept, and the remainder where there is one."""
        return self.parts if self.exact_split else self.parts + 1

    def _dropped(self, sizes: list[float]) -> float:
        """Sum of sizes[i] * sizes[j] over the pairs that `terms` leaves out."""
        kept = set(self.terms)
        everything = ((i, j) for i in range(len(sizes)) for j in range(len(sizes)))
        return sum(sizes[i] * sizes[j] for i, j in everything if (i, j) not in kept)


_ONE = ((0, 0),)
_THREE = ((1, 0), (0, 1), (0, 0))
_SIX = ((1, 1), (2, 0), (0, 2), *_THREE)
_NINE = ((2, 2), (2, 1), (1, 2), *_SIX)

PRECISIONS: dict[str, Precision] = {
    row.name: row
    for row in (
        Precision("bf16", 8, 1, _ONE, "rne", "operands rounded to bfloat16"),
        Precision("fp16", 11, 1, _ONE, "rne", "operands rounded to float16: 11 bits, at most 65504, steps of 2**-24"),
        Precision("bf16x3", 8, 2, _THREE, "rne", "operands split in 2 bfloat16 parts, the leading 3 products"),
        Precision("tf32", 11, 1, _ONE, "rna", "operands rounded to TF32: fp32's range, 11 bits"),
        Precision("tf32x3", 11, 2, _THREE, "rna", "operands split in 2 TF32 parts, the leading 3 products"),
        Precision("bf16x6", 8, 3, _SIX, "rne", "operands split in 3 bfloat16 parts, the leading 6 products"),
        Precision("bf16x9", 8, 3, _NINE, "rne", "operands split in 3 bfloat16 parts, all 9 products: exact ones"),
        Precision("ieee", 24, 1, _ONE, "rne", "fp32 arithmetic"),
    )
}
"""Every precision by name, the fastest on hardware that has it first."""

OF_HALF = {"bfloat16": "bf16", "float16": "fp16"}
"""The precision of float32 products that holds all values of a half type, by the type's name."""

PRODUCT_BOUND = {name: row.product_error for name, row in PRECISIONS.items()}
"""The largest relative error of one product, for each precision: the bound of kernels that sum products."""


def named(name: str) -> Precision:
    """The row of a name or alias; a ValueError that lists the names otherwise."""
    row = PRECISIONS.get(ALIASES.get(name, name))
    if row is None:
        known = ", ".join([*PRECISIONS, *ALIASES])
        raise ValueError(f"{name!r} is not a precision; expected one of {known}")
    return row


def without_alias(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords with the precision among them under its name in `PRECISIONS`."""
    precision = keywords.get("precision")
    return {**keywords, "precision": ALIASES[precision]} if precision in ALIASES else keywords


class ExpectedError(NamedTuple):
    """Error of the entries of a product, in the units of its entries."""

    sigma: float
    """Standard deviation of one entry's error."""
    maximum: float
    """Largest error expected over all entries."""


def predicted_error(
    precision: str, k: int, *, entries: int = 1, rounding: str | None = None, chain: int = 384
) -> ExpectedError:
    """Expected error of a product of length k of independent standard normal operands.

    The entries themselves have standard deviation sqrt(k), so sigma / sqrt(k) is the relative error; it does not depend
    on k but for the rounding of fp32 accumulation, which is modelled as chains of `chain` fused steps whose results
    are added in turn. The largest of `entries` errors is taken at the quantile 1 - 1 / (2 * entries) of the normal
    distribution. `rounding` (a key of `ROUNDINGS`) matters for tf32 only.
    """
    from statistics import NormalDist

    row, length = named(precision), min(chain, k)
    operands = k * row.product_variance(rounding if row.name == "tf32" else None)
    steps = length / 2 + (k / length) / 2 if k else 0.0  # mean square of the partial sums, per product
    accumulation = k * steps * _MEAN_SQUARE_BINADE * 2.0**-46 / 12
    sigma = math.sqrt(operands + accumulation)
    return ExpectedError(sigma, sigma * NormalDist().inv_cdf(1 - 0.5 / entries) if entries > 1 else sigma)
