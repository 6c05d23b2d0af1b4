"""Products too small for panels (`small_products.py`): which ones tiles and vector units take before all others.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import cpu, invariance
from ..precision import PRECISIONS, ROUNDINGS
from ..registry import ArraySpec
from ..shapes import broadcast_shapes
from .compiled import computed, computed_by_panels, is_exact, pairs_multiply, varies

__all__ = ["DEPTH", "ISAS", "LINES", "SIDE", "implementation", "is_in_lines", "refuses", "specialise"]

ISAS = ("amx", "avx512", "avx2")

SIDE, DEPTH = 128, 256
"""The most rows or columns, and the greatest depth: sums of `loops.py` run in one chain that far, to the same bits.

By tiles either the rows or the columns may be more: so little is done with each value that packing it and reading it
again takes longer than the product. Microseconds by panels and by tiles, 32 rows or columns at a time: tf32 [13824, 24]
@ [24, 24] 152, 117, of a transposed left operand 179, 109, [24, 24] @ [24, 13824] 219, 123; [4096, 128] @ [128, 128] in
tf32 310, 227, in bf16 205, 144, in bf16x6 388, 325; with a depth of 256 570, 480, 335, 233, 728, 726; [256, 64] @
[64, 64] 18, 9, 15, 6, 20, 12."""

_WIDEST, _MOST_OF_WIDE, _FEWEST_ROWS_OF_WIDE, _LEAST_OF_WIDE = 512, 1 << 16, 24, 1_000_000
"""On AVX2 also fewer than `SIDE` rows times a right operand of so many columns, and numbers in all, which the L2 cache
holds, from so many rows and, of exact ones, products on (BLAS does fewer): panels of so few rows are packed by all
threads before any of them multiplies. Microseconds on a Zen 3 here, by panels and by OpenBLAS, each alone: [64, 64] @
[64, 256] 42, 78, 26, [64, 128] @ [128, 256] 63, 105, 43, [64, 256] @ [256, 256] 87, 133, 79, [64, 128] @ [128, 512]
133, 194, 82, [32, 128] @ [128, 512] 66, 130, 53, transposed 61, 92, 45 in the second case; by BLAS among products by
these loops, whose threads its own disturb, 55, 68, -, 111. [128, 64] @ [64, 256] takes 48 and 55, [64, 256] @ [256,
512] 249 and 306, transposed 302 and 299."""

_LEAST_FOR_TILES = {"bf16": 30_000, "tf32": 170_000, "fp16": 170_000, "bf16x6": 600_000, "tf32x3": 600_000}
"""Products (m * k * n) from which tiles do a single one faster than vectors. At n = 16,
24, 32, 40, 48, 56, 64, microseconds by vectors: bf16 0.30, 0.65, 0.81, 1.57, 1.98, 3.5, 4.2, tf32 0.29, 0.64, 0.75,
1.40, 1.85, 3.4, 4.2; by tiles: bf16 0.37, 0.53, 0.49, 1.27, 1.18, 2.0, 1.6 (what Python does next takes 0.3 longer),
tf32, of two parts and four terms, 0.44, 0.96, 0.93, 1.87, 2.06, 3.3, 2.5. At n = 32, 48, 64, 72, 80 bf16x6 takes
vectors, which do not split, 0.81, 1.95, 4.3, 6.6, 8.5 and tiles 1.3, 3.1, 4.4, 9.9, 10.6."""

_LEAST_IN_BATCHES = {"bf16x6": 200_000, "tf32x3": 30_000}
"""The same in batches of four and more, where the other precisions go by tiles at every size: in bf16 1024 products at
n = 8, 16, 32 take vectors 37, 78, 420 us and tiles 30, 44, 250. 1024 at n = 16, 24, 32 and 256 at 48, 64 take vectors
64, 171, 301, 228, 554 us in bf16x6 and 108, 308, 481, 301, 690 in tf32x3, tiles 115, 264, 355, 302, 551 and 142, 317,
387, 320, 554."""

LINES, _LEAST_OF_MANY = 32, 5
"""Rows or columns that are done at a time where there are many, and the fewest of the other ones then: up to four are
products of vectors (`thin.py`)."""

_MOST_BY_VECTORS = 600_000
"""Products from which panels of tiles are faster than vectors, where an operand is contiguous in no direction."""

_MOST_BESIDE_PAIRS, _MOST_IN_BATCHES_BESIDE_PAIRS = 800_000, 20_000
"""Products (m * k * n) from which panels of pairs are faster, alone and in batches. Microseconds of bf16 on a Zen 4 by
vectors and by pairs, in whole calls: n = 64, 96, 128 6.0, 11.0, 17.6, 17.3, 43.5, 21.2; 1024 at n = 16 and 32 110, 367,
436, 341; 256 at 64 906, 616."""

_LEAST_BROADCAST = 500_000
"""Products of a whole batch below which NumPy's BLAS does exact ones faster, for batches that broadcast, whose
addresses take 10 us to find."""

_LEAST_ALONE = 14_000
"""Products (m * k * n) of one exact float32 or float64 product from which vectors are faster than BLAS, in spite of
what comes before their loops. Microseconds by vectors and by BLAS: n = 8 0.96, 0.56; 16 0.95, 0.70; 24 1.11, 0.93; 32
1.23, 1.30; 48 1.8, 2.6; [8, 64] @ [64, 8] 0.99, 0.65; [16, 64] @ [64, 16] 1.07, 0.93."""

_LEAST_LINES, _LEAST_LINES_IN_BATCH, _ALWAYS = 8, 3, 1000
"""Rows and columns of a result below which BLAS does a single exact product faster, which need not pack, or a batch (32
x ([1, 128] @ [128, 128]) 65 us, by vectors 116), and products (m * k * n) up to which it does not. Microseconds by
vectors and by BLAS: n = 8 0.22, 0.55; 16 0.28, 0.60; 32 0.72, 1.07; 64 3.9, 4.4; 128 34, 45; [1, 64] @ [64, 64]
transposed 1.1, 0.7; [128, 128] @ [128, 4] 4.7, 2.4."""


def refuses(isa: str) -> Callable[..., str | None]:
    """Why `isa` does not multiply arrays of these shapes and dtypes without panels."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if computed_by_panels(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        if any(invariance.demanded()) and (sentence := varies(isa, a.dtype, precision)):
            return sentence
        (m, k), n, count = a.shape[-2:], b.shape[-1], 1
        if b.ndim == 2:
            m *= math.prod(a.shape[:-2])
        else:
            count = math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        products = m * k * n
        wide = isa == "avx2" and n > SIDE and _is_wide(m, k, n)
        most = min(m, n) if isa == "amx" or wide else max(m, n)
        if not (min(m, n) and most <= SIDE and 0 < k <= DEPTH and count):
            sides = "rows or columns" if isa == "amx" else "rows and columns"
            more = f", or up to {_WIDEST} columns beside {_FEWEST_ROWS_OF_WIDE} to {SIDE - 1} rows" * (isa == "avx2")
            return f"takes no [{m}, {k}] @ [{k}, {n}]; 1 to {SIDE} {sides} and a depth of 1 to {DEPTH}{more}"
        exact = is_exact(a.dtype, precision)
        if wide and exact and count * products < _LEAST_OF_WIDE:
            return f"leaves {products:,} products with more than {SIDE} columns to BLAS; faster from {_LEAST_OF_WIDE:,}"
        if exact and count == 1 and products < _LEAST_ALONE and a.dtype.itemsize > 2:
            return f"leaves one product of {products:,} products to BLAS; faster from {_LEAST_ALONE:,}"
        if isa == "amx":
            if max(m, n) > SIDE and min(m, n) < _LEAST_OF_MANY:
                return f"leaves {min(m, n)} rows or columns of many to what reads the other operand once"
            return _refusal_of_tiles(a.dtype, precision, exact, count, products if max(m, n) <= SIDE else math.inf)
        if exact and m == n == 1 and count > 1 and count * k > _ALWAYS:
            return f"leaves batches of dot products to BLAS from {_ALWAYS:,} products on"
        least = _LEAST_LINES if count < 4 else _LEAST_LINES_IN_BATCH
        if exact and min(m, n) < least and products > _ALWAYS:
            return f"leaves [{m}, {k}] @ [{k}, {n}] to BLAS, which need not pack"
        if exact and a.shape[:-2] != b.shape[:-2] and count * products < _LEAST_BROADCAST:
            return f"leaves {count} x {products:,} products to BLAS; faster with broadcasting from {_LEAST_BROADCAST:,}"
        if not exact and products >= _MOST_BY_VECTORS and cpu.refusal("amx") is None:
            return f"leaves {products:,} products to tiles, which are faster from {_MOST_BY_VECTORS:,}"
        least = _MOST_BESIDE_PAIRS if count < 4 else _MOST_IN_BATCHES_BESIDE_PAIRS
        if not exact and products >= least and pairs_multiply(a.dtype, precision):
            return f"leaves {count} x {products:,} products to pairs, which are faster from {least:,}"
        return None

    return refusal


def _is_wide(m: int, k: int, n: int) -> bool:
    return _FEWEST_ROWS_OF_WIDE <= m < SIDE and n <= _WIDEST and k * n <= _MOST_OF_WIDE


def is_in_lines(isa: str, m: int, n: int) -> bool:
    """Whether so many rows or columns are done `LINES` at a time."""
    return isa == "amx" and max(m, n) > SIDE


def _refusal_of_tiles(dtype: np.dtype, precision: str, exact: bool, count: int, products: float) -> str | None:
    if exact:
        return "leaves exact products to vectors: eight terms take tiles longer"
    least = (_LEAST_FOR_TILES if count < 4 else _LEAST_IN_BATCHES).get(computed("amx", dtype, precision) or "", 0)
    if products < least and computed("avx512", dtype, precision) is not None:
        return f"leaves {count} x {products:,} products to vectors; faster from {least:,}"
    return None


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product by `isa` without panels, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        from .small_products import product

        return product(a, b, isa, computed_by_panels(isa, a.dtype, precision), rounding)

    multiply.__name__ = multiply.__qualname__ = f"matmul_small_{isa}"
    return multiply


def specialise(isa: str) -> Callable[..., Callable[..., np.ndarray] | None]:
    """For two matrices: the job prepared, so that a call only has to find the addresses."""

    def choose(
        a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna"
    ) -> Callable[..., np.ndarray] | None:
        longest = max(a.shape[-2], b.shape[-1])
        in_lines = is_in_lines(isa, a.shape[-2], b.shape[-1])
        if a.shape[:-2] != b.shape[:-2] or (in_lines and (a.ndim > 2 or longest % LINES)):
            return None
        from .small_products import specialised

        return specialised(isa, computed_by_panels(isa, a.dtype, precision), rounding, a.dtype, a.shape, b.shape)

    return choose
