"""What each precision of a float32 product means: how operands are rounded or split, and which products are summed.

A product at reduced precision replaces each float32 operand x by one or more *parts*, part 0 the largest, each with a
short significand. The products of parts listed in `terms` are exact (22 bits at most) and are summed in fp32. The term
(0, 0) comes last, and it alone decides where Inf and NaN appear: the parts below 0 of an Inf or NaN are zero, and a sum
of the other terms that is not finite is ignored.

* bf16, fp16 and tf32 round each operand once, to the format of that name, its subnormals and its overflow included.
* bf16x3, bf16x6 and bf16x9 split each operand in two or three parts of 8 bits: the leading 3, 6 or all 9 products.
* tf32x3 splits in two parts of 11 bits.
* ieee is fp32 arithmetic on the operands as they are.
* e4m3, e5m2, mxfp8, mxfp6, mxfp4 and nvfp4 scale operands before they round them (`Scale`, `scaling.py`).

Parts of a split keep fp32's exponent range, so that a split loses nothing to underflow, whatever the size of x. Next to
the largest float, where the nearest part 0 would be Inf, the parts are truncated instead. Three parts represent every
finite float32 exactly; two lose at most 2**(-2 * significand) of it. A leading product may overflow where the exact
result lies below the largest float by less than a factor of 1 + 2**(1 - significand).

Sources: G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
computations", arXiv 1904.06376; H. Ootomo, R. Yokota, "Recovering single precision accuracy from tensor cores while
surpassing the FP32 theoretical peak performance", arXiv 2203.03341; the OCP Microscaling Formats (MX) specification 1.0
for the MX formats; NVIDIA's documentation of cuBLAS for block scales of FP4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .elements import ELEMENTS

ROUNDINGS = {"rna": "to nearest, ties away from zero", "rne": "to nearest, ties to even", "rz": "toward zero"}
"""How the precision tf32 rounds its operands; the others round to nearest even, scaled ones also stochastically."""

SCALED_ROUNDINGS = ("rne", "stochastic")
"""How scaled operands may be rounded: to nearest even, or to either neighbour, the nearer one more often."""

ALIASES = {"bfx9": "bf16x9"}
"""Second spellings, each with the name in `PRECISIONS`, wherever a precision is taken."""

# Mean square of 2**floor(log2|x|) for x ~ N(0, 1), the square of the unit of x's significand.
_MEAN_SQUARE_BINADE = 0.5429
# Mean of |x| * 2**floor(log2|x|) for the same x: what truncation, which always errs toward zero, is correlated with.
_MEAN_BINADE = 0.7225


class Scale(NamedTuple):
    """By what operands are divided before they are rounded, so that their largest lie at the end of the format."""

    block: int = 0
    """How many neighbours along K have a scale in common; 0 for all of the tensor."""
    format: str = "fp32"
    """Of the scales of blocks: "e8m0", powers of two, or "e4m3"; all but powers of two follow a float32 scale of the
    tensor."""

    @property
    def of_tensor(self) -> bool:
        """Whether the tensor has a scale."""
        return self.format != "e8m0"


class Precision(NamedTuple):
    """One row of `PRECISIONS`."""

    name: str
    operand: str
    """The format of each part, a key of `ELEMENTS`."""
    parts: int
    terms: tuple[tuple[int, int], ...]
    """Pairs (part of a, part of b) whose products are summed, in this order: small ones first, (0, 0) last."""
    meaning: str
    """One sentence for tables and messages."""
    units: tuple[str, ...] = ()
    """Capabilities (`cpu.LEVELS`) with an instruction for its products, whose loops take it where they are faster."""
    scale: Scale | None = None
    """Of its operands; None multiplies them as they are."""

    @property
    def significand(self) -> int:
        """Bits of each part's significand, the hidden one included."""
        return ELEMENTS[self.operand].significand

    @property
    def rounding(self) -> str:
        """How a part is rounded, a key of `ROUNDINGS`."""
        return ELEMENTS[self.operand].rounding

    @property
    def is_exact(self) -> bool:
        """Whether the products of all float32 operands are exact."""
        return self.exact_split and len(self.terms) == self.parts**2

    @property
    def bf16_parts(self) -> int:
        """How many bf16 parts hold an operand."""
        return -(-min(24, self.significand * self.parts) // 8)

    @property
    def exact_split(self) -> bool:
        """Whether the parts of every finite float32 sum to it."""
        return self.significand * self.parts >= 24

    @property
    def product_error(self) -> float:
        """Largest |result - a * b| / |a * b| of one product, in the formats' normal range, without accumulation.

        For scaled operands `lost_share` gives the additional absolute error.
        """
        if self.scale is not None:
            return self.operand_error * (2 + self.operand_error)
        unit = 2.0**-self.significand
        return self._dropped_terms([1.0, unit, unit * unit, unit**3][: self._sizes()])

    @property
    def operand_error(self) -> float:
        """Largest error of an operand in one part relative to it, in the format's normal range, or at its end: a power
        of two leaves the largest of a block up to twice the format's greatest power, where it saturates."""
        greatest, unit = ELEMENTS[self.operand].greatest, 2.0**-self.significand
        power = 2.0 ** (math.frexp(greatest)[1] - 1)
        saturated = self.scale is not None and not self.scale.of_tensor
        return max(unit, 1 - greatest / (2 * power)) if saturated else unit

    @property
    def lost_share(self) -> float:
        """Largest error of a smaller operand, relative to the largest one with the same scale (of the tensor, where it
        has a scale): half the least subnormal number. 0 without a scale, which loses nothing of normal numbers."""
        if self.scale is None:
            return 0.0
        operand = ELEMENTS[self.operand]
        half = 2.0 ** (operand.least - operand.significand)
        if not self.scale.of_tensor:
            return half / 2.0 ** (math.frexp(operand.greatest)[1] - 1)
        return half / operand.greatest * (1 + (2.0**-4 if self.scale.block else 0.0))

    def product_variance(self, rounding: str | None = None) -> float:
        """Mean square of result - a * b for one product of normal variates, accumulation aside."""
        if self.scale is not None:
            from .operand_errors import error_moments

            square, along = error_moments(self.scale, self.operand, rounding or self.rounding)
            return 2 * square * (1 + 2 * along) + 2 * along**2 + square**2
        bits, unit = self.significand, 2.0 ** (1 - self.significand)
        first = _MEAN_SQUARE_BINADE * unit**2 / 12
        # The remainder after part 0 is uniform in +-2**(e - bits): 1/7 is the mean square of its own unit.
        second = _MEAN_SQUARE_BINADE * unit**2 * 2.0 ** (-2 * bits) / 84
        if self.parts == 1 and (rounding or self.rounding) == "rz" and not self.exact_split:
            return 2 * 4 * first + 2 * (_MEAN_BINADE * unit / 2) ** 2
        return self._dropped_terms([1.0, first, second, 0.0][: self._sizes()])

    def _sizes(self) -> int:
        """The number of sizes of parts: the kept parts, and the remainder if there is one."""
        return self.parts if self.exact_split else self.parts + 1

    def _dropped_terms(self, sizes: list[float]) -> float:
        """Sum of sizes[i] * sizes[j] over the pairs that `terms` leaves out."""
        kept = set(self.terms)
        everything = ((i, j) for i in range(len(sizes)) for j in range(len(sizes)))
        return sum(sizes[i] * sizes[j] for i, j in everything if (i, j) not in kept)


_ONE = ((0, 0),)
_THREE = ((1, 0), (0, 1), (0, 0))
_SIX = ((1, 1), (2, 0), (0, 2), *_THREE)
_NINE = ((2, 2), (2, 1), (1, 2), *_SIX)

_TILES, _PAIRS = ("amx",), ("amx", "avx512_bf16")

PRECISIONS: dict[str, Precision] = {}
"""Every precision by name, the fastest on hardware that has it first."""


class ProductBound(Mapping[str, float]):
    """The largest relative error of one product, or `least` where that is more, for each precision of the moment."""

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def __getitem__(self, name: str) -> float:
        return max(self._least, PRECISIONS[name].product_error)

    def __iter__(self) -> Iterator[str]:
        return iter(PRECISIONS)

    def __len__(self) -> int:
        return len(PRECISIONS)


PRODUCT_BOUND = ProductBound()
"""The bound of kernels that sum products."""

_ARITHMETIC: dict[str, str] = {}


def add(row: Precision, *, before: str | None = None) -> None:
    """Add a row to `PRECISIONS`, in front of a slower precision or at the end: all kernels and flags take its name.

    Raises ValueError for a name that is taken, an unknown operand, parts and terms that do not fit, and split operands
    of less than fp32's range; scales of several parts.
    """
    if row.name in PRECISIONS or row.name in ALIASES:
        raise ValueError(f"add(): the name must be new, got {row.name!r}")
    if row.operand not in ELEMENTS:
        raise ValueError(f"add(): operand must be one of {', '.join(ELEMENTS)}, got {row.operand!r}")
    if not 1 <= row.parts <= 3 or (row.parts > 1 and not ELEMENTS[row.operand].has_range_of_fp32):
        raise ValueError(f"add(): parts must be 1, or 2 or 3 of a format with fp32's range, got {row.parts}")
    if row.scale is not None and (row.parts > 1 or row.scale.format not in ("fp32", "e8m0", "e4m3")):
        raise ValueError(f"add(): scale must be of one part, in fp32, e8m0 or e4m3, got {row.scale}")
    if row.terms[-1:] != _ONE or not {part for term in row.terms for part in term} <= set(range(row.parts)):
        raise ValueError(f"add(): terms must be pairs of parts below {row.parts}, (0, 0) last, got {row.terms}")
    slower = [] if before is None else list(PRECISIONS)[list(PRECISIONS).index(find_precision(before).name) :]
    alike = (each.name for each in PRECISIONS.values() if _multiply_alike(each, row))
    _ARITHMETIC[row.name] = next(alike, row.name)
    PRECISIONS[row.name] = row
    for name in slower:
        PRECISIONS[name] = PRECISIONS.pop(name)


def _multiply_alike(row: Precision, other: Precision) -> bool:
    return row[1:3] == other[1:3] and set(row.terms) == set(other.terms) and row.scale == other.scale


def arithmetic(name: str) -> str:
    """The first precision with the operands, parts and terms of a precision, by whose name kernels have their loops."""
    return _ARITHMETIC.get(name, name)


def is_exact(name: str) -> bool:
    """Whether a precision multiplies float32 values as they are."""
    return name in PRECISIONS and PRECISIONS[name].is_exact


def is_scaled(name: str) -> bool:
    """Whether a precision scales operands before it rounds them."""
    return name in PRECISIONS and PRECISIONS[name].scale is not None


def acting_rounding(name: str, rounding: str | None) -> str | None:
    """The rounding of a call, if operands of a precision can be rounded in several ways; otherwise None."""
    return rounding if arithmetic(name) == "tf32" or is_scaled(name) else None


_BY_32 = Scale(32, "e8m0")
_MX = "in blocks of 32 along K, with powers of two as scales"
_NV = "in blocks of 16 along K, with scales in E4M3 and one of the tensor"

for _row in (
    Precision("mxfp4", "e2m1", 1, _ONE, f"operands rounded to E2M1 {_MX}", scale=_BY_32),
    Precision("nvfp4", "e2m1", 1, _ONE, f"operands rounded to E2M1 {_NV}", scale=Scale(16, "e4m3")),
    Precision("mxfp6", "e2m3", 1, _ONE, f"operands rounded to E2M3 {_MX}", scale=_BY_32),
    Precision("e5m2", "e5m2", 1, _ONE, "operands rounded to E5M2 with a scale of the tensor", scale=Scale()),
    Precision("mxfp8", "e4m3", 1, _ONE, f"operands rounded to E4M3 {_MX}", scale=_BY_32),
    Precision("e4m3", "e4m3", 1, _ONE, "operands rounded to E4M3 with a scale of the tensor", scale=Scale()),
    Precision("bf16", "bf16", 1, _ONE, "operands rounded to bfloat16", _PAIRS),
    Precision("fp16", "fp16", 1, _ONE, "operands rounded to float16: 11 bits, at most 65504, steps of 2**-24", _TILES),
    Precision("bf16x3", "bf16", 2, _THREE, "operands split in 2 bfloat16 parts, the leading 3 products", _PAIRS),
    Precision("tf32", "tf32", 1, _ONE, "operands rounded to TF32: fp32's range, 11 bits", _TILES),
    Precision("tf32x3", "tf32", 2, _THREE, "operands split in 2 TF32 parts, the leading 3 products", _TILES),
    Precision("bf16x6", "bf16", 3, _SIX, "operands split in 3 bfloat16 parts, the leading 6 products", _TILES),
    Precision("bf16x9", "bf16", 3, _NINE, "operands split in 3 bfloat16 parts, all 9 products: exact ones", _TILES),
    Precision("ieee", "fp32", 1, _ONE, "fp32 arithmetic", _TILES),
):
    add(_row)

MODULI = (
    256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179, 173,
)  # fmt: skip
"""The largest coprime numbers up to 256."""

_MOST_SLICES = 10


class Emulation(NamedTuple):
    """A row of `EMULATIONS`: by slices or by moduli, how many (0: chosen by the number of bits), a sentence, and
    `accurate`: whether one more product bounds the sums."""

    by_moduli: bool
    count: int
    meaning: str
    accurate: bool = False

    def bits(self, count: int, k: int) -> float:
        """Bits below the largest number of a row that `count` slices or moduli keep in products of length k."""
        return modulus_limit(count) - math.log2(max(k, 1)) / 2 if self.by_moduli else 8 * count - 1

    def least_count(self, bits: float, k: int) -> int | None:
        """The least count that keeps so many bits; None where none does."""
        counts = range(2, len(MODULI) + 1) if self.by_moduli else range(2, _MOST_SLICES + 1)
        return next((count for count in counts if self.bits(count, k) >= bits), None)


def modulus_limit(count: int) -> float:
    """The logarithm (base 2) of the largest norm of rows and of columns for which so many moduli are certain."""
    return math.log2(math.prod(MODULI[:count]) // 2 - 1) / 2


EMULATIONS: dict[str, Emulation] = {
    "int8": Emulation(False, 0, "as many slices of 8 bits as `fp64_bits` needs"),
    **{f"int8x{n}": Emulation(False, n, f"{n} slices of 8 bits") for n in range(3, _MOST_SLICES + 1)},
    "int8mod": Emulation(True, 0, "as many moduli of 8 bits as `fp64_bits` needs"),
    **{f"int8mod{n}": Emulation(True, n, f"{n} moduli of 8 bits") for n in range(8, len(MODULI) + 1)},
    **{
        f"int8mod{n}-accurate": Emulation(True, n, f"{n} moduli of 8 bits, for sums bounded by one more product", True)
        for n in range(8, len(MODULI) + 1)
    },
}
"""How float64 products are emulated, by name (`emulated`)."""


def is_emulated(name: str) -> bool:
    return name in EMULATIONS


OF_HALF = {"bfloat16": "bf16", "float16": "fp16"}
"""The precision of float32 products that holds all values of a half type, by the type's name."""


def find_precision(name: str) -> Precision:
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

    The entries have standard deviation sqrt(k), so sigma / sqrt(k) is the relative error. It does not depend on k
    except for the rounding of fp32 accumulation, modelled as chains of `chain` fused steps whose results are added one
    after another. The largest of `entries` errors is taken at the quantile 1 - 1 / (2 * entries) of the normal
    distribution. `rounding` (a key of `ROUNDINGS`) matters for tf32, and one of `SCALED_ROUNDINGS` for scaled operands.
    """
    from statistics import NormalDist

    row, length = find_precision(precision), min(chain, k)
    operands = k * row.product_variance(acting_rounding(row.name, rounding))
    steps = length / 2 + (k / length) / 2 if k else 0.0  # mean square of the partial sums, per product
    accumulation = k * steps * _MEAN_SQUARE_BINADE * 2.0**-46 / 12
    sigma = math.sqrt(operands + accumulation)
    return ExpectedError(sigma, sigma * NormalDist().inv_cdf(1 - 0.5 / entries) if entries > 1 else sigma)
