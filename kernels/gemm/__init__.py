"""Matrix products: one task, `matmul`, its contract, and the ways to run it, best first.

Call form: `matmul(a, b, *, precision="ieee", rounding="rna")`, where a is (..., m, k), b is (..., k, n), both of one
dtype and at least two-dimensional; batch dimensions broadcast; the result has the operands' dtype.

`addmm(a, b, addend, *, alpha=1.0, beta=1.0, precision, rounding)` is alpha * (a @ b) + beta * addend, where the addend
broadcasts to the product and is not looked at if beta is 0. Compiled loops add it while they store the product.

`pack(b, precision)` keeps a right operand in the form that the loops read, for `multiply_packed(a, packed)`.

`precision` and `rounding` act on float32 operands, and on the real and imaginary parts of complex64 ones. `unit` (a
`device.Unit`) has the products summed as the matrix unit of another device does, and `partial` (a
`partial_sums.PartialSums`) in parts of K.

`bound` says, for each precision, how far a product of two operands may be from a * b, relative to |a * b|. A result may
be off by that times the sum of |a * b|, and by the rounding of fp32 accumulation.
"""

from __future__ import annotations

import numpy as np

from .. import partial_sums
from ..precisions.products import is_emulated
from ..registry import ArraySpec, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.invariance import BATCH, BOTH
from . import blas, compiled, complexes, device, integers, scaled_operands, skinny, small, split_k
from .compiled import multiply_packed, pack
from .contract import addmm, exact_addmm, exact_matmul, matmul
from .linear import Kept, gains_by_keeping, gains_by_packing, linear

__all__ = [
    "Kept", "addmm", "exact_addmm", "exact_matmul", "gains_by_keeping", "gains_by_packing", "linear", "matmul",
    "multiply_packed", "pack",
]  # fmt: skip


# Best first. An implementation is declared as `matmul.impl(name, isa=..., refuses=...)(function)`.
matmul.impl("partial_sums", refuses=partial_sums.refuses, by_unit=True, in_parts=True, scales=True, keeps=BOTH)(
    partial_sums.implementation(matmul)
)
matmul.impl("scaled", refuses=scaled_operands.refuses, by_unit=True, scales=True, keeps=BOTH)(
    scaled_operands.implementation(matmul)
)


def _refuses_emulation(a: ArraySpec, b: ArraySpec, precision: str = "ieee", **_: int) -> str | None:
    """Why a product is not emulated."""
    if not is_emulated(precision):
        return f"makes float64 of 8-bit integers, which {precision} does not ask for"
    return None if a.dtype.char in "dD" else f"multiplies float64 and complex128, not {a.dtype.name}"


@matmul.impl("emulated", refuses=_refuses_emulation, scales=True, keeps=BOTH)
def _by_integers(a: np.ndarray, b: np.ndarray, *, precision: str, **keywords: int) -> np.ndarray:
    from .emulated import multiply

    return multiply(matmul, a, b, precision, **keywords)


@matmul.impl("float64", refuses=_refuses_emulation, scales=True, keeps=BOTH)
@restore_on_failure
def _native(a: np.ndarray, b: np.ndarray, *, precision: str, bits: int = 53) -> np.ndarray:
    """The product in float64, to which libraries fall back."""
    with without_observers():
        return matmul(a, b)


for _name, _isa, _named in (("amx_small", "amx", "amx"), ("small", "avx2", None)):
    _shared = {"refuses": small.refuses(_named), "specialise": small.specialise(_named), "keeps": BATCH}
    matmul.impl(_name, isa=_isa, **_shared)(small.implementation(_named))
matmul.impl("split_k", isa="avx2", refuses=split_k.refuses, specialise=split_k.specialise)(split_k.implementation())
addmm.impl("split_k", isa="avx2", refuses=split_k.refuses)(split_k.implementation())
matmul.impl("rows", isa="avx2", refuses=skinny.refuses())(skinny.implementation())
for _isa in compiled.ISAS:
    for _kernel in (matmul, addmm):
        _kernel.impl(_isa, isa=_isa, refuses=compiled.refuses(_isa), keeps=BOTH)(compiled.implementation(_isa))
matmul.impl("complex", refuses=complexes.refuses, scales=True, keeps=BOTH)(complexes.matmul)
matmul.impl("parts", refuses=blas.refuses_parts, keeps=BOTH)(blas.matmul_of_parts)
matmul.impl("blas", refuses=blas.refuses, specialise=blas.specialise)(blas.matmul)
matmul.impl("integer", refuses=integers.refuses, keeps=BOTH)(integers.matmul)
matmul.impl("matrix_unit", refuses=device.refuses, by_unit=True, keeps=BOTH)(device.matmul)
matmul.impl("definition", refuses=blas.refuses_definition, keeps=BOTH)(blas.matmul_by_definition)


@addmm.impl("matmul", scales=True, keeps=BOTH)
def _addmm_by_matmul(
    a: np.ndarray, b: np.ndarray, addend: np.ndarray, *, alpha: float = 1.0, beta: float = 1.0, precision: str = "ieee",
    rounding: str = "rna",
) -> np.ndarray:  # fmt: skip
    """The product, by whichever implementation takes it, and then the sum; of half types in float32, rounded once."""
    if a.dtype.itemsize == 2:
        wide = [each.astype(np.float32) for each in (a, b, addend)]
        return _addmm_by_matmul(*wide, alpha=alpha, beta=beta).astype(a.dtype)
    product = matmul(a, b, precision=precision, rounding=rounding)
    if alpha != 1:
        product = _scale(product, alpha)
    if not beta:
        return product
    return np.add(product, addend if beta == 1 else _scale(addend, beta), dtype=product.dtype)


def _scale(x: np.ndarray, factor: float) -> np.ndarray:
    """factor * x in its dtype. NumPy casts a Python number to all of them but bfloat16."""
    return np.multiply(x, x.dtype.type(factor) if x.dtype.name == "bfloat16" else factor, dtype=x.dtype)
