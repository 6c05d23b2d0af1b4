"""Matrix products by this project's own loops: which dtypes and precisions each instruction set takes, and why not.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import precision as precisions
from ..registry import ArraySpec

__all__ = ["implementation", "refuses"]

_BY_TILES = {
    "bf16": "bf16",
    "fp16": "fp16",
    "tf32": "tf32",
    "bf16x3": "bf16x3",
    "bf16x6": "bf16x6",
    "tf32x3": "tf32x3",
    "bf16x9": "bf16x9",
    "ieee": "bf16x9",
}
"""What tiles compute for each precision. (tf32x3 is six products of the three bf16 parts that hold its two parts, which
lose less than its own three products do.) The nine of bf16x9 are the exact products of float32 values, which is what
ieee sums."""

_BY_VECTORS = {"bf16": "bf16", "fp16": "fp16", "tf32": "tf32", "bf16x9": "ieee", "ieee": "ieee"}
"""What vector units compute: float32 sums of products of the rounded operands. Splits are left to `blas`."""

_SIXTEEN_BITS = {"bfloat16": "bf16", "float16": "fp16"}


def _computed(isa: str, dtype: np.dtype, precision: str) -> str | None:
    """The precision that the loops compute for a dtype at a precision; None if they do not."""
    if dtype == np.float32:
        return (_BY_TILES if isa == "amx" else _BY_VECTORS).get(precision)
    if dtype.name in _SIXTEEN_BITS:
        return _SIXTEEN_BITS[dtype.name] if isa == "amx" else "ieee"
    return "ieee" if dtype == np.float64 and isa != "amx" else None


def refuses(isa: str) -> Callable[..., str | None]:
    """Why the loops of `isa` do not multiply arrays of these shapes and dtypes at this precision."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in precisions.PRECISIONS or rounding not in precisions.ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if _computed(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        return None

    return refusal


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product by the loops of `isa`, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        from .product import product

        return product(a, b, isa=isa, precision=_computed(isa, a.dtype, precision), rounding=rounding)

    multiply.__name__ = multiply.__qualname__ = f"matmul_{isa}"
    return multiply
