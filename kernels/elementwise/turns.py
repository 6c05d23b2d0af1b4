"""Copies in another order of dimensions, tile by tile: what `turned.in_order` calls."""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I64, POINTER, load, loop_of_any, offset, store, transpose, vector
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from ..words import get

__all__ = ["WORDS", "Turn", "run"]


class Word1(NamedTuple):
    """Bytes of an element, and rows and columns of a square that is transposed in registers."""

    size, side = 1, 16


class Word2(NamedTuple):
    size, side = 2, 16


class Word4(NamedTuple):
    size, side = 4, 8


class Word8(NamedTuple):
    size, side = 8, 4


WORDS = {word.size: word() for word in (Word1, Word2, Word4, Word8)}
"""Tags by the bytes of an element."""


@intrinsic
def _gather(typingctx, leaf, source, step, target, count):
    """Write `count` words side by side, which lie `step` bytes apart."""
    size = field_class(leaf, "word").size

    def codegen(context, builder, signature, arguments):
        _, source, step, target, count = arguments
        source, target = (builder.inttoptr(at, POINTER) for at in (source, target))
        word = ir.IntType(8 * size)

        def one(index: ir.Value, _: list) -> list:
            here = builder.bitcast(offset(builder, source, builder.mul(index, step)), word.as_pointer())
            to = builder.bitcast(offset(builder, target, builder.mul(index, I64(size))), word.as_pointer())
            builder.store(builder.load(here, align=size), to, align=size)
            return []

        loop_of_any(builder, count, [], one)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 4), codegen


@intrinsic
def _square(typingctx, leaf, source, column, target, row):
    """Transpose a square: its columns are `column` bytes apart in the source, its rows `row` bytes in the target."""
    word = field_class(leaf, "word")

    def codegen(context, builder, signature, arguments):
        _, source, column, target, row = arguments
        source, target = (builder.inttoptr(at, POINTER) for at in (source, target))
        kind = vector(ir.IntType(8 * word.size), word.side)
        places = [offset(builder, source, builder.mul(column, I64(index))) for index in range(word.side)]
        lines = transpose(builder, [load(builder, kind, place, word.size) for place in places])
        for index, line in enumerate(lines):
            store(builder, line, offset(builder, target, builder.mul(row, I64(index))), word.size)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 4), codegen


class _Rows(NamedTuple):
    """Addresses of the first word of the rows in both arrays, how many rows and columns there are, and the bytes
    between rows of the target and between columns of the source."""

    source: int
    target: int
    rows: int
    columns: int
    row: int
    column: int


@subroutine
def _turn(leaf, job):
    """Two squares side by side fill cache lines of the target."""
    side, size = constant(leaf.word, "side"), constant(leaf.word, "size")
    rows, columns = job.rows // side * side, job.columns // side * side
    for first in range(0, columns, 2 * side):
        for row in range(0, rows, side):
            for column in range(first, min(first + 2 * side, columns), side):
                at, to = job.source + column * job.column + row * size, job.target + row * job.row + column * size
                _square(leaf, at, job.column, to, job.row)
    for row in range(job.rows):
        done = columns if row < rows else 0
        at, to = job.source + done * job.column + row * size, job.target + row * job.row + done * size
        _gather(leaf, at, job.column, to, job.columns - done)


class Turn(NamedTuple):
    """Leaf: some rows of the target, whose words are neighbours from row to row in the source."""

    word: NamedTuple
    run = _turn
    arguments = _Rows


@subroutine
def _task(task, worker, job):
    item, first = task // job.blocks, task % job.blocks * job.at_once
    source, target = get(job.places, item), get(job.places, job.items + item)
    call_at(
        job.leaf,
        _Rows(
            source + first * job.size, target + first * job.row, min(job.at_once, job.rows - first), job.columns,
            job.row, job.column,
        ),
    )  # fmt: skip


class _Matrices(NamedTuple):
    leaf: int
    places: int
    items: int
    blocks: int
    at_once: int
    rows: int
    columns: int
    row: int
    column: int
    size: int
    run = _task


@njit
def run(pool, threads, leaf, places, items, at_once, rows, columns, row, column, size):
    """Copy `items` matrices of `rows` and `columns`, which begin at the addresses (2, items) at `places` in the source
    and in the target, some rows at a time (`at_once`). Words of `size` bytes are neighbours along the columns of a row
    in the target, whose rows are `row` bytes apart, and from row to row in the source, whose columns are `column`."""
    blocks = (rows + at_once - 1) // at_once
    job = _Matrices(leaf, places, items, blocks, at_once, rows, columns, row, column, size)
    launch(pool, threads, items * blocks, job)
