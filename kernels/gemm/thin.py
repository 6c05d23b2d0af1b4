"""Products of a large matrix with few rows or columns: which ones are done without packing, by `thin_loops.py`.

Nothing here imports the compiler; the first product does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .. import cpu, threading
from ..precision import PRECISIONS, ROUNDINGS, acting_rounding
from ..quiet import restore, silence
from ..registry import ArraySpec, Refused
from ..shapes import broadcast_shapes
from .compiled import computed_by_panels, is_exact, pairs_multiply, working_dtype
from .workspace import address_of, empty

__all__ = ["ISAS", "KEPT_ROWS", "implementation", "most_rows", "product", "refuses", "rows_times"]

ISAS = ("avx512", "avx2")

_BYTES = np.dtype(np.uint8)

_MOST_ROWS, _MOST_COLUMNS, _MOST_BESIDE_TILES = {"avx512": 128, "avx2": 32}, 16, 64
"""Rows (half as many of float64) and columns up to which packing the matrix takes longer, and those up to which exact
products on tiles do. With 16, 32, 64 and 128 rows here, by panels and by NumPy: milliseconds on
AVX-512 and a matrix of 4096 x 4096, bf16 3.1, 11.3, 5.6, 5.1, 12.7, 7.8, 9.1, 15.7, 10.4, 17.3, 22.7, 17.8, ieee 3.2,
13.0, 5.6, 5.0, 14.2, 7.8, 8.6, 15.8, 11.0, 16.8, 22.9, 18.8; one that runs along K 3.6, -, 7.7, 5.6, -, 9.9, 9.4, 19.8,
12.4, 20.1, 26.2, 19.6. Of 512 x 512, microseconds with 48 and 128 207, 298, 325, 375, 412, 694."""

_MOST_ACROSS = 6
"""Rows up to which AVX2 does so where the matrix runs across the result: so many are multiplied at a time, and more
read it from panels that each thread packs in its cache (`plans.columns`). With 8 rows of 1024 x 1024 on a Zen 3 four at
a time take 360 to 470 us and panels 360 to 400, in tf32 660 to 705 and 440 to 560; with 16 1290, 770 (one thread)."""

_MOST_CONVERTED = 16
"""Rows up to which it does so where a matrix that runs along K is converted, for some rows at a time each time. With
8, 16, 24, 32 rows of 1024 x 1024 here, by panels and by NumPy, microseconds: exact 237, 524, 322; 358, 573, 445; 535,
691, 655; 551, 676, 612; in tf32 446, 615, -; 723, 647, -; 972, 722, -. Of 4096 x 4096 in milliseconds: exact 6.0, 10.2,
7.8; 6.9, 12.9, 9.7; 9.2, 12.9, 12.7; 12.4, 16.8, 18.0; in tf32 6.6, 10.1; 10.0, 11.8; 13.9, 12.9."""

_MOST_IN_TWO = 6
"""The same of matrices that are split in two parts, for some rows at a time each time; across the result as many as are
multiplied at a time, `_ALWAYS`. bf16x3 of 1024 x 1024 with 2, 4, 6, 8, 16 columns here and by panels, microseconds:
387, 806; 498, 805; 666, 806; 1092, 841; 1915, 854; with 2, 4, 6 rows across 489, 475; 481, 420; 942, 441."""

KEPT_ROWS = {"avx512": 32, "avx2": 4}
"""Rows up to which it is also better than a packed matrix that is kept. In the same two units: 4096 x 4096 with 32, 64,
128 rows 5.0, 6.5, 9.0, 9.0, 17.3, 15.5, 512 x 512 with 32 and 128 108, 125, 338, 300. On AVX2 (Zen 3), a matrix that
runs along K, with 4, 6, 8, 16, 32 rows: 3.2, 3.6, 3.8, 3.3, 6.0, 5.3, 6.9, 6.4, 12.4, 10.7."""

_MOST_BESIDE_PAIRS = 24
"""The same for products of pairs. With 8, 16, 32, 48 and 64 rows here and by panels, milliseconds of bf16 on a Zen 4:
2.3, 9.7, 4.6, 9.8, 6.3, 9.0, 9.1, 11.0, 12.6, 11.3; 1024 x 1024 with 8 and 32 rows 220, 347 and 493, 366 us; [64, 4096]
@ [4096, 64] 360, 156."""

_LEAST_DEPTH_OF_ROWS, _LEAST_DEPTH_OF_COLUMNS = 3, 8
"""The depth for each row and for each column, since each step along K reads and writes the sums. Microseconds here and
by panels: [12, 64] @ [64, 20000] 321, 594, with 48 rows 1224, 1200, with 96 1816, 1525; [20000, 64] @ [64, 8] 457, 535,
with 16 columns 735, 559; [8000, 256] @ [256, 16] 661, 925, with 32 columns 1108, 853."""

_ALWAYS = 4
"""So many rows or columns are done here at any depth, and beside tiles."""

_LEAST_PRODUCTS, _LEAST_VALUES, _LEAST_BYTES_OF_ONE = 1_000_000, 50_000, 2_000_000
"""Scalar products of exact ones, values of the matrix at other precisions, and bytes of it where one row is exact, from
which the call is worth it: BLAS takes threads from as many on (128 x 256 with 24 rows 35 us, BLAS 22 to 42, with 48 46
and 60), small vectors are as fast up to there. BLAS has one thread for one row: of 512 x 512, 768 x 768, 2048 x 2048
22, 44, 390 us here and 17, 63, 710 there."""

_LINES, _COLUMNS = 64, 4096
"""Columns of a task, where sums are of lines along K and at most where a matrix runs across the result."""


def _in_two(isa: str, dtype: np.dtype, precision: str) -> bool:
    return computed_by_panels(isa, dtype, precision) == "bf16x3"


def most_rows(isa: str, dtype: np.dtype, precision: str, m: int, k: int, n: int) -> int:
    """How many rows or columns, whichever are fewer, of (m, k) times (k, n) matrices are done without packing."""
    most = min(_MOST_ROWS[isa] // (1 + (dtype == np.float64)), k // _LEAST_DEPTH_OF_ROWS)
    if m > n:
        most = min(_MOST_COLUMNS, k // _LEAST_DEPTH_OF_COLUMNS)
    if isa == "avx2" and not is_exact(dtype, precision):
        most = min(most, _MOST_IN_TWO if _in_two(isa, dtype, precision) else _MOST_CONVERTED)
    if cpu.refusal("amx") is None:
        most = min(most, _MOST_BESIDE_TILES if is_exact(dtype, precision) else _ALWAYS)
    elif pairs_multiply(dtype, precision):
        most = min(most, _MOST_BESIDE_PAIRS)
    return max(_ALWAYS, most)


def refuses(isa: str) -> Callable[..., str | None]:
    """Why `isa` does not multiply arrays of these shapes and dtypes in one pass."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        m, k, n, large = *a.shape[-2:], b.shape[-1], b if a.shape[-2] <= b.shape[-1] else a
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if large.shape[:-2] != batch:
            return "takes a matrix for each few rows or columns of a batch"
        most, few, exact = most_rows(isa, a.dtype, precision, m, k, n), min(m, n), is_exact(a.dtype, precision)
        if not 1 <= few <= most:
            return f"takes 1 to {most} {'rows' if m <= n else 'columns'} here"
        least = _LEAST_PRODUCTS if few > 1 else _LEAST_BYTES_OF_ONE // a.dtype.itemsize
        values = math.prod(large.shape)
        if exact and values * few < least:
            return f"leaves {values * few:,} products to BLAS; it is faster from {least:,}"
        if not exact and values < _LEAST_VALUES:
            return f"leaves a matrix of {values:,} values to others; it is faster from {_LEAST_VALUES:,}"
        named = a.dtype.name in ("float32", "float64", "float16", "bfloat16")
        if not named or computed_by_panels(isa, a.dtype, precision) is None:
            return f"has no loops for {a.dtype.name} at {precision}"
        if a.dtype.itemsize == 2 and a.dtype == np.float16 and not cpu.converts_half():
            return "float16 is converted by instructions that are not there"
        return None

    return refusal


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product in one pass over the matrix, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        rows, columns = a.shape[-2], b.shape[-1]
        along_k = b.strides[-2] if rows <= columns else a.strides[-1]
        if isa == "avx2" and min(rows, columns) > _ALWAYS and along_k != a.itemsize:
            most = _ALWAYS if _in_two(isa, a.dtype, precision) else _MOST_ACROSS
            if min(rows, columns) > most:
                raise Refused(f"leaves more than {most} rows of a matrix that runs across the result to panels")
        return product(a, b, isa, precision, rounding)

    multiply.__name__ = multiply.__qualname__ = f"matmul_rows_{isa}"
    return multiply


def product(a: np.ndarray, b: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """The product in one pass over the larger operand. Raises `Refused` as `rows_times` does."""
    if a.shape[-2] <= b.shape[-1]:
        return _rounded(rows_times(a, b, isa, precision, rounding), a.dtype)
    turned = rows_times(b.swapaxes(-1, -2), a.swapaxes(-1, -2), isa, precision, rounding)
    return np.ascontiguousarray(_rounded(turned, a.dtype).swapaxes(-1, -2))


def rows_times(few: np.ndarray, matrix: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """Few rows (..., m, k) times a matrix (..., k, n) for each of a batch, as they are summed: in float32, or float64
    for matrices of it. Raises `Refused` for those that are not contiguous in a direction."""
    (m, k), n, strides = few.shape[-2:], matrix.shape[-1], matrix.strides[-2:]
    code = _code(isa, m, matrix.dtype, strides, precision, acting_rounding(precision, rounding))
    units, places = 1, matrix
    if matrix.ndim > 2:
        from .product import addresses

        batch = matrix.shape[:-2]
        table = addresses(matrix, batch)
        units, few = len(table), np.broadcast_to(few, (*batch, m, k)).reshape(-1, k)
        places = table if units > 1 else matrix
    few, factors, convert = _factors(few, code)
    totals = np.zeros((units * m, n), code.working)  # not aligned, which takes 4 us more than it saves
    pool, threads = threading.pool()
    strips = empty((threads, code.strip_bytes), _BYTES) if code.strip_bytes else totals
    width = code.columns or min(_COLUMNS, -(-n // (code.at_once * max(1, threads // units))) * code.at_once)
    code.run(
        pool, threads, code.leaf, address_of(strips), code.strip_bytes, width, units, n, m, k,
        convert, address_of(few), few.strides[0], address_of(factors), factors.strides[1], factors.strides[0],
        address_of(places), *strides, address_of(totals), *totals.strides,
    )  # fmt: skip
    if code.parts == 2 and not np.isfinite(totals).all():
        raise Refused("the result is not finite; products of parts are then looked at one after the other")
    return totals.reshape(*matrix.shape[:-2], m, n) if matrix.ndim > 2 else totals


def _factors(few: np.ndarray, code: _Code) -> tuple[np.ndarray, np.ndarray, int]:
    """The few rows with neighbouring values; room for what multiplies each part of the matrix, rows (parts, m, k) which
    begin on cache lines where they are read in vectors (32 rows of 992 so 257 us, else 292); and the address of the
    code that converts the ones to the others, or 0 where nothing is left to do."""
    few = few if few.strides[1] == few.itemsize else np.ascontiguousarray(few)
    m, k = few.shape
    if code.exact and not (code.sums and (address_of(few) | few.strides[0]) % 64):
        return few, few[None], 0
    rows = empty((code.parts, m, -(-k // 16) * 16), code.working)[:, :, :k]
    if code.parts == 1:
        return few, rows, code.convert
    from ..rounding import round_to_parts, split

    rows[0], rows[1] = round_to_parts(few, "bf16x3"), split(few, "bf16x3")[0]
    return few, rows, 0


def _rounded(totals: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums in the operands' dtype."""
    if dtype == totals.dtype:
        return totals
    token = silence()
    try:
        return totals.astype(dtype)
    finally:
        restore(token)


class _Code(NamedTuple):
    """The compiled function; the addresses of the code that reads a matrix and of that which converts a row to be
    multiplied with it; whether it reads rows in vectors; how many columns of the result are a task, or 0 where they are
    divided by threads into multiples of `at_once`; the bytes that each thread needs; whether rows are multiplied as
    they are; how many parts they have; and the dtype of the sums."""

    run: Callable[..., None]
    leaf: int
    convert: int
    sums: bool
    columns: int
    at_once: int
    strip_bytes: int
    exact: bool
    parts: int
    working: np.dtype


@functools.lru_cache(4096)
def _code(isa: str, m: int, dtype: np.dtype, strides: tuple[int, int], precision: str, rounding: str | None) -> _Code:
    """What multiplies m rows and a matrix of such strides. Raises `Refused` for one that is not contiguous."""
    from .loops import leaf_address
    from .packing import CONVERSIONS
    from .sources import ELEMENTS
    from .thin_kernels import ROWS, ROWS_ALONG_K
    from .thin_loops import AddRows, ConvertRow, SumRows, TurnRows, multiply_rows, strip_bytes

    along_k = strides[0] == dtype.itemsize
    if not along_k and strides[1] != dtype.itemsize:
        raise Refused("takes a matrix that is contiguous in a direction")
    inner, working = computed_by_panels(isa, dtype, precision), working_dtype(dtype)
    assert inner is not None
    table = ROWS_ALONG_K if along_k and inner == "ieee" else ROWS
    rows = next(rows for most, rows in table[isa].items() if m <= most)
    tags = ELEMENTS[dtype.name], CONVERSIONS[inner, acting_rounding(inner, rounding)]
    kind = AddRows if not along_k else TurnRows if rows.strip else SumRows
    leaf, at_once = kind(*tags, rows), rows.vectors * 64 // working.itemsize
    parts = 2 if inner == "bf16x3" else 1
    convert = 0 if parts == 2 else leaf_address(ConvertRow(*tags))
    columns = {AddRows: 0, TurnRows: at_once, SumRows: _LINES}[kind]
    exact = inner == "ieee" and dtype.itemsize > 2
    return _Code(
        multiply_rows, leaf_address(leaf), convert, kind is SumRows, columns, at_once, strip_bytes(leaf),
        exact, parts, working,
    )  # fmt: skip
