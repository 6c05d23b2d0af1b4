"""Jacobi's method for eigenvalues of groups of small matrices (see `lanes.py`; Golub and Van Loan, Matrix Computations,
2013, section 8.5).

A sweep is n - 1 rounds of n / 2 rotations of disjoint pairs, in the order of a round-robin tournament (Brent and Luk,
1985), whose angles are all computed before any is used: their divisions and roots overlap (each takes as long as some
twenty products). A matrix of odd order plays with a row of zeros more, which is never rotated. A matrix that has
converged is rotated by nothing from then on, however long the others of its group take.
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
    fnma,
    load_lanes,
    number,
    pack,
    read,
    root,
    select,
    splat,
    store_lanes,
    unpack,
    write,
)  # fmt: skip
from .small_factors import write_info

SWEEPS = 40
"""Sweeps after which a matrix counts as not converged; 5 to 9 are usual."""

_V = VECTOR_BYTES


def eigh_vectors(n: int) -> int:
    """Vectors of workspace for a group of matrices of order n."""
    n += n % 2
    return n * (n + 1) + n * n + 2 * n + 2


@subroutine
def next_round(players, n):
    """All players but the first move on by one place."""
    last = get(players, n - 1)
    for i in range(n - 1, 1, -1):
        put(players, i, get(players, i - 1))
    put(players, 1, last)


@subroutine
def rotate_rows(tag, sine, half, at_p, at_q, count):
    """Rotate two rows of `count` vectors, by the sine of the angle and the tangent of half of it: by Rutishauser's
    formulas, whose rounding errors are in proportion to the sine, rows keep their length. (By cosine and sine, vectors
    of order 32 are 500 units of rounding from orthogonal when all is done, for the same number of operations.)"""
    for k in range(0, count * _V, _V):
        x, y = load_lanes(tag, at_p + k), load_lanes(tag, at_q + k)
        store_lanes(at_p + k, fnma(sine, fma(half, x, y), x))
        store_lanes(at_q + k, fma(sine, fnma(half, y, x), y))


@subroutine
def angle(tag, p, q, product, rotate):
    """Sine, tangent of the half, and tangent of the smaller angle that makes ((p, product), (product, q)) diagonal;
    0 where there is nothing to rotate."""
    zero, one = splat(tag, 0.0), splat(tag, 1.0)
    tau = (q - p) / (product + product)
    tangent = one / (abs(tau) + root(fma(tau, tau, one)))
    tangent = select(rotate, select(tau < zero, zero - tangent, tangent), zero)
    secant = root(fma(tangent, tangent, one))
    part = tangent / fma(secant, secant, secant)  # one division for two quotients
    return part * (one + secant), part * secant, tangent


@subroutine
def _off_diagonal(tag, n, a, row):
    """Sums of squares: below the diagonal, and of the whole symmetric matrix."""
    off, diagonal = splat(tag, 0.0), splat(tag, 0.0)
    for i in range(n):
        x = load_lanes(tag, a + i * (row + _V))
        diagonal = fma(x, x, diagonal)
        for at in range(a + i * row, a + i * row + i * _V, _V):
            y = load_lanes(tag, at)
            off = fma(y, y, off)
    return off, off + off + diagonal


@subroutine
def _block(tag, a, row, p, q, r, s, left, right):
    """The four elements where two pairs meet, rotated from both sides."""
    pr, ps = a + max(p, r) * row + min(p, r) * _V, a + max(p, s) * row + min(p, s) * _V
    qr, qs = a + max(q, r) * row + min(q, r) * _V, a + max(q, s) * row + min(q, s) * _V
    c, d = load_lanes(tag, left), load_lanes(tag, left + _V)
    e, f = load_lanes(tag, right), load_lanes(tag, right + _V)
    x, y, z, w = load_lanes(tag, pr), load_lanes(tag, ps), load_lanes(tag, qr), load_lanes(tag, qs)
    x, z = fnma(c, fma(d, x, z), x), fma(c, fnma(d, z, x), z)
    y, w = fnma(c, fma(d, y, w), y), fma(c, fnma(d, w, y), w)
    store_lanes(pr, fnma(e, fma(f, x, y), x))
    store_lanes(ps, fma(e, fnma(f, y, x), y))
    store_lanes(qr, fnma(e, fma(f, z, w), z))
    store_lanes(qs, fma(e, fnma(f, w, z), w))


@subroutine
def _eigh_angles(tag, n, a, row, angles, players, flags, active, least, relative):
    """The angles of a round, used on the pairs themselves; whether any matrix has one to `flags`. Elements up to
    `least` are left alone and, where `relative` is not 0, those up to so much of what their pair allows. Returns which
    matrices were rotated."""
    moved = active & (least < least)
    for pair in range(n // 2):
        i, j = get(players, pair), get(players, n - 1 - pair)
        p, q = min(i, j), max(i, j)
        at_p, at_q, at = a + p * (row + _V), a + q * (row + _V), a + q * row + p * _V
        product = load_lanes(tag, at)
        rotate = active & (abs(product) > least)
        if relative > 0.0:
            limit = splat(tag, relative) * root(load_lanes(tag, at_p)) * root(load_lanes(tag, at_q))
            rotate = rotate & (abs(product) > limit)
        moved = moved | rotate
        put(flags, pair, any_lane(rotate))
        if get(flags, pair):
            x, y = load_lanes(tag, at_p), load_lanes(tag, at_q)
            sine, half, tangent = angle(tag, x, y, product, rotate)
            store_lanes(at_p, fnma(tangent, product, x))
            store_lanes(at_q, fma(tangent, product, y))
            store_lanes(at, select(rotate, splat(tag, 0.0), product))
            store_lanes(angles + 2 * pair * _V, sine)
            store_lanes(angles + (2 * pair + 1) * _V, half)
        else:
            store_lanes(angles + 2 * pair * _V, splat(tag, 0.0))
            store_lanes(angles + (2 * pair + 1) * _V, splat(tag, 0.0))
    return moved


@subroutine
def _eigh_round(tag, n, a, row, v, columns, angles, players, flags):
    """Use the angles of a round on all else. `v` holds the vectors found so far, as rows of so many columns."""
    for pair in range(n // 2):
        i, j = get(players, pair), get(players, n - 1 - pair)
        p, q, left, turns = min(i, j), max(i, j), angles + 2 * pair * _V, get(flags, pair)
        for other in range(pair):
            if turns or get(flags, other):
                i, j = get(players, other), get(players, n - 1 - other)
                _block(tag, a, row, p, q, min(i, j), max(i, j), left, angles + 2 * other * _V)
        if turns:
            sine, half = load_lanes(tag, left), load_lanes(tag, left + _V)
            rotate_rows(tag, sine, half, v + p * columns * _V, v + q * columns * _V, columns)


@subroutine
def _eigh(tag, n, a, row, v, columns, angles, players, flags):
    """Diagonalise in place the lower triangle of n (even) rows of `row` bytes. Returns which did not converge, as
    numbers, and how many sweeps it took.

    It ends when what is off the diagonal is eps of the whole. Elements below eps / (2 n) of it are not rotated: all
    together, they are less than half of what may be left.
    """
    eps, sweeps = splat(tag, number(tag, "eps")), 0
    for i in range(n):
        put(players, i, i)
    while True:
        off, total = _off_diagonal(tag, n, a, row)
        active = off > eps * eps * total
        if sweeps == SWEEPS or not any_lane(active):
            converged = off <= eps * eps * total  # which NaN is not
            return select(converged, splat(tag, 0.0), splat(tag, float(n))), sweeps
        least = root(total) * splat(tag, number(tag, "eps") / (2.0 * n))
        for _ in range(n - 1):
            _eigh_angles(tag, n, a, row, angles, players, flags, active, least, 0.0)
            _eigh_round(tag, n, a, row, v, columns, angles, players, flags)
            next_round(players, n)
        sweeps += 1


@subroutine
def sorted_order(tag, values, step, n, order, descending):
    """The order of n numbers, as int64 at the address `order`; of equal ones the first comes first."""
    for i in range(n):
        value, place = read(tag, values + i * step), i
        while place > 0:
            before = read(tag, values + get(order, place - 1) * step)
            if not (before < value if descending else value < before):
                break
            put(order, place, get(order, place - 1))
            place -= 1
        put(order, place, i)


@subroutine
def _unpack_eigh(tag, n, a, row, v, columns, order, last, values, vectors):
    """Eigenvalues and vectors of each matrix, in ascending order; zeros are positive, whatever rotations left."""
    size = constant(tag, "size")
    for lane in range(last + 1):
        own = a + lane * size
        sorted_order(tag, own, row + _V, n, order, False)
        for i in range(n):
            at = get(order, i)
            write(tag, values + (lane * n + i) * size, read(tag, own + at * (row + _V)))
            if columns > 0:
                source, to = v + at * columns * _V + lane * size, vectors + (lane * n * n + i) * size
                for k in range(n):
                    write(tag, to + k * n * size, read(tag, source + k * _V) + 0.0)


@subroutine
def _spread(tag, n, source, a, row, even, upper, factor):
    """The lower triangle, or the upper one as such, scaled, to rows of `row` bytes; zeros for a row beyond."""
    for i in range(even):
        for j in range(i + 1):
            x = splat(tag, 0.0)
            if i < n:
                at = j * n + i if upper else i * n + j
                x = load_lanes(tag, source + at * _V) * factor
            store_lanes(a + i * row + j * _V, x)


@subroutine
def _triangle_factor(tag, n, source, upper):
    """The power of two that brings the largest element of a triangle to between 1 and 2."""
    zero = splat(tag, 0.0)
    largest = zero
    for i in range(n):
        for j in range(i + 1):
            size = abs(load_lanes(tag, source + (j * n + i if upper else i * n + j) * _V))
            largest = select(size > largest, size, select(size == size, largest, size))
    power = exponent_part(largest)
    return select(power == zero, splat(tag, number(tag, "big_power")), splat(tag, 1.0) / power)


@subroutine
def identity(tag, n, v):
    for at in range(0, n * n * _V, _V):
        store_lanes(v + at, splat(tag, 0.0))
    for i in range(n):
        store_lanes(v + i * (n + 1) * _V, splat(tag, 1.0))


@subroutine
def _eigh_task(task, worker, group):
    job = details(group)
    tag, n, lanes, size = job.tag, job.n, constant(job.tag, "lanes"), constant(job.tag, "size")
    even = n + n % 2
    row, columns = (even + 1) * _V, even if job.y != 0 else 0
    a = job.workspace + worker * job.workspace_bytes
    v = a + even * row
    angles = v + even * even * _V
    players, flags = angles + even * _V, angles + 2 * even * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * n * n * size, last, n * n, v)
        factor = _triangle_factor(tag, n, v, job.options == 1)
        _spread(tag, n, v, a, row, even, job.options == 1, factor)
        identity(tag, columns, v)
        info, sweeps = _eigh(tag, even, a, row, v, columns, angles, players, flags)
        unscale = splat(tag, 1.0) / factor
        for i in range(n):
            at = a + i * (row + _V)
            store_lanes(at, load_lanes(tag, at) * unscale + splat(tag, 0.0))
        write_info(tag, job.info, first, last, info, flags)
        values, vectors = job.x + first * n * size, job.y + first * n * n * size
        _unpack_eigh(tag, n, a, row, v, columns, players, last, values, vectors)
        put(job.z, first // lanes, sweeps)


Eigh = job_class("Eigh", Group._fields, _eigh_task)
"""a to w (x), V (y, or 0), sweeps of each group (z, int64) and info; n x n, of the upper triangle if options is 1;
workspace `eigh_vectors`."""


@subroutine
def _eigh_block(tag, n, a, row, v, angles, players, flags, least, relative, sweeps):
    """At most so many sweeps, of elements that are more than `least` and, where that is not 0, `relative` to their
    pair. Returns which matrices were rotated at all, as numbers."""
    active, rotated = least == least, least < least
    for i in range(n):
        put(players, i, i)
    for _ in range(sweeps):
        moved = least < least
        for _ in range(n - 1):
            moved = moved | _eigh_angles(tag, n, a, row, angles, players, flags, active, least, relative)
            _eigh_round(tag, n, a, row, v, n, angles, players, flags)
            next_round(players, n)
        active, rotated = active & moved, rotated | moved
        if not any_lane(active):
            break
    return select(rotated, splat(tag, 1.0), splat(tag, 0.0))


@subroutine
def _block_task(task, worker, group):
    job = details(group)
    tag, n, lanes, size = job.tag, job.n, constant(job.tag, "lanes"), constant(job.tag, "size")
    row = (n + 1) * _V
    a = job.workspace + worker * job.workspace_bytes
    v = a + n * row
    angles = v + n * n * _V
    players, flags = angles + n * _V, angles + 2 * n * _V
    least, relative = splat(tag, read(tag, job.b)), read(tag, job.b + size)
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last, place = min(lanes, job.count - first) - 1, first * n * n * size
        pack(tag, job.a + place, last, n * n, v)
        _spread(tag, n, v, a, row, n, False, splat(tag, 1.0))
        identity(tag, n, v)
        rotated = _eigh_block(tag, n, a, row, v, angles, players, flags, least, relative, job.options)
        write_info(tag, job.info, first, last, rotated, flags)
        unpack(tag, v, n * n, job.y + place, last)
        for i in range(n):
            for j in range(n):
                store_lanes(v + (i * n + j) * _V, load_lanes(tag, a + max(i, j) * row + min(i, j) * _V))
        unpack(tag, v, n * n, job.x + place, last)


EighBlock = job_class("EighBlock", Group._fields, _block_task)
"""Some rotations of symmetric a, n x n with n even: what is left to x, the product of the rotations, transposed, to
y, and to info whether there were any. b: the least element that is rotated, and the same relative to the diagonal;
options: the most sweeps; workspace `eigh_vectors`."""
