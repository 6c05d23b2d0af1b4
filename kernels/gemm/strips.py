"""Products whose threads pack one operand for themselves: strips of rows, or strips of columns.

What `loops.multiply` does with operands that are packed before, for products of many rows, or of few rows with a large
matrix: what is packed for a strip stays in the cache of the core that reads it, where a whole packed operand is written
to memory and read from there. A strip of columns is packed one step along K at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import njit, subroutine
from ..launch import call_at, launch
from .loops import LIMITS_BYTES, PackArguments, Product, Target, _BlockArguments, found_limits, pack, reset_limits


@subroutine
def _strip_task(task, worker, job):
    of, sizes, target = job.of, job.of.sizes, job.target
    first, packed = task * sizes.mc, job.scratch + worker * sizes.scratch_bytes
    rows, limits = min(sizes.mc, sizes.m - first), job.limits + worker * LIMITS_BYTES
    at, place, addend = job.a + first * of.a.line_stride, job.c + first * target.row_stride, job.addend
    addend += first * target.addend_row
    call_at(
        of.a.leaf,
        PackArguments(
            of.a.line_stride, of.a.k_stride, rows, sizes.k, sizes.kc, at, packed, limits, 0, rows, 0, sizes.k
        ),
    )  # fmt: skip
    for column in range(0, sizes.n, sizes.nc):
        call_at(
            target.leaf,
            _BlockArguments(
                rows, sizes.n, sizes.k, sizes.kc, sizes.mc, sizes.nc, packed, job.b, place, target.row_stride,
                target.alpha_bits, target.beta_bits, addend, target.addend_row, target.addend_column,
                packed + of.a_bytes, 0, column, 0, sizes.k,
            ),
        )  # fmt: skip


class _Strips(NamedTuple):
    of: Product
    target: Target
    a: int
    b: int
    c: int
    addend: int
    scratch: int
    limits: int
    run = _strip_task


@njit
def multiply_strips(pool, threads, product, target, a, b, c, addend, scratch):
    """Multiply the operands at addresses a and b into the result at c, in tasks of mc rows and blocks of nc
    columns.

    If the packing of B has no leaf, b is packed already; otherwise it is packed before, as `loops.pack` does, behind
    the scratch memory and the limits of the threads. A worker's scratch memory holds its packed rows (a_bytes) and the
    sums of a block. Returns the magnitudes in A and in B (0 if it was packed).
    """
    limits, found_b = scratch + threads * product.sizes.scratch_bytes, 0
    if product.b.leaf != 0:
        packed = limits + threads * LIMITS_BYTES
        found_b = pack(pool, threads, product.b, b, packed, limits)
        b = packed
    reset_limits(limits, threads)
    tasks = (product.sizes.m + product.sizes.mc - 1) // product.sizes.mc
    launch(pool, threads, tasks, _Strips(product, target, a, b, c, addend, scratch, limits))
    return found_limits(limits, threads), found_b


@subroutine
def _column_task(task, worker, job):
    of, sizes, target = job.of, job.of.sizes, job.target
    first, packed = task * sizes.nc, job.scratch + worker * sizes.scratch_bytes
    columns, limits = min(sizes.nc, sizes.n - first), job.limits + worker * LIMITS_BYTES
    place_bytes = (columns + of.b.panel_lines - 1) // of.b.panel_lines * of.b.k_bytes
    at, place, addend = job.b + first * of.b.line_stride, job.c + first * target.item_bytes, job.addend
    addend += first * target.addend_column
    for k in range(0, sizes.k, sizes.kc):
        end, step = min(k + sizes.kc, sizes.k), packed - k * place_bytes
        call_at(
            of.b.leaf,
            PackArguments(
                of.b.line_stride, of.b.k_stride, columns, sizes.k, sizes.kc, at, step, limits, 0, columns, k, end
            ),
        )  # fmt: skip
        call_at(
            target.leaf,
            _BlockArguments(
                sizes.m, columns, sizes.k, sizes.kc, sizes.mc, sizes.nc, job.a, step, place, target.row_stride,
                target.alpha_bits, target.beta_bits, addend, target.addend_row, target.addend_column,
                packed + of.b_bytes, 0, 0, k, end,
            ),
        )  # fmt: skip


class _Columns(_Strips):
    run = _column_task


@njit
def multiply_columns(pool, threads, product, target, a, b, c, addend, scratch):
    """Multiply the operands at addresses a and b into the result at c, in tasks of nc columns and all rows.

    A is packed before, as `loops.pack` does, behind the scratch memory and the limits of the threads. A worker's
    scratch memory holds a step of its packed columns (b_bytes) and the sums of mc rows of them. Returns the magnitudes
    in A and in B.
    """
    limits = scratch + threads * product.sizes.scratch_bytes
    packed = limits + threads * LIMITS_BYTES
    found_a = pack(pool, threads, product.a, a, packed, limits)
    reset_limits(limits, threads)
    tasks = (product.sizes.n + product.sizes.nc - 1) // product.sizes.nc
    launch(pool, threads, tasks, _Columns(product, target, packed, b, c, addend, scratch, limits))
    return found_a, found_limits(limits, threads)
