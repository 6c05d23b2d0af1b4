"""Naive definitions, written to be read: what is correct. Exact or float64, and nothing of the package's own kernels.

Reduced precisions are defined here a second time, with whole numbers of units in the last place where the kernels do
arithmetic on bits; the lists of terms are those of `kernels/precision.py`, which `test_precision.py` checks.
"""

import itertools
import math

import numpy as np

from minitorch_backends.kernels.precision import PRECISIONS

WHOLE = {
    "rne": np.rint,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rz": np.trunc,
}
"""Rounding to whole numbers, exact on float64 values that come from float32."""

FORMATS = {"bf16": (8, -133, 2.0**128), "tf32": (11, -136, 2.0**128), "fp16": (11, -24, 65536.0)}
"""Significant bits, exponent of the smallest subnormal, and the magnitude from which a rounded value is Inf."""

FP32_SUBNORMAL = -149


@np.errstate(invalid="ignore")
def wide(x):
    """The values in float64, signalling NaN included."""
    return np.asarray(x).astype(np.float64)


def rounded(x, bits, rounding, least=FP32_SUBNORMAL):
    """float64 `x` (finite float32 values) rounded to so many significant bits, but to no unit below 2**least."""
    _, exponent = np.frexp(x)
    unit = np.maximum(exponent - bits, least)
    return np.ldexp(WHOLE[rounding](np.ldexp(x, -unit)), unit)


def round_to(x, precision, rounding=None):
    """float32 values as operands of a precision of one part, in float64."""
    x = wide(x)
    if precision == "ieee":
        return x
    bits, least, infinite_from = FORMATS[precision]
    finite = np.where(np.isfinite(x), x, 0)
    result = rounded(finite, bits, rounding or ("rna" if precision == "tf32" else "rne"), least)
    result = np.where(np.abs(result) >= infinite_from, np.copysign(np.inf, result), result)
    return np.where(np.isfinite(x), result, x)


def split(x, precision):
    """The parts of float32 values, largest first, in float64."""
    row = PRECISIONS[precision]
    if row.parts == 1:
        return [round_to(x, precision)]
    x = wide(x)
    rest = np.where(np.isfinite(x), x, 0)
    truncated = np.abs(rounded(rest, row.significand, row.rounding)) >= 2.0**128
    parts = []
    for _ in range(row.parts):
        nearest, toward_zero = rounded(rest, row.significand, row.rounding), rounded(rest, row.significand, "rz")
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
    x, y = ([round_to(m, precision, rounding)] if one_part else split(m, precision) for m in (a, b))
    *smaller, leading = [product(x[i], y[j]) for i, j in PRECISIONS[precision].terms]
    return leading, sum(smaller, np.zeros_like(leading))


def matmul_at(a, b, precision="ieee", rounding=None, product=matmul):
    """The float32 product at a precision, in float64: Inf and NaN are those of the leading term."""
    leading, smaller = terms(a, b, precision, rounding, product)
    return leading + np.where(np.isfinite(leading) & np.isfinite(smaller), smaller, 0)
