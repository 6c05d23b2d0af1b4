"""Products of few rows and few columns and of great depth: which ones are done by parts of K (`split_k_products.py`).

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ..block.tuning import tuning
from ..precisions.products import OF_HALF, PRECISIONS, ROUNDINGS
from ..registry import ArraySpec
from ..runtime import cpu
from . import compiled
from .compiled import computed_by_panels, is_exact, pairs_multiply, vector_isa
from .small_sizes import DEPTH, SIDE


def refuses(
    a: ArraySpec, b: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: float
) -> str | None:
    """Why K is not split for arrays of these shapes and dtypes."""
    if precision not in PRECISIONS or rounding not in ROUNDINGS:
        return f"does not know precision {precision!r} with rounding {rounding!r}"
    isa, exact = vector_isa(), is_exact(a.dtype, precision)
    if computed_by_panels(isa, a.dtype, precision) is None:
        return f"has no loops for {a.dtype.name} at {precision}"
    beside_parts = not exact and (cpu.refusal("amx") is None or pairs_multiply(a.dtype, precision))
    if b.ndim > 2:
        return "takes no batches of right operands"
    (k, n), m = b.shape, math.prod(a.shape[:-1])
    row = tuning(isa)
    least, most, for_row = row.exact_lines, row.split_results_most, row.split_columns_for_row_most
    if beside_parts:
        parts = PRECISIONS[OF_HALF.get(a.dtype.name) or precision].bf16_parts
        most = min(most, row.split_results_beside_parts_most[parts > 1])
    few = min(m, n) >= least and max(m, n) <= SIDE and m * n <= most
    if not few or n > for_row * m or k <= DEPTH:
        return (
            f"takes no [{m}, {k}] @ [{k}, {n}]; {least} to {SIDE} rows and columns, at most {for_row} columns for "
            f"each row and {most:,} numbers in the result, and a depth from {DEPTH + 1} on"
        )
    if (exact or beside_parts) and m * k * n < row.exact_split_products:
        others = "BLAS" if exact else "tiles or pairs of bf16"
        return f"leaves {m * k * n:,} products to {others}; it is faster from {row.exact_split_products:,}"
    return None


def _by_parts() -> Callable[..., np.ndarray]:
    from .split_k_products import product

    return product


def implementation(isa: str | None = None) -> Callable[..., np.ndarray]:
    """The product by parts of K and the vectors of this CPU, or of `isa`, in the call form of `matmul`, and with an
    addend in that of `addmm`."""
    return compiled.implementation(isa, _by_parts)


def specialise(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> Callable[..., np.ndarray]:
    """For two operands of a dtype and a precision: what depends on these looked up before."""
    inner = computed_by_panels(vector_isa(), a.dtype, precision)
    return functools.partial(_by_parts(), isa=vector_isa(), precision=inner, rounding=rounding)
