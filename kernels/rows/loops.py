"""Functions of rows, by all threads."""

from __future__ import annotations

from typing import NamedTuple

from ..elementwise.sweeps import Row
from ..gemm.emit import I64, POINTER, loop, offset
from ..gemm.tags import instance
from ..jit import intrinsic, njit, subroutine, types
from ..launch import call_at, launch
from .functions import Places

__all__ = ["Rows", "run"]

_NUMBERS = 1 << 13
"""Of the rows that a thread takes at a time, or one row."""


@intrinsic
def _each_row(typingctx, function, element, first, second, out, one, other, eps, rows, columns, segments, stride):
    """Emit a function for `rows` rows, of which there is at least one."""

    def codegen(context, builder, signature, arguments):
        *places, eps, rows, columns, segments, stride = arguments[2:]
        places = [builder.inttoptr(place, POINTER) for place in places]
        row = Row(builder, instance(element), columns, segments, stride)
        size = I64(row.element.size)
        strides = [builder.mul(columns, size)] * 3 + [size] * 2

        def one(index, _):
            here = [offset(builder, at, builder.mul(index, by)) for at, by in zip(places, strides, strict=True)]
            instance(function).emit(row, Places(*here, eps))
            return []

        loop(builder, rows, [], one)
        return context.get_dummy_value()

    return types.void(function, element, *[types.int64] * 10), codegen


class _Arrays(NamedTuple):
    """Addresses, the bits of `eps`, and shapes: a row is `segments` times `columns` numbers, `stride` bytes apart."""

    first: int
    second: int
    out: int
    one: int
    other: int
    eps: int
    rows: int
    columns: int
    segments: int
    stride: int


@subroutine
def _rows_leaf(leaf, at):
    _each_row(
        leaf.function, leaf.element, at.first, at.second, at.out, at.one, at.other, at.eps, at.rows, at.columns,
        at.segments, at.stride,
    )  # fmt: skip


class Rows(NamedTuple):
    """Leaf: a function of `functions` for rows of an element type of `gemm.sources`."""

    function: NamedTuple
    element: NamedTuple
    run = _rows_leaf
    arguments = _Arrays


@subroutine
def _task(task, worker, job):
    begin = task * job.block
    at, row = begin * job.columns * job.size, begin * job.size
    call_at(
        job.leaf,
        _Arrays(
            job.first + at, job.second + at, job.out + at, job.one + row, job.other + row, job.eps,
            min(job.block, job.rows - begin), job.columns, job.segments, job.rows * job.columns * job.size,
        ),
    )  # fmt: skip


class _Blocks(NamedTuple):
    leaf: int
    first: int
    second: int
    out: int
    one: int
    other: int
    eps: int
    rows: int
    columns: int
    segments: int
    size: int
    block: int
    run = _task


@njit
def run(pool, threads, leaf, first, second, out, one, other, eps, segments, rows, columns, size):
    """A leaf, known by its address, for rows of arrays (segments, rows, columns) of `size` bytes at addresses; a row is
    all that has one index in the middle."""
    block = max(1, _NUMBERS // (columns * segments))
    job = _Blocks(leaf, first, second, out, one, other, eps, rows, columns, segments, size, block)
    launch(pool, threads, (rows + block - 1) // block, job)
