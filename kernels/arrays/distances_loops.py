"""The loops of `distances`."""

from __future__ import annotations

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import address, allocate, free, pointer

_ROWS = 8
"""Rows of the result that a task makes."""

_COLUMNS = 256
"""Number of columns summed together; they and their inputs fit the L1 cache."""

_DEPTH = 64
"""Terms that are added to the sums of a block of results at a time; sums are float64, rounded once."""


@subroutine
def _row(base, index, job, count):
    """`count` numbers from number `index` on."""
    return carray(pointer(base + index * job.size, job.zero), count)


@task("x y out m n depth zero size")
def _squares(task, worker, job):
    blocks = (job.m + _ROWS - 1) // _ROWS
    batch, first = task // blocks, task % blocks * _ROWS
    last = min(first + _ROWS, job.m)
    memory = allocate(_ROWS * _COLUMNS, 0.0)
    sums = carray(pointer(address(memory), 0.0), (_ROWS, _COLUMNS))
    for left in range(0, job.n, _COLUMNS):
        width = min(_COLUMNS, job.n - left)
        sums[:] = 0.0
        for top in range(0, job.depth, _DEPTH):
            end = min(top + _DEPTH, job.depth)
            for i in range(first, last):
                x, total = _row(job.x, (batch * job.m + i) * job.depth, job, job.depth), sums[i - first]
                k = top
                while k + 4 <= end:
                    at = (batch * job.depth + k) * job.n + left
                    a, b, c, d = x[k], x[k + 1], x[k + 2], x[k + 3]
                    y, z = _row(job.y, at, job, width), _row(job.y, at + job.n, job, width)
                    u, v = _row(job.y, at + 2 * job.n, job, width), _row(job.y, at + 3 * job.n, job, width)
                    for j in range(width):
                        e, f, g, h = a - y[j], b - z[j], c - u[j], d - v[j]
                        total[j] += (e * e + f * f) + (g * g + h * h)
                    k += 4
                while k < end:
                    a, y = x[k], _row(job.y, (batch * job.depth + k) * job.n + left, job, width)
                    for j in range(width):
                        e = a - y[j]
                        total[j] += e * e
                    k += 1
        for i in range(first, last):
            out = _row(job.out, (batch * job.m + i) * job.n + left, job, width)
            for j in range(width):
                out[j] = sums[i - first, j]
    free(memory)


@njit
def distances(pool, threads, x, y, out, batch, m, n, depth, zero, size):
    """Squares of distances (batch, m, n) of x (batch, m, depth) and y (batch, depth, n), at addresses; `zero` is of the
    type of the numbers, which have so many bytes."""
    launch(pool, threads, batch * ((m + _ROWS - 1) // _ROWS), _squares(x, y, out, m, n, depth, zero, size))


@task("weights x y out m n depth zero size")
def _differences(task, worker, job):
    batch = task // job.m
    weights = _row(job.weights, task * job.n, job, job.n)
    x, out = _row(job.x, task * job.depth, job, job.depth), _row(job.out, task * job.depth, job, job.depth)
    sums = allocate(job.depth, 0.0)
    sums[:] = 0.0
    j = 0
    while j + 4 <= job.n:
        at = (batch * job.n + j) * job.depth
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        y, z = _row(job.y, at, job, job.depth), _row(job.y, at + job.depth, job, job.depth)
        u, v = _row(job.y, at + 2 * job.depth, job, job.depth), _row(job.y, at + 3 * job.depth, job, job.depth)
        for k in range(job.depth):
            this = x[k]
            sums[k] += (a * (this - y[k]) + b * (this - z[k])) + (c * (this - u[k]) + d * (this - v[k]))
        j += 4
    while j < job.n:
        a, y = weights[j], _row(job.y, (batch * job.n + j) * job.depth, job, job.depth)
        for k in range(job.depth):
            sums[k] += a * (x[k] - y[k])
        j += 1
    for k in range(job.depth):
        out[k] = sums[k]
    free(sums)


@njit
def add_differences(pool, threads, weights, x, y, out, batch, m, n, depth, zero, size):
    """Sums (batch, m, depth) of weights (batch, m, n) times differences of x (batch, m, depth) and y (batch, n, depth),
    at addresses."""
    launch(pool, threads, batch * m, _differences(weights, x, y, out, m, n, depth, zero, size))
