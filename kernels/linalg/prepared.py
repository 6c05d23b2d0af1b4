"""A triangle that several workers solve with, each for columns of its own: its blocks are packed once for all.

The order of the blocks is that of `triangular.py`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ..runtime.jit import subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import allocate
from .triangular import load_block, solve_block
from .updates import BLOCK, Leaves, pack_left, packed_bytes, subtract_packed

_TRIANGLE_BYTES = BLOCK * BLOCK * 8


class Prepared(NamedTuple):
    """A triangle of n rows: for block q its diagonal block is at starts[q], then come the packed numbers that it is
    multiplied with when it is known. An upper triangle begins with its last block."""

    n: int
    lower: bool
    starts: object
    diagonals: object
    """What the diagonals of the blocks are, for `solve_block`."""


@subroutine
def _step(n, q):
    """How much is known after block q, how much of it is used then, and for how many rows."""
    done = min((q + 1) * BLOCK, n)
    span = ((q + 1) & -(q + 1)) * BLOCK
    return done, span, min(span, n - done)


def places(leaves: Leaves, n: int) -> tuple[np.ndarray, int]:
    """Offsets of the blocks of a prepared triangle of n rows, and the bytes of all."""
    return _places(n, leaves.mr, leaves.a_bytes, leaves.step)


@functools.lru_cache(256)
def _places(n: int, *packing: int) -> tuple[np.ndarray, int]:
    steps = [_step.py_func(n, q) for q in range(-(-n // BLOCK))]
    sizes = [_TRIANGLE_BYTES + packed_bytes(max(ahead, 0), span, *packing) for _, span, ahead in steps]
    ends = np.cumsum(sizes, dtype=np.int64)
    return ends - sizes, int(ends[-1])


@task("p prepared unit t row")
def _diagonal_task(q, worker, job):
    p, with_ = job.p, job.prepared
    first = q * BLOCK
    sign, at = (1, first) if with_.lower else (-1, with_.n - 1 - first)
    corner, count = job.t + at * (job.row + p.size), min(BLOCK, with_.n - first)
    with_.diagonals[q] = load_block(p.tag, count, corner, sign * job.row, sign * p.size, job.unit, with_.starts[q])


@subroutine
def prepare(p, n, t, row, lower, unit, starts):
    """Pack the triangle at `t`, whose rows are `row` bytes apart, to the addresses `starts`."""
    blocks = starts.shape[0]
    prepared = Prepared(n, lower, starts, allocate(blocks, 0))
    launch(p.pool, p.threads, blocks, _diagonal_task(p, prepared, unit, t, row))
    for q in range(blocks):
        done, span, ahead = _step(n, q)
        known, target = (done - span, done) if lower else (n - done, n - done - ahead)
        pack_left(p, ahead, span, t + target * row + known * p.size, row, p.size, starts[q] + _TRIANGLE_BYTES)
    return prepared


@subroutine
def solve_prepared(p, prepared, width, b, b_row):
    """Solve T X = B in the place of B, whose rows have `width` numbers."""
    n, lower, size = prepared.n, prepared.lower, p.size
    for q in range(prepared.starts.shape[0]):
        first, at = q * BLOCK, prepared.starts[q]
        place, sign = (first, 1) if lower else (n - 1 - first, -1)
        count, diagonal = min(BLOCK, n - first), prepared.diagonals[q]
        solve_block(p, count, width, at, diagonal, b + place * b_row, sign * b_row, size)
        done, span, ahead = _step(n, q)
        known, target = (done - span, done) if lower else (n - done, n - done - ahead)
        right, c = b + known * b_row, b + target * b_row
        subtract_packed(p, ahead, width, span, at + _TRIANGLE_BYTES, right, b_row, size, c, b_row)
