"""How a product, or a batch of them, is divided: among threads, and into parts whose packed operands fit somewhere."""

from __future__ import annotations

import functools
import math

import numpy as np

from .. import threading
from ..shapes import broadcast_shapes
from . import loops, plans
from .plans import Plan, Side
from .tuning import tuning

__all__ = [
    "batch_arguments",
    "column_arguments",
    "divide",
    "divide_one",
    "division_of",
    "fits",
    "gains_by_rows",
    "gains_by_thread",
    "is_brief",
    "lines_at_once",
    "strip_arguments",
]

_PACKED_LIMIT = 1 << 27
"""Bytes of one packed operand; a larger product is done in parts, each packed in turn."""

_MOST_CACHES = 8
"""Caches of a core that the operands of one thread's product may fill."""


def fits(plan: Plan, a: Side, b: Side) -> bool:
    """Whether the packed operands and the sums of a product fit in one core's cache."""
    return batch_arguments(plan, a, b)[1][0] <= tuning(plan.isa).cache_bytes


def is_brief(plan: Plan, a: Side, b: Side) -> bool:
    """Whether a product fits, and takes so little time that other threads would come too late."""
    most = tuning(plan.isa).spread_microseconds * plan.products_per_microsecond
    return a.lines * b.lines * a.depth < most and fits(plan, a, b)


def batch_arguments(plan: Plan, a: Side, b: Side) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Arguments of `loops.multiply_batch`: from a_line to nc, and from scratch_bytes to b_bytes."""
    kernel = plan.scheme.kernel
    mc, nc = plans.up(a.lines, kernel.mr), plans.up(b.lines, kernel.nr)
    a_bytes, b_bytes = a.bytes(a.lines), b.bytes(b.lines)
    strides = a.line_stride, a.k_stride, b.line_stride, b.k_stride
    sizes = a.lines, b.lines, a.depth, a.kc, mc, nc
    return (*strides, *sizes), (plans.up(a_bytes + b_bytes + mc * nc * kernel.size, 64), a_bytes, b_bytes)


def gains_by_rows(plan: Plan, a: Side, b: Side, count: int) -> bool:
    """Whether the left operands are so much longer than the right ones that these may be packed more than once."""
    row = tuning(plan.isa)
    if count == 1 and not row.rows_alone:
        return False
    few = b.lines <= row.few_columns_most and a.lines >= 2 * max(row.rows_at_once, b.lines)
    return few and count * a.lines >= 32 * b.lines and _is_held(plan, a._replace(lines=row.rows_at_once), b)


def _is_held(plan: Plan, a: Side, b: Side) -> bool:
    """Whether the packed operands and sums of a product that does not fit may still be one thread's, where no thread
    waits for the last one: a product that is divided waits twice for the other threads."""
    return batch_arguments(plan, a, b)[1][0] <= _MOST_CACHES * tuning(plan.isa).cache_bytes


def gains_by_thread(plan: Plan, a: Side, b: Side, count: int) -> bool:
    """Whether a batch of products that do not fit in one core's cache keeps all threads busy with one product each."""
    threads = threading.pool()[1]
    level = count >= 4 * threads or (count >= 4 and count % threads == 0)
    return level and _is_held(plan, a, b)


def lines_at_once(side: Side, block: int) -> int:
    """How many lines are packed at a time: whole blocks within _PACKED_LIMIT."""
    line_bytes = max(1, side.depth * side.k_bytes // side.panel_lines)
    return max(1, _PACKED_LIMIT // line_bytes // block) * block


@functools.lru_cache(4096)
def strip_arguments(
    plan: Plan, a: Side, b: Side | None, width: int, rows: int, threads: int
) -> tuple[tuple[int, ...], int]:
    """Arguments of `strips.multiply_strips` from pack_b to scratch_bytes, for so many columns of b (None: packed), and
    the memory that they need."""
    scheme, depth = plan.scheme, a.depth
    packing, b_bytes = (0,) * 6, 0
    if b is not None:
        divided = plans.chunks(width, depth, b.panel_lines, b.along_k, b.kc, threads)
        packing, b_bytes = (b.leaf, b.line_stride, b.k_stride, b.panel_lines, *divided), b.bytes(width)
    a_bytes, sums = a.bytes(rows), scheme.mc * scheme.nc * scheme.kernel.size
    blocks = a.kc, rows, plans.even(width, scheme.nc, scheme.kernel.nr)
    strides = a.leaf, a.line_stride, a.k_stride
    needed = threads * (a_bytes + sums + loops.LIMITS_BYTES) + b_bytes
    return (*packing, *strides, a.lines, width, depth, *blocks, a_bytes, a_bytes + sums), needed


@functools.lru_cache(4096)
def column_arguments(plan: Plan, a: Side, b: Side, width: int, threads: int) -> tuple[tuple[int, ...], int]:
    """Arguments of `strips.multiply_columns` from pack_a to scratch_bytes, for so many columns at a time, and the
    memory that they need."""
    kernel, depth, b_side = plan.scheme.kernel, a.depth, b._replace(depth=min(b.kc, b.depth))
    divided = plans.chunks(a.lines, depth, a.panel_lines, a.along_k, a.kc, threads)
    packing = a.leaf, a.line_stride, a.k_stride, a.panel_lines, *divided, b.leaf, b.line_stride, b.k_stride
    rows, b_bytes = plans.up(a.lines, kernel.mr), b_side.bytes(width)
    each = plans.up(b_bytes + rows * width * kernel.size, 64)
    sizes = a.lines, b.lines, depth, a.kc, rows, width, b_bytes, each
    return (*packing, b.panel_lines, b.k_bytes, *sizes), threads * (each + loops.LIMITS_BYTES) + a.bytes(a.lines)


def divide(plan: Plan, a: Side, b: Side, count: int) -> str | None:
    """How products of one shape are divided as wholes: "brief" (on the caller's thread), "batch" (each by one thread),
    "batch of rows" (some rows of each by one thread); None where each is divided by `divide_one`."""
    if is_brief(plan, a, b):
        return "brief"
    if count >= 4 and fits(plan, a, b):
        return "batch"
    if gains_by_rows(plan, a, b, count):
        return "batch of rows"
    return "batch" if gains_by_thread(plan, a, b, count) else None


def divide_one(plan: Plan, a: Side, n: int, packed: bool, threads: int) -> tuple[str, int]:
    """How one product is divided, whose b has n columns and may be packed: "strips" of rows of a and "columns" of b,
    with how many a thread packs and multiplies at a time, or "blocks" of the result, after both are packed."""
    strip = plans.strip(plan, a.lines, n, a.depth, threads)
    if strip:
        return "strips", strip
    width = 0 if packed else plans.columns(plan, a.lines, n, a.depth, threads)
    return ("columns", width) if width and a.lines <= lines_at_once(a, plan.scheme.mc) else ("blocks", 0)


def division_of(
    isa: str, precision: str, rounding: str, dtype: np.dtype, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
) -> str | None:
    """How `product.product` divides products of contiguous arrays; None for those without numbers."""
    (m, k), n = shape_a[-2:], shape_b[-1]
    batch = broadcast_shapes(shape_a[:-2], shape_b[:-2])
    if len(shape_b) == 2:
        m, batch = math.prod(shape_a[:-1]), ()
    if not (m and k and n and math.prod(batch)):
        return None
    plan = plans.for_rows(plans.plan_for(isa, precision, rounding, 8 if dtype.itemsize == 8 else 4), m)
    kernel, size = plan.scheme.kernel, dtype.itemsize
    a = Side(0, True, m, k, k * size, size, kernel.mr, kernel.step, kernel.a_bytes, plan.scheme.kc)
    b = Side(0, False, n, k, size, n * size, kernel.nr, kernel.step, kernel.b_bytes, plan.scheme.kc)
    whole = divide(plan, a, b, math.prod(batch))
    return whole or divide_one(plan, a, n, False, threading.get_num_threads())[0]
