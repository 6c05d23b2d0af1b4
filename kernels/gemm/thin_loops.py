"""Products with one to four rows or columns, as of a matrix and a vector: the matrix is read once, where it lies.

What such a product costs is reading the matrix. Values of 16 bits are widened and float32 ones rounded on their way
into registers; packing would write all of them and read them again. The few rows are converted before, into memory of
their own. Of bf16x3 two parts are made of each value in registers, and the rows are there twice: as they are, which
multiply the first part, and their own first parts, which multiply the second. Rows of the matrix that run across the
result (`AddRows`) are added four at a time to sums that stay in the L1 cache; rows that run along K (`SumRows`) are
summed in vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from .conversions import InTwo, converted, in_two_bf16
from .emit import F32, I32, I64, LINE, POINTER, broadcast, call, lane_numbers, load, loop, offset, store, vector, zero
from .microkernels import Rows
from .tags import constant, field_class

__all__ = ["AddRows", "SumRows", "multiply_rows"]

_LANES, _AT_ONCE = 16, 4
_STEP, _LONG_STEP = 256, 4096
"""Terms that are summed in one chain before they are added to the others, in `AddRows` and (16 chains) in `SumRows`."""


class _Vectors:
    """Emits the reading of vectors of the matrix, widened and rounded, in one or two parts."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any) -> None:
        self.builder = builder
        self.element, self.conversion = field_class(leaf, "element"), field_class(leaf, "conversion")
        self.access = Rows(builder, self.element, _LANES)
        self.parts = 2 if self.conversion is InTwo else 1

    def read(self, at: ir.Value, mask: ir.Value) -> list[ir.Value]:
        """The parts of a vector, the smaller one first."""
        value = self.access.read(at, None, mask)
        if self.parts == 2:
            return in_two_bf16(self.builder, value)[::-1]
        return [converted(self.builder, value, self.conversion)]

    def factors(self, a: ir.Value, a_row: ir.Value, rows: int) -> list[list[ir.Value]]:
        """Where each of the few rows lies that multiplies each part, in the order of `read`."""
        lines = [offset(self.builder, a, self.builder.mul(a_row, I64(line))) for line in range(rows * self.parts)]
        return [[lines[part * rows + row] for part in reversed(range(self.parts))] for row in range(rows)]

    def masks(self, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The number of whole vectors in `count` values, and which lanes the rest fills."""
        whole = self.builder.ashr(count, I64(4))
        left = self.builder.trunc(self.builder.and_(count, I64(_LANES - 1)), I32)
        return whole, self.builder.icmp_signed("<", lane_numbers(_LANES), broadcast(self.builder, left))


_ALL = ir.Constant(vector(ir.IntType(1), _LANES), [1] * _LANES)


def _pieces(builder: ir.IRBuilder, how: _Vectors, count: ir.Value, sums: list, piece: Callable) -> list:
    """`piece(index, mask, sums)` for every vector of `count` values; the sums that it carries on."""
    whole, rest = how.masks(count)
    some = builder.icmp_signed(">", whole, I64(0))
    sums = _where(builder, some, sums, lambda: loop(builder, whole, sums, lambda index, now: piece(index, _ALL, now)))
    ragged = builder.icmp_signed("!=", builder.shl(whole, I64(4)), count)
    return _where(builder, ragged, sums, lambda: piece(whole, rest, sums))


def _where(builder: ir.IRBuilder, condition: ir.Value, before: list, emit: Callable[[], list]) -> list:
    """What `emit` makes of the values where the condition holds; else they as they are."""
    entry = builder.block
    with builder.if_then(condition):
        after, last = emit(), builder.block
    merged = [builder.phi(value.type) for value in before]
    for phi, old, new in zip(merged, before, after, strict=True):
        phi.add_incoming(old, entry)
        phi.add_incoming(new, last)
    return merged


@intrinsic(prefer_literal=True)
def _add_rows(typingctx, leaf, rows, at_once, a, a_row, b, b_row, sums, sums_row, columns):
    """sums[r, :columns] += a[r, q] * b[q, :columns] for so many rows r of A, and for so many q at once. Sums are read
    and written in whole vectors."""
    height, depth = rows.literal_value, at_once.literal_value

    def codegen(context, builder, signature, arguments):
        a, a_row, b, b_row, sums, sums_row, columns = arguments[3:]
        a, b, sums = (builder.inttoptr(x, POINTER) for x in (a, b, sums))
        how = _Vectors(builder, leaf)
        of_a = [
            [broadcast(builder, load(builder, F32, offset(builder, at, 4 * q), 4)) for q in range(depth) for at in row]
            for row in how.factors(a, a_row, height)
        ]

        def piece(index: ir.Value, mask: ir.Value, _: list) -> list:
            first = builder.mul(index, I64(_LANES * how.element.size))
            of_b = [
                part
                for q in range(depth)
                for part in how.read(offset(builder, offset(builder, b, builder.mul(b_row, I64(q))), first), mask)
            ]
            for row, factors in enumerate(of_a):
                at = offset(builder, offset(builder, sums, builder.mul(sums_row, I64(row))), builder.shl(index, I64(6)))
                value = load(builder, vector(F32), at, LINE)
                for factor, x in zip(factors, of_b, strict=True):
                    value = call(builder, "llvm.fma.v16f32", vector(F32), factor, x, value)
                store(builder, value, at, LINE)
            return []

        _pieces(builder, how, columns, [], piece)
        return context.get_dummy_value()

    return types.void(leaf, rows, at_once, *[types.int64] * 7), codegen


@intrinsic
def _move_sums(typingctx, sums, totals, columns):
    """totals[:columns] += sums, and the sums are zero again, to whole vectors; both addresses."""

    def codegen(context, builder, signature, arguments):
        sums, totals = (builder.inttoptr(x, POINTER) for x in arguments[:2])
        kind = vector(F32)

        def piece(index: ir.Value, _: list) -> list:
            source, target = (offset(builder, x, builder.shl(index, I64(6))) for x in (sums, totals))
            value = builder.fadd(load(builder, kind, target, 4), load(builder, kind, source, LINE))
            store(builder, value, target, 4)
            store(builder, zero(kind), source, LINE)
            return []

        loop(builder, builder.ashr(builder.add(arguments[2], I64(_LANES - 1)), I64(4)), [], piece)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


class _Arguments(NamedTuple):
    rows: int
    k: int
    a: int
    a_row: int
    b: int
    b_line: int
    totals: int
    totals_row: int
    sums: int
    sums_row: int
    columns: int


@subroutine
def _across(leaf, job):
    """Some columns of the result; `b_line` is the stride of the matrix along K."""
    size, one, whole = job.sums_row, job.rows == 1, job.k // _AT_ONCE * _AT_ONCE
    for first in range(0, job.k, _STEP):
        last = min(first + _STEP, job.k)
        for k in range(first, min(last, whole), _AT_ONCE):
            a, b = job.a + 4 * k, job.b + k * job.b_line
            if one:
                _add_rows(leaf, 1, 4, a, job.a_row, b, job.b_line, job.sums, size, job.columns)
            else:
                _add_rows(leaf, 4, 4, a, job.a_row, b, job.b_line, job.sums, size, job.columns)
        for k in range(max(first, whole), last):
            a, b = job.a + 4 * k, job.b + k * job.b_line
            if one:
                _add_rows(leaf, 1, 1, a, job.a_row, b, job.b_line, job.sums, size, job.columns)
            else:
                _add_rows(leaf, 4, 1, a, job.a_row, b, job.b_line, job.sums, size, job.columns)
        for row in range(job.rows):
            _move_sums(job.sums + row * size, job.totals + row * job.totals_row, job.columns)


class AddRows(NamedTuple):
    """Leaf: columns of the result of a matrix that is contiguous across them."""

    element: NamedTuple
    conversion: NamedTuple
    run = _across
    arguments = _Arguments


@intrinsic(prefer_literal=True)
def _sum_rows(typingctx, leaf, rows, lines, a, a_row, b, b_line, depth, totals, totals_row):
    """totals[r, c] += the sum over `depth` of a[r] * b[c], for so many rows of A and lines of the matrix."""
    height, width = rows.literal_value, lines.literal_value

    def codegen(context, builder, signature, arguments):
        a, a_row, b, b_line, depth, totals, totals_row = arguments[3:]
        a, b, totals = (builder.inttoptr(x, POINTER) for x in (a, b, totals))
        how, kind = _Vectors(builder, leaf), vector(F32)
        of_a = how.factors(a, a_row, height)
        of_b = [offset(builder, b, builder.mul(b_line, I64(line))) for line in range(width)]

        def piece(index: ir.Value, mask: ir.Value, sums: list) -> list:
            first, after = builder.mul(index, I64(_LANES * how.element.size)), []
            values = [how.read(offset(builder, at, first), mask) for at in of_b]
            for row in range(height):
                factors = [
                    load(builder, kind, offset(builder, at, builder.shl(index, I64(6))), LINE) for at in of_a[row]
                ]
                for line, value in enumerate(values):
                    total = sums[row * width + line]
                    for factor, part in zip(factors, value, strict=True):
                        total = call(builder, "llvm.fma.v16f32", kind, factor, part, total)
                    after.append(total)
            return after

        sums = _pieces(builder, how, depth, [zero(kind)] * (height * width), piece)
        for place, value in enumerate(sums):
            row = offset(builder, totals, builder.mul(totals_row, I64(place // width)))
            at = offset(builder, row, 4 * (place % width))
            store(builder, builder.fadd(load(builder, F32, at, 4), _total(builder, value)), at, 4)
        return context.get_dummy_value()

    return types.void(leaf, rows, lines, *[types.int64] * 7), codegen


def _total(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The sum of a vector, by halves."""
    lanes = value.type.count
    while lanes > 1:
        lanes //= 2
        halves = [ir.Constant(vector(I32, lanes), list(range(start, start + lanes))) for start in (0, lanes)]
        value = builder.fadd(*[builder.shuffle_vector(value, value, half) for half in halves])
    return builder.extract_element(value, I32(0))


@subroutine
def _along(leaf, job):
    """Some columns of the result: `b_line` is the stride from one line of the matrix, along K, to the next."""
    size, one, whole = job.totals_row, job.rows == 1, job.columns // _AT_ONCE * _AT_ONCE
    for first in range(0, job.k, _LONG_STEP):
        depth = min(_LONG_STEP, job.k - first)
        a = job.a + 4 * first
        b = job.b + first * constant(leaf.element, "size")
        for line in range(0, whole, _AT_ONCE):
            at, to = b + line * job.b_line, job.totals + 4 * line
            if one:
                _sum_rows(leaf, 1, 4, a, job.a_row, at, job.b_line, depth, to, size)
            else:
                _sum_rows(leaf, 4, 4, a, job.a_row, at, job.b_line, depth, to, size)
        for line in range(whole, job.columns):
            at, to = b + line * job.b_line, job.totals + 4 * line
            if one:
                _sum_rows(leaf, 1, 1, a, job.a_row, at, job.b_line, depth, to, size)
            else:
                _sum_rows(leaf, 4, 1, a, job.a_row, at, job.b_line, depth, to, size)


class SumRows(NamedTuple):
    """Leaf: columns of the result of a matrix that is contiguous along K, which needs no sums."""

    element: NamedTuple
    conversion: NamedTuple
    run = _along
    arguments = _Arguments


@subroutine
def _task(task, worker, job):
    first = task * job.width
    call_at(
        job.leaf,
        _Arguments(
            job.rows, job.k, job.a, job.a_row, job.b + first * job.b_column, job.b_line, job.totals + 4 * first,
            job.totals_row, job.sums + worker * job.rows * job.sums_row, job.sums_row, min(job.width, job.n - first),
        ),
    )  # fmt: skip


class _Columns(NamedTuple):
    leaf: int
    width: int
    n: int
    rows: int
    k: int
    a: int
    a_row: int
    b: int
    b_line: int
    b_column: int
    totals: int
    totals_row: int
    sums: int
    sums_row: int
    run = _task


@njit
def multiply_rows(
    pool, threads, leaf, width, n, rows, k, a, a_row, b, b_line, b_column, totals, totals_row, sums, sums_row
):  # fmt: skip
    """Add `rows` (1 or 4) rows at `a`, float32 on cache lines and zero behind `k`, times a matrix (k, n) to `totals`.
    Where values of the matrix have two parts, as many rows follow for the second.

    `leaf` is the address of an `AddRows` or of a `SumRows`, which reads the matrix in lines `b_line` bytes apart and in
    columns `b_column` apart. Tasks are `width` columns, a multiple of 16. Each worker has `rows` zero rows of
    `sums_row` bytes at `sums`; rows of `totals` are `totals_row` bytes apart, with room for whole vectors.
    """
    job = _Columns(leaf, width, n, rows, k, a, a_row, b, b_line, b_column, totals, totals_row, sums, sums_row)
    launch(pool, threads, (n + width - 1) // width, job)
