"""Cholesky, LU with partial pivoting, triangular solves and inverses of groups of small matrices (see `lanes.py`).

All are the unblocked methods of LAPACK (potf2, getf2, trsv; Golub and Van Loan, Matrix Computations, 2013, chapters 3
and 4), with the same pivots: the first element of greatest magnitude. Element (i, j) of a matrix of n columns is the
vector i * n + j of its group. Loops take four rows or columns at a time, the last ones again where fewer are left, so
that four sums run side by side.
"""

from __future__ import annotations

from ..block.tags import constant
from ..runtime.jit import subroutine
from ..runtime.launch import job_class
from .groups import Group, details
from .lanes import (
    VECTOR_BYTES,
    any_lane,
    fnma,
    gather,
    load_lanes,
    number,
    pack,
    read,
    root,
    scatter,
    select,
    splat,
    store_lanes,
    unpack,
    write_int32,
)  # fmt: skip

UPPER, RIGHT, UNIT, TRANSPOSE = 1, 2, 4, 8
"""Options of `Triangular`, added."""

_V = VECTOR_BYTES


@subroutine
def write_info(tag, info, first, last, value, scratch):
    """One int32 for each matrix of the group, of a vector of whole numbers."""
    store_lanes(scratch, value)
    for lane in range(last + 1):
        write_int32(info + 4 * (first + lane), int(read(tag, scratch + lane * constant(tag, "size"))))


@subroutine
def _cholesky(tag, n, a):
    """In place, column by column, each from all before it; returns the first minor that is not positive, from
    whose column on there are zeros, or 0."""
    row, zero, one, info = n * _V, splat(tag, 0.0), splat(tag, 1.0), splat(tag, 0.0)
    for j in range(n):
        above, column, scale = a + j * row, j * _V, one
        for i in range(j, n, 4):
            r0, r1 = a + i * row, a + min(i + 1, n - 1) * row
            r2, r3 = a + min(i + 2, n - 1) * row, a + min(i + 3, n - 1) * row
            s0, s1 = load_lanes(tag, r0 + column), load_lanes(tag, r1 + column)
            s2, s3 = load_lanes(tag, r2 + column), load_lanes(tag, r3 + column)
            for k in range(0, column, _V):
                x = load_lanes(tag, above + k)
                s0, s1 = fnma(load_lanes(tag, r0 + k), x, s0), fnma(load_lanes(tag, r1 + k), x, s1)
                s2, s3 = fnma(load_lanes(tag, r2 + k), x, s2), fnma(load_lanes(tag, r3 + k), x, s3)
            if i == j:
                fine = (s0 > zero) & (info == zero)
                info = select(fine, info, select(info == zero, splat(tag, j + 1.0), info))
                diagonal = select(fine, root(s0), zero)
                scale = select(fine, one / diagonal, zero)
            store_lanes(r3 + column, s3 * scale)
            store_lanes(r2 + column, s2 * scale)
            store_lanes(r1 + column, s1 * scale)
            store_lanes(r0 + column, s0 * scale)
            if i == j:
                store_lanes(r0 + column, diagonal)
        for k in range(column + _V, row, _V):
            store_lanes(above + k, zero)
    return info


@subroutine
def _cholesky_task(task, worker, group):
    job = details(group)
    tag, n, lanes = job.tag, job.n, constant(job.tag, "lanes")
    a, bytes_each = job.workspace + worker * job.workspace_bytes, n * n * constant(job.tag, "size")
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * bytes_each, last, n * n, a)
        info = _cholesky(tag, n, a)
        unpack(tag, a, n * n, job.x + first * bytes_each, last)
        write_info(tag, job.info, first, last, info, a)


Cholesky = job_class("Cholesky", Group._fields, _cholesky_task)
"""a to x and info, n x n; workspace n * n."""


@subroutine
def _quotient(tag, x, pivot, reciprocal, rare):
    """x / pivot, by the reciprocal except where the pivot is so small that its reciprocal may overflow."""
    if rare:
        return select(abs(pivot) < splat(tag, number(tag, "tiny")), x / pivot, x * reciprocal)
    return x * reciprocal


@subroutine
def _exchange(tag, a, row, columns, j, other):
    """Exchange row j with another one, which each lane chooses."""
    for column in range(0, columns * _V, _V):
        here = a + j * row + column
        top, x = load_lanes(tag, here), gather(a + column, other, row)
        store_lanes(here, x)
        scatter(a + column, other, row, top)


@subroutine
def _lu(tag, m, n, a, pivots):
    """In place; the row numbers of the pivots, from 0, to `pivots`. Returns the first pivot that is zero, or 0."""
    row, zero, info = n * _V, splat(tag, 0.0), splat(tag, 0.0)
    for j in range(min(m, n)):
        here, column = splat(tag, float(j)), j * _V
        best, pivot_row = abs(load_lanes(tag, a + j * row + column)), here
        for i in range(j + 1, m):
            size = abs(load_lanes(tag, a + i * row + column))
            larger = size > best
            best, pivot_row = select(larger, size, best), select(larger, splat(tag, float(i)), pivot_row)
        store_lanes(pivots + column, pivot_row)
        if any_lane(pivot_row != here):
            _exchange(tag, a, row, n, j, pivot_row)
        top = a + j * row
        pivot = load_lanes(tag, top + column)
        singular = pivot == zero
        info = select(singular & (info == zero), splat(tag, j + 1.0), info)
        reciprocal, rare = splat(tag, 1.0) / pivot, any_lane(best < splat(tag, number(tag, "tiny")))
        for i in range(j + 1, m, 2):
            r0, r1 = a + i * row, a + min(i + 1, m - 1) * row
            x0, x1 = load_lanes(tag, r0 + column), load_lanes(tag, r1 + column)
            x0 = select(singular, x0, _quotient(tag, x0, pivot, reciprocal, rare))
            x1 = select(singular, x1, _quotient(tag, x1, pivot, reciprocal, rare))
            store_lanes(r0 + column, x0)
            store_lanes(r1 + column, x1)
            for k in range(column + _V, row, _V):
                u = load_lanes(tag, top + k)
                y0, y1 = fnma(x0, u, load_lanes(tag, r0 + k)), fnma(x1, u, load_lanes(tag, r1 + k))
                store_lanes(r0 + k, y0)
                store_lanes(r1 + k, y1)
    return info


@subroutine
def _write_pivots(tag, pivots, k, base, first, last):
    for lane in range(last + 1):
        for j in range(k):
            value = int(read(tag, pivots + j * _V + lane * constant(tag, "size"))) + 1
            write_int32(base + 4 * ((first + lane) * k + j), value)


@subroutine
def _lu_task(task, worker, group):
    job = details(group)
    tag, m, n, lanes = job.tag, job.m, job.n, constant(job.tag, "lanes")
    a, bytes_each = job.workspace + worker * job.workspace_bytes, m * n * constant(job.tag, "size")
    pivots = a + m * n * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * bytes_each, last, m * n, a)
        info = _lu(tag, m, n, a, pivots)
        unpack(tag, a, m * n, job.x + first * bytes_each, last)
        _write_pivots(tag, pivots, min(m, n), job.y, first, last)
        write_info(tag, job.info, first, last, info, a)


LUFactor = job_class("LUFactor", Group._fields, _lu_task)
"""a to x, pivots to y, and info, m x n; workspace m * n + min(m, n)."""


@subroutine
def _substitute(tag, n, k, a, a_row, a_column, b, b_row, b_column, unit):
    """Solve a @ x = b in place for k columns; a is lower triangular, all strides in bytes."""
    for i in range(n):
        here, diagonal = a + i * a_row, splat(tag, 1.0)
        rare, reciprocal = False, diagonal
        if not unit:
            diagonal = load_lanes(tag, here + i * a_column)
            rare = any_lane(abs(diagonal) < splat(tag, number(tag, "tiny")))
            reciprocal = splat(tag, 1.0) / diagonal
        for c in range(0, k, 4):
            c0, c1 = b + c * b_column, b + min(c + 1, k - 1) * b_column
            c2, c3 = b + min(c + 2, k - 1) * b_column, b + min(c + 3, k - 1) * b_column
            to = i * b_row
            s0, s1 = load_lanes(tag, c0 + to), load_lanes(tag, c1 + to)
            s2, s3 = load_lanes(tag, c2 + to), load_lanes(tag, c3 + to)
            for j in range(i):
                x, at = load_lanes(tag, here + j * a_column), j * b_row
                s0, s1 = fnma(x, load_lanes(tag, c0 + at), s0), fnma(x, load_lanes(tag, c1 + at), s1)
                s2, s3 = fnma(x, load_lanes(tag, c2 + at), s2), fnma(x, load_lanes(tag, c3 + at), s3)
            if not unit:
                s0, s1 = _quotient(tag, s0, diagonal, reciprocal, rare), _quotient(tag, s1, diagonal, reciprocal, rare)
                s2, s3 = _quotient(tag, s2, diagonal, reciprocal, rare), _quotient(tag, s3, diagonal, reciprocal, rare)
            store_lanes(c3 + to, s3)
            store_lanes(c2 + to, s2)
            store_lanes(c1 + to, s1)
            store_lanes(c0 + to, s0)


@subroutine
def substitute_any(tag, n, k, a, a_row, a_column, b, b_row, b_column, unit, upper):
    """The same for either triangle: an upper triangle is a lower one, read backwards."""
    if upper:
        end = n - 1
        _substitute(
            tag, n, k, a + end * (a_row + a_column), -a_row, -a_column, b + end * b_row, -b_row, b_column, unit
        )  # fmt: skip
    else:
        _substitute(tag, n, k, a, a_row, a_column, b, b_row, b_column, unit)


@subroutine
def lu_substitute(tag, n, k, a, pivots, b, transpose):
    """Solve a @ x = b, or a.T @ x = b, in place, of the factors of a."""
    row, b_row = n * _V, k * _V
    a_row, a_column = row, _V
    if transpose:
        a_row, a_column = a_column, a_row
    else:
        for j in range(n):
            other = load_lanes(tag, pivots + j * _V)
            if any_lane(other != splat(tag, float(j))):
                _exchange(tag, b, b_row, k, j, other)
    for step in range(2):  # one place that solves, so that it is compiled once
        unit = (step == 0) != transpose
        substitute_any(tag, n, k, a, a_row, a_column, b, b_row, _V, unit, step == 1)
    if transpose:
        for j in range(n - 1, -1, -1):
            other = load_lanes(tag, pivots + j * _V)
            if any_lane(other != splat(tag, float(j))):
                _exchange(tag, b, b_row, k, j, other)


@subroutine
def _solve_task(task, worker, group):
    job = details(group)
    tag, n, k, lanes, size = job.tag, job.n, job.k, constant(job.tag, "lanes"), constant(job.tag, "size")
    a = job.workspace + worker * job.workspace_bytes
    b, pivots = a + n * n * _V, a + n * (n + k) * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * n * n * size, last, n * n, a)
        pack(tag, job.b + first * n * k * size, last, n * k, b)
        info = _lu(tag, n, n, a, pivots)
        lu_substitute(tag, n, k, a, pivots, b, False)
        unpack(tag, b, n * k, job.x + first * n * k * size, last)
        unpack(tag, a, n * n, job.y + first * n * n * size, last)
        _write_pivots(tag, pivots, n, job.z, first, last)
        write_info(tag, job.info, first, last, info, a)


Solve = job_class("Solve", Group._fields, _solve_task)
"""a and b to x, the factors to y, pivots to z, and info; n x n and n x k; workspace n * (n + k + 1)."""


@subroutine
def _inv_task(task, worker, group):
    job = details(group)
    tag, n, lanes = job.tag, job.n, constant(job.tag, "lanes")
    a, bytes_each = job.workspace + worker * job.workspace_bytes, n * n * constant(job.tag, "size")
    b, pivots = a + n * n * _V, a + 2 * n * n * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * bytes_each, last, n * n, a)
        info = _lu(tag, n, n, a, pivots)
        for at in range(n * n):
            store_lanes(b + at * _V, splat(tag, 0.0))
        for i in range(n):
            store_lanes(b + i * (n + 1) * _V, splat(tag, 1.0))
        lu_substitute(tag, n, n, a, pivots, b, False)
        unpack(tag, b, n * n, job.x + first * bytes_each, last)
        write_info(tag, job.info, first, last, info, a)


Inv = job_class("Inv", Group._fields, _inv_task)
"""a to x, and info; n x n; workspace n * (2 * n + 1)."""


@subroutine
def _triangular_task(task, worker, group):
    job = details(group)
    tag, m, n, lanes, size = job.tag, job.m, job.n, constant(job.tag, "lanes"), constant(job.tag, "size")
    a = job.workspace + worker * job.workspace_bytes
    right, unit = job.options & RIGHT != 0, job.options & UNIT != 0
    upper, transpose = job.options & UPPER != 0, job.options & TRANSPOSE != 0
    order = n if right else m
    a_row, a_column, b_row, b_column, k = order * _V, _V, n * _V, _V, n
    if right:  # the transposed equation, of the transposed matrix
        b_row, b_column, k = b_column, b_row, m
    if right != transpose:
        a_row, a_column, upper = a_column, a_row, not upper
    b = a + order * order * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * order * order * size, last, order * order, a)
        pack(tag, job.b + first * m * n * size, last, m * n, b)
        substitute_any(tag, order, k, a, a_row, a_column, b, b_row, b_column, unit, upper)
        unpack(tag, b, m * n, job.x + first * m * n * size, last)


Triangular = job_class("Triangular", Group._fields, _triangular_task)
"""a and b (m x n) to x; `options` as above; workspace m * n and the square of a's order."""
