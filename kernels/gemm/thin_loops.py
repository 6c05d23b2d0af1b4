"""Products with few rows or columns, as of a matrix and a vector: the matrix is read where it lies, from memory once.

What such a product costs is reading the matrix. Values of 16 bits are widened and float32 ones rounded on their way
into registers; packing would write all of them and read them again. The few rows are converted before, where they have
to be. Of bf16x3 two parts are made of each value in registers, and the rows are there twice: as they are, which
multiply the first part, and their own first parts, which multiply the second. Some rows at a time (`One`, `Four`,
`Eight`) are multiplied with some vectors of columns of a matrix that runs across the result (`AddRows`), of which the
next stretch along K is asked for meanwhile, or with some lines of a matrix that runs along K (`SumRows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from .conversions import converted, in_two_bf16
from .emit import (
    F64,
    I32,
    I64,
    LINE,
    POINTER,
    broadcast,
    call,
    lane_numbers,
    load,
    loop,
    offset,
    opaque,
    prefetch_to_l2,
    store,
    vector,
    zero,
)
from .microkernels import Rows
from .sources import Float32, Float64
from .tags import constant, field_class

__all__ = ["AddRows", "Eight", "Four", "FourOfAvx2", "One", "OneOfAvx2", "SumRows", "multiply_rows"]

_STEP, _AHEAD = 64, 32
"""Places along K of a matrix that runs across the result for which sums stay in registers, and how many before they
are read they are asked for."""


class One(NamedTuple):
    """How many of the few rows are multiplied at a time: with so many vectors of columns, or with so many lines along
    K, of which sums stay in registers for `step` places."""

    height, vectors, lines, step = 1, 12, 4, 4096


class Four(NamedTuple):
    height, vectors, lines, step = 4, 6, 4, 4096


class Eight(NamedTuple):
    height, vectors, lines, step = 8, 3, 3, 1024


class OneOfAvx2(NamedTuple):
    height, vectors, lines, step = 1, 4, 4, 4096


class FourOfAvx2(NamedTuple):
    height, vectors, lines, step = 4, 1, 2, 4096


class _Vectors:
    """Emits the reading of vectors of the matrix, widened and rounded, in one or two parts."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any) -> None:
        self.builder = builder
        self.element, self.conversion = field_class(leaf, "element"), field_class(leaf, "conversion")
        self.number = Float64 if self.element.working is F64 else Float32
        self.lanes = LINE // self.number.size
        self.kind = vector(self.number.stored, self.lanes)
        self.matrix, self.sums = (Rows(builder, element, self.lanes) for element in (self.element, self.number))
        self.all = ir.Constant(vector(ir.IntType(1), self.lanes), [1] * self.lanes)
        self.parts, self.height = self.conversion.vector_parts, field_class(leaf, "rows").height

    def read(self, at: ir.Value, mask: ir.Value) -> list[ir.Value]:
        """The parts of a vector, the smaller one first."""
        value = self.matrix.read(at, None, mask)
        if self.parts == 2:
            return in_two_bf16(self.builder, value)[::-1]
        return [converted(self.builder, value, self.conversion)]

    def factors(self, count: ir.Value, a_row: ir.Value, a_part: ir.Value) -> list[list[ir.Value]]:
        """How far behind the first of `count` rows each one lies that multiplies each part, in the order of `read`; the
        last one again where there are fewer than are multiplied at a time."""
        builder, parts, last = self.builder, range(self.parts)[::-1], self.builder.sub(count, I64(1))
        found = []
        for row in map(I64, range(self.height)):
            start = builder.mul(a_row, builder.select(builder.icmp_signed("<", row, last), row, last))
            found.append([opaque(builder, builder.add(start, builder.mul(a_part, I64(part)))) for part in parts])
        return found

    def rows_of(self, count: ir.Value, add: Callable[[int], None]) -> None:
        """`add(row)` for each row at a time, of which `count` are rows of the result, at least one."""
        for row in range(self.height):
            if row == 0:
                add(row)
                continue
            with self.builder.if_then(self.builder.icmp_signed("<", I64(row), count)):
                add(row)

    def masks(self, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The number of whole vectors in `count` values, and which lanes the rest fills."""
        whole = self.builder.sdiv(count, I64(self.lanes))
        return whole, self.first(self.builder.sub(count, self.builder.mul(whole, I64(self.lanes))))

    def first(self, count: ir.Value) -> ir.Value:
        """Which lanes so many values fill."""
        left = broadcast(self.builder, self.builder.trunc(count, I32), self.lanes)
        return self.builder.icmp_signed("<", lane_numbers(self.lanes), left)

    def with_products(self, total: ir.Value, factors: list[ir.Value], parts: list[ir.Value]) -> ir.Value:
        """A vector of sums with the products of the parts."""
        name = f"llvm.fma.v{self.lanes}f{8 * self.number.size}"
        for factor, part in zip(factors, parts, strict=True):
            total = call(self.builder, name, self.kind, factor, part, total)
        return total


def _pieces(builder: ir.IRBuilder, how: _Vectors, count: ir.Value, sums: list, piece: Callable) -> list:
    """`piece(index, mask, sums)` for every vector of `count` values; the sums that it carries on."""
    whole, rest = how.masks(count)
    some = builder.icmp_signed(">", whole, I64(0))
    sums = _where(
        builder, some, sums, lambda: loop(builder, whole, sums, lambda index, now: piece(index, how.all, now))
    )
    ragged = builder.icmp_signed("!=", builder.mul(whole, I64(how.lanes)), count)
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
def _add_rows(typingctx, leaf, several, rows, depth, a, a_row, a_part, b, b_row, totals, totals_row, columns):
    """totals[r] += the sum over `depth` of a[r, q] * b[q], for `rows` rows, at most those that are multiplied at a
    time, and one vector of columns, of which some or all are there, or `several` whole ones."""
    width = field_class(leaf, "rows").vectors if several.literal_value else 1

    def codegen(context, builder, signature, arguments):
        rows, depth, a, a_row, a_part, b, b_row, totals, totals_row, columns = arguments[2:]
        a, b, totals = (builder.inttoptr(x, POINTER) for x in (a, b, totals))
        how = _Vectors(builder, leaf)
        of_a, mask = how.factors(rows, a_row, a_part), how.all if several.literal_value else how.first(columns)
        size, bytes_of_b, ahead = how.number.size, how.lanes * how.element.size, builder.mul(b_row, I64(_AHEAD))

        def place(index: ir.Value, sums: list) -> list:
            at, after = offset(builder, b, builder.mul(index, b_row)), []
            of_b = [how.read(offset(builder, at, bytes_of_b * number), mask) for number in range(width)]
            prefetch_to_l2(builder, offset(builder, at, ahead), -(-width * bytes_of_b // LINE))
            start = offset(builder, a, builder.mul(index, I64(size)))
            for row, starts in enumerate(of_a):
                factors = [load(builder, how.number.stored, offset(builder, start, by), size) for by in starts]
                factors = [broadcast(builder, factor, how.lanes) for factor in factors]
                for number, parts in enumerate(of_b):
                    after.append(how.with_products(sums[row * width + number], factors, parts))
            return after

        sums = loop(builder, depth, [zero(how.kind)] * (how.height * width), place)

        def add(row: int) -> None:
            for number in range(width):
                at = offset(builder, offset(builder, totals, builder.mul(totals_row, I64(row))), LINE * number)
                how.sums.write(builder.fadd(how.sums.read(at, None, mask), sums[row * width + number]), at, mask)

        how.rows_of(rows, add)
        return context.get_dummy_value()

    return types.void(leaf, several, *[types.int64] * 10), codegen


class _Arguments(NamedTuple):
    rows: int
    k: int
    a: int
    a_row: int
    a_part: int
    b: int
    b_line: int
    totals: int
    totals_row: int
    totals_column: int
    columns: int


@subroutine
def _across(leaf, job):
    """Some columns of the result; `b_line` is the stride of the matrix along K, that of totals from column to column is
    not looked at."""
    height, size = constant(leaf.rows, "height"), max(4, constant(leaf.element, "size"))
    width = LINE // size * constant(leaf.rows, "vectors")
    for first in range(0, job.k, _STEP):
        depth, column = min(_STEP, job.k - first), 0
        while column < job.columns:
            b, left = job.b + first * job.b_line + column * constant(leaf.element, "size"), job.columns - column
            for row in range(0, job.rows, height):
                rows, a = job.rows - row, job.a + row * job.a_row + size * first
                to = job.totals + row * job.totals_row + size * column
                if left >= width:
                    _add_rows(
                        leaf, True, rows, depth, a, job.a_row, job.a_part, b, job.b_line, to, job.totals_row, left
                    )
                else:
                    _add_rows(
                        leaf, False, rows, depth, a, job.a_row, job.a_part, b, job.b_line, to, job.totals_row, left
                    )
            column += width if left >= width else LINE // size


class AddRows(NamedTuple):
    """Leaf: columns of the result of a matrix that is contiguous across them."""

    element: NamedTuple
    conversion: NamedTuple
    rows: NamedTuple
    run = _across
    arguments = _Arguments


@intrinsic(prefer_literal=True)
def _sum_rows(
    typingctx, leaf, several, rows, depth, a, a_row, a_part, b, b_line, totals, totals_row, totals_column
):  # fmt: skip
    """totals[r, c] += the sum over `depth` of a[r] * b[c], for `rows` rows, at most those that are multiplied at a
    time, and one line of the matrix or `several`."""
    width = field_class(leaf, "rows").lines if several.literal_value else 1

    def codegen(context, builder, signature, arguments):
        rows, depth, a, a_row, a_part, b, b_line, totals, totals_row, totals_column = arguments[2:]
        a, b, totals = (builder.inttoptr(x, POINTER) for x in (a, b, totals))
        how = _Vectors(builder, leaf)
        of_a, size = how.factors(rows, a_row, a_part), how.number.size
        of_b = [offset(builder, b, builder.mul(b_line, I64(line))) for line in range(width)]

        def piece(index: ir.Value, mask: ir.Value, sums: list) -> list:
            first, after = builder.mul(index, I64(how.lanes * how.element.size)), []
            values = [how.read(offset(builder, at, first), mask) for at in of_b]
            start = offset(builder, a, builder.shl(index, I64(6)))
            for row, starts in enumerate(of_a):
                factors = [how.sums.read(offset(builder, start, by), None, mask) for by in starts]
                for line, parts in enumerate(values):
                    after.append(how.with_products(sums[row * width + line], factors, parts))
            return after

        sums = _pieces(builder, how, depth, [zero(how.kind)] * (how.height * width), piece)

        found = [_totals(builder, sums[first : first + how.lanes]) for first in range(0, len(sums), how.lanes)]

        def add(row: int) -> None:
            start = offset(builder, totals, builder.mul(totals_row, I64(row)))
            for line in range(width):
                at = offset(builder, start, builder.mul(totals_column, I64(line)))
                vector_of, lane = divmod(row * width + line, how.lanes)
                total = builder.extract_element(found[vector_of], I32(lane))
                store(builder, builder.fadd(load(builder, how.number.stored, at, size), total), at, size)

        how.rows_of(rows, add)
        return context.get_dummy_value()

    return types.void(leaf, several, *[types.int64] * 10), codegen


def _totals(builder: ir.IRBuilder, values: list[ir.Value]) -> ir.Value:
    """The sums of at most as many vectors as they have lanes, one in each lane: two become one that has both their
    halves added up, and so on."""
    count = lanes = values[0].type.count
    while lanes > 1:
        lanes //= 2
        starts = range(0, 2 * count, 2 * lanes)
        halves = [[lane for start in starts for lane in range(start + by, start + by + lanes)] for by in (0, lanes)]
        pairs = zip(values[::2], [*values[1::2], values[-1]], strict=False)
        values = [
            builder.fadd(*[builder.shuffle_vector(*pair, ir.Constant(vector(I32, count), half)) for half in halves])
            for pair in pairs
        ]
    return values[0]


@subroutine
def _along(leaf, job):
    """Some columns of the result: `b_line` is the stride from one line of the matrix, along K, to the next."""
    height, at_once, step = constant(leaf.rows, "height"), constant(leaf.rows, "lines"), constant(leaf.rows, "step")
    for first in range(0, job.k, step):
        depth, size = min(step, job.k - first), max(4, constant(leaf.element, "size"))
        from_b = job.b + first * constant(leaf.element, "size")
        for row in range(0, job.rows, height):
            a, totals = job.a + row * job.a_row + size * first, job.totals + row * job.totals_row
            rows, line = job.rows - row, 0
            while line < job.columns:
                b, to = from_b + line * job.b_line, totals + line * job.totals_column
                to_row, to_column = job.totals_row, job.totals_column
                if line + at_once <= job.columns:
                    _sum_rows(leaf, True, rows, depth, a, job.a_row, job.a_part, b, job.b_line, to, to_row, to_column)
                    line += at_once
                else:
                    _sum_rows(leaf, False, rows, depth, a, job.a_row, job.a_part, b, job.b_line, to, to_row, to_column)
                    line += 1


class SumRows(NamedTuple):
    """Leaf: columns of the result of a matrix that is contiguous along K."""

    element: NamedTuple
    conversion: NamedTuple
    rows: NamedTuple
    run = _along
    arguments = _Arguments


@subroutine
def _task(task, worker, job):
    first = task * job.width
    call_at(
        job.leaf,
        _Arguments(
            job.rows, job.k, job.a, job.a_row, job.a_part, job.b + first * job.b_column, job.b_line,
            job.totals + first * job.totals_column, job.totals_row, job.totals_column, min(job.width, job.n - first),
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
    a_part: int
    b: int
    b_line: int
    b_column: int
    totals: int
    totals_row: int
    totals_column: int
    run = _task


@njit
def multiply_rows(
    pool, threads, leaf, width, n, rows, k, a, a_row, a_part, b, b_line, b_column, totals, totals_row, totals_column
):  # fmt: skip
    """Add some rows at `a` times a matrix (k, n) to `totals` (rows, n), in float32, or float64 for a matrix of it.

    Rows of neighbours lie `a_row` bytes apart. Where values of the matrix have two parts, they are there twice,
    `a_part` bytes apart. `leaf` is the address of an `AddRows`, for which columns of totals are neighbours, or of a
    `SumRows`. It reads the matrix in lines `b_line` bytes apart and in columns `b_column` apart. Tasks are `width`
    columns.
    """
    job = _Columns(
        leaf, width, n, rows, k, a, a_row, a_part, b, b_line, b_column, totals, totals_row, totals_column
    )  # fmt: skip
    launch(pool, threads, (n + width - 1) // width, job)
