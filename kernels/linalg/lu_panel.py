"""A panel of an LU factorisation with partial pivoting: at most 64 columns, column-major in scratch memory, in
sub-panels as wide as a vector."""

from __future__ import annotations

from ..block.tags import constant
from ..block.transpose import copy_transposed
from ..runtime.jit import subroutine
from .lanes import VECTOR_BYTES, fnma, load_lanes, number, read, select, splat, store_lanes, write
from .updates import pack_left

_V = VECTOR_BYTES
_SMALL = 16 * _V


@subroutine
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


@subroutine
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


@subroutine
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


@subroutine
def _top(tag, x, ld, start, width, target, small):
    """Solve with the unit lower triangle of a sub-panel for one column (`width` numbers, in one vector)."""
    size = constant(tag, "size")
    for j in range(width - 1):
        value = splat(tag, read(tag, target + (start + j) * size))
        at = target + start * size
        store_lanes(at, fnma(load_lanes(tag, small + j * _V), value, load_lanes(tag, at)))


@subroutine
def _four(tag, at):
    return load_lanes(tag, at), load_lanes(tag, at + _V), load_lanes(tag, at + 2 * _V), load_lanes(tag, at + 3 * _V)


@subroutine
def _store_four(at, p):
    for i in range(4):
        store_lanes(at + i * _V, p[i])


@subroutine
def _less(p, a, b):
    return fnma(a[0], b, p[0]), fnma(a[1], b, p[1]), fnma(a[2], b, p[2]), fnma(a[3], b, p[3])


@subroutine
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
        first = x + start * ld
        for v in range((start + width) * size, rows * size, 4 * _V):
            p0, p1, p2, p3 = _four(tag, c0 + v), _four(tag, c1 + v), _four(tag, c2 + v), _four(tag, c3 + v)
            for k in range(width):
                a, at = _four(tag, first + k * ld + v), (start + k) * size
                p0 = _less(p0, a, splat(tag, read(tag, c0 + at)))
                p1 = _less(p1, a, splat(tag, read(tag, c1 + at)))
                p2 = _less(p2, a, splat(tag, read(tag, c2 + at)))
                p3 = _less(p3, a, splat(tag, read(tag, c3 + at)))
            _store_four(c3 + v, p3)  # the last may be one column, stored again by those before it
            _store_four(c2 + v, p2)
            _store_four(c1 + v, p1)
            _store_four(c0 + v, p0)


@subroutine
def _column_bytes(p, rows):
    """Bytes between columns in scratch memory: what four vectors from any row on need, and no power of two, which would
    share cache sets."""
    return (rows * p.size + 4 * _V - 1) // (4 * _V) * 4 * _V + 5 * _V


@subroutine
def _load_panel(p, rows, columns, a, row, x, ld):
    """Copy a panel column-major to the scratch memory at x, zeros below."""
    copy_transposed(p.tag, rows, columns, a, row, x, ld)
    for j in range(columns):
        for at in range(rows * p.size, ld, p.size):
            write(p.tag, x + j * ld + at, 0.0)


@subroutine
def factor_panel(p, rows, columns, a, row, pivots, offset):
    """Factor a panel at `a` in its place; its pivots, from 1 + offset, go to pivots[offset:]. Returns info."""
    tag, lanes = p.tag, constant(p.tag, "lanes")
    small, x, ld, info = p.scratch, p.scratch + _SMALL, _column_bytes(p, rows), 0
    _load_panel(p, rows, columns, a, row, x, ld)
    for start in range(0, min(rows, columns), lanes):
        width = min(lanes, min(rows, columns) - start)
        failed = _sub_panel(tag, x, ld, start, width, columns, rows, pivots, offset, small)
        info = failed if info == 0 else info
        _update_panel(tag, x, ld, start, width, columns, rows, small)
    copy_transposed(tag, columns, rows, x, ld, a, row)
    return info


@subroutine
def pack_panel(p, rows, columns, target):
    """What `pack_left` makes of the rows below the diagonal of the panel that was factored last."""
    ld = _column_bytes(p, rows)
    pack_left(p, rows - columns, columns, p.scratch + _SMALL + columns * p.size, p.size, ld, target)


@subroutine
def eliminate_side(p, rows, columns, pivots, offset, b):
    """Exchange and eliminate the numbers of a right side at `b`, a cache line's begin with room for whole lines, as
    those of the panel that was factored last: it is in the caches now."""
    tag, size, lanes = p.tag, p.size, constant(p.tag, "lanes")
    x, ld, count = p.scratch + _SMALL, _column_bytes(p, rows), min(rows, columns)
    for i in range(count):
        one, two = b + i * size, b + (pivots[offset + i] - 1 - offset) * size
        first, second = read(tag, one), read(tag, two)
        write(tag, one, second)
        write(tag, two, first)
    for start in range(0, count, lanes):
        width, panel = min(lanes, count - start), x + start * ld
        for j in range(start, start + width):
            value = read(tag, b + j * size)
            for i in range(j + 1, min(start + lanes, rows)):
                write(tag, b + i * size, read(tag, b + i * size) - read(tag, x + j * ld + i * size) * value)
        for at in range((start + lanes) * size, rows * size, _V):
            rest = load_lanes(tag, b + at)
            for j in range(width):
                rest = fnma(load_lanes(tag, panel + j * ld + at), splat(tag, read(tag, b + (start + j) * size)), rest)
            store_lanes(b + at, rest)
