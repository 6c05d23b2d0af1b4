"""One-sided Jacobi rotations for singular values of groups of small matrices (see `lanes.py`; Golub and Van Loan,
Matrix Computations, 2013, section 8.6.3; Demmel and Veselic, Jacobi's method is more accurate than QR, 1992).

The shorter side's rows or columns are rotated in pairs until all are orthogonal; their lengths are the singular values.
Those so short that squares of them would underflow count as null. Directions that are missing, those of null vectors
and those beyond for a full factor, are completed from the unit vectors that lie farthest from the others.
"""

from __future__ import annotations

from ..block.tags import constant
from ..runtime.jit import subroutine
from ..runtime.launch import job_class
from ..runtime.raw_memory import get, put
from .groups import Group, details
from .lanes import (
    VECTOR_BYTES,
    any_lane,
    exponent_part,
    fma,
    load_lanes,
    number,
    pack,
    read,
    root,
    select,
    splat,
    store_lanes,
    write,
)  # fmt: skip
from .small_factors import write_info
from .small_jacobi import SWEEPS, angle, identity, next_round, rotate_rows, sorted_order

VECTORS, FULL = 1, 2
"""Options of `Svd`, added: whether vectors are wanted, and square factors."""

_V = VECTOR_BYTES


def svd_vectors(m: int, n: int) -> int:
    """Vectors of workspace for a group of m x n matrices."""
    short = min(m, n) + min(m, n) % 2
    return short * max(m, n) + short * short + 2 * short + m * n


@subroutine
def _scale(tag, a, count):
    """Scale a group by the powers of two that bring the largest elements to between 1 and 2; returns the factors."""
    zero = splat(tag, 0.0)
    largest = zero
    for at in range(0, count * _V, _V):
        size = abs(load_lanes(tag, a + at))
        largest = select(size > largest, size, select(size == size, largest, size))
    power = exponent_part(largest)
    factor = select(power == zero, splat(tag, number(tag, "big_power")), splat(tag, 1.0) / power)
    for at in range(0, count * _V, _V):
        store_lanes(a + at, load_lanes(tag, a + at) * factor)
    return factor


@subroutine
def _svd_pair(tag, m, at_p, at_q, v_p, v_q, columns, active, limit, least):
    """Make two rows orthogonal; returns where there was something to do."""
    p, q, product = splat(tag, 0.0), splat(tag, 0.0), splat(tag, 0.0)
    for k in range(0, m * _V, _V):
        x, y = load_lanes(tag, at_p + k), load_lanes(tag, at_q + k)
        p, q, product = fma(x, x, p), fma(y, y, q), fma(x, y, product)
    rotate = active & (abs(product) > limit * root(p) * root(q)) & (p > least) & (q > least)
    if any_lane(rotate):
        sine, half, _ = angle(tag, p, q, product, rotate)
        rotate_rows(tag, sine, half, at_p, at_q, m)
        rotate_rows(tag, sine, half, v_p, v_q, columns)
    return rotate


@subroutine
def _svd(tag, m, n, g, v, columns, players, least):
    """Make n (even) rows of m elements orthogonal; returns which matrices did not converge, as numbers, and sweeps."""
    zero = splat(tag, 0.0)
    limit, sweeps, active = splat(tag, number(tag, "eps") * max(1.0, 0.5 * m**0.5)), 0, zero == zero
    for i in range(n):
        put(players, i, i)
    while True:
        moved = active & (zero > zero)
        for _ in range(n - 1):
            for pair in range(n // 2):
                i, j = get(players, pair), get(players, n - 1 - pair)
                p, q = min(i, j), max(i, j)
                at_p, at_q, v_p, v_q = g + p * m * _V, g + q * m * _V, v + p * columns * _V, v + q * columns * _V
                moved = moved | _svd_pair(tag, m, at_p, at_q, v_p, v_q, columns, active, limit, least)
            next_round(players, n)
        active, sweeps = active & moved, sweeps + 1
        if sweeps == SWEEPS or not any_lane(active):
            return select(active, splat(tag, float(n)), zero), sweeps


@subroutine
def _normalise(tag, m, n, g, norms, least):
    """Rows to length 1, those that count as null to 0; their lengths to `norms`. NaN stays."""
    zero = splat(tag, 0.0)
    for i in range(n):
        total = zero
        for at in range(g + i * m * _V, g + (i + 1) * m * _V, _V):
            x = load_lanes(tag, at)
            total = fma(x, x, total)
        store_lanes(norms + i * _V, root(total))
        factor = select(total <= least, zero, splat(tag, 1.0) / root(total))
        for at in range(g + i * m * _V, g + (i + 1) * m * _V, _V):
            store_lanes(at, load_lanes(tag, at) * factor)


@subroutine
def _farthest(tag, base, step, along, length, done):
    """The unit vector that lies farthest from the span of `done` orthonormal vectors (0 for those still missing)."""
    best, place = -1.0, 0
    for k in range(length):
        left = 1.0
        for i in range(done):
            x = read(tag, base + i * step + k * along)
            left -= x * x
        if left > best:
            best, place = left, k
    return place


@subroutine
def _complete(tag, base, step, along, length, count, missing):
    """Fill vector `missing` of `count` orthonormal ones of a length; missing ones are 0; vectors are `step` bytes
    apart, their elements `along`. Twice is enough (Kahan; Parlett, The Symmetric Eigenvalue Problem)."""
    to = base + missing * step
    write(tag, to + _farthest(tag, base, step, along, length, count) * along, 1.0)
    for _ in range(2):
        for i in range(count):
            if i == missing:
                continue
            product = 0.0
            for k in range(length):
                product += read(tag, base + i * step + k * along) * read(tag, to + k * along)
            for k in range(length):
                x = read(tag, to + k * along)
                write(tag, to + k * along, x - product * read(tag, base + i * step + k * along))
        total = 0.0
        for k in range(length):
            total += read(tag, to + k * along) ** 2
        for k in range(length):
            write(tag, to + k * along, read(tag, to + k * along) / total**0.5)


@subroutine
def _unpack_vectors(tag, source, lane, length, count, order, base, step, along):
    """Rows of a group to the vectors of one matrix, in their order; zeros are positive. Returns whether all are there:
    a row of zeros is one that is missing."""
    size, whole = constant(tag, "size"), True
    for j in range(count):
        at, to, empty = source + get(order, j) * length * _V + lane * size, base + j * step, True
        for k in range(length):
            x = read(tag, at + k * _V)
            empty = empty and x == 0.0
            write(tag, to + k * along, x + 0.0)
        whole = whole and not empty
    return whole


@subroutine
def _fill(tag, base, step, along, length, have, count):
    """Complete the vectors that are zero among the first `have`, and all beyond."""
    for j in range(have, count):
        for k in range(length):
            write(tag, base + j * step + k * along, 0.0)
    for j in range(count):
        empty = True
        for k in range(length):
            empty = empty and read(tag, base + j * step + k * along) == 0.0
        if empty:
            _complete(tag, base, step, along, length, count, j)


@subroutine
def _unpack_svd(job, first, last, g, v, norms, order):
    """Values in descending order, and vectors, of each matrix of the group."""
    tag, m, n, size = job.tag, job.m, job.n, constant(job.tag, "size")
    long, short = max(m, n), min(m, n)
    even, rows = short + short % 2, (long if job.options & FULL else short)
    for lane in range(last + 1):
        index = first + lane
        sorted_order(tag, norms + lane * size, _V, short, order, True)
        for j in range(short):
            value = read(tag, norms + get(order, j) * _V + lane * size)
            write(tag, job.x + (index * short + j) * size, value)
        if not job.options & VECTORS:
            continue
        if m >= n:  # rows of g are columns of U, rows of v are rows of Vh
            U, Vh = job.y + index * m * rows * size, job.z + index * n * n * size
            g_at, g_step, g_along, v_at, v_step, v_along = U, size, rows * size, Vh, n * size, size
        else:
            U, Vh = job.y + index * m * m * size, job.z + index * rows * n * size
            g_at, g_step, g_along, v_at, v_step, v_along = Vh, n * size, size, U, size, m * size
        whole = _unpack_vectors(tag, g, lane, long, short, order, g_at, g_step, g_along)
        _unpack_rows_of_v(tag, v, lane, even, short, order, v_at, v_step, v_along)
        if not whole or rows > short:
            _fill(tag, g_at, g_step, g_along, long, short, rows)


@subroutine
def _unpack_rows_of_v(tag, v, lane, columns, count, order, base, step, along):
    size = constant(tag, "size")
    for j in range(count):
        at = v + get(order, j) * columns * _V + lane * size
        for k in range(count):
            write(tag, base + j * step + k * along, read(tag, at + k * _V) + 0.0)


@subroutine
def _arrange(tag, m, n, source, g, even):
    """The columns, or for a wide matrix the rows, as rows of g; a row of zeros for an odd number of them."""
    long, short = max(m, n), min(m, n)
    for j in range(even):
        for i in range(long):
            x = splat(tag, 0.0)
            if j < short:
                x = load_lanes(tag, source + (i * n + j if m >= n else j * n + i) * _V)
            store_lanes(g + (j * long + i) * _V, x)


@subroutine
def _svd_task(task, worker, group):
    job = details(group)
    tag, m, n, lanes, size = job.tag, job.m, job.n, constant(job.tag, "lanes"), constant(job.tag, "size")
    long, short = max(m, n), min(m, n)
    even = short + short % 2
    columns = even if job.options & VECTORS else 0
    g = job.workspace + worker * job.workspace_bytes
    v = g + even * long * _V
    norms = v + even * even * _V
    players, source = norms + even * _V, norms + 2 * even * _V
    least = splat(tag, number(tag, "tiny") / number(tag, "eps") ** 2)
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * m * n * size, last, m * n, source)
        factor = _scale(tag, source, m * n)
        _arrange(tag, m, n, source, g, even)
        identity(tag, columns, v)
        info, sweeps = _svd(tag, long, even, g, v, columns, players, least)
        _normalise(tag, long, short, g, norms, least)
        unscale = splat(tag, 1.0) / factor
        for at in range(norms, norms + short * _V, _V):
            x = load_lanes(tag, at)
            info = select(x == x, info, splat(tag, float(short)))
            store_lanes(at, x * unscale)
        write_info(tag, job.info, first, last, info, source)
        _unpack_svd(job, first, last, g, v, norms, players)
        put(job.b, first // lanes, sweeps)


Svd = job_class("Svd", Group._fields, _svd_task)
"""a to S (x), U (y), Vh (z), sweeps of each group (b, int64) and info; m x n; workspace `svd_vectors`."""
