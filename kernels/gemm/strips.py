"""Products whose threads pack one operand for themselves: strips of rows, or strips of columns.

What `loops.multiply` does with operands that are packed before, for products of many rows, or of few rows with a large
matrix: what is packed for a strip stays in the cache of the core that reads it, where a whole packed operand is written
to memory and read from there. A strip of columns is packed one step along K at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import njit, subroutine
from ..launch import call_at, launch
from .loops import LIMITS_BYTES, PackArguments, _BlockArguments, found_limits, pack, reset_limits

__all__ = ["multiply_columns", "multiply_strips"]


@subroutine
def _strip_task(task, worker, job):
    first, packed = task * job.mc, job.scratch + worker * job.scratch_bytes
    rows, limits = min(job.mc, job.m - first), job.limits + worker * LIMITS_BYTES
    at, place, addend = job.a + first * job.a_line, job.c + first * job.c_stride, job.addend + first * job.row_stride
    call_at(job.pack_a, PackArguments(job.a_line, job.a_k, rows, job.k, job.kc, at, packed, limits, 0, rows, 0, job.k))
    for column in range(0, job.n, job.nc):
        call_at(
            job.leaf,
            _BlockArguments(
                rows, job.n, job.k, job.kc, job.mc, job.nc, packed, job.b, place, job.c_stride, job.alpha_bits,
                job.beta_bits, addend, job.row_stride, job.column_stride, packed + job.a_bytes, 0, column, 0, job.k,
            ),
        )  # fmt: skip


class _Strips(NamedTuple):
    pack_a: int
    leaf: int
    a_line: int
    a_k: int
    m: int
    n: int
    k: int
    kc: int
    mc: int
    nc: int
    a: int
    b: int
    c: int
    c_stride: int
    alpha_bits: int
    beta_bits: int
    addend: int
    row_stride: int
    column_stride: int
    scratch: int
    scratch_bytes: int
    a_bytes: int
    limits: int
    run = _strip_task


@njit
def multiply_strips(
    pool, threads, pack_b, b_line, b_k, panel_lines, panel_chunk, k_chunk, pack_a, a_line, a_k, m, n, k, kc, mc, nc,
    a_bytes, scratch_bytes, leaf, c, c_stride, alpha_bits, beta_bits, addend, row_stride, column_stride, a, b, scratch,
):  # fmt: skip
    """Multiply the operands at addresses a and b into the result at c, in tasks of mc rows and blocks of nc
    columns.

    With pack_b = 0, b is packed already; otherwise it is packed before, as `loops.pack` does, behind the scratch memory
    and the limits of the threads. A worker's scratch memory holds its packed rows (a_bytes) and the sums of a block.
    Returns the magnitudes in A and in B (0 if it was packed).
    """
    limits, found_b = scratch + threads * scratch_bytes, 0
    if pack_b != 0:
        packed = limits + threads * LIMITS_BYTES
        found_b = pack(
            pool, threads, pack_b, b_line, b_k, n, k, kc, b, packed, limits, panel_lines, panel_chunk, k_chunk
        )
        b = packed
    reset_limits(limits, threads)
    job = _Strips(
        pack_a, leaf, a_line, a_k, m, n, k, kc, mc, nc, a, b, c, c_stride,
        alpha_bits, beta_bits, addend, row_stride, column_stride, scratch, scratch_bytes, a_bytes, limits,
    )  # fmt: skip
    launch(pool, threads, (m + mc - 1) // mc, job)
    return found_limits(limits, threads), found_b


@subroutine
def _column_task(task, worker, job):
    first, packed = task * job.nc, job.scratch + worker * job.scratch_bytes
    columns, limits = min(job.nc, job.n - first), job.limits + worker * LIMITS_BYTES
    place_bytes = (columns + job.panel_lines - 1) // job.panel_lines * job.k_bytes
    at, place, addend = job.b + first * job.b_line, job.c + first * job.item, job.addend + first * job.column_stride
    for k in range(0, job.k, job.kc):
        end, step = min(k + job.kc, job.k), packed - k * place_bytes
        call_at(
            job.pack_b,
            PackArguments(job.b_line, job.b_k, columns, job.k, job.kc, at, step, limits, 0, columns, k, end),
        )
        call_at(
            job.leaf,
            _BlockArguments(
                job.m, columns, job.k, job.kc, job.mc, job.nc, job.a, step, place, job.c_stride, job.alpha_bits,
                job.beta_bits, addend, job.row_stride, job.column_stride, packed + job.b_bytes, 0, 0, k, end,
            ),
        )  # fmt: skip


class _Columns(NamedTuple):
    pack_b: int
    leaf: int
    b_line: int
    b_k: int
    panel_lines: int
    k_bytes: int
    m: int
    n: int
    k: int
    kc: int
    mc: int
    nc: int
    a: int
    b: int
    c: int
    c_stride: int
    item: int
    alpha_bits: int
    beta_bits: int
    addend: int
    row_stride: int
    column_stride: int
    scratch: int
    scratch_bytes: int
    b_bytes: int
    limits: int
    run = _column_task


@njit
def multiply_columns(
    pool, threads, pack_a, a_line, a_k, lines_a, panel_chunk, k_chunk, pack_b, b_line, b_k, lines_b, k_bytes,
    m, n, k, kc, mc, nc, b_bytes, scratch_bytes,
    leaf, c, c_stride, item, alpha_bits, beta_bits, addend, row_stride, column_stride, a, b, scratch,
):  # fmt: skip
    """Multiply the operands at addresses a and b into the result at c, in tasks of nc columns and all rows.

    A is packed before, as `loops.pack` does, behind the scratch memory and the limits of the threads. A worker's
    scratch memory holds a step of its packed columns (b_bytes) and the sums of mc rows of them. lines_a and lines_b are
    the lines of a panel. Returns the magnitudes in A and in B.
    """
    limits = scratch + threads * scratch_bytes
    packed = limits + threads * LIMITS_BYTES
    found_a = pack(pool, threads, pack_a, a_line, a_k, m, k, kc, a, packed, limits, lines_a, panel_chunk, k_chunk)
    reset_limits(limits, threads)
    job = _Columns(
        pack_b, leaf, b_line, b_k, lines_b, k_bytes, m, n, k, kc, mc, nc, packed, b, c, c_stride, item,
        alpha_bits, beta_bits, addend, row_stride, column_stride, scratch, scratch_bytes, b_bytes, limits,
    )  # fmt: skip
    launch(pool, threads, (n + nc - 1) // nc, job)
    return found_a, found_limits(limits, threads)
