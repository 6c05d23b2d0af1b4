"""Products too small for panels (`direct.py`): which ones vector units take before all other implementations.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import cpu
from ..precision import PRECISIONS, ROUNDINGS
from ..registry import ArraySpec
from .compiled import EXACT, computed

__all__ = ["DEPTH", "ISAS", "SIDE", "implementation", "refuses", "specialise"]

ISAS = ("avx512", "avx2")

SIDE, DEPTH = 128, 256
"""The most rows or columns, and the greatest depth: sums of `loops.py` run in one chain that far, to the same bits."""

_TILES, _TILES_IN_BATCH = 600_000, 120_000
"""Products (m * k * n) from which tiles are faster, alone and in batches of four or more.

Microseconds in bf16, vectors and tiles: alone, n = 32, 64, 80, 96, 128: 2.2 and 8.2, 5.8 and 9.0, 10.2 and 10.4, 14.5
and 11.9, 33 and 16; 1024 products at n = 8, 16, 32: 105 and 300, 175 and 360, 510 and 590; 256 at 64: 740 and 530."""

_BLAS_IN_BATCH = 20_000
"""Products (m * k * n) of each in a batch below which NumPy's BLAS does exact ones faster: 1024 products at n = 8, 16,
32, avx512 and OpenBLAS, microseconds: 68 and 43, 146 and 109, 457 and 573; 256 at n = 64: 684 and 847. Alone, BLAS
takes 0.8 less than a compiled kernel until it uses threads."""


def refuses(isa: str) -> Callable[..., str | None]:
    """Why vector units of `isa` do not multiply arrays of these shapes and dtypes without panels."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if computed(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        (m, k), n, count = a.shape[-2:], b.shape[-1], 1
        if b.ndim == 2:
            m *= math.prod(a.shape[:-2])
        else:
            count = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        if not (0 < m <= SIDE and 0 < n <= SIDE and 0 < k <= DEPTH and count):
            return f"takes no [{m}, {k}] @ [{k}, {n}]; 1 to {SIDE} rows and columns and a depth of 1 to {DEPTH}"
        exact = a.dtype.itemsize == 8 or (a.dtype == np.float32 and precision in EXACT)
        products, batch = m * k * n, count > 3
        if exact and (not batch or products < _BLAS_IN_BATCH):
            return f"leaves {count} x {products:,} products to BLAS; faster in batches, from {_BLAS_IN_BATCH:,} each"
        tiles = _TILES_IN_BATCH if batch else _TILES
        if not exact and products >= tiles and cpu.refusal("amx") is None:
            return f"leaves {count} x {products:,} products to tiles, which are faster from {tiles:,} each"
        return None

    return refusal


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product by vectors of `isa` without panels, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        from .direct import product

        return product(a, b, isa, computed(isa, a.dtype, precision), rounding)

    multiply.__name__ = multiply.__qualname__ = f"matmul_small_{isa}"
    return multiply


def specialise(isa: str) -> Callable[..., Callable[..., np.ndarray] | None]:
    """For two matrices: the job prepared, so that a call only has to find the addresses."""

    def choose(
        a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna"
    ) -> Callable[..., np.ndarray] | None:
        if a.ndim != 2 or b.ndim != 2:
            return None
        from .direct import specialised

        return specialised(isa, computed(isa, a.dtype, precision), rounding, a.dtype, *a.shape, b.shape[1])

    return choose
