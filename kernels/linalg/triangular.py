"""Triangular systems and inverses of large matrices: blocks of 64 by substitution, the rest is products.

Blocks are taken in the order of a binary counter: when block q is done and 2**s is the largest power of two that
divides q, the next 2**s blocks are updated by the last 2**s ones. That is recursion by halves without recursive calls,
so that most products are deep (E. Elmroth, F. Gustavson, I. Jonsson, B. Kagstrom, "Recursive blocked algorithms and
hybrid data structures for dense matrix library software", SIAM Review 46, 2004).
"""

from __future__ import annotations

from ..block.tags import constant
from ..block.transpose import copy_transposed
from ..runtime.jit import njit, subroutine
from ..runtime.launch import launch, task
from .lanes import VECTOR_BYTES, fnma, load_lanes, number, read, splat, store_lanes, write
from .squares import copy, load_any, store_any
from .updates import BLOCK, subtract

_V = VECTOR_BYTES
_PLANES = 2


_DIVIDE, _MULTIPLY, _UNIT = 0, 1, 2


@subroutine
def _invert_diagonal(tag, n, t):
    """Replace the diagonal of a block by its reciprocals, and return _MULTIPLY; where a reciprocal would overflow or
    lose digits leave it, and return _DIVIDE."""
    size, least = constant(tag, "size"), number(tag, "tiny") * 4.0
    for i in range(n):
        magnitude = abs(read(tag, t + i * (BLOCK + 1) * size))
        if not least <= magnitude <= 1.0 / least:
            return _DIVIDE
    for i in range(n):
        at = t + i * (BLOCK + 1) * size
        write(tag, at, 1.0 / read(tag, at))
    return _MULTIPLY


@subroutine
def _solve_pivoted(tag, a, b, at, diagonal):
    """Two vectors over what is at the diagonal."""
    d = splat(tag, read(tag, at))
    if diagonal == _MULTIPLY:
        return a * d, b * d
    return a / d, b / d


@subroutine
def _substitute(tag, n, t, diagonal, x):
    """Solve T X = X for two planes of one vector for each row; t: lower, rows of BLOCK numbers."""
    size = constant(tag, "size")
    row, y = BLOCK * size, x + BLOCK * _V
    for i in range(0, n, 4):
        r0, r1, r2, r3 = t + i * row, t + (i + 1) * row, t + (i + 2) * row, t + (i + 3) * row
        at, other = x + i * _V, y + i * _V
        a0, a1 = load_lanes(tag, at), load_lanes(tag, at + _V)
        a2, a3 = load_lanes(tag, at + 2 * _V), load_lanes(tag, at + 3 * _V)
        b0, b1 = load_lanes(tag, other), load_lanes(tag, other + _V)
        b2, b3 = load_lanes(tag, other + 2 * _V), load_lanes(tag, other + 3 * _V)
        for k in range(i):
            u, v, to = load_lanes(tag, x + k * _V), load_lanes(tag, y + k * _V), k * size
            f0, f1 = splat(tag, read(tag, r0 + to)), splat(tag, read(tag, r1 + to))
            f2, f3 = splat(tag, read(tag, r2 + to)), splat(tag, read(tag, r3 + to))
            a0, b0, a1, b1 = fnma(u, f0, a0), fnma(v, f0, b0), fnma(u, f1, a1), fnma(v, f1, b1)
            a2, b2, a3, b3 = fnma(u, f2, a2), fnma(v, f2, b2), fnma(u, f3, a3), fnma(v, f3, b3)
        to = i * size
        if diagonal != _UNIT:
            a0, b0 = _solve_pivoted(tag, a0, b0, r0 + to, diagonal)
        f = splat(tag, read(tag, r1 + to))
        a1, b1 = fnma(a0, f, a1), fnma(b0, f, b1)
        if diagonal != _UNIT:
            a1, b1 = _solve_pivoted(tag, a1, b1, r1 + to + size, diagonal)
        f, g = splat(tag, read(tag, r2 + to)), splat(tag, read(tag, r2 + to + size))
        a2, b2 = fnma(a1, g, fnma(a0, f, a2)), fnma(b1, g, fnma(b0, f, b2))
        if diagonal != _UNIT:
            a2, b2 = _solve_pivoted(tag, a2, b2, r2 + to + 2 * size, diagonal)
        f, g = splat(tag, read(tag, r3 + to)), splat(tag, read(tag, r3 + to + size))
        a3, b3 = fnma(a1, g, fnma(a0, f, a3)), fnma(b1, g, fnma(b0, f, b3))
        f = splat(tag, read(tag, r3 + to + 2 * size))
        a3, b3 = fnma(a2, f, a3), fnma(b2, f, b3)
        if diagonal != _UNIT:
            a3, b3 = _solve_pivoted(tag, a3, b3, r3 + to + 3 * size, diagonal)
        store_lanes(at, a0)
        store_lanes(at + _V, a1)
        store_lanes(at + 2 * _V, a2)
        store_lanes(at + 3 * _V, a3)
        store_lanes(other, b0)
        store_lanes(other + _V, b1)
        store_lanes(other + 2 * _V, b2)
        store_lanes(other + 3 * _V, b3)


@subroutine
def _read_plane(tag, n, width, at, i_stride, c_stride, x):
    size, lanes = constant(tag, "size"), constant(tag, "lanes")
    if c_stride == size and width == lanes:
        for i in range(n):
            store_lanes(x + i * _V, load_any(tag, at + i * i_stride))
    elif c_stride != size and i_stride == size:
        copy_transposed(tag, width, n, at, c_stride, x, _V)
    elif c_stride != size:  # rows in reverse
        copy_transposed(tag, width, n, at - (n - 1) * size, c_stride, x + (n - 1) * _V, -_V)
    else:
        for i in range(n):
            for c in range(width):
                write(tag, x + i * _V + c * size, read(tag, at + i * i_stride + c * c_stride))


@subroutine
def _write_plane(tag, n, width, at, i_stride, c_stride, x):
    size, lanes = constant(tag, "size"), constant(tag, "lanes")
    if c_stride == size and width == lanes:
        for i in range(n):
            store_any(at + i * i_stride, load_lanes(tag, x + i * _V))
    elif c_stride != size and i_stride == size:
        copy_transposed(tag, n, width, x, _V, at, c_stride)
    elif c_stride != size:
        copy_transposed(tag, n, width, x + (n - 1) * _V, -_V, at - (n - 1) * size, c_stride)
    else:
        for i in range(n):
            for c in range(width):
                write(tag, at + i * i_stride + c * c_stride, read(tag, x + i * _V + c * size))


@task("tag n width diagonal t y i_stride c_stride scratch")
def _strip_task(task, worker, job):
    """Two vectors' worth of right sides."""
    tag, lanes = job.tag, constant(job.tag, "lanes")
    x = job.scratch + worker * _PLANES * BLOCK * _V
    zero = splat(tag, 0.0)
    for i in range(_PLANES * BLOCK):
        store_lanes(x + i * _V, zero)
    for plane in range(_PLANES):
        first = (task * _PLANES + plane) * lanes
        if first < job.width:
            at = job.y + first * job.c_stride
            _read_plane(
                tag, job.n, min(lanes, job.width - first), at, job.i_stride, job.c_stride, x + plane * BLOCK * _V
            )
    _substitute(tag, job.n, job.t, job.diagonal, x)
    for plane in range(_PLANES):
        first = (task * _PLANES + plane) * lanes
        if first < job.width:
            at = job.y + first * job.c_stride
            _write_plane(
                tag, job.n, min(lanes, job.width - first), at, job.i_stride, job.c_stride, x + plane * BLOCK * _V
            )


@subroutine
def load_block(tag, n, s, s_row, s_column, unit, t):
    """Copy a diagonal block, at most BLOCK x BLOCK, to `t`; nothing right of the diagonal is read. Returns what the
    diagonal is there."""
    size = constant(tag, "size")
    if s_row == size:
        copy_transposed(tag, n, n, s, s_column, t, BLOCK * size)
    else:
        for i in range(n):
            if s_column == size:
                copy(tag, i + 1, s + i * s_row, t + i * BLOCK * size)
            else:
                for j in range(i + 1):
                    write(tag, t + (i * BLOCK + j) * size, read(tag, s + i * s_row + j * s_column))
    for i in range(n, (n + 3) // 4 * 4):  # rows of the identity
        for j in range(i + 1):
            write(tag, t + (i * BLOCK + j) * size, 1.0 if i == j else 0.0)
    return _UNIT if unit else _invert_diagonal(tag, n, t)


@subroutine
def solve_block(p, n, width, t, diagonal, y, i_stride, c_stride):
    """Solve with a block from `load_block`."""
    tag = p.tag
    strips = (width + _PLANES * constant(tag, "lanes") - 1) // (_PLANES * constant(tag, "lanes"))
    threads = p.threads if n * n * width > 200000 else 1
    job = _strip_task(tag, n, width, diagonal, t, y, i_stride, c_stride, p.scratch + BLOCK * BLOCK * 8)
    launch(p.pool, threads, strips, job)


@subroutine
def solve(p, n, width, t, t_row, t_column, lower, unit, right, b, b_row):
    """Solve T X = B, or X T = B from the right, in the place of B, whose rows have `width` (from the right: n) numbers.

    T's strides may be exchanged for its transpose; `lower` says which triangle then is read.
    """
    size = p.size
    if right:  # of the transposed system
        s_row, s_column, lower, i_unit, c_unit = t_column, t_row, not lower, size, b_row
    else:
        s_row, s_column, i_unit, c_unit = t_row, t_column, b_row, size
    for q in range((n + BLOCK - 1) // BLOCK):
        first = q * BLOCK
        count = min(BLOCK, n - first)
        sign, at = (1, first) if lower else (-1, n - 1 - first)
        corner = t + at * (s_row + s_column)
        diagonal = load_block(p.tag, count, corner, sign * s_row, sign * s_column, unit, p.scratch)
        solve_block(p, count, width, p.scratch, diagonal, b + at * i_unit, sign * i_unit, c_unit)
        done = first + count
        span = ((q + 1) & -(q + 1)) * BLOCK
        ahead = min(span, n - done)
        if ahead > 0:
            known = done - span if lower else n - done
            target = done if lower else n - done - ahead
            part = t + target * s_row + known * s_column
            if right:
                subtract(
                    p, width, ahead, span, b + known * size, b_row, size, part, s_column, s_row, b + target * size,
                    b_row,
                )  # fmt: skip
            else:
                subtract(
                    p, ahead, width, span, part, s_row, s_column, b + known * b_row, b_row, size,
                    b + target * b_row, b_row,
                )  # fmt: skip


@njit
def solve_triangular(p, n, width, t, t_row, t_column, lower, unit, right, b, b_row):
    solve(p, n, width, t, t_row, t_column, lower, unit, right, b, b_row)
