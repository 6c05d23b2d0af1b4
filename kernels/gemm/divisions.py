"""How a product, or a batch of them, is divided: among threads, and into parts whose packed operands fit somewhere."""

from __future__ import annotations

import functools
import math

import numpy as np

from .. import threading
from ..record import Address, Bytes, Count
from ..shapes import broadcast_shapes
from . import loops, plans, unpacked_strips
from .plans import Plan, Side
from .tuning import tuning

_PACKED_LIMIT = 1 << 27
"""Bytes of one packed operand; a larger product is done in parts, each packed in turn."""

_MOST_CACHES = 8
"""Caches of a core that the operands of one thread's product may fill."""


def _batch_bytes(plan: Plan, a: Side, b: Side) -> int:
    """The packed operands and the sums of a product."""
    kernel = plan.scheme.kernel
    sums = plans.up(a.lines, kernel.mr) * plans.up(b.lines, kernel.nr) * kernel.size
    return plans.up(a.bytes(a.lines) + b.bytes(b.lines) + sums, 64)


def fits(plan: Plan, a: Side, b: Side) -> bool:
    """Whether the packed operands and the sums of a product fit in one core's cache."""
    return _batch_bytes(plan, a, b) <= tuning(plan.isa).cache_bytes


def is_brief(plan: Plan, a: Side, b: Side) -> bool:
    """Whether a product fits, and takes so little time that other threads would come too late."""
    most = tuning(plan.isa).spread_microseconds * plan.products_per_microsecond
    return a.lines * b.lines * a.depth < most and fits(plan, a, b)


@functools.lru_cache(4096)
def packing(side: Side, lines: int, threads: int) -> loops.Packing:
    """How so many lines of an operand are packed."""
    panel_chunk, k_chunk = plans.chunks(lines, side.depth, side.panel_lines, side.along_k, side.kc, threads)
    return loops.Packing(
        leaf=Address(side.leaf),
        line_stride=Bytes(side.line_stride),
        k_stride=Bytes(side.k_stride),
        lines=Count(lines),
        depth=Count(side.depth),
        kc=Count(side.kc),
        panel_lines=Count(side.panel_lines),
        k_bytes=Bytes(side.k_bytes),
        panel_chunk=Count(panel_chunk),
        k_chunk=Count(k_chunk),
    )


def sizes(a: Side, n: int, mc: int, nc: int, scratch_bytes: int) -> loops.Sizes:
    """Of a product with n columns in blocks of mc x nc."""
    return loops.Sizes(
        m=Count(a.lines),
        n=Count(n),
        k=Count(a.depth),
        kc=Count(a.kc),
        mc=Count(mc),
        nc=Count(nc),
        scratch_bytes=Bytes(scratch_bytes),
    )


@functools.lru_cache(4096)
def batch_product(plan: Plan, a: Side, b: Side) -> tuple[loops.Product, int]:
    """What `loops.multiply_batch` takes, and the memory that it needs for each thread."""
    kernel, each = plan.scheme.kernel, _batch_bytes(plan, a, b)
    product = loops.Product(
        a=packing(a, a.lines, 1),
        b=packing(b, b.lines, 1),
        sizes=sizes(a, b.lines, plans.up(a.lines, kernel.mr), plans.up(b.lines, kernel.nr), each),
        a_bytes=Bytes(a.bytes(a.lines)),
        b_bytes=Bytes(b.bytes(b.lines)),
    )
    return product, each + 2 * loops.LIMITS_BYTES


def _is_held(plan: Plan, a: Side, b: Side) -> bool:
    """Whether the packed operands and sums of a product that does not fit may still be one thread's, where no thread
    waits for the last one: a product that is divided waits twice for the other threads."""
    return _batch_bytes(plan, a, b) <= _MOST_CACHES * tuning(plan.isa).cache_bytes


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
def strip_product(
    plan: Plan, a: Side, b: Side | None, width: int, rows: int, threads: int
) -> tuple[loops.Product, int]:
    """What `strips.multiply_strips` takes for so many columns of b (None: packed), and the memory that it needs."""
    scheme, a_bytes = plan.scheme, a.bytes(rows)
    each = a_bytes + scheme.mc * scheme.nc * scheme.kernel.size
    b_bytes = b.bytes(width) if b else 0
    without_leaf = a._replace(leaf=0)
    product = loops.Product(
        a=packing(a, rows, 1),
        b=packing(b or without_leaf, width, threads),
        sizes=sizes(a, width, rows, plans.even(width, scheme.nc, scheme.kernel.nr), each),
        a_bytes=Bytes(a_bytes),
        b_bytes=Bytes(b_bytes),
    )
    return product, threads * (each + loops.LIMITS_BYTES) + b_bytes


@functools.lru_cache(4096)
def column_product(plan: Plan, a: Side, b: Side, width: int, threads: int) -> tuple[loops.Product, int]:
    """What `strips.multiply_columns` takes for so many columns at a time, and the memory that it needs."""
    kernel, a_bytes, b_bytes = plan.scheme.kernel, a.bytes(a.lines), b._replace(depth=min(b.kc, b.depth)).bytes(width)
    rows = plans.up(a.lines, kernel.mr)
    each = plans.up(b_bytes + rows * width * kernel.size, 64)
    product = loops.Product(
        a=packing(a, a.lines, threads),
        b=packing(b, width, 1),
        sizes=sizes(a, b.lines, rows, width, each),
        a_bytes=Bytes(a_bytes),
        b_bytes=Bytes(b_bytes),
    )
    return product, threads * (each + loops.LIMITS_BYTES) + a_bytes


def divide(plan: Plan, a: Side, b: Side, count: int) -> str | None:
    """How products of one shape are divided as wholes: "brief" (on the caller's thread) or "batch" (each by one thread);
    None where each is divided by `divide_one`."""
    if is_brief(plan, a, b):
        return "brief"
    by_thread = (count >= 4 and fits(plan, a, b)) or gains_by_thread(plan, a, b, count)
    return "batch" if by_thread else None


def divide_one(plan: Plan, a: Side, n: int, packed: bool, threads: int) -> tuple[str, int]:
    """How one product is divided, whose b has n columns and may be packed: "strips" of rows of a and "columns" of b,
    with how many a thread packs and multiplies at a time, or "blocks" of the result, after both are packed."""
    strip = plans.strip(plan, a.lines, n, a.depth, threads)
    if strip:
        return "strips", strip
    width = 0 if packed else plans.columns(plan, a.lines, n, a.depth, threads)
    return ("columns", width) if width and a.lines <= lines_at_once(a, plan.scheme.mc) else ("blocks", 0)


def is_read_in_place(plan: Plan, dtype: np.dtype, m: int, unit: bool) -> bool:
    """Whether products of m rows are made from a left operand where it lies, whose values are neighbours along one of
    its dimensions if `unit` (`unpacked.py`)."""
    kernel = unpacked_strips.KERNELS.get((plan.isa, dtype.itemsize))
    fits = type(plan.scheme.kernel) is type(kernel) and plan.a_panel.conversion.vector_parts == 1
    return fits and dtype.kind == "f" and dtype.itemsize >= 4 and unit and m >= unpacked_strips.LEAST_ROWS


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
    if is_read_in_place(plan, dtype, m, True):
        return "unpacked"
    kernel, size = plan.scheme.kernel, dtype.itemsize
    a = Side(0, True, m, k, k * size, size, kernel.mr, kernel.step, kernel.a_bytes, plan.scheme.kc)
    b = Side(0, False, n, k, size, n * size, kernel.nr, kernel.step, kernel.b_bytes, plan.scheme.kc)
    whole = divide(plan, a, b, math.prod(batch))
    return whole or divide_one(plan, a, n, False, threading.get_num_threads())[0]
