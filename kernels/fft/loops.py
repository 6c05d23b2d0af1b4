"""The loops of a transform: which vectors of transforms are computed when, and through which memory.

Every transform is made of *columns*: transforms of one length, as many side by side as a vector has lanes, whose passes
go from the source through two buffers in the L1 or L2 cache to the target.

* Another long transform, of length n = a * b, is a matrix of a rows and b columns: its columns are transformed,
  multiplied by exp(-2 pi i j k / n) and transposed within the cache, then the rows are transformed, as columns again.
  Both times the vectors lie side by side in the user's memory (D. Bailey, "FFTs in external or hierarchical memory",
  1990).
* One of few powers of two is transformed in registers (`registers.py`), without columns.
* A matrix of as few rows as a vector has lanes has its columns in registers (`wide.py`), and its rows are one vector of
  columns.
* A short one is the lane of a vector: squares are transposed on the way in and out.
* Along an axis other than the last, the vectors lie side by side already.

If the number of columns is not a multiple of the lanes, the last vector begins earlier and computes some of them again.
"""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.jit import subroutine
from ..runtime.launch import call_at
from ..runtime.raw_memory import get
from .codelets import PassArguments, SquareArguments
from .real_split import TangleArguments, TangleOfLanesArguments
from .table import AT, FORWARD, HALVED, ONE

_LEAF, _M, _S, _TWIDDLES = 0, 1, 2, 3
PASS_BYTES = 32


class End(NamedTuple):
    """Where rows of a vector of transforms are read or written: the bytes between them, and whether the parts of
    numbers are exchanged."""

    at: int
    step: int
    swap: int


@subroutine
def column(passes, count, source, target, scale, buffer, length, row, lanes, phase, apart, last_shared):
    """One vector of transforms, whose rows are `row` bytes in the two buffers. The source may be the second."""
    at, step = source.at, source.step
    for i in range(count):
        last = i == count - 1
        to = target.at if last else buffer + i % 2 * length * row
        to_step = target.step if last else row
        pass_ = passes + PASS_BYTES * i
        call_at(
            get(pass_, _LEAF),
            PassArguments(
                at, step, to, to_step, get(pass_, _TWIDDLES), get(pass_, _M), get(pass_, _S),
                source.swap if i == 0 else 0, target.swap if last else 0, scale, lanes, phase, apart, last_shared,
                1, 0, 0,
            ),
        )  # fmt: skip
        at, step = to, to_step


@subroutine
def first_of(group, lanes, count):
    return min(group * lanes, count - lanes)


@subroutine
def groups_of(count, lanes):
    return (count + lanes - 1) // lanes


@subroutine
def tangle(table, source, source_step, target, target_step, count, first, blocks, rest):
    """Between the spectrum of m complex numbers and half of that of 2m real ones, of `count` transforms: for `blocks`
    vectors of frequencies and their mirrors, and with `rest` those in the middle and at both ends."""
    call_at(
        get(table, AT.tangle),
        TangleArguments(
            source, source_step, target, target_step, count, get(table, AT.tangle_roots), get(table, AT.n), first,
            blocks, rest, int(get(table, AT.real) == HALVED),
        ),
    )  # fmt: skip


@subroutine
def tangle_blocks(table):
    """Whole vectors of frequencies that do not meet their mirrors."""
    return (get(table, AT.n) - 1) // (2 * get(table, AT.lanes))


@subroutine
def tangle_all(table, source, source_step, target, target_step, count):
    tangle(table, source, source_step, target, target_step, count, 1, tangle_blocks(table), 1)


@subroutine
def tangle_lanes(table, rows):
    """The same in place, of split rows: m for complex numbers, m + 1 for real ones."""
    call_at(
        get(table, AT.tangle),
        TangleOfLanesArguments(
            rows, get(table, AT.row), get(table, AT.tangle_roots), get(table, AT.n), int(get(table, AT.real) == HALVED)
        ),
    )  # fmt: skip


@subroutine
def first_steps(job, source, work, group, end, buffer):
    """Vectors of columns of the matrix, to their places in `work`: [vector of rows][column][split row]. Some that lie
    side by side take the first pass together."""
    table = job.table
    lanes, size, row, a, b = (
        get(table, AT.lanes), get(table, AT.size), get(table, AT.row), get(table, AT.a), get(table, AT.b),
    )  # fmt: skip
    passes, count, most = get(table, AT.down), get(table, AT.down_count), get(table, AT.abreast)
    panel = buffer + 2 * a * row
    while group < end:
        j0, abreast = first_of(group, lanes, b), max(min(most, end - group, b // lanes - group), 1)
        at, step, swap, done = source + j0 * 2 * size, b * 2 * size, job.swap, 0
        if most > 1:
            call_at(
                get(passes, _LEAF),
                PassArguments(
                    at, step, panel, row, get(passes, _TWIDDLES), get(passes, _M), get(passes, _S), swap, 0, ONE, 0, 0,
                    0, 0, abreast, lanes * 2 * size, a * row,
                ),
            )  # fmt: skip
            at, step, swap, done = panel, row, 0, 1
        for index in range(abreast):
            here = panel + index * a * row
            column(
                passes + done * PASS_BYTES, count - done, End(here if done else at, step, swap), End(here, row, 0), 0,
                buffer, a, row, get(table, AT.roots), get(table, AT.phases) + (group + index) * a * 2 * size, 0, 0,
            )  # fmt: skip
            _turn_rows(table, here, work + (j0 + index * lanes) * row)
        group += abreast


@subroutine
def _turn_rows(table, columns, to):
    """A vector of columns, to vectors of rows in the matrix."""
    lanes, row, a, b = get(table, AT.lanes), get(table, AT.row), get(table, AT.a), get(table, AT.b)
    square, blocks, height = get(table, AT.square), a // lanes, lanes * row
    call_at(square, SquareArguments(columns, row, to, row, ONE, blocks, height, b * row, 2, row // 2))
    if blocks * lanes < a:
        columns, to = columns + (a - lanes) * row, to + blocks * b * row
        call_at(square, SquareArguments(columns, row, to, row, ONE, 1, 0, 0, 2, row // 2))


@subroutine
def second_steps(job, work, target, block, end, buffer):
    """Vectors of rows of the matrix, to the user's memory."""
    table = job.table
    size, row, a, b = get(table, AT.size), get(table, AT.row), get(table, AT.a), get(table, AT.b)
    for each in range(block, end):
        k0 = first_of(each, get(table, AT.lanes), a)
        column(
            get(table, AT.across), get(table, AT.across_count), End(work + each * b * row, row, 0),
            End(target + k0 * 2 * size, a * 2 * size, job.swap), job.scale, buffer, b, row, 0, 0, 0, 0,
        )  # fmt: skip


@subroutine
def whole(job, source, target, buffer):
    """One long transform on one thread, in the worker's own memory."""
    table = job.table
    lanes, real = get(table, AT.lanes), get(table, AT.real)
    work = buffer + get(table, AT.column_bytes)
    if real == HALVED:
        tangle_all(table, source, 0, target, 0, 1)
        source = target
    first_steps(job, source, work, 0, groups_of(get(table, AT.b), lanes), buffer)
    second_steps(job, work, target, 0, groups_of(get(table, AT.a), lanes), buffer)
    if real == FORWARD:
        tangle_all(table, target, 0, target, 0, 1)


@subroutine
def turn(table, n, at, step, split, scale, inwards):
    """Between the n numbers of each of `lanes` transforms and n split rows. Squares are lanes x lanes elements, half as
    many complex numbers; the last one begins earlier if that does not divide n."""
    lanes, size, row, square = get(table, AT.lanes), get(table, AT.size), get(table, AT.row), get(table, AT.square)
    width = lanes // 2
    whole, next_plain, next_split = n // width, width * 2 * size, width * row
    for rest in range(2):
        count = whole if rest == 0 else 1
        plain, rows = at + rest * (n - width) * 2 * size, split + rest * (n - width) * row
        if rest == 1 and whole * width == n:
            return
        if inwards:
            call_at(square, SquareArguments(plain, step, rows, row // 2, scale, count, next_plain, next_split, 1, 0))
        else:
            call_at(square, SquareArguments(rows, row // 2, plain, step, scale, count, next_split, next_plain, 1, 0))
