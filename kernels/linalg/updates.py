"""Products inside compiled factorisations: C -= A @ B on the project's own packing and microkernels (`kernels.gemm`).

A factorisation is one compiled function; the leaves of the product reach it as addresses, so that it is compiled once
for a type whatever the precision of its products. Operands are row-major or transposed, C is row-major, and may be
where A or B was read: both are packed before anything is written.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..block import loops, plans, ranges
from ..gemm.tasks import Divided, multiply_blocks
from ..precisions.products import is_exact
from ..registry import Refused
from ..runtime.jit import subroutine
from ..runtime.raw_memory import behind, put
from ..runtime.record import Address, Bytes, Count, Record, Tag
from ..runtime.threading import pool
from ..runtime.workspace import address_of, return_workspace, take_workspace
from .groups import tag_of
from .lanes import VECTOR_BYTES

BLOCK = 64
"""Rows and columns of the blocks that are factored without products: their work stays in the L1 cache."""

_PACKED_BYTES = 1 << 26
"""Bytes of a packed operand; larger ones are packed in parts."""

_SPREAD = 20.0
"""Microseconds of work below which the caller's thread does a product alone."""


class Leaves(Record):
    """Addresses of compiled leaves, and the sizes of a scheme."""

    a_along: Address
    a_across: Address
    b_along: Address
    b_across: Address
    less: Address
    plain: Address
    mr: Count
    nr: Count
    mc: Count
    nc: Count
    kc: Count
    step: Count
    a_bytes: Bytes
    b_bytes: Bytes
    per_microsecond: Count


class Products(Record):
    """What the compiled code must know of the products: leaves, threads, and the addresses of memory. Behind it in
    memory are those of each worker's own products."""

    tag: Tag
    pool: Address
    threads: Count
    size: Bytes
    leaves: Leaves
    packed_a: Address
    packed_b: Address
    sums: Address
    limits: Address
    scratch: Address
    greatest: int
    """The greatest magnitude that packing met, as bits of float32."""
    least: int
    """The least one but zero."""


@subroutine
def alone(p, worker):
    """The products of one worker, within a task."""
    return behind(p, 1 + worker)


@subroutine
def _up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


@subroutine
def _pack(p, threads, is_a, line_stride, k_stride, lines, depth, at, target):
    with_ = p.leaves
    along = k_stride == p.size
    leaf, panel_lines = with_.b_along if along else with_.b_across, with_.nr
    if is_a:
        leaf, panel_lines = with_.a_along if along else with_.a_across, with_.mr
    panel_chunk, k_chunk = loops.chunks(lines, depth, panel_lines, along, with_.kc, threads)
    packing = loops.Packing(
        leaf=leaf, line_stride=line_stride, k_stride=k_stride, lines=lines, depth=depth, kc=with_.kc,
        panel_lines=panel_lines, k_bytes=0, panel_chunk=panel_chunk, k_chunk=k_chunk,
    )  # fmt: skip
    found = loops.pack(p.pool, threads, packing, at, target, p.limits)
    least = found & 0xFFFFFFFF
    p.greatest = max(p.greatest, found >> 32)
    if least:
        p.least = min(p.least, least)


@subroutine
def _multiply_packed(p, threads, less, m, n, k, packed_a, packed_b, c, c_row):
    with_ = p.leaves
    sums = with_.mc * with_.nc * p.size * (2 if p.size == 4 else 1)
    mc, nc = loops.block_sizes(m, n, with_.mc, with_.nc, with_.mr, with_.nr, threads)
    packed = loops.Packing(
        leaf=0, line_stride=0, k_stride=0, lines=0, depth=k, kc=with_.kc, panel_lines=1, k_bytes=0, panel_chunk=1,
        k_chunk=1,
    )  # fmt: skip
    products = Divided(
        a=packed, b=packed, m=m, n=n, rows=mc, columns=nc, width=nc, step=k, a_bytes=0, b_bytes=0, whole_a_bytes=0,
        scratch_bytes=sums, chunk=1,
    )  # fmt: skip
    target = loops.Target(
        leaf=with_.less if less else with_.plain, row_stride=c_row, item_bytes=p.size, alpha_bits=0, beta_bits=0,
        addend_row=0, addend_column=0,
    )  # fmt: skip
    places = p.limits + p.threads * loops.LIMITS_BYTES
    put(places, 2, c)
    multiply_blocks(p.pool, threads, products, target, places, packed_a, packed_b, p.sums)


class _Matrix(NamedTuple):
    at: int
    row: int
    column: int


@subroutine
def _product(p, less, m, n, k, a, b, c, c_row):
    if m <= 0 or n <= 0 or k <= 0:
        return
    with_ = p.leaves
    threads = p.threads if m * n * k > _SPREAD * with_.per_microsecond else 1
    rows = max(with_.mc, _PACKED_BYTES // (_up(k, with_.step) * with_.a_bytes) * with_.mr)
    columns = max(with_.nc, _PACKED_BYTES // (_up(k, with_.step) * with_.b_bytes) * with_.nr)
    for j in range(0, n, columns):
        width = min(columns, n - j)
        _pack(p, threads, False, b.column, b.row, width, k, b.at + j * b.column, p.packed_b)
        for i in range(0, m, rows):
            height, at = min(rows, m - i), c + i * c_row + j * p.size
            _pack(p, threads, True, a.row, a.column, height, k, a.at + i * a.row, p.packed_a)
            _multiply_packed(p, threads, less, height, width, k, p.packed_a, p.packed_b, at, c_row)


@subroutine
def subtract(p, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row):
    """C (m, n) -= A (m, k) @ B (k, n): addresses and strides in bytes; one stride of A and of B is that of a number."""
    _product(p, True, m, n, k, _Matrix(a, a_row, a_column), _Matrix(b, b_row, b_column), c, c_row)


@subroutine
def multiply(p, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row):
    """C (m, n) = A (m, k) @ B (k, n)"""
    _product(p, False, m, n, k, _Matrix(a, a_row, a_column), _Matrix(b, b_row, b_column), c, c_row)


@subroutine
def pack_left(p, m, k, a, a_row, a_column, target):
    """Pack A (m, k) at `target`, for `subtract_packed`."""
    if m > 0 and k > 0:
        _pack(p, p.threads, True, a_row, a_column, m, k, a, target)


@subroutine
def subtract_packed(p, m, n, k, packed_a, b, b_row, b_column, c, c_row):
    """C (m, n) -= A (m, k) @ B (k, n), where A is packed."""
    if m > 0 and n > 0 and k > 0:
        _pack(p, p.threads, False, b_column, b_row, n, k, b, p.packed_b)
        _multiply_packed(p, p.threads, True, m, n, k, packed_a, p.packed_b, c, c_row)


@subroutine
def multiply_packed(p, m, n, k, packed_a, b, b_row, b_column, c, c_row):
    """C (m, n) = A (m, k) @ B (k, n), where A is packed."""
    if m > 0 and n > 0 and k > 0:
        _pack(p, p.threads, False, b_column, b_row, n, k, b, p.packed_b)
        _multiply_packed(p, p.threads, False, m, n, k, packed_a, p.packed_b, c, c_row)


def _isa(dtype: np.dtype, precision: str) -> tuple[str, str]:
    """The instruction set whose leaves are taken, and what they compute."""
    from ..gemm.compiled import ISAS, computed_by_panels, passed_over

    for isa in ISAS if dtype == np.float32 and not is_exact(precision) else ISAS[1:]:
        inner = computed_by_panels(isa, dtype, precision)
        if passed_over(isa) is None and inner is not None:
            return isa, inner
    raise Refused(f"no loops here have products at {precision} for blocks of a factorisation")


def packed_bytes(lines: int, depth: int, panel_lines: int, number_bytes: int, step: int) -> int:
    """Bytes of a packed operand."""
    return plans.up(plans.up(lines, panel_lines) // panel_lines * plans.up(depth, step) * number_bytes, 64)


def left_bytes(leaves: Leaves, m: int, k: int) -> int:
    """What `pack_left` writes."""
    return packed_bytes(m, k, leaves.mr, leaves.a_bytes, leaves.step)


def _parts(leaves: Leaves, size: int, m: int, n: int, depth: int, threads: int) -> list[int]:
    """Bytes for products (m, depth) @ (depth, n): of both packed operands, or parts of them, of sums, of limits, and of
    scratch memory, which has room for a panel of BLOCK columns of m rows."""
    shape_a, shape_b = (leaves.mr, leaves.a_bytes, leaves.step), (leaves.nr, leaves.b_bytes, leaves.step)
    a = min(packed_bytes(m, depth, *shape_a), max(_PACKED_BYTES, packed_bytes(leaves.mc, depth, *shape_a)))
    b = min(packed_bytes(n, depth, *shape_b), max(_PACKED_BYTES, packed_bytes(leaves.nc, depth, *shape_b)))
    panel = plans.up((m + 64) * BLOCK * size, 64) + BLOCK * BLOCK * 8 * 4
    scratch = max(panel, threads * 4 * BLOCK * VECTOR_BYTES) + BLOCK * BLOCK * 16
    limits = threads * loops.LIMITS_BYTES + 64  # behind them the addresses of one product
    return [a, b, threads * leaves.mc * leaves.nc * size * 2, limits, scratch]


class _Layout(NamedTuple):
    """What all sessions of the same shapes and precision share; `starts` are offsets of memory for all threads, and
    then for each worker, and `records` are the products of all and of each, less the addresses of memory."""

    plan: plans.Plan
    starts: np.ndarray
    products: Products
    records: np.ndarray
    total: int


@functools.lru_cache(256)  # a session made anew takes 40 us of the 800 that a factorisation of 512 x 512 takes
def _layout(
    dtype: np.dtype, longest: int, precision: str, rounding: str, alone: tuple[tuple[int, int, int], ...], threads: int
) -> _Layout:
    isa, inner = _isa(dtype, precision)
    plan = plans.plan_for(isa, inner, rounding, dtype.itemsize)
    scheme, kernel = plan.scheme, plan.scheme.kernel
    pack = {
        f"{name}_{way}": Address(plans._pack_leaf(plan, name == "a", dtype, way == "along", True))
        for name in "ab"
        for way in ("along", "across")
    }
    leaves = Leaves(
        **pack, less=Address(plans.less_leaf(plan, dtype)), plain=Address(plans.block_leaf(plan, dtype, True, True)),
        mr=Count(kernel.mr), nr=Count(kernel.nr), mc=Count(scheme.mc), nc=Count(scheme.nc), kc=Count(scheme.kc),
        step=Count(kernel.step), a_bytes=Bytes(kernel.a_bytes), b_bytes=Bytes(kernel.b_bytes),
        per_microsecond=Count(int(plan.products_per_microsecond)),
    )  # fmt: skip
    parts = [_parts(leaves, dtype.itemsize, longest, longest, longest, threads)]
    if alone:
        shapes = [[min(length, longest) for length in shape] for shape in alone]
        own = zip(*(_parts(leaves, dtype.itemsize, *shape, 1) for shape in shapes), strict=True)
        parts += [[*map(max, own)]] * threads
    sizes = np.array(parts, np.int64)
    starts = sizes.cumsum().reshape(-1, _ADDRESSES) - sizes
    nowhere = Address(0)
    products = Products(
        tag=tag_of(dtype), pool=nowhere, threads=Count(1), size=Bytes(dtype.itemsize), leaves=leaves, packed_a=nowhere,
        packed_b=nowhere, sums=nowhere, limits=nowhere, scratch=nowhere, greatest=0, least=0xFFFFFFFF,
    )  # fmt: skip
    records = np.repeat(products.memory[None], len(starts), 0)
    records[0, Products.places()["threads"][0]] = threads
    return _Layout(plan, starts, products, records, int(sizes.sum()))


_POOL, _FIRST, _GREATEST, _LEAST = (Products.places()[name][0] for name in ("pool", "packed_a", "greatest", "least"))
_ADDRESSES = _GREATEST - _FIRST


class Session:
    """The products of one factorisation of matrices of at most m x n, with memory for them; a context manager.

    `alone`: the shapes (m, n, k) of products that tasks do alone.

    Raises `Refused` on leaving where the values did not admit the precision on tiles, unless the result is only to be
    refined: then what is flushed or overflows is found there. What is flushed is admitted where it is below a unit
    in the last place of the largest number of each matrix in `of`, by which errors of its factors are measured.
    """

    def __init__(
        self, dtype: np.dtype, m: int, n: int, precision: str = "ieee", rounding: str = "rna",
        to_be_refined: bool = False, alone: tuple[tuple[int, int, int], ...] = (), of: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        state, threads = pool()
        self._of = of
        self._depth = max(m, n)
        layout = _layout(dtype, max(m, n, 1), precision, rounding, alone, threads)
        self._plan = layout.plan
        self._checked = self._plan.finds_magnitudes and not to_be_refined
        self._memory = take_workspace(layout.total)
        self._records = layout.records.copy()
        self._records[0, _POOL] = state
        self._records[:, _FIRST:_GREATEST] = layout.starts + address_of(self._memory)
        self.products = layout.products.at(self._records[0])

    def __enter__(self) -> Products:
        return self.products

    def __exit__(self, kind: Any, *_: Any) -> None:
        return_workspace(self._memory)
        if kind is None and self._checked:
            greatest, least = int(self._records[:, _GREATEST].max()), int(self._records[:, _LEAST].min())
            found = greatest << 32 | least
            sentence = ranges.refusal(self._plan.precision, self._depth, found, found) if greatest else None
            if sentence is not None and not self._hides(found):
                raise Refused(sentence)

    def _hides(self, found: int) -> bool:
        """Whether the matrices are so large that what is flushed of products of these magnitudes does not count."""
        if self._of is None or not self._of.size:
            return False
        least = ranges.certain_from(self._plan.precision, self._depth, found, found)
        return bool(np.abs(self._of).max((-2, -1)).min() >= least)
