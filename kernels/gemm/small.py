"""Products too small for panels (`small_products.py`): which ones tiles and vector units take before all others.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..block.tuning import Tuning, tuning
from ..precisions.products import PRECISIONS, ROUNDINGS
from ..registry import ArraySpec
from ..runtime import cpu, invariance
from ..runtime.shapes import broadcast_shapes
from .compiled import computed_by_panels, computed_precision, is_exact, pairs_multiply, varies, vector_isa
from .small_sizes import DEPTH, LINES, SIDE, is_in_lines

ISAS = ("amx", "avx512", "avx2")
"""Those that have loops for such products. Where none is named it is that of this CPU's vectors."""


def refuses(named: str | None = None) -> Callable[..., str | None]:  # noqa: C901 (one reason after the other)
    """Why an instruction set does not multiply arrays of these shapes and dtypes without panels."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        isa = named or vector_isa()
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if computed_by_panels(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        if invariance.is_demanded() and (sentence := varies(isa, a.dtype, precision)):
            return sentence
        (m, k), n, count = a.shape[-2:], b.shape[-1], 1
        if b.ndim == 2:
            m *= math.prod(a.shape[:-2])
        else:
            count = math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        products = m * k * n
        row = tuning(isa)
        wide = n > SIDE and _is_wide(row, m, k, n)
        most = min(m, n) if isa == "amx" or wide else max(m, n)
        if not (min(m, n) and most <= SIDE and 0 < k <= DEPTH and count):
            sides = "rows or columns" if isa == "amx" else "rows and columns"
            more = f", or up to {row.wide_columns_most} columns beside {row.wide_rows} to {SIDE - 1} rows"
            more *= row.wide_columns_most > SIDE
            return f"takes no [{m}, {k}] @ [{k}, {n}]; 1 to {SIDE} {sides} and a depth of 1 to {DEPTH}{more}"
        exact = is_exact(a.dtype, precision)
        if wide and exact and count * products < row.exact_products:
            least = f"faster from {row.exact_products:,}"
            return f"leaves {products:,} products with more than {SIDE} columns to BLAS; {least}"
        if exact and count == 1 and products < row.exact_small_products and a.dtype.itemsize > 2:
            return f"leaves one product of {products:,} products to BLAS; faster from {row.exact_small_products:,}"
        if isa == "amx":
            if max(m, n) > SIDE and min(m, n) < row.tile_lines:
                return f"leaves {min(m, n)} rows or columns of many to what reads the other operand once"
            return _refusal_of_tiles(a.dtype, precision, exact, count, products if max(m, n) <= SIDE else math.inf)
        if not exact:
            return _refusal_beside_parts(row, a.dtype, precision, count, products)
        if m == n == 1 and count > 1 and count * k > row.exact_tiny_products:
            return f"leaves batches of dot products to BLAS from {row.exact_tiny_products:,} products on"
        lines = row.exact_lines if count < 4 else row.exact_batch_lines
        if min(m, n) < lines and products > row.exact_tiny_products:
            return f"leaves [{m}, {k}] @ [{k}, {n}] to BLAS, which need not pack"
        least = row.exact_broadcast_products
        if a.shape[:-2] != b.shape[:-2] and count * products < least:
            return f"leaves {count} x {products:,} products to BLAS; faster with broadcasting from {least:,}"
        return None

    return refusal


def _is_wide(row: Tuning, m: int, k: int, n: int) -> bool:
    return row.wide_rows <= m < SIDE and n <= row.wide_columns_most and k * n <= row.wide_numbers_most


def _refusal_beside_parts(row: Tuning, dtype: np.dtype, precision: str, count: int, products: int) -> str | None:
    """Why vectors leave rounded operands to panels of bf16 parts."""
    least = row.vector_products_beside_tiles_most
    if products >= least and cpu.refusal("amx") is None:
        return f"leaves {products:,} products to tiles, which are faster from {least:,}"
    alone = count < 4
    least = row.vector_products_beside_pairs_most if alone else row.vector_batch_products_beside_pairs_most
    if products >= least and pairs_multiply(dtype, precision):
        return f"leaves {count} x {products:,} products to pairs, which are faster from {least:,}"
    return None


def _refusal_of_tiles(dtype: np.dtype, precision: str, exact: bool, count: int, products: float) -> str | None:
    if exact:
        return "leaves exact products to vectors: eight terms take tiles longer"
    row = tuning("amx")
    table = row.tile_products if count < 4 else row.tile_batch_products
    least = table.get(computed_precision("amx", dtype, precision) or "", 0)
    if products < least and computed_precision("avx512", dtype, precision) is not None:
        return f"leaves {count} x {products:,} products to vectors; faster from {least:,}"
    return None


def implementation(named: str | None = None) -> Callable[..., np.ndarray]:
    """The product by an instruction set without panels, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        from .small_products import product

        isa = named or vector_isa()
        return product(a, b, isa, computed_by_panels(isa, a.dtype, precision), rounding)

    multiply.__name__ = multiply.__qualname__ = f"matmul_small_{named or 'on_vectors'}"
    return multiply


def specialise(named: str | None = None) -> Callable[..., Callable[..., np.ndarray] | None]:
    """For two matrices: the job prepared, so that a call only has to find the addresses."""

    def choose(
        a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna"
    ) -> Callable[..., np.ndarray] | None:
        isa, longest = named or vector_isa(), max(a.shape[-2], b.shape[-1])
        in_lines = is_in_lines(isa, a.shape[-2], b.shape[-1])
        if a.shape[:-2] != b.shape[:-2] or (in_lines and (a.ndim > 2 or longest % LINES)):
            return None
        from .small_products import specialise

        return specialise(isa, computed_by_panels(isa, a.dtype, precision), rounding, a.dtype, a.shape, b.shape)

    return choose
