"""Naive definitions, written to be read: what is correct. Exact or float64, and nothing of the package's own kernels.

Reduced precisions are defined here a second time, with whole numbers of units in the last place where the kernels do
arithmetic on bits; the lists of terms are those of
`kernels/precisions/products.py`, which kernels/test_precision.py checks.
"""

import itertools
import math

import ml_dtypes
import numpy as np

from minitorch_backends.kernels.precisions.products import PRECISIONS

WHOLE = {"rne": np.rint, "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "rz": np.trunc}
"""Rounding to whole numbers, exact on float64 values that come from float32."""

FORMATS = {"bf16": (8, -133, 2.0**128), "tf32": (11, -136, 2.0**128), "fp16": (11, -24, 65536.0)}
"""Significant bits, exponent of the smallest subnormal, and the magnitude from which a rounded value is Inf."""

FP32_SUBNORMAL = -149

UNSCALED = [name for name, row in PRECISIONS.items() if row.scale is None]
"""Precisions whose operands are rounded as they are."""


@np.errstate(invalid="ignore")
def wide(x):
    """The values in float64, signalling NaN included."""
    return np.asarray(x).astype(np.float64)


def round_significand(x, bits, rounding, least=FP32_SUBNORMAL):
    """float64 `x` (finite float32 values) rounded to so many significant bits, but to no unit below 2**least."""
    _, exponent = np.frexp(x)
    unit = np.maximum(exponent - bits, least)
    return np.ldexp(WHOLE[rounding](np.ldexp(x, -unit)), unit)


def round_to(x, precision, rounding=None, axis=-1):
    """float32 values as operands of a precision of one part, in float64; scales are along an axis."""
    if PRECISIONS[precision].scale is not None:
        return scale_operand(x, precision, axis)
    x = wide(x)
    if precision == "ieee":
        return x
    bits, least, infinite_from = FORMATS[precision]
    finite = np.where(np.isfinite(x), x, 0)
    result = round_significand(finite, bits, rounding or ("rna" if precision == "tf32" else "rne"), least)
    result = np.where(np.abs(result) >= infinite_from, np.copysign(np.inf, result), result)
    return np.where(np.isfinite(x), result, x)


TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore")
def scale_operand(x, precision, axis):
    """float32 values as operands of a precision with scales along an axis, in float64, by the casts of ml_dtypes."""
    row, largest = PRECISIONS[precision], float(ml_dtypes.finfo(TYPES[PRECISIONS[precision].operand]).max)
    lines = np.moveaxis(np.asarray(x), axis, -1)
    k, block, tensor = lines.shape[-1], row.scale.block or max(lines.shape[-1], 1), np.float32(1)
    finite = np.where(np.isfinite(lines), lines, np.float32(0))
    if row.scale.format != "e8m0" and finite.any():
        tensor = np.abs(finite).max() / np.float32(largest * (448 if row.scale.block else 1))
        tensor = max(tensor, np.float32(2.0**-126))
    padded = np.pad(finite, [(0, 0)] * (lines.ndim - 1) + [(0, -k % block)])
    blocks = padded.reshape(*padded.shape[:-1], padded.shape[-1] // block, block)
    most, ones = np.abs(blocks).max(-1, keepdims=True, initial=0), np.float32(1)
    if row.scale.format == "e8m0":
        powers = np.floor(np.log2(most.astype(np.float64))) - math.floor(math.log2(largest))
        divisor = factor = np.exp2(np.maximum(powers, -127)).astype(np.float32)
    elif row.scale.block:
        factor = np.minimum(most / (np.float32(largest) * tensor), 448).astype(TYPES["e4m3"]).astype(np.float32)
        divisor = factor * tensor
    else:
        factor, divisor = ones, tensor * ones
    quotient = np.where(divisor > 0, blocks / divisor, np.float32(0)).astype(np.float32)
    rounded = np.clip(quotient, -largest, largest).astype(TYPES[row.operand]).astype(np.float64)
    values = (rounded * factor * float(tensor)).reshape(padded.shape)[..., :k]
    return np.moveaxis(np.where(np.isfinite(lines), values, wide(lines)), -1, axis)


def split(x, precision, axis=-1):
    """The parts of float32 values, largest first, in float64."""
    row = PRECISIONS[precision]
    if row.parts == 1:
        return [round_to(x, precision, axis=axis)]
    x = wide(x)
    rest = np.where(np.isfinite(x), x, 0)
    truncated = np.abs(round_significand(rest, row.significand, row.rounding)) >= 2.0**128
    parts = []
    for _ in range(row.parts):
        nearest, toward_zero = (
            round_significand(rest, row.significand, row.rounding),
            round_significand(rest, row.significand, "rz"),
        )
        parts.append(np.where(truncated, toward_zero, nearest))
        rest = rest - parts[-1]
    return [np.where(np.isfinite(x), parts[0], x), *parts[1:]]


def dot(x, y):
    """The sum of the products of two sequences: exact for float32 values, rounded once to float64."""
    products = [p * q for p, q in zip(x, y, strict=True)]
    return math.fsum(products) if all(map(math.isfinite, products)) else sum(products)


def matmul(a, b):
    """The product of two arrays of at least two dimensions, entry by entry: float64, complex128, or Python integers."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2], b.shape[-1]
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    kind = np.result_type(a, b).kind
    out = np.zeros((*batch, rows, columns), {"c": np.complex128, "f": np.float64}.get(kind, object))
    for place in itertools.product(*map(range, batch)):
        for i, j in itertools.product(range(rows), range(columns)):
            x, y = a[place][i].tolist(), b[place][:, j].tolist()
            out[(*place, i, j)] = dot(x, y) if kind == "f" else sum((p * q for p, q in zip(x, y, strict=True)), 0)
    return out


@np.errstate(invalid="ignore")
def terms(a, b, precision="ieee", rounding=None, product=matmul):
    """The float32 product at a precision, with exact sums: (the leading term, the sum of the others), in float64.

    `product` multiplies float64 arrays; `np.matmul` in place of the loops for sizes that they would take too long for.
    """
    one_part = PRECISIONS[precision].parts == 1
    x, y = (
        [round_to(m, precision, rounding, axis)] if one_part else split(m, precision) for m, axis in ((a, -1), (b, -2))
    )
    *smaller, leading = [product(x[i], y[j]) for i, j in PRECISIONS[precision].terms]
    return leading, sum(smaller, np.zeros_like(leading))


def lost_share(product, a, b, precision):
    """How much further than its error of one product says a multilinear kernel's result may be off, for small operands
    that are rounded with the scale of larger ones."""
    row = PRECISIONS[precision]
    if not row.lost_share:
        return 0.0
    grown = [np.abs(wide(x)) * (1 + row.operand_error) for x in (a, b)]
    with_lost = [x + row.lost_share * np.abs(wide(each)).max(initial=0) for x, each in zip(grown, (a, b), strict=True)]
    return product(*with_lost) - product(*grown)


def matmul_at(a, b, precision="ieee", rounding=None, product=matmul):
    """The float32 product at a precision, in float64: Inf and NaN are those of the leading term."""
    leading, smaller = terms(a, b, precision, rounding, product)
    return leading + np.where(np.isfinite(leading) & np.isfinite(smaller), smaller, 0)
