"""Products of packed operands: which task computes what, and which operands it packs.

A task computes some rows and columns of a product. What it reads of an operand it packs for itself, where that stays in
the cache of its core, or all threads pack the whole operand before. So strips of many rows read a whole right operand
and pack their rows; strips of columns, of few rows, read a whole left operand and pack their columns, one step along K
at a time; blocks of large products read two whole operands; and small products of a batch read none.
"""

from __future__ import annotations

from ..block.loops import LIMITS_BYTES, BlockArguments, PackArguments, Packing, Target, found_limits, pack, reset_limits
from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, launch, task
from ..runtime.raw_memory import get
from ..runtime.record import Bytes, Count, Record


class Divided(Record):
    """How products of one shape are divided into tasks."""

    a: Packing
    b: Packing
    m: Count
    n: Count
    rows: Count
    columns: Count
    """Of a task; it computes `width` columns at a time."""
    width: Count
    step: Count
    """The depth that a task packs at a time."""
    a_bytes: Bytes
    b_bytes: Bytes
    """Of what a task packs of an operand; 0 where that is packed before."""
    whole_a_bytes: Bytes
    """Of the left operand that is packed before."""
    scratch_bytes: Bytes
    """Of a worker's memory: for what it packs, and for the sums of its rows and so many columns."""
    chunk: Count
    """Tasks that are done one after the other."""


@subroutine
def _pack_lines(of, lines, at, k, end, target, limits):
    """Pack so many lines from the address `at` on, from k to end."""
    call_at(
        of.leaf,
        PackArguments(of.line_stride, of.k_stride, lines, of.depth, of.kc, at, target, limits, 0, lines, k, end),
    )


@subroutine
def _step_bytes(of, lines):
    """Of one place along K of so many packed lines."""
    return (lines + of.panel_lines - 1) // of.panel_lines * of.k_bytes


@task("products target items places a b scratch limits threads")
def _task(task, worker, job):
    p, target = job.products, job.target
    across = (p.n + p.columns - 1) // p.columns
    blocks = (p.m + p.rows - 1) // p.rows * across
    mine, depth, before_a, before_b = job.scratch + worker * p.scratch_bytes, p.a.depth, 0, 0
    limits_a = job.limits + worker * LIMITS_BYTES
    limits_b = limits_a + job.threads * LIMITS_BYTES
    for place in range(task * p.chunk, min((task + 1) * p.chunk, job.items * blocks)):
        item, i0, j0 = place // blocks, place % blocks // across * p.rows, place % blocks % across * p.columns
        rows, columns = min(p.rows, p.m - i0), min(p.columns, p.n - j0)
        at_a = get(job.places, item) + i0 * p.a.line_stride
        at_b = get(job.places, job.items + item) + j0 * p.b.line_stride
        a, b, c, addend = job.a, job.b, get(job.places, 2 * job.items + item), get(job.places, 3 * job.items + item)
        m, n, i, j = p.m, p.n, i0, j0
        if p.a_bytes != 0:
            m, i, c, addend = rows, 0, c + i0 * target.row_stride, addend + i0 * target.addend_row
        if p.b_bytes != 0:
            n, j, c, addend = columns, 0, c + j0 * target.item_bytes, addend + j0 * target.addend_column
        for k in range(0, depth, p.step):
            end = min(k + p.step, depth)
            if p.a_bytes != 0:
                a = mine - k * _step_bytes(p.a, rows)
                if at_a != before_a or p.step < depth:
                    _pack_lines(p.a, rows, at_a, k, end, a, limits_a)
            if p.b_bytes != 0:
                b = mine + p.a_bytes - k * _step_bytes(p.b, columns)
                if at_b != before_b or p.step < depth:
                    _pack_lines(p.b, columns, at_b, k, end, b, limits_b)
            before_a, before_b = at_a, at_b
            for column in range(j, j + columns, p.width):
                call_at(
                    target.leaf,
                    BlockArguments(
                        m, n, depth, p.a.kc, p.rows, p.width, a, b, c, target.row_stride,
                        target.alpha_bits, target.beta_bits, addend, target.addend_row, target.addend_column,
                        mine + p.a_bytes + p.b_bytes, i, column, k, end,
                    ),
                )  # fmt: skip


@njit
def multiply_blocks(pool, threads, products: Divided, target: Target, places, a, b, scratch):
    """Compute one product of operands that are packed before, in tasks of one block each. The addresses of the result
    and of what is added are the third and the fourth of `places`."""
    p = products
    tasks = ((p.m + p.rows - 1) // p.rows) * ((p.n + p.columns - 1) // p.columns)
    launch(pool, threads, tasks, _task(p, target, 1, places, a, b, scratch, 0, threads))


@njit
def multiply_divided(pool, threads, products: Divided, target: Target, items, places, packed, scratch):
    """Compute so many products. `places` is the address of the addresses of their left and of their right operands, of
    the results, and of what is added to them; `packed` is that of B where it is packed already, else 0.

    In the scratch memory the workers' own is followed by twice LIMITS_BYTES for each of them, and by the operands that
    are packed before, which are those of one product. Returns the magnitudes in A and in B (0 if it was packed).
    """
    p, found_a, found_b = products, 0, 0
    limits = scratch + threads * p.scratch_bytes
    a, b = limits + 2 * threads * LIMITS_BYTES, packed
    if p.a_bytes == 0:
        found_a = pack(pool, threads, p.a, get(places, 0), a, limits)
    if p.b_bytes == 0 and packed == 0:
        b = a + p.whole_a_bytes
        found_b = pack(pool, threads, p.b, get(places, items), b, limits)
    reset_limits(limits, 2 * threads)
    blocks = ((p.m + p.rows - 1) // p.rows) * ((p.n + p.columns - 1) // p.columns)
    job = _task(p, target, items, places, a, b, scratch, limits, threads)
    launch(pool, threads, (items * blocks + p.chunk - 1) // p.chunk, job)
    if p.a_bytes != 0:
        found_a = found_limits(limits, threads)
    if p.b_bytes != 0:
        found_b = found_limits(limits + threads * LIMITS_BYTES, threads)
    return found_a, found_b
