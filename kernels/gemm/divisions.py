"""How a product, or a batch of them, is divided: among threads, and into parts whose packed operands fit somewhere."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ..block import loops, plans, unpacked_strips
from ..block.plans import Plan, Side
from ..block.tuning import tuning
from ..runtime import threading
from ..runtime.record import Address, Bytes, Count
from ..runtime.shapes import broadcast_shapes

_PACKED_LIMIT = 1 << 27
"""Bytes of one packed operand; a larger product is done in parts, each packed in turn."""


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
        leaf=Address(side.leaf), line_stride=Bytes(side.line_stride), k_stride=Bytes(side.k_stride), lines=Count(lines),
        depth=Count(side.depth), kc=Count(side.kc), panel_lines=Count(side.panel_lines), k_bytes=Bytes(side.k_bytes),
        panel_chunk=Count(panel_chunk), k_chunk=Count(k_chunk),
    )  # fmt: skip


def _is_held(plan: Plan, a: Side, b: Side) -> bool:
    """Whether the packed operands and sums of a product that does not fit may still be one thread's, where no thread
    waits for the last one: a product that is divided waits twice for the other threads."""
    row = tuning(plan.isa)
    return _batch_bytes(plan, a, b) <= row.thread_caches * row.cache_bytes


def gains_by_thread(plan: Plan, a: Side, b: Side, count: int) -> bool:
    """Whether a batch of products that do not fit in one core's cache keeps all threads busy with one product each."""
    threads = threading.pool()[1]
    level = count >= 4 * threads or (count >= 4 and count % threads == 0)
    return level and _is_held(plan, a, b)


def lines_at_once(side: Side, block: int) -> int:
    """How many lines are packed at a time: whole blocks within _PACKED_LIMIT."""
    line_bytes = max(1, side.depth * side.k_bytes // side.panel_lines)
    return max(1, _PACKED_LIMIT // line_bytes // block) * block


class Division(NamedTuple):
    """How one product is divided. Its tasks compute so many rows and columns, `width` columns at a time."""

    name: str
    rows: int
    columns: int
    width: int
    step: int
    """The depth that a task packs at a time."""
    packs_a: bool
    packs_b: bool
    """Whether a task packs what it reads of an operand; if not, that is packed before."""


def divide(plan: Plan, a: Side, b: Side | None, n: int, count: int, threads: int) -> Division:
    """How products of one shape are divided, whose right operands (None: packed already) have n columns: "brief" ones
    on the caller's thread, a "batch" by whole products, others into "strips" of rows, "columns", or "blocks"."""
    (_, _, mc, nc), kernel = plan.scheme, plan.scheme.kernel
    m, depth = a.lines, max(a.depth, 1)
    all_rows, all_columns = plans.up(m, kernel.mr), plans.up(n, kernel.nr)
    if b is not None:
        brief = is_brief(plan, a, b)
        if brief or (count >= 4 and fits(plan, a, b)) or gains_by_thread(plan, a, b, count):
            name = "brief" if brief else "batch"
            return Division(name, all_rows, all_columns, all_columns, depth, True, True)
    if strip := plans.strip(plan, m, n, a.depth, threads):
        return Division("strips", strip, all_columns, plans.even(n, nc, kernel.nr), depth, True, False)
    width = 0 if b is None else plans.columns(plan, m, n, a.depth, threads)
    if width and m <= lines_at_once(a, mc):
        return Division("columns", all_rows, width, width, a.kc, False, True)
    rows, columns = plans.blocks(plan, m, n, threads)
    return Division("blocks", rows, columns, columns, depth, False, False)


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
    return divide(plan, a, b, n, math.prod(batch), threading.get_num_threads()).name
