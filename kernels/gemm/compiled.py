"""Matrix products by this project's own loops: which dtypes and precisions each instruction set takes, and why not.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..block.tuning import Tuning, tuning
from ..precisions import products as precisions
from ..registry import ArraySpec, Refused
from ..runtime import cpu, invariance
from ..runtime.shapes import broadcast_shapes

if TYPE_CHECKING:
    from .product import Packed

ISAS = ("amx", "avx512_bf16", "avx512", "avx2", "portable")
"""Capabilities that have loops of their own, best first; those of the last are vectors of any CPU."""

OF_PARTS = ("amx", "avx512_bf16")
"""Those that multiply bf16 parts, whose speed depends on how many products of them a precision takes."""


_ROUNDED_AWAY = 2.0**-22
"""Products that a split leaves out, relative to all, up to which float32 sums round more away."""

_ROUNDED = ("bf16", "fp16", "tf32", "tf32x3")
"""Operands that vector units are given rounded: tf32x3 to the sum of both parts, so that no product is left out."""


_IN_PARTS = {"amx": ("bf16", "fp16", "bf16x3", "tf32", "tf32x3", "bf16x6", "bf16x9"), "avx512_bf16": ("bf16", "bf16x3")}
"""What the loops over bf16 parts compute (`plans._KERNELS_OF_PARTS`)."""


def _by_parts(isa: str, row: precisions.Precision) -> str | None:
    """What products of bf16 parts compute for a precision. Exact products use the nine terms of bf16x9, and tiles omit
    that of the last parts (`tiles.Tiles8`). (tf32x3 is six products of the three bf16 parts that hold its two parts,
    which lose less than its own three products do.) Pairs do twice the products of vectors, so that up to three terms
    are a gain."""
    name = "bf16x9" if row.is_exact else precisions.arithmetic(row.name)
    return name if isa in row.units and name in _IN_PARTS[isa] else None


def _by_vectors(row: precisions.Precision) -> str | None:
    """What vector units compute: float32 sums of products of the rounded operands.

    For splits that leave out no more products than these sums round away it is the product of the sums of the parts,
    which leaves out none: of three bf16 parts the operands themselves, of two tf32 parts operands that are rounded to
    them. In milliseconds at 2048 cubed 55 as ieee, where BLAS takes 134 for tf32x3 and 203 for bf16x6, by parts.
    """
    if row.exact_split and row.product_error < _ROUNDED_AWAY:
        return "ieee"
    name = precisions.arithmetic(row.name)
    return name if name in _ROUNDED else None


def computed_precision(isa: str, dtype: np.dtype, precision: str) -> str | None:
    """The precision that loops which read one number for each value compute for a dtype at a precision, those of tiles
    any number of parts; None if they do not."""
    of_half = precisions.OF_HALF.get(dtype.name)
    row = precisions.PRECISIONS.get(of_half or precision)
    if row is None or (isa == "portable" and row.operand == "fp16" and not cpu.converts_half()):
        return None
    if dtype == np.float32 or (of_half and isa in OF_PARTS):
        return _by_parts(isa, row) if isa in OF_PARTS else _by_vectors(row)
    return "ieee" if isa not in OF_PARTS and (of_half or dtype == np.float64) else None


def computed_by_panels(isa: str, dtype: np.dtype, precision: str) -> str | None:
    """The same for products of packed panels, which on vector units also have room for both parts of bf16x3. What that
    leaves out a result shows, so that its three products are summed: at 2048 cubed in 113 ms, by BLAS in 130."""
    in_two = dtype == np.float32 and precisions.arithmetic(precision) == "bf16x3"
    return "bf16x3" if in_two else computed_precision(isa, dtype, precision)


def isa_of_parts() -> str:
    """The instruction set whose loops over bf16 parts are taken here, if any are (`passed_over`)."""
    return "amx" if cpu.refusal("amx") is None else "avx512_bf16"


def pairs_multiply(dtype: np.dtype, precision: str) -> bool:
    """Whether products of pairs are the fastest for a dtype at a precision here."""
    return passed_over("avx512_bf16") is None and computed_precision("avx512_bf16", dtype, precision) is not None


@functools.cache
def vector_isa() -> str:
    """The instruction set of vectors whose loops are taken here."""
    return next(isa for isa in ISAS if isa not in OF_PARTS and cpu.refusal(isa) is None)


def working_dtype(dtype: np.dtype) -> np.dtype:
    """What vector units work in for arrays of a floating-point dtype."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def passed_over(isa: str) -> str | None:
    """Why nothing is given to the loops of an instruction set here, or None."""
    if isa == "avx512_bf16" and cpu.refusal("amx") is None:
        return "leaves products to tiles, which do eight times as much"
    if isa == "avx512_bf16" and not tuning(isa).pairs_gain:
        return "leaves products to vectors: this CPU begins VDPBF16PS more rarely than a fused multiply-add"
    if isa not in OF_PARTS and isa != (best := vector_isa()) and cpu.refusal(isa) is None:
        return f"leaves products to the instructions of {best}"
    return cpu.refusal(isa)


def is_exact(dtype: np.dtype, precision: str) -> bool:
    """Whether operands of a dtype are multiplied as they are, which BLAS does too."""
    return precisions.is_exact(precision) if dtype == np.float32 else dtype == np.float64


def _slower(a: ArraySpec, b: ArraySpec, precision: str, exact: bool) -> str | None:
    """Why products by the loops of any CPU are left to BLAS, or None."""
    if exact:
        return "leaves exact products to BLAS, whose loops are made for the CPU"
    products, (m, k), n = scalar_products(a, b), a.shape[-2:], b.shape[-1]
    one_part = a.dtype != np.float32 or precisions.PRECISIONS[precision].parts == 1
    if one_part and min(m, n) == 1 < k:
        return f"leaves [{m}, {k}] @ [{k}, {n}] to BLAS, which need not pack"  # [512, 512] @ [512, 1]: 0.6 of its speed
    most = tuning("portable").rounded_products_most
    if one_part and products > most:
        return f"leaves {products:,} products to BLAS; it is slower up to {most:,}"
    return None


def scalar_products(a: ArraySpec, b: ArraySpec) -> int:
    """Scalar products in all matrices."""
    return a.shape[-2] * a.shape[-1] * b.shape[-1] * math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))


def _small(isa: str, a: ArraySpec, b: ArraySpec) -> str | None:
    """Why exact products of these are left to BLAS."""
    m, k, n = *a.shape[-2:], b.shape[-1]
    row = tuning(isa)
    if isa == "amx" and _vectors_gain(row, a, b):
        return f"leaves a depth of {k} with {n} columns to vectors, which read A where it lies"
    if min(m, n) < row.exact_lines:
        others = "vectors: half of each block would be empty" if isa == "amx" else "BLAS, which need not pack"
        return f"leaves [{m}, {k}] @ [{k}, {n}] to {others}"
    products = scalar_products(a, b)
    least = row.outer_products if k == 1 and isa != "amx" else row.exact_products
    if products < least:
        return f"leaves {products:,} products to BLAS; it is faster from {least:,}"
    return None


def _vectors_gain(row: Tuning, a: ArraySpec, b: ArraySpec) -> bool:
    """Whether exact products of so few columns are left to vectors, by a row of the table for tiles."""
    (m, k), n, width = a.shape[-2:], b.shape[-1], 64
    panels, (of_one, of_two) = -(-n // width), row.narrow_filled
    few = of_one * width < n <= width or of_two * 2 * width <= n <= 2 * width
    if m < row.narrow_rows or not few or scalar_products(a, b) < row.narrow_products:
        return False
    columns, least, one_step, full = row.narrow_beside_tiles
    return n < columns or k < least or (k > one_step and n >= full * width * panels)


def varies(isa: str, dtype: np.dtype, precision: str) -> str | None:
    """Why bits of a row depend on other rows; None where they do not: panels sum along K in one order."""
    if isa in OF_PARTS or computed_by_panels(isa, dtype, precision) == "bf16x3":
        return "refuses values by the magnitudes of all rows, and backends.invariant is set"
    return None


def _unfused_schemes(isa: str) -> str:
    """The schemes of an instruction set that round products before they add them, where that is demanded."""
    return f"{isa}_unfused" if isa in ("avx512", "avx2") and invariance.isa_demanded() else isa


def refuses(isa: str) -> Callable[..., str | None]:
    """Why the loops of `isa` do not multiply arrays of these shapes and dtypes at this precision."""

    def refusal(
        a: ArraySpec, b: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: float
    ) -> str | None:
        if precision not in precisions.PRECISIONS or rounding not in precisions.ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if computed_by_panels(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        if better := passed_over(isa):
            return better
        if invariance.is_demanded():
            return varies(isa, a.dtype, precision)
        exact = is_exact(a.dtype, precision)
        if isa == "avx512_bf16" and a.shape[-1] == 1:
            return "leaves products without a sum to vectors: half of each pair would be empty"
        if len(a.shape) > 2 and a.shape[-2] == b.shape[-1] == 1:
            return "leaves batches of dot products to BLAS, which need not pack"  # 100,000 of 16: 5.6 ms, and 34 here
        if isa == "portable":
            return _slower(a, b, precision, exact)
        return _small(isa, a, b) if exact else None

    return refusal


def _by_panels() -> Callable[..., np.ndarray]:
    from .product import product

    return product


def implementation(
    named: str | None, loops: Callable[[], Callable[..., np.ndarray]] = _by_panels
) -> Callable[..., np.ndarray]:
    """The product by the loops of an instruction set, that of this CPU's vectors if none is named, in the call form of
    `matmul`, and with an addend in that of `addmm`.

    `loops` loads the function that runs them, whose call form is that of `product.product`.
    """

    def multiply(
        a: np.ndarray, b: np.ndarray, addend: np.ndarray | None = None, *, alpha: float = 1.0, beta: float = 1.0,
        precision: str = "ieee", rounding: str = "rna",
    ) -> np.ndarray:  # fmt: skip
        isa = named or vector_isa()
        inner = computed_by_panels(isa, a.dtype, precision)
        return loops()(
            a, b, isa=_unfused_schemes(isa), precision=inner, rounding=rounding, alpha=alpha, beta=beta, addend=addend
        )

    multiply.__name__ = multiply.__qualname__ = f"matmul_{named or 'on_vectors'}"
    return multiply


def pack(b: np.ndarray, precision: str = "ieee", rounding: str = "rna") -> Packed | None:
    """The matrix b (k, n) packed for products from the left, or None where no compiled loops take it at this precision.

    `multiply_packed` takes it. It is a copy of the values at that precision: it must be made anew when b changes.
    Raises ValueError if b is not a matrix, or the precision or rounding is none.
    """
    from .product import Packed

    if b.ndim != 2:
        raise ValueError(f"pack: b has {b.ndim} dimensions; expected a matrix")
    if precision not in precisions.PRECISIONS or rounding not in precisions.ROUNDINGS:
        known = ", ".join(precisions.PRECISIONS), ", ".join(precisions.ROUNDINGS)
        raise ValueError(
            f"pack: precision={precision!r} with rounding={rounding!r}; expected one of {known[0]}, and of {known[1]}"
        )
    # Of each packed value, exact products by tiles read six bytes and those by vectors four.
    for isa in ISAS[1:] if precisions.is_exact(precision) else ISAS:
        inner = computed_by_panels(isa, b.dtype, precision)
        if invariance.is_demanded() and varies(isa, b.dtype, precision):
            continue
        if passed_over(isa) is None and inner is not None and b.size:
            return Packed(b, _unfused_schemes(isa), inner, rounding, precision)
    return None


def multiply_packed(
    a: np.ndarray, b: Packed, *, addend: np.ndarray | None = None, alpha: float = 1.0, beta: float = 1.0
) -> np.ndarray | None:
    """alpha * (a @ b) + beta * addend, with a (..., m, k) and b packed; None where the values of a or of b do not admit
    the packed form, and the product has to be done from the array. Raises ValueError for another k or dtype."""
    from .product import product

    if a.ndim < 2 or a.shape[-1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(
            f"multiply_packed: a is {a.dtype}{list(a.shape)} and b {b!r}; expected (..., m, {b.shape[0]}) of {b.dtype}"
        )
    try:
        return product(
            a, b, isa=b.isa, precision=b.precision, rounding=b.rounding, alpha=alpha, beta=beta, addend=addend
        )
    except Refused:
        return None
