"""Cholesky factors, in the block order of `triangular.py`: columns of blocks are updated by products of what lies left
of them, in strips, so that little is computed above the diagonal. LAPACK's potrf for info."""

from __future__ import annotations

import math

from ..block.transpose import copy_transposed
from ..runtime.jit import njit, subroutine
from .lanes import VECTOR_BYTES, fnma, load_lanes, read, splat, store_lanes, write
from .triangular import solve
from .updates import BLOCK, subtract

_V = VECTOR_BYTES
_STRIP = 128


@subroutine
def _diagonal_block(p, n, a, row):
    """Factor one block, at most BLOCK x BLOCK, column-major in scratch memory. What lies above the diagonal is garbage
    that stays where it is. Returns the 1-based number of the first minor that is not positive, or 0."""
    tag, size = p.tag, p.size
    x, ld = p.scratch, BLOCK * size
    height = (n * size + _V - 1) // _V * _V
    copy_transposed(tag, n, n, a, row, x, ld)
    for j in range(n):
        column = x + j * ld
        value = read(tag, column + j * size)
        if not value > 0.0:
            return j + 1
        value = math.sqrt(value)
        divisor, start = splat(tag, value), j * size // _V * _V
        for v in range(start, height, _V):
            store_lanes(column + v, load_lanes(tag, column + v) / divisor)
        write(tag, column + j * size, value)
        for k in range(j + 1, n):
            target = x + k * ld
            factor = splat(tag, read(tag, column + k * size))
            for v in range(k * size // _V * _V, height, _V):
                store_lanes(target + v, fnma(load_lanes(tag, column + v), factor, load_lanes(tag, target + v)))
    for i in range(n):
        for j in range(i + 1):
            write(tag, a + i * row + j * size, read(tag, x + j * ld + i * size))
    return 0


@njit
def cholesky(p, n, a, row):
    """Factor the matrix at `a` in place; only the lower triangle is read. Returns info."""
    size = p.size
    for first in range(0, n, BLOCK):
        count = min(BLOCK, n - first)
        done = first + count
        diagonal = a + first * (row + size)
        failed = _diagonal_block(p, count, diagonal, row)
        if failed:
            return first + failed
        if done == n:
            break
        solve(p, count, n - done, diagonal, size, row, False, False, True, a + done * row + first * size, row)
        span = ((first // BLOCK + 1) & -(first // BLOCK + 1)) * BLOCK
        last, known = min(done + span, n), (done - span) * size
        strip = max(_STRIP, span // 4)
        for c in range(done, last, strip):
            left = a + c * row + known
            subtract(
                p, n - c, min(strip, last - c), span, left, row, size, left, size, row, a + c * (row + size), row
            )  # fmt: skip
    return 0
