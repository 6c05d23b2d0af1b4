"""Products too small to be worth panels: strips of rows in vector registers, read from where the operands lie.

A strip is up to 8 rows of the result and one to three vectors of its columns. Values of A are broadcast from memory,
of any strides; rows of B are read as vectors, and so need neighbouring columns. Operands that have to be rounded or
widened are so in one pass into memory of the worker, in their own order (`ConvertLines`); a B whose columns are no
neighbours becomes the panels of `packing.VectorPanel`, of two vectors. Sums run along K in one chain, as in one step of
`loops.py`: the bits are the same.

Measured, 32 x 32 x 32 on one core: 0.3 us where packing both operands and multiplying panels takes 0.9, and OpenBLAS
0.8.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import intrinsic, ir, njit, types
from ..launch import call_at
from .emit import (
    F64,
    I32,
    I64,
    POINTER,
    broadcast,
    call,
    lane_numbers,
    load,
    loop,
    offset,
    opaque,
    prefetch,
    prefetch_to_write,
    store,
    vector,
    zero,
)
from .loops import PackArguments
from .microkernels import Rows, convert
from .packing import converted
from .segments import HEADER, Alone, InARow, SegmentArguments, read
from .sources import Reader
from .tags import constant, field_class, instance

__all__ = ["CONVERT_FIELDS", "FIELDS", "ConvertLines", "MultiplySmall", "Strips", "strips"]


class _SmallArguments(NamedTuple):
    """`b_panel` bytes lie between panels of B. Each place along K of each strip fetches a line at each of `next_...`,
    from one to the next `by_...` bytes further."""

    m: int
    n: int
    k: int
    a: int
    a_row: int
    a_k: int
    b: int
    b_k: int
    b_panel: int
    c: int
    c_row: int
    next_a: int
    next_b: int
    next_c: int
    by_a: int
    by_b: int
    by_c: int


@intrinsic(prefer_literal=True)
def _strip(typingctx, leaf, rows, vectors, job, a, b, c, columns, done):
    """`rows` rows and at most `vectors` vectors of columns of the result, at addresses; `job.k` is at least 1.

    `done` strips of the job were done before.
    """
    kernel, target = field_class(leaf, "kernel"), field_class(leaf, "element")
    fetches, height, width = field_class(leaf, "ahead").fetches, rows.literal_value, vectors.literal_value

    def codegen(context, builder, signature, arguments):
        job, a, b, c, columns, done = arguments[3:]
        of_job = {name: builder.extract_value(job, index) for index, name in enumerate(_SmallArguments._fields)}
        lanes, size, depth = kernel.lanes, kernel.size, of_job["k"]
        kind = vector(kernel.element, lanes)
        a, b, c = (builder.inttoptr(address, POINTER) for address in (a, b, c))
        left = broadcast(builder, builder.trunc(columns, I32), lanes)
        masks = [builder.icmp_signed("<", lane_numbers(lanes, lanes * v), left) for v in range(width)]
        a_rows = [a, *(opaque(builder, builder.mul(of_job["a_row"], I64(row))) for row in range(1, height))]
        suffix, before = f"v{lanes}f{8 * size}.p0", builder.mul(done, depth)

        def fetch(index: ir.Value) -> None:
            turn = builder.add(before, index)
            for operand in "abc" if fetches else "":
                at = builder.add(of_job[f"next_{operand}"], builder.mul(turn, of_job[f"by_{operand}"]))
                (prefetch_to_write if operand == "c" else prefetch)(builder, builder.inttoptr(at, POINTER))

        def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            b_at, a_step = (builder.mul(index, of_job[name]) for name in ("b_k", "a_k"))
            b_at, after, of_b = offset(builder, b, b_at), [], []
            fetch(index)
            for v, mask in enumerate(masks):
                at = builder.bitcast(offset(builder, b_at, v * lanes * size), kind.as_pointer())
                of_b.append(call(builder, f"llvm.masked.load.{suffix}", kind, at, I32(size), mask, zero(kind)))
            a_at = offset(builder, a, a_step)
            for row, apart in enumerate(a_rows):
                at = offset(builder, a_at, apart) if row else a_at
                of_a = broadcast(builder, load(builder, kernel.element, at, size), lanes)
                for v, x in enumerate(of_b):
                    after.append(call(builder, f"llvm.fma.{suffix[:-3]}", kind, of_a, x, sums[row * width + v]))
            return after

        sums = loop(builder, depth, [zero(kind)] * (height * width), step)
        access = Rows(builder, target, lanes)
        for row in range(height):
            c_at = offset(builder, c, builder.mul(of_job["c_row"], I64(row)))
            for v, mask in enumerate(masks):
                value = convert(builder, sums[row * width + v], target)
                access.write(value, offset(builder, c_at, v * lanes * target.size), mask)
        return context.get_dummy_value()

    return types.void(leaf, rows, vectors, job, *[types.int64] * 5), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _multiply_small(leaf, job):
    """The whole result. B is read in panels of two vectors of columns, `b_panel` bytes apart; where its rows are whole,
    by three vectors unless that would leave one: 24 accumulators for 8 + 3 loads. [48, 48] @ [48, 48] takes 1.5 us by
    threes and 1.9 by pairs."""
    tag, lanes = leaf.kernel, constant(leaf.kernel, "lanes")
    size, j, done = constant(leaf.element, "size"), 0, 0
    threes = constant(tag, "tall") and job.b_panel == 2 * lanes * constant(tag, "size")
    while j < job.n:
        b, left, i = job.b + j // (2 * lanes) * job.b_panel, job.n - j, 0
        if threes:
            b = job.b + j * constant(tag, "size")
        three = threes and left > 2 * lanes and (left <= 3 * lanes or left > 4 * lanes)
        while i < job.m:
            a, c, rows = job.a + i * job.a_row, job.c + i * job.c_row + j * size, job.m - i
            if three:
                if rows >= 8:
                    _strip(leaf, 8, 3, job, a, b, c, left, done)
                    i += 8
                elif rows >= 4:
                    _strip(leaf, 4, 3, job, a, b, c, left, done)
                    i += 4
                else:
                    _strip(leaf, 1, 3, job, a, b, c, left, done)
                    i += 1
            elif left > lanes:
                if rows >= 8 and constant(tag, "tall"):
                    _strip(leaf, 8, 2, job, a, b, c, left, done)
                    i += 8
                elif rows >= 4:
                    _strip(leaf, 4, 2, job, a, b, c, left, done)
                    i += 4
                else:
                    _strip(leaf, 1, 2, job, a, b, c, left, done)
                    i += 1
            else:
                if rows >= 8:
                    _strip(leaf, 8, 1, job, a, b, c, left, done)
                    i += 8
                elif rows >= 4:
                    _strip(leaf, 4, 1, job, a, b, c, left, done)
                    i += 4
                else:
                    _strip(leaf, 1, 1, job, a, b, c, left, done)
                    i += 1
            done += 1
        j += 3 * lanes if three else 2 * lanes


class MultiplySmall(NamedTuple):
    """Leaf: one product. Fields: a vector microkernel, for its lanes and element, the result's element type, and
    whether another product follows."""

    kernel: NamedTuple
    element: NamedTuple
    ahead: Alone | InARow
    run = _multiply_small
    arguments = _SmallArguments


_AT_ONCE = 4
"""Vectors of a line that are converted in one turn of the loop."""


@intrinsic
def _convert_line(typingctx, source, conversion, at, stride, length, target):
    """Convert `length` values along K of one line. Whole vectors of neighbours are read without a mask."""

    def codegen(context, builder, signature, arguments):
        _, _, at, stride, length, target = arguments
        at, target = builder.inttoptr(at, POINTER), builder.inttoptr(target, POINTER)
        element, unit = field_class(source, "element"), field_class(source, "spacing").unit
        lanes, size = (8, 8) if element.working is F64 else (16, 4)

        def some(first: ir.Value, count: int, left: ir.Value | None) -> None:
            """`count` vectors from one on; where so many values are `left`, those of them."""
            here = offset(builder, at, builder.mul(builder.mul(first, I64(lanes)), stride))
            to = offset(builder, target, builder.mul(first, I64(lanes * size)))
            reader = Reader(builder, source, here, (I64(0), stride), I64(1), left)
            read = [reader.whole(index) if left is None else reader.along(I64(0)) for index in range(count)]
            for index, value in enumerate(converted(builder, each, instance(conversion)) for each in read):
                store(builder, value, offset(builder, to, index * lanes * size), size)

        def several(count: int, first: ir.Value, turns: ir.Value) -> ir.Value:
            """So many turns of `count` vectors; the next vector."""

            def one(index: ir.Value, _: list) -> list:
                some(builder.add(first, builder.mul(index, I64(count))), count, None)
                return []

            with builder.if_then(builder.icmp_signed(">", turns, I64(0))):
                loop(builder, turns, [], one)
            return builder.add(first, builder.mul(turns, I64(count)))

        done, whole = I64(0), builder.sdiv(length, I64(lanes))
        if unit:
            done = several(_AT_ONCE, done, builder.sdiv(whole, I64(_AT_ONCE)))
            done = several(1, done, builder.sub(whole, done))

        def masked(index: ir.Value, _: list) -> list:
            first = builder.add(done, index)
            some(first, 1, builder.sub(length, builder.mul(first, I64(lanes))))
            return []

        rest = builder.sub(builder.sdiv(builder.add(length, I64(lanes - 1)), I64(lanes)), done)
        with builder.if_then(builder.icmp_signed(">", rest, I64(0))):
            loop(builder, rest, [], masked)
        return context.get_dummy_value()

    return types.void(source, conversion, *[types.int64] * 4), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _convert_lines(leaf, job):
    for line in range(job.lines):
        _convert_line(
            leaf.source, leaf.conversion, job.at + line * job.line_stride, job.stride, job.length,
            job.target + line * job.target_stride,
        )  # fmt: skip


class _ConvertArguments(NamedTuple):
    lines: int
    length: int
    at: int
    line_stride: int
    stride: int
    target: int
    target_stride: int


class ConvertLines(NamedTuple):
    """Leaf: lines of an operand, converted, one after the other. Lines have room for whole vectors of 64 bytes."""

    source: NamedTuple
    conversion: NamedTuple
    run = _convert_lines
    arguments = _ConvertArguments


CONVERT_FIELDS = ("convert", "lines", "length", "line_stride", "stride", "target_line")
FIELDS = (
    *HEADER, "leaf", "m", "n", "k", "c_row", "a_row", "a_k", "b_k", "b_panel", "a_bytes",
    *(f"{name}_a" for name in CONVERT_FIELDS), *(f"{name}_b" for name in CONVERT_FIELDS), "pack_b", "line_b", "along_b",
    "by_a", "by_b", "by_c",
)  # fmt: skip
"""What the int64 of a job mean. convert_a, convert_b and pack_b are 0 where the operand is read where it lies."""

_FIRST = len(HEADER)
_CONVERT_A, _CONVERT_B = FIELDS.index("convert_a"), FIELDS.index("convert_b")
_PACK, _AHEAD = FIELDS.index("pack_b"), FIELDS.index("by_a")


@njit(cache=False, no_cpython_wrapper=True)
def _convert(fields, at, target):
    """Convert the operand at an address as the fields say."""
    arguments = _ConvertArguments(
        read(fields, 1), read(fields, 2), at, read(fields, 3), read(fields, 4), target, read(fields, 5)
    )
    call_at(read(fields, 0), arguments)


@njit(cache=False, no_cpython_wrapper=True)
def _strips(_, segment):
    """The products of a segment."""
    at, workspace = segment.job + 8 * _FIRST, segment.workspace
    leaf, m, n, k, c_row = read(at, 0), read(at, 1), read(at, 2), read(at, 3), read(at, 4)
    b_k, of_b = read(at, 7), workspace + read(at, 9)
    convert_a, convert_b = segment.job + 8 * _CONVERT_A, segment.job + 8 * _CONVERT_B
    pack_b, ahead = segment.job + 8 * _PACK, segment.job + 8 * _AHEAD
    step_a, step_b, step_c = read(segment.job, 3), read(segment.job, 4), read(segment.job, 5)
    for item in range(segment.count):
        a, b, c = segment.a + item * step_a, segment.b + item * step_b, segment.c + item * step_c
        next_a, next_b, next_c = a + step_a, b + step_b, c + step_c
        if read(convert_a, 0) != 0:
            if item == 0 or step_a != 0:
                _convert(convert_a, a, workspace)
            a = workspace
        if read(convert_b, 0) != 0:
            if item == 0 or step_b != 0:
                _convert(convert_b, b, of_b)
            b = of_b
        elif read(pack_b, 0) != 0:
            if item == 0 or step_b != 0:
                call_at(
                    read(pack_b, 0),
                    PackArguments(read(pack_b, 1), read(pack_b, 2), n, k, k, b, of_b, workspace, 0, n, 0, k),
                )
            b = of_b
        arguments = _SmallArguments(
            m, n, k, a, read(at, 5), read(at, 6), b, b_k, read(at, 8), c, c_row,
            next_a, next_b, next_c, read(ahead, 0), read(ahead, 1), read(ahead, 2),
        )  # fmt: skip
        call_at(leaf, arguments)


def strips(m: int, n: int, lanes: int) -> int:
    """About how many strips make a result, of tall ones."""
    return (m // 8 + m % 8 // 4 + m % 4) * -(-n // (2 * lanes))


class Strips(NamedTuple):
    """Leaf: a segment of products by the leaves that the job names."""

    run = _strips
    arguments = SegmentArguments
