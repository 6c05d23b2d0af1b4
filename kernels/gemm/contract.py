"""The kernels `matmul` and `addmm`, and what they are the same as in float64. Their contract is that of the package."""

from __future__ import annotations

import numpy as np

from ..precisions.products import PRODUCT_BOUND
from ..registry import Kernel


def exact_matmul(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product in float64 (complex128 for complex operands); precision and rounding are not applied."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return np.matmul(a.astype(wide), b.astype(wide))


def exact_addmm(
    a: np.ndarray, b: np.ndarray, addend: np.ndarray, *, alpha: float = 1.0, beta: float = 1.0, **_: str
) -> np.ndarray:
    """`addmm` in float64 (complex128 for complex operands)."""
    product = alpha * exact_matmul(a, b)
    return product + beta * addend if beta else product


matmul = Kernel("matmul", reference=exact_matmul, bound=PRODUCT_BOUND)
addmm = Kernel("addmm", reference=exact_addmm, bound=PRODUCT_BOUND)
