"""Matrix products of integers by the compiled loops, which wrap around as NumPy's and torch's do.

Numbers of 8 and 16 bits are multiplied as such of 32: what wraps around at 2**32 does so at 2**8 and 2**16. Packing and
storing only move bits, and so take integers for floating-point numbers of their size.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import numpy as np

from ..block.tuning import tuning
from ..registry import ArraySpec
from .compiled import scalar_products, vector_isa


def refuses(a: ArraySpec, b: ArraySpec, **_: str) -> str | None:
    """Why the loops do not multiply arrays of these shapes and dtypes."""
    if a.dtype.kind not in "iu":
        return f"multiplies integers, and not {a.dtype.name}"
    products = scalar_products(a, b)
    least = tuning(vector_isa()).integer_products
    if products < least:
        return f"leaves {products:,} products to NumPy; it is faster from {least:,}"
    return None


def matmul(a: np.ndarray, b: np.ndarray, **_: str) -> np.ndarray:
    """The product modulo 2**bits of the dtype; precision and rounding do not act on integers."""
    from .product import product

    wide = np.dtype(np.float64 if a.dtype.itemsize == 8 else np.float32)
    moved = np.dtype(f"i{wide.itemsize}")
    bits = [x.astype(moved, copy=False).view(wide) for x in (a, b)]
    return product(*bits, isa=vector_isa(), precision="integer").view(moved).astype(a.dtype, copy=False)
