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

from ..jit import intrinsic, ir, subroutine, types
from ..launch import call_at
from ..words import get
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
from .segments import HEADER, Alone, InARow, SegmentArguments
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


class _Columns:
    """Emits some vectors of columns of the result, strip after strip of its rows; `job.k` is at least 1."""

    def __init__(self, builder: ir.IRBuilder, leaf: types.Type, width: int, job: ir.Value, left: ir.Value) -> None:
        self.builder, self.kernel, self.width = builder, field_class(leaf, "kernel"), width
        self.target, self.fetches = field_class(leaf, "element"), field_class(leaf, "ahead").fetches
        self.job = {name: builder.extract_value(job, index) for index, name in enumerate(_SmallArguments._fields)}
        lanes = self.kernel.lanes
        left = broadcast(builder, builder.trunc(left, I32), lanes)
        self.masks = [builder.icmp_signed("<", lane_numbers(lanes, lanes * v), left) for v in range(width)]

    def fetch(self, turn: ir.Value) -> None:
        """Ask for lines of the next operands and of the place of their result."""
        for operand in "abc" if self.fetches else "":
            by = self.builder.mul(turn, self.job[f"by_{operand}"])
            at = self.builder.inttoptr(self.builder.add(self.job[f"next_{operand}"], by), POINTER)
            (prefetch_to_write if operand == "c" else prefetch)(self.builder, at)

    def strip(self, height: int, a: ir.Value, b: ir.Value, c: ir.Value, done: ir.Value) -> None:
        """`height` rows, which begin at a and c; `done` strips of the job were done before."""
        builder, kernel, job = self.builder, self.kernel, self.job
        lanes, size, depth = kernel.lanes, kernel.size, job["k"]
        kind, suffix = vector(kernel.element, lanes), f"v{lanes}f{8 * size}"
        rows = [opaque(builder, builder.mul(job["a_row"], I64(row))) for row in range(1, height)]
        before = builder.mul(done, depth)

        def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            a_at, b_at = (offset(builder, at, builder.mul(index, job[by])) for at, by in ((a, "a_k"), (b, "b_k")))
            self.fetch(builder.add(before, index))
            of_b, after = [], []
            for v, mask in enumerate(self.masks):
                at = builder.bitcast(offset(builder, b_at, v * lanes * size), kind.as_pointer())
                of_b.append(call(builder, f"llvm.masked.load.{suffix}.p0", kind, at, I32(size), mask, zero(kind)))
            for row, at in enumerate([a_at, *(offset(builder, a_at, apart) for apart in rows)]):
                of_a = broadcast(builder, load(builder, kernel.element, at, size), lanes)
                for v, x in enumerate(of_b):
                    after.append(call(builder, f"llvm.fma.{suffix}", kind, of_a, x, sums[row * self.width + v]))
            return after

        sums = loop(builder, depth, [zero(kind)] * (height * self.width), step)
        access = Rows(builder, self.target, lanes)
        for place, value in enumerate(sums):
            row, v = divmod(place, self.width)
            at = offset(builder, c, builder.mul(job["c_row"], I64(row)))
            at = offset(builder, at, v * lanes * self.target.size)
            access.write(convert(builder, value, self.target), at, self.masks[v])


@intrinsic(prefer_literal=True)
def _columns(typingctx, leaf, vectors, job, b, c, left, done):
    """At most `vectors` vectors of columns, of which so many numbers are `left`: strips of 8 rows, 4, and 1."""
    width, kernel = vectors.literal_value, field_class(leaf, "kernel")

    def codegen(context, builder, signature, arguments):
        job, b, c, left, done = arguments[2:]
        columns = _Columns(builder, leaf, width, job, left)
        a, b, c = (builder.inttoptr(at, POINTER) for at in (columns.job["a"], b, c))
        rows = columns.job["m"]
        for height in (8, 4, 1) if kernel.tall or width == 1 else (4, 1):
            strips = builder.sdiv(rows, I64(height))
            a_bytes, c_bytes = (builder.mul(columns.job[row], I64(height)) for row in ("a_row", "c_row"))

            def one(index: ir.Value, _: list, at=(height, a, a_bytes, c, c_bytes, done)) -> list:
                height, a, a_bytes, c, c_bytes, done = at
                places = (
                    offset(builder, a, builder.mul(index, a_bytes)),
                    b,
                    offset(builder, c, builder.mul(index, c_bytes)),
                )
                columns.strip(height, *places, builder.add(done, index))
                return []

            with builder.if_then(builder.icmp_signed(">", strips, I64(0))):
                loop(builder, strips, [], one)
            a, c = offset(builder, a, builder.mul(strips, a_bytes)), offset(builder, c, builder.mul(strips, c_bytes))
            rows, done = builder.sub(rows, builder.mul(strips, I64(height))), builder.add(done, strips)
        return done

    return types.int64(leaf, vectors, job, *[types.int64] * 4), codegen


@subroutine
def _multiply_small(leaf, job):
    """The whole result. B is read in panels of two vectors of columns, `b_panel` bytes apart; where its rows are whole,
    by three vectors unless that would leave one: 24 accumulators for 8 + 3 loads. [48, 48] @ [48, 48] takes 1.5 us by
    threes and 1.9 by pairs."""
    lanes, size = constant(leaf.kernel, "lanes"), constant(leaf.kernel, "size")
    threes, j, done = constant(leaf.kernel, "tall") and job.b_panel == 2 * lanes * size, 0, 0
    while j < job.n:
        left, c = job.n - j, job.c + j * constant(leaf.element, "size")
        b = job.b + j * size if threes else job.b + j // (2 * lanes) * job.b_panel
        if threes and left > 2 * lanes and (left <= 3 * lanes or left > 4 * lanes):
            done = _columns(leaf, 3, job, b, c, left, done)
            j += lanes
        elif left > lanes:
            done = _columns(leaf, 2, job, b, c, left, done)
        else:
            done = _columns(leaf, 1, job, b, c, left, done)
        j += 2 * lanes


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


@subroutine
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


@subroutine
def _convert(fields, at, target):
    """Convert the operand at an address as the fields say."""
    arguments = _ConvertArguments(
        get(fields, 1), get(fields, 2), at, get(fields, 3), get(fields, 4), target, get(fields, 5)
    )
    call_at(get(fields, 0), arguments)


@subroutine
def _strips(_, segment):
    """The products of a segment."""
    at, workspace = segment.job + 8 * _FIRST, segment.workspace
    leaf, m, n, k, c_row = get(at, 0), get(at, 1), get(at, 2), get(at, 3), get(at, 4)
    b_k, of_b = get(at, 7), workspace + get(at, 9)
    convert_a, convert_b = segment.job + 8 * _CONVERT_A, segment.job + 8 * _CONVERT_B
    pack_b, ahead = segment.job + 8 * _PACK, segment.job + 8 * _AHEAD
    step_a, step_b, step_c = get(segment.job, 3), get(segment.job, 4), get(segment.job, 5)
    for item in range(segment.count):
        a, b, c = segment.a + item * step_a, segment.b + item * step_b, segment.c + item * step_c
        next_a, next_b, next_c = a + step_a, b + step_b, c + step_c
        if get(convert_a, 0) != 0:
            if item == 0 or step_a != 0:
                _convert(convert_a, a, workspace)
            a = workspace
        if get(convert_b, 0) != 0:
            if item == 0 or step_b != 0:
                _convert(convert_b, b, of_b)
            b = of_b
        elif get(pack_b, 0) != 0:
            if item == 0 or step_b != 0:
                call_at(
                    get(pack_b, 0),
                    PackArguments(get(pack_b, 1), get(pack_b, 2), n, k, k, b, of_b, workspace, 0, n, 0, k),
                )
            b = of_b
        arguments = _SmallArguments(
            m, n, k, a, get(at, 5), get(at, 6), b, b_k, get(at, 8), c, c_row,
            next_a, next_b, next_c, get(ahead, 0), get(ahead, 1), get(ahead, 2),
        )  # fmt: skip
        call_at(leaf, arguments)


def strips(m: int, n: int, lanes: int) -> int:
    """About how many strips make a result, of tall ones."""
    return (m // 8 + m % 8 // 4 + m % 4) * -(-n // (2 * lanes))


class Strips(NamedTuple):
    """Leaf: a segment of products by the leaves that the job names."""

    run = _strips
    arguments = SegmentArguments
