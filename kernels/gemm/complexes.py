"""Products of complex64 arrays at the precisions that round or split operands, as products of real ones.

The larger operand is read as it lies, as pairs (re, im), and the smaller is copied. Where pairs run along the sum, it
becomes the rows (or columns) that such pairs are to meet, twice as many of twice the length; where they run across it,
its real parts beside its imaginary ones, and parts of the product are added up. So one real product, by whichever loops
take it, does the four that a complex one is made of, and rounds real and imaginary parts as it rounds real numbers.
(TF32 in cuBLAS and XLA's precisions act on complex numbers in this way too.) With scales, which pairs would mix, and
where the order of sums must not depend on sizes, real and imaginary parts are operands of their own, of four products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..precisions.products import is_exact, is_scaled
from ..registry import ArraySpec, without_observers
from ..runtime import invariance
from ..runtime.context import restore_on_failure
from ..runtime.shapes import broadcast_shapes


def refuses(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: int) -> str | None:
    """Why products of real arrays do not make up this one."""
    if invariance.is_demanded() and a.dtype.kind == "c":
        return None
    if a.dtype != np.complex64:
        return f"multiplies complex64, and not {a.dtype.name}"
    if is_exact(precision):
        return "leaves exact products to BLAS, which takes b as it is"
    return None


@restore_on_failure
def matmul(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product at a precision of real and imaginary parts, by the best loops for real ones."""
    from .contract import matmul as product

    with without_observers(), np.errstate(invalid="ignore", over="ignore"):
        if is_scaled(precision) or any(
            invariance.current_demand()
        ):  # the order of others is that of the larger operand
            return by_parts(partial(product, precision=precision, rounding=rounding), a, b)
        return as_real(product, a, b, precision=precision, rounding=rounding)


def by_parts(product: Callable[..., np.ndarray], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product by four of real and imaginary parts."""
    real = product(a.real, b.real) - product(a.imag, b.imag)
    out = np.empty(real.shape, a.dtype)
    out.real, out.imag = real, product(a.real, b.imag) + product(a.imag, b.real)
    return out


def as_real(product: Callable[..., np.ndarray], a: np.ndarray, b: np.ndarray, **keywords: str) -> np.ndarray:
    """The complex64 product a @ b by a product of float32 arrays."""
    larger_left = a.size > b.size
    if larger_left and not _is_column_major(a):
        columns = _meeting_pairs(b.mT).mT  # of real and of imaginary parts, one after the other in the result's pairs
        return product(_pairs(a), columns, **keywords).view(np.complex64)
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    result = out = np.empty(shape, np.complex64)
    if larger_left:
        a, b, out = b.mT, a.mT, out.mT
    m = a.shape[-2]
    if _is_column_major(b):
        parts = product(_meeting_pairs(a), _pairs(b.mT).mT, **keywords)
        out.real, out.imag = parts[..., ::2, :], parts[..., 1::2, :]
        return result
    parts = product(np.concatenate([a.real, a.imag], axis=-2), _pairs(b), **keywords)
    by_real, by_imaginary = parts[..., :m, :], parts[..., m:, :]
    np.subtract(by_real[..., ::2], by_imaginary[..., 1::2], out=out.real)
    np.add(by_real[..., 1::2], by_imaginary[..., ::2], out=out.imag)
    return result


def _is_column_major(x: np.ndarray) -> bool:
    return x.strides[-2] == x.itemsize != x.strides[-1]


def _pairs(x: np.ndarray) -> np.ndarray:
    """The real (..., m, 2 k) in which each number of x (..., m, k) is a pair."""
    return np.ascontiguousarray(x).view(np.float32)


def _meeting_pairs(a: np.ndarray) -> np.ndarray:
    """The real (..., 2 m, 2 k) whose rows, times columns of pairs, give a real and an imaginary part for each row of a
    (..., m, k)."""
    *batch, m, k = a.shape
    rows = np.empty((*batch, m, 2, k, 2), np.float32)
    rows[..., 0, :, 0], rows[..., 0, :, 1] = a.real, -a.imag
    rows[..., 1, :, 0], rows[..., 1, :, 1] = a.imag, a.real
    return rows.reshape(*batch, 2 * m, 2 * k)
