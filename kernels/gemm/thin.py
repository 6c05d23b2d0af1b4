"""Products of a large matrix with few rows or columns: which ones are done without packing, by `thin_loops.py`.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .. import cpu, threading
from ..precision import PRECISIONS, ROUNDINGS
from ..quiet import restore, silence
from ..registry import ArraySpec, Refused
from .compiled import EXACT, computed_by_panels, working_dtype
from .workspace import address_of, empty

__all__ = ["ISAS", "implementation", "most_rows", "refuses"]

ISAS = ("avx512", "avx2")

_FLOAT32 = np.dtype(np.float32)

_LEAST_ROWS = 4
_MOST_ROWS = {"avx512": {"as it is": 32, "rounded": 16, "split": 8}, "avx2": {"as it is": 24, "rounded": 8, "split": 4}}
"""Rows or columns up to which tiles take longer than reading the matrix where it lies, and those up to which panels of
vectors do, by what is done to its values on the way, again for every eight rows (four on AVX2). With a matrix of 1000 x
1000, microseconds here and by panels at 8, 16, 32 rows on AVX-512: ieee 177, 465, 345, 612, 585, 743, bf16 299, 477,
489, 670, 794, 799, tf32x3 411, 529, 614, 621, 1105, 757; of 4096 x 4096, milliseconds, ieee and bf16: 2.8, 9.7, 4.2,
12.0, 6.5, 13.1 (torch 3.4, 4.8, 6.3), 3.3, 9.8, 6.4, 11.3, 9.7, 12.9."""

_LEAST_DEPTH = 16
"""The depth for each row or column where they are more than `_LEAST_ROWS`, since vectors are summed up at the end.
Microseconds here and by panels: [8000, 256] @ [256, 8] 392, 900, with 16 columns 661, 874, with 32 1124, 945; [20000,
64] @ [64, 8] 425, 552, with 16 columns 820, 617."""

_LEAST_VALUES, _LEAST_VALUES_OF_MANY = 50_000, 150_000
"""Values of the matrix from which the call is worth it, and those for more than `_LEAST_ROWS` in exact products, which
BLAS takes otherwise; below, vectors without panels and BLAS are as fast."""

_LINES, _COLUMNS, _COLUMNS_OF_TILE = 64, 4096, 192
"""Columns of a task, of a matrix that runs along K and of others, and what the latter are a multiple of."""


def most_rows(isa: str, dtype: np.dtype, precision: str, k: int) -> int:
    """How many rows or columns are done without packing, at a depth of k."""
    inner = computed_by_panels(isa, dtype, precision)
    if cpu.refusal("amx") is None and dtype != np.float64 and (dtype != _FLOAT32 or precision not in EXACT):
        return _LEAST_ROWS
    how = "as it is" if inner == "ieee" else "split" if PRECISIONS[inner or precision].parts > 1 else "rounded"
    return min(_MOST_ROWS[isa][how], max(_LEAST_ROWS, k // _LEAST_DEPTH))


def refuses(isa: str) -> Callable[..., str | None]:
    """Why `isa` does not multiply arrays of these shapes and dtypes in one pass."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        (m, k), n = a.shape[-2:], b.shape[-1]
        most = most_rows(isa, a.dtype, precision, k)
        exact = a.dtype == np.float64 or (a.dtype == np.float32 and precision in EXACT)
        least = _LEAST_VALUES_OF_MANY if exact and min(m, n) > _LEAST_ROWS else _LEAST_VALUES
        if a.ndim != 2 or b.ndim != 2 or not 1 <= min(m, n) <= most or max(m, n) * k < least:
            return f"takes 1 to {most} rows or columns with a matrix of {least:,} values and more"
        if exact and min(m, n) == 1:
            return "leaves exact products of a matrix and a vector to BLAS"
        if a.dtype.name not in ("float32", "float64", "float16", "bfloat16"):
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
            return _product(a, b, isa, inner, rounding)
        return np.ascontiguousarray(_product(b.T, a.T, isa, inner, rounding).T)

    multiply.__name__ = multiply.__qualname__ = f"matmul_rows_{isa}"
    return multiply


def _product(few: np.ndarray, matrix: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """The product of few rows (m, k) and a matrix (k, n)."""
    from .thin_loops import multiply_rows

    (m, k), n = few.shape, matrix.shape[1]
    leaf, along_k = _leaf(isa, m, matrix.dtype, matrix.strides, precision, rounding if precision == "tf32" else None)
    factors = _factors(few, along_k, precision, rounding)
    totals = empty((m, n), working_dtype(few.dtype))
    totals.fill(0)
    pool, threads = threading.pool()
    width = _LINES if along_k else min(_COLUMNS, -(-n // (_COLUMNS_OF_TILE * threads)) * _COLUMNS_OF_TILE)
    by_k, by_column = matrix.strides
    multiply_rows(
        pool, threads, leaf, width, n, m, k, address_of(factors), factors.strides[1], factors.strides[0],
        address_of(matrix), by_column if along_k else by_k, by_column, address_of(totals), *totals.strides,
    )  # fmt: skip
    if precision == "bf16x3" and not np.isfinite(totals).all():
        raise Refused("the result is not finite; products of parts are then looked at one after the other")
    return _rounded(totals, matrix.dtype)


def _factors(few: np.ndarray, along_k: bool, precision: str, rounding: str) -> np.ndarray:
    """What multiplies each part of the matrix: rows (parts, m, k) whose values are neighbours, and which begin on cache
    lines where they are read in vectors (32 rows of 992 so 257 us, else 292)."""
    if few.dtype.itemsize > 2 and precision == "ieee":
        parts = [few]
        aligned = not along_k or (address_of(few) | few.strides[0]) % 64 == 0
        if few.strides[1] == few.itemsize and aligned:
            return few[None]
    elif few.dtype == _FLOAT32:
        from ..rounding import round_to_parts, split

        parts = [round_to_parts(few, precision, rounding)]
        if precision == "bf16x3":
            parts.append(split(few, precision)[0])
    else:
        parts = [few]
    m, k = few.shape
    rows = empty((len(parts), m, -(-k // 16) * 16), working_dtype(few.dtype))[:, :, :k]
    for row, part in zip(rows, parts, strict=True):
        row[...] = part
    return rows


def _rounded(totals: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums in the operands' dtype."""
    if dtype == totals.dtype:
        return totals
    token = silence()
    try:
        return totals.astype(dtype)
    finally:
        restore(token)


@functools.lru_cache(4096)
def _leaf(
    isa: str, m: int, dtype: np.dtype, strides: tuple[int, int], precision: str, rounding: str | None
) -> tuple[int, bool]:
    """The address of the code that reads a matrix of such strides for m rows, and whether it runs along K."""
    from . import thin_loops
    from .loops import leaf_address
    from .packing import CONVERSIONS
    from .sources import ELEMENTS

    along_k = strides[0] == dtype.itemsize
    if not along_k and strides[1] != dtype.itemsize:
        raise Refused("takes a matrix that is contiguous in a direction")
    if isa == "avx2":
        rows = thin_loops.OneOfAvx2() if m == 1 else thin_loops.FourOfAvx2()
    else:
        rows = thin_loops.One() if m == 1 else thin_loops.Four() if m <= 4 else thin_loops.Eight()
    leaf = thin_loops.SumRows if along_k else thin_loops.AddRows
    return leaf_address(leaf(ELEMENTS[dtype.name], CONVERSIONS[precision, rounding], rows)), along_k
