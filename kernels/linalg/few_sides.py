"""Triangular systems with few right sides: each number of the triangle is read once, from the memory that bounds it.

A block of unknowns is found by one thread. What is known enters the next block by dot products along the rows of the
triangle or, where it is given by its columns, the block enters all that follow.
"""

from __future__ import annotations

from ..runtime.jit import njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import free
from .squares import permutation

FEW = 8
"""Right sides up to which this is quicker than packing for products: at n = 2048 in float32 a solution with both
triangles takes 2 ms for one side instead of 5."""

_BLOCK = 128
_ROWS = 16
_COLUMNS = 512
_ORDER = {"reassoc", "contract"}


@subroutine(fastmath=_ORDER)
def dot(a, b):
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@subroutine(fastmath=_ORDER)
def _four_dots(t, i, step, begin, end, x):
    """T[rows, begin:end] @ x[begin:end] for rows i, i + step ...: each number of x is read once for all four."""
    a, b, x = t[i, begin:end], t[i + step, begin:end], x[begin:end]
    c, d = t[i + 2 * step, begin:end], t[i + 3 * step, begin:end]
    p = q = r = s = x.dtype.type(0)
    for k in range(x.shape[0]):
        p += a[k] * x[k]
        q += b[k] * x[k]
        r += c[k] * x[k]
        s += d[k] * x[k]
    return p, q, r, s


@task("t x first last begin end")
def _rows_task(task, worker, job):
    """x -= T[rows, known] @ x[known] for some rows of a block."""
    i, end = job.first + task * _ROWS, min(job.first + (task + 1) * _ROWS, job.last)
    while i + 4 <= end:
        for c in range(job.x.shape[0]):
            x = job.x[c]
            p, q, r, s = _four_dots(job.t, i, 1, job.begin, job.end, x)
            x[i] -= p
            x[i + 1] -= q
            x[i + 2] -= r
            x[i + 3] -= s
        i += 4
    while i < end:
        for c in range(job.x.shape[0]):
            job.x[c, i] -= dot(job.t[i, job.begin : job.end], job.x[c, job.begin : job.end])
        i += 1


@task("t x first last begin end", fastmath=_ORDER)
def _columns_task(task, worker, job):
    """x -= T.T[columns, block] @ x[block] for some of the columns that follow a block."""
    begin = job.begin + task * _COLUMNS
    end = min(begin + _COLUMNS, job.end)
    for c in range(job.x.shape[0]):
        x = job.x[c]
        target, k = x[begin:end], job.first
        while k + 4 <= job.last:
            p, q, r, s = job.t[k, begin:end], job.t[k + 1, begin:end], job.t[k + 2, begin:end], job.t[k + 3, begin:end]
            for i in range(target.shape[0]):
                target[i] -= p[i] * x[k] + q[i] * x[k + 1] + r[i] * x[k + 2] + s[i] * x[k + 3]
            k += 4
        while k < job.last:
            row = job.t[k, begin:end]
            for i in range(target.shape[0]):
                target[i] -= row[i] * x[k]
            k += 1


@subroutine
def _four_rows(t, x, i, step, begin, end, unit):
    """The unknowns i, i + step ..., where begin to end are known. They stay in registers: what is loaded as a vector
    waits for what was stored as a number just before."""
    j, k, m = i + step, i + 2 * step, i + 3 * step
    p, q, r, s = _four_dots(t, i, step, begin, end, x)
    u, v, w, z = x[i] - p, x[j] - q, x[k] - r, x[m] - s
    if not unit:
        u /= t[i, i]
    v -= t[j, i] * u
    if not unit:
        v /= t[j, j]
    w -= t[k, i] * u + t[k, j] * v
    if not unit:
        w /= t[k, k]
    z -= t[m, i] * u + t[m, j] * v + t[m, k] * w
    if not unit:
        z /= t[m, m]
    x[i], x[j], x[k], x[m] = u, v, w, z


@subroutine
def _solve_rows(t, x, first, last, forward, unit):
    """A block by its rows, four at a time from where it begins."""
    done, count = 0, last - first
    while done + 4 <= count:
        if forward:
            _four_rows(t, x, first + done, 1, first, first + done, unit)
        else:
            _four_rows(t, x, last - 1 - done, -1, last - done, last, unit)
        done += 4
    for step in range(done, count):
        i = first + step if forward else last - 1 - step
        begin, end = (first, i) if forward else (i + 1, last)
        x[i] -= dot(t[i, begin:end], x[begin:end])
        if not unit:
            x[i] /= t[i, i]


@subroutine
def _solve_block(t, x, first, last, forward, unit, transposed):
    for c in range(x.shape[0]):
        if not transposed:
            _solve_rows(t, x[c], first, last, forward, unit)
            continue
        for step in range(last - first):
            i = first + step if forward else last - 1 - step
            if not unit:
                x[c, i] /= t[i, i]
            for j in range(i + 1, last) if forward else range(first, i):
                x[c, j] -= t[i, j] * x[c, i]


@njit
def solve_few(pool, threads, t, x, lower, unit, transposed):
    """T y = x (or T.T y = x) for each row of x (sides, n), in place. t: rows of at least n adjacent numbers; the lower
    or the upper triangle of n x n is read."""
    n, forward = t.shape[0], lower != transposed
    blocks = (n + _BLOCK - 1) // _BLOCK
    for step in range(blocks):
        first = (step if forward else blocks - 1 - step) * _BLOCK
        last = min(first + _BLOCK, n)
        if not transposed:
            begin, end = (0, first) if forward else (last, n)
            if begin < end:
                launch(pool, threads, (last - first + _ROWS - 1) // _ROWS, _rows_task(t, x, first, last, begin, end))
        _solve_block(t, x, first, last, forward, unit, transposed)
        if transposed:
            begin, end = (last, n) if forward else (0, first)
            if begin < end:
                tasks = (end - begin + _COLUMNS - 1) // _COLUMNS
                launch(pool, threads, tasks, _columns_task(t, x, first, last, begin, end))


@njit
def solve_by_factors(pool, threads, t, pivots, b, work, x, transposed):
    """Store to x (sides, n) the solutions of A x = b (or of A.T x = b) for each row of b, by the LU factors in t.
    `work` is of the same shape."""
    order, steps = permutation(pivots), work if transposed else x
    for c in range(b.shape[0]):
        for i in range(b.shape[1]):
            steps[c, i] = b[c, i if transposed else order[i]]
    solve_few(pool, threads, t, steps, not transposed, not transposed, transposed)
    solve_few(pool, threads, t, steps, transposed, transposed, transposed)
    for c in range(b.shape[0] if transposed else 0):
        for i in range(b.shape[1]):
            x[c, order[i]] = steps[c, i]
    free(order)


@subroutine(fastmath=_ORDER)
def _sum_of_magnitudes(row):
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += abs(row[i])
    return total


@task("a sums")
def _sums_task(task, worker, job):
    for i in range(task * _ROWS, min((task + 1) * _ROWS, job.a.shape[0])):
        job.sums[i] = _sum_of_magnitudes(job.a[i])


@njit
def largest_row_sum(pool, threads, a, sums):
    """The largest sum of magnitudes of a row of a (m, n) with neighbouring numbers in its rows. sums: m numbers."""
    launch(pool, threads, (a.shape[0] + _ROWS - 1) // _ROWS, _sums_task(a, sums))
    found = sums[0]
    for i in range(sums.shape[0]):
        found = max(found, sums[i]) if sums[i] == sums[i] else sums[i]
    return found
