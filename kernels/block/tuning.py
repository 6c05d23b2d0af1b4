"""One table of what depends on the CPU: sizes of blocks, and from where one way of a product is faster than another.

A `Tuning` holds the values of one instruction set. It is made of four parts; each part replaces fields of those
before it: the defaults, what is common to the level (`_LEVELS`), the row of the microarchitecture (`_ROWS`), and what
`minitorch-backends tune` measured on this machine (`tuning_file.py`). It is made once per process, so that a product is
done in the same way, and so has the same bits, from its first call to its last.

Blocking is computed from the caches, after T. M. Low, F. D. Igual, T. M. Smith and E. S. Quintana-Orti, "Analytical
Modeling Is Enough for High-Performance BLIS", TOMS 43, 2016. Here the loop over K lies inside that over the blocks of
the result (`loops.py`), so that the L2 cache holds a step of A's block and the sums of a block, and leaves the rest to
what streams through it. The depth of a step, kc, is fixed: sums are the same to the bit whatever the CPU.

A row deviates from the rule where that was measured. The measurements are in `bench/data/crossovers.json`, and those of
whole CPUs in `bench/order`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from ..registry import forget_decisions
from ..runtime import cpu, machine

Row = TypeVar("Row", bound=Any)  # a NamedTuple


class Thresholds(Generic[Row]):
    """The thresholds of a family of kernels: the row in force in this process, which `override` replaces for a block.

    Code reads `row` at each use, and stores nothing that follows from it unless `when_changed` has a function that
    drops what is stored."""

    def __init__(self, row: Row, when_changed: list[Callable[[], Any]] | None = None) -> None:
        self.row = row
        self.when_changed = [] if when_changed is None else when_changed

    @contextmanager
    def override(self, **fields: Any) -> Iterator[Row]:
        """Replace fields of the row in the whole process while the block runs."""
        before = self.row
        self._set(before._replace(**fields))
        try:
            yield self.row
        finally:
            self._set(before)

    def _set(self, row: Row) -> None:
        self.row = row
        for forget in self.when_changed:
            forget()


class Tuning(NamedTuple):
    """The crossovers of one instruction set on one CPU. "Products" are scalar ones, m * k * n; a field that ends in
    `_most` is the last value that a way takes, others are the first, unless the comment says otherwise."""

    # Blocking
    cache_bytes: int = 1 << 20
    """Bytes of a core's L2 cache that blocks are made for."""
    block_part: int = 4
    sums_part: int = 2
    """The parts of the cache, as 1 / n, of a step of A's block, and of the sums of a block."""
    products_per_microsecond: float = 2e3
    """Of one thread, a low estimate, for each lane (vectors), each term (pairs), and each step of a walk (tiles)."""

    # Threads
    spread_microseconds: float = 20.0
    small_spread_microseconds: float = 24.0
    """Work, by the estimate above, from which other threads are woken, for panels and for small products."""

    # Exact products beside NumPy's BLAS
    exact_products: int = 1_000_000
    """From which exact products are faster than by BLAS, which uses threads from there on."""
    outer_products: int = 40_000
    """The same where nothing is summed."""
    exact_lines: int = 8
    exact_batch_lines: int = 3
    """Rows and columns of a result below which BLAS, which need not pack, is faster, alone and in batches."""
    exact_small_products: int = 14_000
    exact_tiny_products: int = 1_000
    """Of one small product from which its loops are faster than BLAS, and of a batch up to which lines do not count."""
    exact_broadcast_products: int = 500_000
    """Of a batch that broadcasts, whose addresses have to be found."""
    exact_row_bytes: int = 2_000_000
    """Of a matrix that one row is multiplied with."""
    exact_split_products: int = 750_000
    """Of products that are split along K."""
    integer_products: int = 20_000
    """Of integers, beside NumPy's loops."""
    rounded_products_most: float = math.inf
    """Of rounded operands up to which loops are faster than rounding and BLAS."""

    # Small products, without panels
    wide_columns_most: int = 0
    wide_numbers_most: int = 1 << 16
    wide_rows: int = 24
    """Columns and numbers of a right operand that is wider than usual, and the rows it takes."""
    tile_products: Mapping[str, int] = {}
    tile_batch_products: Mapping[str, int] = {}
    """By precision: from which tiles are faster than vectors, alone and in batches."""
    tile_lines: int = 5
    """Rows or columns of many from which tiles take them."""
    vector_products_beside_tiles_most: int = 600_000
    vector_products_beside_pairs_most: int = 800_000
    vector_batch_products_beside_pairs_most: int = 20_000
    """Below which vectors take rounded operands that tiles, and pairs, would have as panels."""

    # Few rows or columns, in one pass over the other operand
    rows_most: int = 32
    columns_most: int = 16
    """Rows (half as many of float64) and columns that are done without packing."""
    rows_across_most: float = math.inf
    rows_converted_most: float = math.inf
    rows_split_most: float = math.inf
    """The same where the matrix runs across the result, is converted, and is split in two parts."""
    rows_rounded_beside_tiles_most: int = 8
    rows_beside_pairs_most: int = 24
    rows_kept_most: int = 32
    """The same of rounded operands beside tiles, beside pairs, and beside a matrix that is kept packed."""
    rows_always: int = 4
    """So many are done in one pass at any depth."""
    depth_of_row: int = 3
    depth_of_column: int = 8
    """Depth for each row, and for each column, that one pass needs."""
    rounded_values: int = 50_000
    """Values of a matrix that is rounded from which one pass is worth its call."""

    # Few columns by vectors, which read A where it lies, beside tiles
    narrow_rows: int = 128
    narrow_products: int = 16_000_000
    narrow_filled: tuple[float, float] = (0.5, 0.7)
    """The parts of 64 columns that are filled at least, and of 128."""
    narrow_beside_tiles: tuple[int, int, int, float] = (64, 256, 512, 0.85)
    """Columns and depth from which tiles are faster, up to a depth, and at any if less of the columns is filled."""

    # Panels
    low_rows_most: int = 32
    low_filled: float = 0.9
    """Rows for which lower blocks are considered, and the part of the usual ones' rows that they may have."""
    one_step_most: int = 0
    """Depth that is done in one step, without sums in memory."""
    strip_rows: int = 64
    strip_caches: int = 1
    """Rows of a strip for each thread, and caches that the packed right operand may fill."""
    column_rows_most: int = 320
    column_caches: int = 0
    """Rows up to which threads pack the columns that they multiply, of right operands that fill so many caches."""

    thread_caches: int = 8
    """Caches that the operands of a product may fill which one thread does, in a batch that keeps all busy."""

    # Blocks of operands that are read where they lie: an estimate in cycles, by which they are divided
    strip_cycles: tuple[float, float, float, float] = (8.0, 13.0, 12.4, 12.2)
    """Of a strip for each place along K, by its vectors."""
    pack_cycles: float = 0.35
    read_cycles: float = 0.1
    """Of packing a value, and of the first reading of one by a task."""
    task_cycles: int = 500
    barrier_cycles: int = 8000
    """Of a task besides, and of having other threads see what was packed."""
    near_bytes_most: int = 2048
    """Between rows of B up to which these are always read where they lie."""
    distant_rows_most: int = 192
    page_rows_most: int = 24
    """Rows of the result up to which others are, since strips read them again and again, each from a page of its own;
    the latter where distances are multiples of a part of a page."""

    # Convolutions of one tap
    tap_positions: int = 16
    """Neighbouring positions that are worth a product for each image."""
    tap_gradient_positions: int = 1536
    tap_gradient_parts_most: int = 16
    """Positions of a part of a weight's gradient, whose sums are added at the end, and such parts."""
    tap_cycles: tuple[float, float, float] = (1 / 32, 0.4, 4.0)
    """Of a gradient's product for each number of it, of packing a value, and of transposing a number of the result."""

    # Split K
    split_results_most: int = 10_000
    split_columns_for_row_most: int = 8
    """Numbers in the result, and columns for each row, up to which K is split."""
    split_results_beside_parts_most: tuple[int, int] = (256, 2304)
    """The same numbers beside tiles and pairs of bf16, of operands in one part and in several."""
    split_caches: float = 4
    """Caches that the sums of parts may fill at a time."""

    # Pairs
    pairs_gain: bool = True
    """Whether the CPU begins VDPBF16PS as often as a fused multiply-add, and so does twice the products."""


_LEVELS: dict[str, dict[str, Any]] = {
    "amx": {
        "products_per_microsecond": 6e5, "exact_products": 16_000_000, "exact_lines": 64, "one_step_most": 512,
        "tile_products": {"bf16": 30_000, "tf32": 170_000, "fp16": 170_000, "bf16x6": 600_000, "tf32x3": 600_000},
        "tile_batch_products": {"bf16x6": 200_000, "tf32x3": 30_000}, "strip_caches": 4, "column_caches": 4,
    },
    "avx512_bf16": {"products_per_microsecond": 6e4, "column_caches": 4},
    "avx512": {"wide_columns_most": 512, "rows_across_most": 16, "rows_split_most": 32, "columns_most": 8},
    "avx2": {
        "wide_columns_most": 512, "rows_across_most": 6, "rows_converted_most": 16, "rows_split_most": 6,
        "rows_kept_most": 4,
    },
    "portable": {"block_part": 8, "sums_part": 8, "rounded_products_most": 16_000_000},
}  # fmt: skip
"""By level: what differs from the defaults."""

_ROWS: dict[str, dict[str, dict[str, Any]]] = {
    "zen3": {"*": {"cache_bytes": 1 << 20}},
    "zen4": {"avx512": {
        "exact_small_products": 800_000, "outer_products": 240_000, "rows_across_most": 8,
        "split_results_beside_parts_most": (9216, 16_384),
    }},
    "zen5": {"avx512": {"exact_small_products": 800_000, "outer_products": 160_000}, "avx2": {
        "exact_small_products": 1_000_000, "outer_products": 360_000, "exact_split_products": 900_000, "rows_most": 64,
    }},
    "sapphire_rapids": {"*": {"cache_bytes": 1 << 20}},
}  # fmt: skip
"""By microarchitecture and level ("*": each): measured exceptions from the rule and from the levels' values, which were
measured on these."""


def default(isa: str, share: int | None = None, name: str | None = None) -> Tuning:
    """The built-in values of an instruction set on this CPU, or on one with another L2 cache, in bytes of a core, or of
    another microarchitecture."""
    share = machine.caches().l2.share if share is None else share
    values: dict[str, Any] = {
        "cache_bytes": min(max(share, 1 << 18), 1 << 22),
        "pairs_gain": "AuthenticAMD" in cpu.cpuinfo_field("vendor_id"),
        **_LEVELS.get(isa, {}),
    }
    row = _ROWS.get(machine.microarchitecture() if name is None else name, {})
    return Tuning(**(values | row.get("*", {}) | row.get(isa, {})))


when_changed: list[Callable[[], Any]] = [forget_decisions]
"""What is called when a row has been overridden."""

Function = TypeVar("Function", bound=Callable[..., Any])


def memoise(function: Function) -> Function:
    """Cache what a function computes from the table; `thresholds(isa).override` clears the cache."""
    cached: Any = functools.lru_cache(4096)(function)
    when_changed.append(cached.cache_clear)
    return cached


@functools.cache
def in_force() -> tuple[dict[str, Thresholds[Tuning]], str]:
    """The values of each instruction set in this process, and where they are from."""
    from .tuning_file import read

    measured = read()
    own = measured.values if measured else {}
    rows = {isa: Thresholds(default(isa)._replace(**own.get(isa, {})), when_changed) for isa in cpu.LEVELS}
    name = machine.microarchitecture()
    built_in = f"the built-in row of {name}" if name in _ROWS else "the caches, and the values of the level"
    return rows, measured.origin if measured else built_in


def tuning(isa: str) -> Tuning:
    """The values of an instruction set in this process."""
    return thresholds(isa).row


def thresholds(isa: str) -> Thresholds[Tuning]:
    """The same, to be overridden; those of loops without fused steps are the same."""
    return in_force()[0].get(isa.removesuffix("_unfused"), _DEFAULT)


def origin() -> str:
    """Where this process's values are from."""
    return in_force()[1]


_DEFAULT = Thresholds(Tuning(), when_changed)
_MOST_ROWS, _ROW_OF_SUMS = 256, 2048
"""Rows of a block, so that there are enough of them, and bytes of a row of its sums."""


def blocking(isa: str, kernel: Any, kc: int, item: int) -> tuple[int, int]:
    """Rows and columns (mc, nc) of the blocks of the result for a microkernel and a depth of steps, of A's values in so
    many bytes each."""
    row = tuning(isa)
    mc = min(row.cache_bytes // (row.block_part * kc * item), _MOST_ROWS) // kernel.mr * kernel.mr
    sums = row.cache_bytes // (row.sums_part * mc * kernel.size)
    return mc, min(sums, _ROW_OF_SUMS // kernel.size) // kernel.nr * kernel.nr
