"""Float64 products made of products of 8-bit integers (`precisions.emulated`), as libraries of 2025 have them.

Integer products are made by the float64 loops here, which are exact for them: results have the bits of int32 sums on
any CPU. Inf, NaN, and products that would need more slices or moduli than there are, are refused, and computed in
float64, which is what libraries fall back to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..precisions.emulated import (
    balance,
    digits,
    from_residues,
    greatest_exponents,
    residues,
    scales_by_norms,
    scales_by_sums,
    span,
)  # fmt: skip
from ..precisions.products import EMULATIONS, MODULI
from ..registry import Kernel, Refused, without_observers
from ..runtime.context import restore_on_failure
from .complexes import by_parts


@restore_on_failure
def multiply(kernel: Kernel, a: np.ndarray, b: np.ndarray, precision: str, bits: int = 53) -> np.ndarray:
    """The product by those of integers, which are the kernel's own in float64."""
    if a.dtype.kind == "c":
        return by_parts(lambda x, y: multiply(kernel, x, y, precision, bits), a, b)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise Refused("Inf and NaN have no digits")
    row, k = EMULATIONS[precision], a.shape[-1]
    count = row.count or row.least_count(bits + span(a, b), k)
    if count is None:
        raise Refused(f"{bits + span(a, b)} bits need more slices or moduli than there are")
    with without_observers(), np.errstate(under="ignore", over="ignore", invalid="ignore"):
        return _by_moduli(kernel, a, b, count, row.accurate) if row.by_moduli else _by_slices(kernel, a, b, count)


def _by_slices(kernel: Kernel, a: np.ndarray, b: np.ndarray, count: int) -> np.ndarray:
    of_a, of_b = greatest_exponents(a, -1), greatest_exponents(b, -2)
    left, right = digits(a, of_a, count), digits(b, of_b, count)
    total: Any = 0.0
    for together in reversed(range(count)):
        exact = sum(kernel(left[i], right[together - i]) for i in range(together + 1))
        total = total + np.ldexp(exact, -8 * together)
    return np.ldexp(total, of_a + of_b - 12)


def _by_moduli(kernel: Kernel, a: np.ndarray, b: np.ndarray, count: int, accurate: bool) -> np.ndarray:
    if accurate:
        of_a, of_b = scales_by_sums(a, b, count, kernel)
    else:
        of_a, of_b = scales_by_norms(a, -1, count), scales_by_norms(b, -2, count)
    pairs = zip(residues(a, of_a, count), residues(b, of_b, count), MODULI, strict=False)
    products = [balance(kernel(x, y), p) for x, y, p in pairs]
    return np.ldexp(from_residues(products), -(of_a + of_b))
