"""Householder's QR factorisation of groups of small matrices (see `lanes.py`): LAPACK's geqr2 and org2r (Golub and Van
Loan, Matrix Computations, 2013, section 5.2), with the same signs. Lengths of columns are sums of squares of columns
scaled by a power of two, so that none overflows and none vanishes."""

from __future__ import annotations

from ..block.tags import constant
from ..runtime.jit import subroutine
from ..runtime.launch import job_class
from .groups import Group, details
from .lanes import (
    VECTOR_BYTES,
    exponent_part,
    fma,
    fnma,
    load_lanes,
    number,
    pack,
    root,
    select,
    splat,
    store_lanes,
    unpack,
)  # fmt: skip

_V = VECTOR_BYTES


def qr_vectors(m: int, n: int) -> int:
    """Vectors of workspace for a group of m x n matrices."""
    return m * n + m * max(m, n) + min(m, n)


@subroutine
def _reflector(tag, m, top, row):
    """The reflection that leaves of a column, `row` bytes apart from `top` on, only its first element: the others are
    replaced by the reflector, whose first element is 1. Returns the factor tau and the first element."""
    zero, one = splat(tag, 0.0), splat(tag, 1.0)
    alpha = load_lanes(tag, top)
    largest = abs(alpha)
    for at in range(top + row, top + m * row, row):
        size = abs(load_lanes(tag, at))
        largest = select(size <= largest, largest, size)  # and NaN where there is one
    power = exponent_part(largest)
    factor = select(power == zero, splat(tag, number(tag, "big_power")), one / power)
    total = zero
    for at in range(top + row, top + m * row, row):
        x = load_lanes(tag, at) * factor
        total = fma(x, x, total)
    nothing, first = total == zero, alpha * factor
    length = root(fma(first, first, total))
    beta = select(first > zero, zero - length, length)
    tau = select(nothing, zero, (beta - first) / beta)
    scale = select(nothing, zero, one / (first - beta))
    for at in range(top + row, top + m * row, row):
        store_lanes(at, load_lanes(tag, at) * factor * scale)  # whose product may overflow
    return tau, select(nothing, alpha, beta / factor)


@subroutine
def _reflect(tag, m, columns, v, row, a, a_row, tau):
    """Apply a reflection to columns of a, four at a time; the first element of v is 1 and not read."""
    for c in range(0, columns, 4):
        c0, c1 = a + c * _V, a + min(c + 1, columns - 1) * _V
        c2, c3 = a + min(c + 2, columns - 1) * _V, a + min(c + 3, columns - 1) * _V
        s0, s1, s2, s3 = load_lanes(tag, c0), load_lanes(tag, c1), load_lanes(tag, c2), load_lanes(tag, c3)
        for i in range(1, m):
            x, at = load_lanes(tag, v + i * row), i * a_row
            s0, s1 = fma(x, load_lanes(tag, c0 + at), s0), fma(x, load_lanes(tag, c1 + at), s1)
            s2, s3 = fma(x, load_lanes(tag, c2 + at), s2), fma(x, load_lanes(tag, c3 + at), s3)
        s0, s1, s2, s3 = s0 * tau, s1 * tau, s2 * tau, s3 * tau
        for i in range(m):
            x, at = splat(tag, 1.0), i * a_row
            if i > 0:
                x = load_lanes(tag, v + i * row)
            y0, y1 = fnma(x, s0, load_lanes(tag, c0 + at)), fnma(x, s1, load_lanes(tag, c1 + at))
            y2, y3 = fnma(x, s2, load_lanes(tag, c2 + at)), fnma(x, s3, load_lanes(tag, c3 + at))
            store_lanes(c3 + at, y3)
            store_lanes(c2 + at, y2)
            store_lanes(c1 + at, y1)
            store_lanes(c0 + at, y0)


@subroutine
def _factor(tag, m, n, a, taus):
    row = n * _V
    for j in range(min(m, n)):
        at = a + j * (row + _V)
        tau, first = _reflector(tag, m - j, at, row)
        store_lanes(taus + j * _V, tau)
        store_lanes(at, first)
        if j + 1 < n:
            _reflect(tag, m - j, n - j - 1, at, row, at + _V, row, tau)


@subroutine
def _form(tag, m, n, k, a, taus, q):
    """The first k columns of the product of the reflections, to rows of k vectors."""
    for i in range(m):
        for j in range(k):
            store_lanes(q + (i * k + j) * _V, splat(tag, 1.0 if i == j else 0.0))
    for j in range(min(m, n) - 1, -1, -1):
        at, tau = a + j * (n + 1) * _V, load_lanes(tag, taus + j * _V)
        _reflect(tag, m - j, k - j, at, n * _V, q + j * (k + 1) * _V, k * _V, tau)


@subroutine
def _qr_task(task, worker, group):
    job = details(group)
    tag, m, n, k, lanes, size = job.tag, job.m, job.n, job.k, constant(job.tag, "lanes"), constant(job.tag, "size")
    a = job.workspace + worker * job.workspace_bytes
    q, taus = a + m * n * _V, a + m * (n + max(m, n)) * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * m * n * size, last, m * n, a)
        _factor(tag, m, n, a, taus)
        if job.z != 0:
            unpack(tag, a, m * n, job.y + first * m * n * size, last)
            unpack(tag, taus, min(m, n), job.z + first * min(m, n) * size, last)
            continue
        if job.x != 0:
            _form(tag, m, n, k, a, taus, q)
            unpack(tag, q, m * k, job.x + first * m * k * size, last)
        for i in range(1, k):
            for j in range(min(i, n)):
                store_lanes(a + (i * n + j) * _V, splat(tag, 0.0))
        unpack(tag, a, k * n, job.y + first * k * n * size, last)


Qr = job_class("Qr", Group._fields, _qr_task)
"""a (m x n) to Q (x, m x k, or 0) and R (y, k x n), or, where z is not 0, to reflectors (y) and factors (z);
workspace `qr_vectors`."""
