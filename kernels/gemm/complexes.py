"""Products of complex64 arrays at the precisions that round or split operands, as products of real ones.

In memory a row of a is the real row (re, im, re, im, ...), and b stands as the matrix of twice the rows and columns
that multiplies such rows: [re, im] in the rows that meet real parts, [-im, re] in those that meet imaginary ones. So
one real product, by whichever loops take it, does the four that a complex one is made of, and rounds real and imaginary
parts as it rounds real numbers. (TF32 in cuBLAS and XLA's precisions act on complex numbers in this way too.)

Microseconds of the complex product of OpenBLAS and of this one in tf32, both by AVX2, where no precision is faster than
another: 128 cubed 390, 360; 256 1140, 1700; 512 7650, 12500; 1024 54000, 66000.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..registry import ArraySpec, unobserved
from .compiled import EXACT

__all__ = ["as_real", "matmul", "refuses"]


def refuses(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
    """Why products of real arrays do not make up this one."""
    if a.dtype != np.complex64:
        return f"multiplies complex64, and not {a.dtype.name}"
    if precision in EXACT:
        return "leaves exact products to BLAS, which takes b as it is"
    return None


def matmul(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product at a precision of real and imaginary parts, by the best loops for real ones."""
    from . import matmul as product

    with unobserved():
        return as_real(product, a, b, precision=precision, rounding=rounding)


def as_real(product: Callable[..., np.ndarray], a: np.ndarray, b: np.ndarray, **keywords: str) -> np.ndarray:
    """The complex64 product a @ b by a product of float32 arrays."""
    rows = np.ascontiguousarray(a).view(np.float32)
    return product(rows, _multiplying_pairs(b), **keywords).view(np.complex64)


def _multiplying_pairs(b: np.ndarray) -> np.ndarray:
    """The real matrices (..., 2 k, 2 n) that multiply rows of pairs as the complex b (..., k, n) multiplies rows."""
    *batch, k, n = b.shape
    pairs = np.empty((*batch, k, 2, n, 2), np.float32)
    pairs[..., 0, :, 0], pairs[..., 0, :, 1] = b.real, b.imag
    pairs[..., 1, :, 0], pairs[..., 1, :, 1] = -b.imag, b.real
    return pairs.reshape(*batch, 2 * k, 2 * n)
