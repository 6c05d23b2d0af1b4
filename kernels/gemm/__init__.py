"""Matrix products: one task, `matmul`, its contract, and the ways to run it, best first.

Call form: `matmul(a, b, *, precision="ieee", rounding="rna")`, where a is (..., m, k), b is (..., k, n), both of one
dtype and at least two-dimensional; batch dimensions broadcast; the result has the operands' dtype.

`bound` says, for each precision, how far a product of two operands may be from a * b, relative to |a * b|. A result may
be off by that times the sum of |a * b|, and by the rounding of fp32 accumulation.
"""

from __future__ import annotations

import numpy as np

from ..precision import PRECISIONS
from ..registry import Kernel
from . import blas, compiled

__all__ = ["exact_matmul", "matmul"]


def exact_matmul(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product in float64 (complex128 for complex operands); precision and rounding are not applied."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return np.matmul(a.astype(wide), b.astype(wide))


matmul = Kernel(
    "matmul", reference=exact_matmul, bound={name: entry.product_error for name, entry in PRECISIONS.items()}
)

# Best first. An implementation is declared as `matmul.impl(name, isa=..., refuses=...)(function)`.
for _isa in ("amx", "avx512", "avx2"):
    matmul.impl(_isa, isa=_isa, refuses=compiled.refuses(_isa))(compiled.implementation(_isa))
matmul.impl("blas", refuses=blas.refuses)(blas.matmul)
matmul.impl("portable")(blas.matmul_portable)
