"""Products whose left operand is packed by the thread that uses it: a strip of rows, and all columns of the result.

What `loops.multiply` does with a left operand that is packed before, for products of many rows: a packed strip stays in
the cache of the core that reads it, where a whole packed operand is written to memory and read from there.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import njit, subroutine
from ..launch import call_at, launch
from .loops import LIMITS_BYTES, PackArguments, _BlockArguments, found_limits, pack, reset_limits

__all__ = ["multiply_strips"]


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
                job.beta_bits, addend, job.row_stride, job.column_stride, packed + job.a_bytes, 0, column,
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
