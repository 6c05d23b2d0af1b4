"""Products of few rows and few columns and of great depth: which ones are done by parts of K (`split_k_products.py`).

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from .. import cpu
from ..precision import PRECISIONS, ROUNDINGS
from ..registry import ArraySpec
from . import compiled
from .compiled import computed_by_panels, is_exact, pairs_multiply, vector_isa
from .small import DEPTH, SIDE

__all__ = ["ISAS", "implementation", "refuses", "specialise"]

ISAS = ("avx512", "avx2")

_LEAST, _MOST_FOR_EACH_ROW, _MOST_RESULTS = 8, 8, 10_000
"""Rows or columns below which one pass over the larger operand is as fast (`thin.py`), columns for each row from which
it is where the right operand runs along K, and numbers in a result from which panels are. Microseconds on a Zen 3 by
parts, by panels and by OpenBLAS, exact and then in tf32, which BLAS has to round before: [16, 8192] @ [8192, 16] 46,
182, 90; [32, 4096] @ [4096, 32] 101, 180, 144 and 108, 207, 267; [64, 1024] @ [1024, 64] 78, 153, 88 and 126, 191, 288;
[64, 8192] @ [8192, 64] 610, 1130, 900; [10, 51200] @ [51200, 10] 188, 653, 567; [96, 2048] @ [2048, 96] 427, 512, 460
and 455, 534, 811; [128, 4096] @ [4096, 128] 1680, 2010, 1530 and 1720, 1720, 1900. [64, 8192] @ [8192, 8] here, in one
pass and by BLAS 151, 224, 125 and 218, 429, 367; [8, 8192] @ [8192, 128], whose right operand runs along K, 459, 248,
318 and 434, 387, 656; [1024, 1024] @ [1024, 8] 267, 174, 230 and 379, 390. Of bf16x3 these take 0.4 to 0.95 of the time
of panels, of float64 0.5 to 0.9, of halves 0.55 to 0.95. On AVX-512 all this was not measured: a core does 134 GFLOP/s
of 64 x 64 x 64 by these loops, and two came to 86 of [64, 4096] @ [4096, 64] by panels."""

_LEAST_PRODUCTS = 750_000
"""Scalar products of exact ones up to which BLAS, on one thread, is done before other threads have begun."""


def refuses(isa: str) -> Callable[..., str | None]:
    """Why `isa` does not split K for arrays of these shapes and dtypes."""

    def refusal(
        a: ArraySpec, b: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: float
    ) -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if computed_by_panels(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        if vector_isa() != isa:
            return f"leaves products to the instructions of {vector_isa()}"
        exact = is_exact(a.dtype, precision)
        if not exact and (cpu.refusal("amx") is None or pairs_multiply(a.dtype, precision)):
            return "leaves operands that are rounded or split to products of bf16 parts"
        if b.ndim > 2:
            return "takes no batches of right operands"
        (k, n), m = b.shape, math.prod(a.shape[:-1])
        few = min(m, n) >= _LEAST and max(m, n) <= SIDE and m * n <= _MOST_RESULTS
        if not few or n > _MOST_FOR_EACH_ROW * m or k <= DEPTH:
            return (
                f"takes no [{m}, {k}] @ [{k}, {n}]; {_LEAST} to {SIDE} rows and columns, at most {_MOST_FOR_EACH_ROW} "
                f"columns for each row and {_MOST_RESULTS:,} numbers in the result, and a depth from {DEPTH + 1} on"
            )
        if exact and m * k * n < _LEAST_PRODUCTS:
            return f"leaves {m * k * n:,} products to BLAS; it is faster from {_LEAST_PRODUCTS:,}"
        return None

    return refusal


def _by_parts() -> Callable[..., np.ndarray]:
    from .split_k_products import product

    return product


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product by parts of K, in the call form of `matmul`, and with an addend in that of `addmm`."""
    return compiled.implementation(isa, _by_parts)


def specialise(isa: str) -> Callable[..., Callable[..., np.ndarray]]:
    """For two operands of a dtype and a precision: what depends on these looked up before."""

    def choose(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> Callable[..., np.ndarray]:
        inner = computed_by_panels(isa, a.dtype, precision)
        return functools.partial(_by_parts(), isa=isa, precision=inner, rounding=rounding)

    return choose
