"""Products of operands that are read where they lie (`unpacked_strips.py`): which task computes which block, from what.

A task computes a block of the result, step by step along K. It packs the columns of B that it needs, or reads them in
the matrix or in panels that were packed before; it reads rows of A in the matrix, or in a copy of its own where values
have to be rounded. So no thread waits for what another one packs, but for panels that all share.
"""

from __future__ import annotations

from ..block.emit import LINE
from ..block.loops import LIMITS_BYTES, PackArguments, Packing, pack
from ..block.unpacked_strips import LEAST_ROWS, FinishArguments, UnpackedArguments
from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, launch, task
from ..runtime.raw_memory import get, put
from ..runtime.record import Address, Bytes, Count, Record
from .small_lines import ConvertArguments

NEVER, WHOLE, BY_TASK, BY_WORKER = range(4)
"""Where the columns of B lie: in memory as they are, in panels that are packed before, packed step by step by the task
that reads them, or whole by each worker before its first task."""


class Unpacked(Record):
    """Products of one shape, each the sum of some terms a @ b, in blocks of mc rows and nc columns (whole panels).

    A task copies the rows of A that it reads where they have to be converted (`convert`); the others are read where
    they lie. A finished block becomes alpha * block + beta * addend, and with `relu` the maximum of that and zero.
    """

    leaf: Address
    finish: Address
    convert: Address
    packing: int
    b: Packing
    a_row: Bytes
    a_k: Bytes
    c_row: Bytes
    size: Bytes
    m: Count
    n: Count
    k: Count
    kc: Count
    mc: Count
    nc: Count
    terms: Count
    b_bytes: Bytes
    scratch_bytes: Bytes
    """Of each worker, for the columns that it packs, and with the rows that it copies."""
    alpha: int
    beta: int
    """Bits of float64."""
    addend_row: Bytes
    addend_column: Bytes
    relu: int


@subroutine
def _copy_rows(p, a, first, rows, k, here, target):
    """Copy the rows from `first` on, with as many before them as a strip may read; where `first` begins."""
    before = first - max(0, min(first, first + rows - LEAST_ROWS))
    at, lines = a + (first - before) * p.a_row + k * p.a_k, rows + before
    if p.a_k == p.size:
        stride = _line_bytes(here * p.size)
        call_at(p.convert, ConvertArguments(lines, here, at, p.a_row, p.a_k, target, stride, 0, 0))
        return target + before * stride
    stride = _line_bytes(lines * p.size)
    call_at(p.convert, ConvertArguments(here, lines, at, p.a_k, p.a_row, target, stride, 0, 0))
    return target + before * p.size


@subroutine
def _line_bytes(line):
    """Bytes of a copied line: an odd number of cache lines, since lines at the same place of a page share few."""
    return ((line + 63) // 64 | 1) * 64


@task("products lefts rights depths results addends packed scratch limits")
def _block_task(task, worker, job):
    p = job.products
    across = (p.n + p.nc - 1) // p.nc
    blocks = (p.m + p.mc - 1) // p.mc * across
    item, block = task // blocks, task % blocks
    i0, j0 = block // across * p.mc, block % across * p.nc
    rows, columns = min(p.mc, p.m - i0), min(p.nc, p.n - j0)
    scratch, limits = job.scratch + worker * p.scratch_bytes, job.limits + worker * LIMITS_BYTES
    c = get(job.results, item) + i0 * p.c_row + j0 * p.size
    lines, packed = columns, job.packed
    if p.packing == WHOLE:
        lines = p.n
    elif p.packing == BY_WORKER:
        lines, packed = p.n, scratch + LINE
        if get(scratch, 0) == 0:
            b = get(job.rights, 0)
            call_at(
                p.b.leaf,
                PackArguments(p.b.line_stride, p.b.k_stride, p.n, p.k, p.kc, b, packed, limits, 0, p.n, 0, p.k),
            )
            put(scratch, 0, 1)
    step_bytes = (lines + p.b.panel_lines - 1) // p.b.panel_lines * p.b.k_bytes
    for term in range(item * p.terms, (item + 1) * p.terms):
        a, b, depth = get(job.lefts, term), get(job.rights, term), get(job.depths, term)
        for k in range(0, depth, p.kc):
            here, pair, b_k = min(p.kc, depth - k), p.b.panel_lines * p.size, p.b.k_stride
            at = b + j0 * p.size + k * p.b.k_stride
            if p.packing == WHOLE or p.packing == BY_WORKER:
                b_k, pair = p.b.k_bytes, here * p.b.k_bytes
                at = packed + k * step_bytes + j0 // p.b.panel_lines * pair
            elif p.packing == BY_TASK:
                b_k, pair, at = p.b.k_bytes, here * p.b.k_bytes, scratch
                call_at(
                    p.b.leaf,
                    PackArguments(
                        p.b.line_stride, p.b.k_stride, columns, depth, p.kc, b + j0 * p.b.line_stride,
                        scratch - k * step_bytes, limits, 0, columns, k, k + here,
                    ),
                )  # fmt: skip
            of_a, a_row, a_k = a + i0 * p.a_row + k * p.a_k, p.a_row, p.a_k
            if p.convert != 0:
                of_a = _copy_rows(p, a, i0, rows, k, here, scratch + p.b_bytes)
                if a_k == p.size:
                    a_row = _line_bytes(here * p.size)
                else:
                    a_k = _line_bytes((rows + (i0 - max(0, min(i0, i0 + rows - LEAST_ROWS)))) * p.size)
            more = int(k > 0 or term > item * p.terms)
            call_at(p.leaf, UnpackedArguments(of_a, a_row, a_k, at, b_k, pair, c, p.c_row, rows, columns, here, more))
    if p.finish != 0:
        addend = get(job.addends, item) + i0 * p.addend_row + j0 * p.addend_column
        call_at(
            p.finish,
            FinishArguments(
                c, p.c_row, rows, columns, p.alpha, p.beta, addend, p.addend_row, p.addend_column, p.relu
            ),
        )  # fmt: skip


@njit
def multiply_unpacked(
    pool, threads, products: Unpacked, items, lefts, rights, depths, results, addends, packed, scratch
):
    """Compute so many products. `lefts` and `rights` are the addresses of the addresses of all terms, `depths` that of
    their depths, `results` and `addends` those of the addresses of the results and of what is added to them.

    `packed` is that of B where it is packed whole: here, in memory that follows the workers' own at `scratch`, if
    `packed` is 0.
    """
    p = products
    limits = scratch + threads * p.scratch_bytes
    if p.packing == WHOLE and packed == 0:
        packed = limits + threads * LIMITS_BYTES
        pack(pool, threads, p.b, get(rights, 0), packed, limits)
    if p.packing == BY_WORKER:
        for worker in range(threads):
            put(scratch + worker * p.scratch_bytes, 0, 0)
    blocks = ((p.m + p.mc - 1) // p.mc) * ((p.n + p.nc - 1) // p.nc)
    job = _block_task(p, lefts, rights, depths, results, addends, packed, scratch, limits)
    launch(pool, threads, items * blocks, job)
