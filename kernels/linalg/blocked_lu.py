"""LU with partial pivoting, solutions and inverses from it.

Sources: S. Toledo, "Locality of reference in LU decomposition with partial pivoting", SIAM J. Matrix Anal. Appl. 18,
1997 (recursion over columns); J. Kurzak, J. Dongarra, "Implementing linear algebra routines on multi-core processors
with pipelining and a look ahead", PARA 2006; LAPACK's getrf for pivots and info.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..gemm.tags import constant
from ..jit import njit
from ..launch import launch
from .lanes import read, splat, write
from .lu_panel import factor_panel
from .squares import exchange_rows, store_any
from .triangular import solve
from .updates import BLOCK, Products, alone, pack_left, subtract, subtract_packed

__all__ = ["invert", "lu", "lu_solve", "permutation"]


@njit(cache=False, no_cpython_wrapper=True)
def _by_halves(p, m, n, a, row, pivots):
    """Factor in the block order of `triangular.py`, by deep products. Returns info."""
    size, k, info = p.size, min(m, n), 0
    for first in range(0, k, BLOCK):
        count = min(BLOCK, k - first)
        done = first + count
        failed = factor_panel(p, m - first, count, a + first * (row + size), row, pivots, first)
        if failed and info == 0:
            info = first + failed
        exchange_rows(p.tag, p.pool, p.threads, pivots, first, done, first, a, row)
        span = ((first // BLOCK + 1) & -(first // BLOCK + 1)) * BLOCK
        ahead, known = min(span, k - done), done - span
        if ahead > 0:
            exchange_rows(p.tag, p.pool, p.threads, pivots, known, done, ahead, a + done * size, row)
            right, below = a + known * row + done * size, a + done * row
            solve(p, span, ahead, a + known * (row + size), row, size, True, True, False, right, row)
            subtract(
                p, m - done, ahead, span, below + known * size, row, size, right, row, size, below + done * size, row
            )
    return info


@njit(cache=False, no_cpython_wrapper=True)
def _update_task(task, worker, job):
    """Update a strip of columns by the block that is factored; the first strip is then factored itself, while other
    workers update what is right of it, and packed for the next update."""
    p, size, row, count = alone(job.p, worker), job.p.size, job.row, job.done - job.first
    start, width = job.done, job.following
    if task > 0 or job.following == 0:
        start += job.following + (task - (job.following > 0)) * job.strip
        width = min(job.strip, job.n - start)
    diagonal, top = job.a + job.first * (row + size), job.a + job.first * row + start * size
    exchange_rows(p.tag, 0, 1, job.pivots[job.first :], 0, count, width, top, row)
    solve(p, count, width, diagonal, row, size, True, True, False, top, row)
    height, below = job.m - job.done, job.a + job.done * row + start * size
    subtract_packed(p, height, width, count, job.packed, top, row, size, below, row)
    if start == job.done and job.following > 0:
        failed = _by_halves(p, height, width, below, row, job.pivots[job.done :])
        if failed and job.info[0] == 0:
            job.info[0] = job.done + failed
        pack_left(p, height - width, width, below + width * row, row, size, job.next)


class _Update(NamedTuple):
    """Columns first to done of the m x n matrix are factored, `following` columns come next."""

    p: Products
    m: int
    n: int
    first: int
    done: int
    following: int
    strip: int
    a: int
    row: int
    pivots: object
    info: object
    packed: int
    next: int
    run = _update_task


@njit(cache=False, no_cpython_wrapper=True)
def _exchange_left_task(task, worker, job):
    first = task * job.strip
    at, k = job.a + first * job.p.size, job.pivots.size
    exchange_rows(job.p.tag, 0, 1, job.pivots, first + job.strip, k, min(job.strip, k - first), at, job.row)


class _ExchangeLeft(NamedTuple):
    """Exchange the rows of each block as those of the blocks right of it were."""

    p: Products
    strip: int
    a: int
    row: int
    pivots: object
    run = _exchange_left_task


@njit
def lu(p, m, n, a, row, pivots, strip):
    """Factor the m x n matrix at `a` in its place, in blocks of `strip` columns; the pivots, from 1, go to the int32
    array. Returns info.

    Each block but the first is factored by one worker while the others still apply the block before it. Bits do not
    depend on the threads.
    """
    size, k, info = p.size, min(m, n), np.zeros(1, np.int64)
    head, packed, spare = min(strip, k), p.packed_a, p.spare_a
    info[0] = _by_halves(p, m, head, a, row, pivots)
    if n > head:
        pack_left(p, m - head, head, a + head * row, row, size, packed)
    for first in range(0, k, strip):
        done = min(first + strip, k)
        if done == n:
            break
        following = min(strip, k - done)
        tasks = (following > 0) + (n - done - following + strip - 1) // strip
        launch(
            p.pool, p.threads, tasks,
            _Update(p, m, n, first, done, following, strip, a, row, pivots, info, packed, spare),
        )  # fmt: skip
        packed, spare = spare, packed
    for i in range(strip, k):
        pivots[i] += i // strip * strip
    launch(p.pool, p.threads, (k - 1) // strip, _ExchangeLeft(p, strip, a, row, pivots))
    return info[0]


@njit
def permutation(pivots):
    """Where each row comes from after the exchanges of row i with row pivots[i] - 1."""
    order = np.arange(pivots.shape[0])
    for i in range(pivots.shape[0]):
        other = pivots[i] - 1
        order[i], order[other] = order[other], order[i]
    return order


@njit
def lu_solve(p, n, width, a, row, pivots, transpose, b, b_row):
    """Solve A X = B, or that of A's transpose, in the place of B, with the factors at `a`."""
    size = p.size
    if transpose:
        solve(p, n, width, a, size, row, True, False, False, b, b_row)
        solve(p, n, width, a, size, row, False, True, False, b, b_row)
        for i in range(n - 1, -1, -1):
            exchange_rows(p.tag, p.pool, p.threads, pivots, i, i + 1, width, b, b_row)
        return
    exchange_rows(p.tag, p.pool, p.threads, pivots, 0, n, width, b, b_row)
    solve(p, n, width, a, row, size, True, True, False, b, b_row)
    solve(p, n, width, a, row, size, False, False, False, b, b_row)


@njit(cache=False, no_cpython_wrapper=True)
def _invert_task(task, worker, job):
    """A strip of columns of U^-1 L^-1, from those of the identity."""
    p, size, first = alone(job.p, worker), job.p.size, task * job.strip
    width, zero = min(job.strip, job.n - first), splat(job.p.tag, 0.0)
    at, lanes = job.x + first * size, constant(job.p.tag, "lanes")
    for i in range(job.n):
        here = at + i * job.x_row
        for j in range(0, width - lanes + 1, lanes):
            store_any(here + j * size, zero)
        for j in range(width - width % lanes, width):
            write(p.tag, here + j * size, 0.0)
        if first <= i < first + width:
            write(p.tag, here + (i - first) * size, 1.0)
    below = job.a + first * (job.row + size)
    solve(p, job.n - first, width, below, job.row, size, True, True, False, at + first * job.x_row, job.x_row)
    solve(p, job.n, width, job.a, job.row, size, False, False, False, at, job.x_row)


class _Invert(NamedTuple):
    p: Products
    n: int
    strip: int
    a: int
    row: int
    x: int
    x_row: int
    run = _invert_task


_ROWS = 16


@njit(cache=False, no_cpython_wrapper=True)
def _gather_columns_task(task, worker, job):
    tag, size = job.tag, constant(job.tag, "size")
    n = job.columns.size
    for i in range(task * _ROWS, min((task + 1) * _ROWS, n)):
        source, target = job.x + i * job.x_row, job.out + i * job.out_row
        for j in range(n):
            write(tag, target + j * size, read(tag, source + job.columns[j] * size))


class _GatherColumns(NamedTuple):
    """Column j of the square matrix `out` is column columns[j] of x."""

    tag: NamedTuple
    columns: object
    x: int
    x_row: int
    out: int
    out_row: int
    run = _gather_columns_task


@njit
def invert(p, n, a, x, out, row, x_row, out_row, pivots, strip):
    """The inverse at `out` from the factors at `a`: U^-1 L^-1 P. At x is memory for as many numbers, for the first two;
    each worker finds `strip` columns of them at a time."""
    launch(p.pool, p.threads, (n + strip - 1) // strip, _Invert(p, n, strip, a, row, x, x_row))
    columns = np.arange(n)
    for i in range(n - 1, -1, -1):
        other = pivots[i] - 1
        columns[i], columns[other] = columns[other], columns[i]
    job = _GatherColumns(p.tag, columns, x, x_row, out, out_row)
    launch(p.pool, p.threads, (n + _ROWS - 1) // _ROWS, job)
