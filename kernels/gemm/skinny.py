"""Products of a large matrix with few rows or columns: which ones are done without packing, by `skinny_loops.py`.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..block.tuning import tuning
from ..precisions.products import PRECISIONS, ROUNDINGS, acting_rounding
from ..registry import ArraySpec, Refused
from ..runtime import cpu, threading
from ..runtime.errstate import restore, silence
from ..runtime.shapes import broadcast_shapes
from ..runtime.workspace import address_of, empty
from .compiled import computed_by_panels, is_exact, pairs_multiply, vector_isa, working_dtype

ISAS = ("avx512", "avx2")

_LINES, _COLUMNS = 64, 4096
"""Columns of a task, where sums are of lines along K and at most where a matrix runs across the result."""


def _in_two(isa: str, dtype: np.dtype, precision: str) -> bool:
    return computed_by_panels(isa, dtype, precision) == "bf16x3"


def most_rows(isa: str, dtype: np.dtype, precision: str, m: int, k: int, n: int) -> int:
    """How many rows or columns, whichever are fewer, of (m, k) times (k, n) matrices are done without packing."""
    row, exact = tuning(isa), is_exact(dtype, precision)
    most: float = min(row.rows_most // (1 + (dtype == np.float64)), k // row.depth_of_row)
    if m > n:
        most = min(row.columns_most, k // row.depth_of_column)
    if not exact:
        most = min(most, row.rows_split_most if _in_two(isa, dtype, precision) else row.rows_converted_most)
    if cpu.refusal("amx") is None:
        cheap_on_tiles = dtype.name == "bfloat16" or _in_two(isa, dtype, precision)
        rounded = row.rows_always if cheap_on_tiles else row.rows_rounded_beside_tiles_most
        most = most if exact else min(most, rounded)
    elif pairs_multiply(dtype, precision):
        most = min(most, row.rows_beside_pairs_most)
    return max(row.rows_always, int(most))


def refuses(named: str | None = None) -> Callable[..., str | None]:
    """The function that says why an instruction set, that of this CPU's vectors if none is named, does not multiply
    some arrays in one pass."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        isa = named or vector_isa()
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        m, k, n, large = *a.shape[-2:], b.shape[-1], b if a.shape[-2] <= b.shape[-1] else a
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if large.shape[:-2] != batch:
            return "takes a matrix for each few rows or columns of a batch"
        most, few, exact = most_rows(isa, a.dtype, precision, m, k, n), min(m, n), is_exact(a.dtype, precision)
        if not 1 <= few <= most:
            return f"takes 1 to {most} {'rows' if m <= n else 'columns'} here"
        row = tuning(isa)
        least = row.exact_products if few > 1 else row.exact_row_bytes // a.dtype.itemsize
        values = math.prod(large.shape)
        if exact and values * few < least:
            return f"leaves {values * few:,} products to BLAS; it is faster from {least:,}"
        if not exact and values < row.rounded_values:
            return f"leaves a matrix of {values:,} values to others; it is faster from {row.rounded_values:,}"
        known = a.dtype.name in ("float32", "float64", "float16", "bfloat16")
        if not known or computed_by_panels(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        if a.dtype.itemsize == 2 and a.dtype == np.float16 and not cpu.converts_half():
            return "float16 is converted by instructions that are not there"
        return None

    return refusal


def implementation(named: str | None = None) -> Callable[..., np.ndarray]:
    """The product in one pass over the matrix, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        isa = named or vector_isa()
        rows, columns = a.shape[-2], b.shape[-1]
        along_k = b.strides[-2] if rows <= columns else a.strides[-1]
        row = tuning(isa)
        if along_k != a.itemsize and min(rows, columns) > row.rows_always:
            split = _in_two(isa, a.dtype, precision)
            most = min(row.rows_across_most, row.rows_always if split and row.rows_split_most < math.inf else math.inf)
            if min(rows, columns) > most:
                raise Refused(f"leaves more than {most} rows of a matrix that runs across the result to panels")
        return product(a, b, isa, precision, rounding)

    multiply.__name__ = multiply.__qualname__ = f"matmul_rows_{named or 'on_vectors'}"
    return multiply


def product(a: np.ndarray, b: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """The product in one pass over the larger operand. Raises `Refused` as `rows_times` does."""
    if a.shape[-2] <= b.shape[-1]:
        return _round_totals(rows_times(a, b, isa, precision, rounding), a.dtype)
    turned = rows_times(b.swapaxes(-1, -2), a.swapaxes(-1, -2), isa, precision, rounding)
    return np.ascontiguousarray(_round_totals(turned, a.dtype).swapaxes(-1, -2))


def rows_times(few: np.ndarray, matrix: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """Few rows (..., m, k) times a matrix (..., k, n) for each of a batch, as they are summed: in float32, or float64
    for matrices of it. Raises `Refused` for those that are not contiguous in a direction."""
    (m, k), n, strides = few.shape[-2:], matrix.shape[-1], matrix.strides[-2:]
    code = _code(isa, m, matrix.dtype, strides, precision, acting_rounding(precision, rounding))
    units, places = 1, matrix
    if matrix.ndim > 2:
        from ..runtime.addresses import addresses

        batch = matrix.shape[:-2]
        table = addresses(matrix, batch)
        units, few = len(table), np.broadcast_to(few, (*batch, m, k)).reshape(-1, k)
        places = table if units > 1 else matrix
    few, factors, convert = _factors(few, code)
    totals = np.zeros((units * m, n), code.working)  # not aligned, which takes 4 us more than it saves
    pool, threads = threading.pool()
    width = code.columns or min(_COLUMNS, -(-n // (code.at_once * max(1, threads // units))) * code.at_once)
    job = code.job(
        code.leaf, width, units, n, m, k,
        address_of(factors), factors.strides[1], factors.strides[0],
        address_of(places), *strides, address_of(totals), *totals.strides,
    )  # fmt: skip
    code.run(pool, threads, job, convert, address_of(few), few.strides[0])
    if code.parts == 2 and not np.isfinite(totals).all():
        raise Refused("the result is not finite; products of parts are then looked at one after the other")
    return totals.reshape(*matrix.shape[:-2], m, n) if matrix.ndim > 2 else totals


def _factors(few: np.ndarray, code: _Code) -> tuple[np.ndarray, np.ndarray, int]:
    """The few rows with neighbouring values; the rows (parts, m, k) that multiply each part of the matrix, aligned to
    cache lines where vectors read them; and the address of the code that converts the former to the latter, or 0."""
    few = few if few.strides[1] == few.itemsize else np.ascontiguousarray(few)
    m, k = few.shape
    if code.exact and not (code.sums and (address_of(few) | few.strides[0]) % 64):
        return few, few[None], 0
    rows = empty((code.parts, m, -(-k // 16) * 16), code.working)[:, :, :k]
    if code.parts == 1:
        return few, rows, code.convert
    from ..precisions.parts import round_to_parts, split

    rows[0], rows[1] = round_to_parts(few, "bf16x3"), split(few, "bf16x3")[0]
    return few, rows, 0


def _round_totals(totals: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums in the operands' dtype."""
    if dtype == totals.dtype:
        return totals
    token = silence()
    try:
        return totals.astype(dtype)
    finally:
        restore(token)


class _Code(NamedTuple):
    """The compiled function, and the class of its jobs; the addresses of the code that reads a matrix and of that which
    converts a row to be multiplied with it; whether it reads rows in vectors; how many columns of the result are a
    task, or 0 where they are divided by threads into multiples of `at_once`; whether rows are multiplied as they are;
    how many parts they have; and the dtype of the sums."""

    run: Callable[..., None]
    job: Callable[..., Any]
    leaf: int
    convert: int
    sums: bool
    columns: int
    at_once: int
    exact: bool
    parts: int
    working: np.dtype


@functools.lru_cache(4096)
def _code(isa: str, m: int, dtype: np.dtype, strides: tuple[int, int], precision: str, rounding: str | None) -> _Code:
    """What multiplies m rows and a matrix of such strides. Raises `Refused` for one that is not contiguous."""
    from ..block.conversions import CONVERSIONS
    from ..block.loops import leaf_address
    from ..block.sources import ELEMENTS
    from .skinny_kernels import ROWS, ROWS_ALONG_K
    from .skinny_loops import AddRows, Columns, ConvertRow, SumRows, multiply_rows

    along_k = strides[0] == dtype.itemsize
    if not along_k and strides[1] != dtype.itemsize:
        raise Refused("takes a matrix that is contiguous in a direction")
    inner, working = computed_by_panels(isa, dtype, precision), working_dtype(dtype)
    assert inner is not None
    table = ROWS_ALONG_K if along_k and inner == "ieee" else ROWS
    rows = next(rows for most, rows in table[isa].items() if m <= most)
    tags = ELEMENTS[dtype.name], CONVERSIONS[inner, acting_rounding(inner, rounding)]
    kind = SumRows if along_k else AddRows
    leaf, at_once = kind(*tags, rows), rows.vectors * 64 // working.itemsize
    parts = 2 if inner == "bf16x3" else 1
    convert = 0 if parts == 2 else leaf_address(ConvertRow(*tags))
    columns = _LINES if along_k else 0
    exact = inner == "ieee" and dtype.itemsize > 2
    return _Code(
        multiply_rows, Columns, leaf_address(leaf), convert, along_k, columns, at_once, exact, parts, working,
    )  # fmt: skip
