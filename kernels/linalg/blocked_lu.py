"""LU with partial pivoting, solutions and inverses from it.

Sources: S. Toledo, "Locality of reference in LU decomposition with partial pivoting", SIAM J. Matrix Anal. Appl. 18,
1997 (recursion over columns); J. Kurzak, J. Dongarra, "Implementing linear algebra routines on multi-core processors
with pipelining and a look ahead", PARA 2006 (`strips.py`); LAPACK's getrf for pivots and info.
"""

from __future__ import annotations

from typing import NamedTuple

from ..block.tags import constant
from ..runtime.jit import njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import allocate, free
from .lanes import read, splat, write
from .lu_panel import eliminate_side, factor_panel, pack_panel
from .prepared import prepare, solve_prepared
from .squares import copy, exchange_rows, permutation, store_any
from .strips import finish, progress, take
from .triangular import solve
from .updates import BLOCK, alone, pack_left, subtract, subtract_packed

_CACHED_BYTES = 1 << 21
"""Matrices that the second caches of two cores hold, with what is packed of them: their strips are kept level."""


class Blocks(NamedTuple):
    """Memory for `count` packed blocks, of so many bytes each."""

    at: int
    bytes: int
    count: int


class Sides(NamedTuple):
    """Right sides at `at`, each of m numbers in whole cache lines, which lie `row` bytes apart."""

    count: int
    at: int
    row: int


@subroutine
def _by_halves(p, m, n, a, row, pivots, sides, b):
    """Factor in the block order of `triangular.py`, by deep products; each panel is applied to `sides` right sides at
    once. Returns info."""
    size, k, info = p.size, min(m, n), 0
    for first in range(0, k, BLOCK):
        count = min(BLOCK, k - first)
        done = first + count
        failed = factor_panel(p, m - first, count, a + first * (row + size), row, pivots, first)
        for side in range(sides.count):
            eliminate_side(p, m - first, count, pivots, first, b + side * sides.row + first * size)
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


@subroutine
def _update(p, job, block, start, width):
    """Apply a block to columns right of it."""
    size, row, first = p.size, job.row, block * job.strip
    count, top = min(job.strip, job.k - first), job.a + first * job.row + start * p.size
    exchange_rows(p.tag, 0, 1, job.pivots[first:], 0, count, width, top, row)
    solve(p, count, width, job.a + first * (row + size), row, size, True, True, False, top, row)
    packed = job.packed.at + block % job.packed.count * job.packed.bytes
    subtract_packed(p, job.m - first - count, width, count, packed, top, row, size, top + count * row, row)


@subroutine
def _factor(p, job, block):
    """Factor a strip of columns that is up to date, and pack it for the updates of others."""
    size, row, first = p.size, job.row, block * job.strip
    count, at = min(job.strip, job.k - first), job.a + first * (job.row + p.size)
    b = job.sides.at + first * size
    failed = _by_halves(p, job.m - first, count, at, row, job.pivots[first:], job.sides, b)
    if failed and job.info[0] == 0:
        job.info[0] = first + failed
    packed = job.packed.at + block % job.packed.count * job.packed.bytes
    if count <= BLOCK:
        pack_panel(p, job.m - first, count, packed)
    else:
        pack_left(p, job.m - first - count, count, at + count * row, row, size, packed)
    _update(p, job, block, first + count, min(job.strip, job.n - first) - count)  # of a wide matrix, the last block


@task("p m n k strip a row pivots info state packed sides")
def _work_task(task, worker, job):
    """Columns of an m x n matrix with k = min(m, n) pivots, in strips; `packed` is for what `_factor` packs."""
    p, size = alone(job.p, worker), job.p.size
    strips, blocks = (job.n + job.strip - 1) // job.strip, (job.k + job.strip - 1) // job.strip
    level = job.m * job.n * size <= _CACHED_BYTES
    while True:
        strip, first, last = take(job.state, strips, blocks, job.packed.count, True, worker, level)
        if strip < 0:
            return
        if first == strip:
            _factor(p, job, strip)
        elif first < strip:
            _update(p, job, first, strip * job.strip, min(job.strip, job.n - strip * job.strip))
        for block in range(first, last if first > strip else first):  # the rows left of a block, exchanged as its own
            at, rows = block * job.strip, min(job.strip, job.k - block * job.strip)
            left = job.a + at * job.row + strip * job.strip * size
            exchange_rows(p.tag, 0, 1, job.pivots[at:], 0, rows, job.strip, left, job.row)
        finish(job.state, strip, first, last)


_ROWS = 16


@task("work source source_row")
def _begin_task(task, worker, job):
    """Copy and factor the first strip of the matrix, or copy some rows of the others, to that of `work`."""
    work, size = job.work, job.work.p.size
    columns = min(work.strip, work.n)
    if task == 0:
        for i in range(work.m):
            copy(work.p.tag, columns, job.source + i * job.source_row, work.a + i * work.row)
        _factor(alone(work.p, worker), work, task)  # 0 would be a type of its own, and compiled again
        return
    right = columns * size
    for i in range((task - 1) * _ROWS, min(task * _ROWS, work.m)):
        source, target = job.source + i * job.source_row + right, work.a + i * work.row + right
        copy(work.p.tag, work.n - columns, source, target)


@njit
def lu(p, m, n, source, source_row, a, row, pivots, strip, packed, sides):
    """The factors at `a` of the m x n matrix at `source`, in blocks of `strip` columns; the pivots, from 1, go to the
    int32 array. Returns info. Right sides b become L^-1 P b.

    Bits do not depend on the threads.
    """
    k = min(m, n)
    state, info = progress((n + strip - 1) // strip), allocate(1, 0)
    info[0] = 0
    work = _work_task(p, m, n, k, strip, a, row, pivots, info, state, packed, sides)
    tasks = 1 + (m + _ROWS - 1) // _ROWS if n > strip else 1
    launch(p.pool, p.threads, tasks, _begin_task(work, source, source_row))
    launch(p.pool, p.threads, p.threads, work)
    for i in range(strip, k):
        pivots[i] += i // strip * strip
    found = info[0]
    free(state)
    free(info)
    return found


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


@task("p upper n strip a row x x_row")
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
    solve_prepared(p, job.upper, width, at, job.x_row)


@task("tag columns x x_row out out_row")
def _gather_columns_task(task, worker, job):
    """Column j of the square matrix `out` is the column of x that is columns[j] bytes from its first."""
    tag, n = job.tag, job.columns.size
    for i in range(task * _ROWS, min((task + 1) * _ROWS, n), 4):
        last = min(4, n - i) - 1  # where there are less than four rows, the last is copied again
        b, c, d = min(1, last), min(2, last), last
        source, target = job.x + i * job.x_row, job.out + i * job.out_row
        x0, x1, x2, x3 = source, source + b * job.x_row, source + c * job.x_row, source + d * job.x_row
        y0, y1, y2, y3 = target, target + b * job.out_row, target + c * job.out_row, target + d * job.out_row
        for j in range(n):
            at, to = job.columns[j], j * constant(tag, "size")
            write(tag, y0 + to, read(tag, x0 + at))
            write(tag, y1 + to, read(tag, x1 + at))
            write(tag, y2 + to, read(tag, x2 + at))
            write(tag, y3 + to, read(tag, x3 + at))


@njit
def invert(p, n, a, x, out, row, x_row, out_row, pivots, strip, starts):
    """The inverse at `out` from the factors at `a`: U^-1 L^-1 P. At x is memory for as many numbers, for the first two;
    each worker finds `strip` columns of them at a time. At the addresses `starts` is memory for U, as `places` has
    it."""
    upper = prepare(p, n, a, row, False, False, starts)
    launch(p.pool, p.threads, (n + strip - 1) // strip, _invert_task(p, upper, n, strip, a, row, x, x_row))
    order, columns = permutation(pivots), allocate(n, 0)
    for i in range(n):
        columns[order[i]] = i * p.size
    job = _gather_columns_task(p.tag, columns, x, x_row, out, out_row)
    launch(p.pool, p.threads, (n + _ROWS - 1) // _ROWS, job)
    free(upper.diagonals)
    free(order)
    free(columns)
