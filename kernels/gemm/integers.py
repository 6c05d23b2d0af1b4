"""Matrix products of integers by the compiled loops, which wrap around as NumPy's and torch's do.

Numbers of 8 and 16 bits are multiplied as such of 32: what wraps around at 2**32 does so at 2**8 and 2**16. Packing and
storing only move bits, and so take integers for floating-point numbers of their size.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import numpy as np

from ..registry import ArraySpec
from .compiled import scalar_products, vector_isa

__all__ = ["matmul", "refuses"]

_LEAST_PRODUCTS = 20_000
"""Scalar products from which packing and the call are worth it. Microseconds here and in NumPy, int32: n = 16 11, 3.1;
24 12, 8.6; 32 13, 19; 64 25, 135; 512 2,090, 111,900."""


def refuses(a: ArraySpec, b: ArraySpec, **_: str) -> str | None:
    """Why the loops do not multiply arrays of these shapes and dtypes."""
    if a.dtype.kind not in "iu":
        return f"multiplies integers, and not {a.dtype.name}"
    products = scalar_products(a, b)
    if products < _LEAST_PRODUCTS:
        return f"leaves {products:,} products to NumPy; it is faster from {_LEAST_PRODUCTS:,}"
    return None


def matmul(a: np.ndarray, b: np.ndarray, **_: str) -> np.ndarray:
    """The product modulo 2**bits of the dtype; precision and rounding do not act on integers."""
    from .product import product

    wide = np.dtype(np.float64 if a.dtype.itemsize == 8 else np.float32)
    moved = np.dtype(f"i{wide.itemsize}")
    bits = [x.astype(moved, copy=False).view(wide) for x in (a, b)]
    return product(*bits, isa=vector_isa(), precision="integer").view(moved).astype(a.dtype, copy=False)
