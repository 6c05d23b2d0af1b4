"""The loops of a transform: which vectors of transforms are computed when, and through which memory.

Every transform is made of *columns*: transforms of one length, as many side by side as a vector has lanes, whose passes
go from the source through two buffers in the L1 or L2 cache to the target.

* Another long transform, of length n = a * b, is a matrix of a rows and b columns: its columns are transformed,
  multiplied by exp(-2 pi i j k / n) and transposed within the cache, then the rows are transformed, as columns again.
  Both times the vectors lie side by side in the user's memory (D. Bailey, "FFTs in external or hierarchical memory",
  1990).
* One of few powers of two is transformed in registers (`registers.py`), and is no column.
* A matrix of as few rows as a vector has lanes has its columns in registers (`wide.py`), and its rows are one vector of
  columns.
* A short one is the lane of a vector: squares are transposed on the way in and out.
* Along an axis other than the last, the vectors lie side by side already.

Where the columns are no multiple of the lanes, the last vector begins earlier and computes some of them again.
"""

from __future__ import annotations

from ..jit import njit
from ..launch import call_at
from ..words import get
from .codelets import PassArguments, SquareArguments
from .table import (
    ACROSS,
    ACROSS_COUNT,
    COLUMN_BYTES,
    DOWN,
    DOWN_COUNT,
    FORWARD,
    HALVED,
    LANES,
    ONE,
    PHASES,
    REAL,
    ROOTS,
    ROW,
    SIZE,
    SQUARE,
    TANGLE,
    TANGLE_ROOTS,
    A,
    B,
    N,
)
from .tangle import TangleArguments, TangleOfLanesArguments

__all__ = [
    "column",
    "first_of",
    "first_step",
    "groups_of",
    "second_step",
    "tangle",
    "tangle_all",
    "tangle_blocks",
    "tangle_lanes",
    "turn",
    "whole",
]

_LEAF, _M, _S, _TWIDDLES = 0, 1, 2, 3


@njit(cache=False, no_cpython_wrapper=True)
def column(
    passes, count, source, source_step, swap_in, target, target_step, swap_out, scale, buffer, length, row, lanes,
    phase, apart, last_shared,
):  # fmt: skip
    """One vector of transforms, whose rows are `row` bytes in the two buffers. The source may be the second."""
    at, step = source, source_step
    for i in range(count):
        last = i == count - 1
        to = target if last else buffer + i % 2 * length * row
        to_step = target_step if last else row
        pass_ = passes + 32 * i
        call_at(
            get(pass_, _LEAF),
            PassArguments(
                at, step, to, to_step, get(pass_, _TWIDDLES), get(pass_, _M), get(pass_, _S),
                swap_in if i == 0 else 0, swap_out if last else 0, scale, lanes, phase, apart, last_shared,
            ),
        )  # fmt: skip
        at, step = to, to_step


@njit(cache=False, no_cpython_wrapper=True)
def first_of(group, lanes, count):
    return min(group * lanes, count - lanes)


@njit(cache=False, no_cpython_wrapper=True)
def groups_of(count, lanes):
    return (count + lanes - 1) // lanes


@njit(cache=False, no_cpython_wrapper=True)
def tangle(table, source, source_step, target, target_step, count, first, blocks, rest):
    """Between the spectrum of m complex numbers and half of that of 2m real ones, of `count` transforms: for `blocks`
    vectors of frequencies and their mirrors, and with `rest` those in the middle and at both ends."""
    call_at(
        get(table, TANGLE),
        TangleArguments(
            source, source_step, target, target_step, count, get(table, TANGLE_ROOTS), get(table, N), first, blocks,
            rest, int(get(table, REAL) == HALVED),
        ),
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def tangle_blocks(table):
    """Whole vectors of frequencies that do not meet their mirrors."""
    return (get(table, N) - 1) // (2 * get(table, LANES))


@njit(cache=False, no_cpython_wrapper=True)
def tangle_all(table, source, source_step, target, target_step, count):
    tangle(table, source, source_step, target, target_step, count, 1, tangle_blocks(table), 1)


@njit(cache=False, no_cpython_wrapper=True)
def tangle_lanes(table, rows):
    """The same in place, of split rows: m for complex numbers, m + 1 for real ones."""
    call_at(
        get(table, TANGLE),
        TangleOfLanesArguments(
            rows, get(table, ROW), get(table, TANGLE_ROOTS), get(table, N), int(get(table, REAL) == HALVED)
        ),
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def first_step(job, source, work, group, buffer):
    """A vector of columns of the matrix, to its place in `work`: [vector of rows][column][split row]."""
    table = job.table
    lanes, size, row, a, b = (
        get(table, LANES), get(table, SIZE), get(table, ROW), get(table, A), get(table, B),
    )  # fmt: skip
    square = get(table, SQUARE)
    j0 = first_of(group, lanes, b)
    turned = buffer + 2 * a * row
    column(
        get(table, DOWN), get(table, DOWN_COUNT), source + j0 * 2 * size, b * 2 * size, job.swap, turned, row, 0, 0,
        buffer, a, row, get(table, ROOTS), get(table, PHASES) + group * a * 2 * size, 0, 0,
    )  # fmt: skip
    blocks, height = a // lanes, lanes * row
    for part in range(2):
        at = part * row // 2
        to = work + j0 * row + at
        call_at(square, SquareArguments(turned + at, row, to, row, ONE, blocks, height, b * row))
        if blocks * lanes < a:
            to += blocks * b * row
            call_at(square, SquareArguments(turned + (a - lanes) * row + at, row, to, row, ONE, 1, 0, 0))


@njit(cache=False, no_cpython_wrapper=True)
def second_step(job, work, target, block, buffer):
    """A vector of rows of the matrix, to the user's memory."""
    table = job.table
    size, row, a, b = get(table, SIZE), get(table, ROW), get(table, A), get(table, B)
    k0 = first_of(block, get(table, LANES), a)
    column(
        get(table, ACROSS), get(table, ACROSS_COUNT), work + block * b * row, row, 0, target + k0 * 2 * size,
        a * 2 * size, job.swap, job.scale, buffer, b, row, 0, 0, 0, 0,
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def whole(job, source, target, buffer):
    """One long transform on one thread, in the worker's own memory."""
    table = job.table
    lanes, real = get(table, LANES), get(table, REAL)
    work = buffer + get(table, COLUMN_BYTES)
    if real == HALVED:
        tangle_all(table, source, 0, target, 0, 1)
        source = target
    for group in range(groups_of(get(table, B), lanes)):
        first_step(job, source, work, group, buffer)
    for block in range(groups_of(get(table, A), lanes)):
        second_step(job, work, target, block, buffer)
    if real == FORWARD:
        tangle_all(table, target, 0, target, 0, 1)


@njit(cache=False, no_cpython_wrapper=True)
def turn(table, n, at, step, split, scale, inwards):
    """Between the n numbers of each of `lanes` transforms and n split rows. Squares are lanes x lanes elements, half as
    many complex numbers; the last one begins earlier where that is no divisor of n."""
    lanes, size, row, square = get(table, LANES), get(table, SIZE), get(table, ROW), get(table, SQUARE)
    width = lanes // 2
    whole, next_plain, next_split = n // width, width * 2 * size, width * row
    for rest in range(2):
        count = whole if rest == 0 else 1
        plain, rows = at + rest * (n - width) * 2 * size, split + rest * (n - width) * row
        if rest == 1 and whole * width == n:
            return
        if inwards:
            call_at(square, SquareArguments(plain, step, rows, row // 2, scale, count, next_plain, next_split))
        else:
            call_at(square, SquareArguments(rows, row // 2, plain, step, scale, count, next_split, next_plain))
