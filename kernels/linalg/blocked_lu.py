"""LU with partial pivoting, solutions and inverses from it, in the block order of `triangular.py`.

Sources: S. Toledo, "Locality of reference in LU decomposition with partial pivoting", SIAM J. Matrix Anal. Appl. 18,
1997 (recursion over columns); LAPACK's getrf for pivots and info. A panel of 64 columns is factored column-major in
scratch memory, in sub-panels as wide as a vector.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..gemm.tags import constant
from ..jit import njit
from ..launch import launch
from .lanes import VECTOR_BYTES, fnma, load_lanes, number, read, select, splat, store_lanes, write
from .squares import copy, copy_transposed, exchange_rows
from .triangular import invert_upper, solve
from .updates import BLOCK, subtract

__all__ = ["invert", "lu", "lu_solve", "permutation"]

_V = VECTOR_BYTES


@njit(cache=False, no_cpython_wrapper=True)
def _largest(tag, column, first, rows, small):
    """The row of the first number of greatest magnitude from row `first` on; a NaN is never greater."""
    size, lanes = constant(tag, "size"), constant(tag, "lanes")
    edge = min((first + lanes - 1) // lanes * lanes, rows)
    best, where = abs(read(tag, column + first * size)), first
    for i in range(first + 1, edge):
        value = abs(read(tag, column + i * size))
        if value > best:
            best, where = value, i
    if edge >= rows:
        return where
    most, at, one = splat(tag, -1.0), splat(tag, 0.0), splat(tag, 1.0)
    most2, at2, count, two = most, at, at, one + one
    end = column + rows * size
    for v in range(column + edge * size, end, 2 * _V):  # the memory after the column is padding, which is zero
        x = abs(load_lanes(tag, v))
        larger = x > most
        most, at = select(larger, x, most), select(larger, count, at)
        x = abs(load_lanes(tag, v + _V))
        larger = x > most2
        most2, at2 = select(larger, x, most2), select(larger, count + one, at2)
        count = count + two
    store_lanes(small, most)
    store_lanes(small + _V, at)
    store_lanes(small + 2 * _V, most2)
    store_lanes(small + 3 * _V, at2)
    for half in range(0, 4 * _V, 2 * _V):
        for lane in range(lanes):
            value = read(tag, small + half + lane * size)
            i = edge + int(read(tag, small + half + _V + lane * size)) * lanes + lane
            if i < rows and (value > best or (value == best and i < where)):
                best, where = value, i
    return where


@njit(cache=False, no_cpython_wrapper=True)
def _eliminate(tag, column, targets, ld, count, row, rows, small):
    """From column `row` of a sub-panel, which is scaled, subtract its multiples from the next `count` columns."""
    size, lanes = constant(tag, "size"), constant(tag, "lanes")
    edge = row // lanes * lanes
    for lane in range(lanes):  # the multipliers of the first vector; zero above the diagonal and on it
        write(tag, small + lane * size, read(tag, column + (edge + lane) * size) if edge + lane > row else 0.0)
    first, end = load_lanes(tag, small), rows * size
    for j in range(0, count - 1, 2):
        c, d = targets + j * ld, targets + (j + 1) * ld
        x, y = splat(tag, read(tag, c + row * size)), splat(tag, read(tag, d + row * size))
        at = edge * size
        store_lanes(c + at, fnma(first, x, load_lanes(tag, c + at)))
        store_lanes(d + at, fnma(first, y, load_lanes(tag, d + at)))
        for v in range(at + _V, end, _V):
            a = load_lanes(tag, column + v)
            store_lanes(c + v, fnma(a, x, load_lanes(tag, c + v)))
            store_lanes(d + v, fnma(a, y, load_lanes(tag, d + v)))
    if count % 2:
        c = targets + (count - 1) * ld
        x, at = splat(tag, read(tag, c + row * size)), edge * size
        store_lanes(c + at, fnma(first, x, load_lanes(tag, c + at)))
        for v in range(at + _V, end, _V):
            store_lanes(c + v, fnma(load_lanes(tag, column + v), x, load_lanes(tag, c + v)))


@njit(cache=False, no_cpython_wrapper=True)
def _sub_panel(tag, x, ld, start, width, columns, rows, pivots, offset, small):
    """Factor columns start to start + width of the panel at x, whose rows are exchanged in all its columns. Returns the
    1-based number of the first column without a pivot, or 0."""
    size, info = constant(tag, "size"), 0
    for j in range(start, start + width):
        column = x + j * ld
        other = _largest(tag, column, j, rows, small)
        pivots[offset + j] = offset + other + 1
        if other != j:
            for k in range(columns):
                one, two = x + k * ld + j * size, x + k * ld + other * size
                a, b = read(tag, one), read(tag, two)
                write(tag, one, b)
                write(tag, two, a)
        pivot = read(tag, column + j * size)
        if pivot == 0.0:
            info = j + 1 if info == 0 else info
            continue
        edge = (j // constant(tag, "lanes") + 1) * constant(tag, "lanes")
        for i in range(j + 1, min(edge, rows)):
            write(tag, column + i * size, read(tag, column + i * size) / pivot)
        divisor = splat(tag, pivot)
        if abs(pivot) >= number(tag, "tiny") * 4.0 and abs(pivot) < 1.0 / (number(tag, "tiny") * 4.0):
            inverse = splat(tag, 1.0) / divisor
            for v in range(edge * size, rows * size, _V):
                store_lanes(column + v, load_lanes(tag, column + v) * inverse)
        else:
            for v in range(edge * size, rows * size, _V):
                store_lanes(column + v, load_lanes(tag, column + v) / divisor)
        _eliminate(tag, column, column + ld, ld, start + width - 1 - j, j, rows, small)
    return info


@njit(cache=False, no_cpython_wrapper=True)
def _top(tag, x, ld, start, width, target, small):
    """Solve with the unit lower triangle of a sub-panel for one column (`width` numbers, in one vector)."""
    size = constant(tag, "size")
    for j in range(width - 1):
        value = splat(tag, read(tag, target + (start + j) * size))
        at = target + start * size
        store_lanes(at, fnma(load_lanes(tag, small + j * _V), value, load_lanes(tag, at)))


@njit(cache=False, no_cpython_wrapper=True)
def _update_panel(tag, x, ld, start, width, columns, rows, small):
    """Apply a sub-panel to the columns of the panel right of it."""
    size, lanes = constant(tag, "size"), constant(tag, "lanes")
    for j in range(width):
        for lane in range(lanes):
            value = read(tag, x + (start + j) * ld + (start + lane) * size) if j < lane < width else 0.0
            write(tag, small + j * _V + lane * size, value)
    for j in range(start + width, columns, 4):
        c0 = x + j * ld
        c1, c2 = x + min(j + 1, columns - 1) * ld, x + min(j + 2, columns - 1) * ld
        c3 = x + min(j + 3, columns - 1) * ld
        last = min(4, columns - j)
        for d in range(last):
            _top(tag, x, ld, start, width, c0 + d * ld, small)
        for v in range((start + width) * size, rows * size, 2 * _V):
            w = v + _V
            p0, q0 = load_lanes(tag, c0 + v), load_lanes(tag, c0 + w)
            p1, q1 = load_lanes(tag, c1 + v), load_lanes(tag, c1 + w)
            p2, q2 = load_lanes(tag, c2 + v), load_lanes(tag, c2 + w)
            p3, q3 = load_lanes(tag, c3 + v), load_lanes(tag, c3 + w)
            for k in range(start, start + width):
                a, b, at = load_lanes(tag, x + k * ld + v), load_lanes(tag, x + k * ld + w), k * size
                u, t = splat(tag, read(tag, c0 + at)), splat(tag, read(tag, c1 + at))
                p0, q0, p1, q1 = fnma(a, u, p0), fnma(b, u, q0), fnma(a, t, p1), fnma(b, t, q1)
                u, t = splat(tag, read(tag, c2 + at)), splat(tag, read(tag, c3 + at))
                p2, q2, p3, q3 = fnma(a, u, p2), fnma(b, u, q2), fnma(a, t, p3), fnma(b, t, q3)
            store_lanes(c3 + v, p3)
            store_lanes(c3 + w, q3)
            store_lanes(c2 + v, p2)
            store_lanes(c2 + w, q2)
            store_lanes(c1 + v, p1)
            store_lanes(c1 + w, q1)
            store_lanes(c0 + v, p0)
            store_lanes(c0 + w, q0)


@njit(cache=False, no_cpython_wrapper=True)
def column_bytes(p, rows):
    """Bytes between columns in scratch memory: pairs of vectors, and no power of two, which would share cache sets."""
    return (rows * p.size + 2 * _V - 1) // (2 * _V) * 2 * _V + 3 * _V


@njit(cache=False, no_cpython_wrapper=True)
def load_panel(p, rows, columns, a, row, x, ld):
    """Copy a panel column-major to the scratch memory at x, zeros below."""
    copy_transposed(p.tag, rows, columns, a, row, x, ld)
    for j in range(columns):
        for at in range(rows * p.size, ld, p.size):
            write(p.tag, x + j * ld + at, 0.0)


@njit(cache=False, no_cpython_wrapper=True)
def _panel(p, rows, columns, a, row, pivots, offset):
    tag, lanes = p.tag, constant(p.tag, "lanes")
    small, ld, info = p.scratch, column_bytes(p, rows), 0
    x = p.scratch + 16 * _V
    load_panel(p, rows, columns, a, row, x, ld)
    for start in range(0, min(rows, columns), lanes):
        width = min(lanes, min(rows, columns) - start)
        failed = _sub_panel(tag, x, ld, start, width, columns, rows, pivots, offset, small)
        info = failed if info == 0 else info
        _update_panel(tag, x, ld, start, width, columns, rows, small)
    copy_transposed(tag, columns, rows, x, ld, a, row)
    return info


@njit
def lu(p, m, n, a, row, pivots):
    """Factor the m x n matrix at `a` in its place; the pivots, from 1, go to the int32 array. Returns info."""
    size, k, info = p.size, min(m, n), 0
    for first in range(0, k, BLOCK):
        count = min(BLOCK, k - first)
        done = first + count
        failed = _panel(p, m - first, count, a + first * (row + size), row, pivots, first)
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
    if n > k:
        exchange_rows(p.tag, p.pool, p.threads, pivots, 0, k, n - k, a + k * size, row)
        solve(p, k, n - k, a, row, size, True, True, False, a + k * size, row)
    return info


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


_ROWS = 16


@njit(cache=False, no_cpython_wrapper=True)
def _columns_task(task, worker, job):
    tag, size = job.tag, constant(job.tag, "size")
    line = job.scratch + worker * job.columns.size * size
    for i in range(task * _ROWS, min((task + 1) * _ROWS, job.rows)):
        at = job.a + i * job.row
        copy(tag, job.columns.size, at, line)
        for j in range(job.columns.size):
            write(tag, at + j * size, read(tag, line + job.columns[j] * size))


class _Columns(NamedTuple):
    """Put column columns[j] of each row in the place of column j."""

    tag: NamedTuple
    columns: object
    rows: int
    a: int
    row: int
    scratch: int
    run = _columns_task


@njit
def invert(p, n, a, row, pivots, columns, x, x_row, memory):
    """The inverse at x from the factors at `a`: X = U^-1 L^-1 P, where x holds a copy of U, and zeros.

    `columns` is an int64 array of n, `memory` has room for BLOCK * (n + BLOCK) numbers.
    """
    size = p.size
    invert_upper(p, n, x, x_row, memory)
    solve(p, n, n, a, row, size, True, True, True, x, x_row)
    for i in range(n):
        columns[i] = i
    for i in range(n - 1, -1, -1):
        other = pivots[i] - 1
        columns[i], columns[other] = columns[other], columns[i]
    job = _Columns(p.tag, columns, n, x, x_row, memory)
    launch(p.pool, min(p.threads, BLOCK), (n + _ROWS - 1) // _ROWS, job)
