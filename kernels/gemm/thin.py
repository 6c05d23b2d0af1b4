"""Products of a large matrix with one to four rows or columns: which ones are done without packing, by `thin_loops.py`.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .. import cpu
from ..precision import PRECISIONS, ROUNDINGS
from ..quiet import restore, silence
from ..registry import ArraySpec, Refused
from .compiled import EXACT, computed_by_panels
from .workspace import address_of, aligned_bytes, empty

__all__ = ["ISAS", "implementation", "refuses"]

ISAS = ("avx512", "avx2")

_ROWS = 4
_LEAST_VALUES = 50_000
"""Values of the matrix from which the call is worth it; below, vectors without panels and BLAS are as fast."""

_WIDTH, _LINES = 1024, 64
"""Columns of a task. Four sums of the former fill a third of the L1 cache."""


def refuses(isa: str) -> Callable[..., str | None]:
    """Why `isa` does not multiply arrays of these shapes and dtypes in one pass."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        (m, k), n = a.shape[-2:], b.shape[-1]
        if a.ndim != 2 or b.ndim != 2 or not 1 <= min(m, n) <= _ROWS or max(m, n) * k < _LEAST_VALUES:
            return f"takes 1 to {_ROWS} rows or columns with a matrix of {_LEAST_VALUES:,} values and more"
        if a.dtype == np.float32 and precision in EXACT and min(m, n) == 1:
            return "leaves exact products of a matrix and a vector to BLAS"
        if a.dtype != np.float32 and a.dtype.name not in ("float16", "bfloat16"):
            return f"has no loops for {a.dtype.name}"
        if a.dtype.itemsize == 2 and a.dtype == np.float16 and not cpu.converts_half():
            return "float16 is converted by instructions that are not there"
        return None

    return refusal


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product in one pass over the matrix, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        inner = computed_by_panels(isa, a.dtype, precision)
        assert inner is not None
        if a.shape[0] <= b.shape[1]:
            return _product(a, b, inner, rounding)
        return np.ascontiguousarray(_product(b.T, a.T, inner, rounding).T)

    multiply.__name__ = multiply.__qualname__ = f"matmul_rows_{isa}"
    return multiply


def _product(few: np.ndarray, matrix: np.ndarray, precision: str, rounding: str) -> np.ndarray:
    """The product of few rows (m, k) and a matrix (k, n)."""
    from .. import threading
    from .thin_loops import multiply_rows

    (m, k), n, size = few.shape, matrix.shape[1], matrix.itemsize
    by_k, by_column = matrix.strides
    along_k = by_k == size
    if not along_k and by_column != size:
        raise Refused("takes a matrix that is contiguous in a direction")
    rows, (pool, threads) = 1 if m == 1 else _ROWS, threading.pool()
    width = _LINES if along_k else max(64, min(_WIDTH, -(-n // (32 * threads)) * 16))
    line, row, sums_row = -(-k // 16) * 64, -(-n // 16) * 64, 4 * width
    factors = _converted(few, precision, rounding)
    lines = rows * len(factors)
    memory = aligned_bytes(lines * line + threads * rows * sums_row)
    memory[:] = 0
    left = memory[: lines * line].view(np.float32).reshape(len(factors), rows, line // 4)
    left[:, :m, :k] = factors
    totals = empty((rows, row // 4), np.dtype(np.float32))
    totals[...] = 0
    multiply_rows(
        pool, threads, _leaf(along_k, matrix.dtype, precision, rounding if precision == "tf32" else None), width, n,
        rows, k, address_of(memory), line, address_of(matrix), by_column if along_k else by_k, by_column,
        address_of(totals), row, address_of(memory) + lines * line, sums_row,
    )  # fmt: skip
    if precision == "bf16x3" and not np.isfinite(totals[:m, :n]).all():
        raise Refused("the result is not finite; products of parts are then looked at one after the other")
    return _rounded(totals[:m, :n], matrix.dtype)


def _converted(few: np.ndarray, precision: str, rounding: str) -> list[np.ndarray]:
    """What multiplies each part of the matrix."""
    if few.dtype != np.float32:
        return [few.astype(np.float32)]
    from ..rounding import round_to_parts, split

    whole = round_to_parts(few, precision, rounding)
    return [whole, split(few, precision)[0]] if precision == "bf16x3" else [whole]


def _rounded(totals: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums as a contiguous array of the operands' dtype."""
    token = silence()
    try:
        return np.ascontiguousarray(totals, dtype)
    finally:
        restore(token)


@functools.cache
def _leaf(along_k: bool, dtype: np.dtype, precision: str, rounding: str | None) -> int:
    """The address of the code that reads the matrix."""
    from .loops import leaf_address
    from .packing import CONVERSIONS
    from .sources import ELEMENTS
    from .thin_loops import AddRows, SumRows

    return leaf_address((SumRows if along_k else AddRows)(ELEMENTS[dtype.name], CONVERSIONS[precision, rounding]))
