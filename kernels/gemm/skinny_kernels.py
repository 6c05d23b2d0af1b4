"""The innermost code of thin products: a block of the few rows times vectors of columns, or lines, of a matrix.

The matrix is read in place: its values are widened, rounded or split on their way into registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..block import emit as e
from ..block.conversions import convert_lanes, in_two_bf16
from ..block.microkernels import Rows
from ..block.sources import Float32, Float64
from ..block.tags import field_class, tag_class
from ..runtime.emitter import Fields, Pointer, Type, boolean, emitter
from ..runtime.jit import ir

One = tag_class("One", __name__, height=1, vectors=8, places=8, lines=4, step=256, asks=True)
"""A block: `height` rows with so many `vectors` of columns, or with so many `lines` along K.

Sums stay in registers for `places` along K, or for `step` vectors of lines. `asks`: the matrix is prefetched.
"""

Four = tag_class("Four", __name__, height=4, vectors=6, places=16, lines=4, step=256, asks=True)
Eight = tag_class("Eight", __name__, height=8, vectors=3, places=16, lines=3, step=64, asks=True)
OneOfAvx2 = tag_class("OneOfAvx2", __name__, height=1, vectors=4, places=8, lines=4, step=256, asks=False)
FourOfAvx2 = tag_class("FourOfAvx2", __name__, height=4, vectors=1, places=8, lines=2, step=256, asks=False)
SixOfAvx2 = tag_class("SixOfAvx2", __name__, height=6, vectors=1, places=8, lines=1, step=256, asks=False)
TwoOfAvx2 = tag_class("TwoOfAvx2", __name__, height=2, vectors=1, places=0, lines=3, step=64)


_OF_AVX512 = {1: One(), 4: Four(), math.inf: Eight()}
_OF_AVX2 = {1: OneOfAvx2(), 4: FourOfAvx2(), math.inf: SixOfAvx2()}

ROWS = {"avx512": _OF_AVX512, "avx2": _OF_AVX2}
"""The blocks of each instruction set, by the most rows that each is for. Blocks of few places along K read long runs of
memory. A Zen 3 is faster without prefetching, and with as few places as its L1 cache has lines 4096 bytes apart
(bench/NOTES.md, "Blocks of thin products")."""

ROWS_ALONG_K = {"avx512": _OF_AVX512, "avx2": {1: OneOfAvx2(), math.inf: TwoOfAvx2()}}
"""The same for a matrix that runs along K and is not rounded, so that reading it again costs little. With the 16
registers of AVX2, 2 rows by 3 lines load least for each sum (bench/NOTES.md, the same section)."""


class _Vectors:
    """Emits the reading of vectors of the matrix, widened and rounded, in one or two parts."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any) -> None:
        self.builder = builder
        self.element, self.conversion = field_class(leaf, "element"), field_class(leaf, "conversion")
        self.number = Float64 if self.element.working is e.F64 else Float32
        self.lanes = e.LINE // self.number.size
        self.kind = e.vector(self.number.stored, self.lanes)
        self.matrix, self.sums = (Rows(builder, element, self.lanes) for element in (self.element, self.number))
        self.all = ir.Constant(e.vector(ir.IntType(1), self.lanes), [1] * self.lanes)
        self.parts, self.rows = self.conversion.vector_parts, field_class(leaf, "rows")

    def read(self, at: ir.Value, mask: ir.Value) -> list[ir.Value]:
        """The parts of a vector of the matrix, the smaller one first."""
        return self.in_parts(self.matrix.read(at, None, mask))

    def in_parts(self, value: ir.Value) -> list[ir.Value]:
        """The parts of a vector, the smaller one first."""
        if self.parts == 2:
            return in_two_bf16(self.builder, value)[::-1]
        return [convert_lanes(self.builder, value, self.conversion)]

    def factors(self, count: ir.Value, a_row: ir.Value, a_part: ir.Value) -> list[list[ir.Value]]:
        """The distances in bytes of the rows from the first of `count`, for each part in the order of `read`. Rows
        beyond the last one repeat it."""
        builder, parts, last = self.builder, range(self.parts)[::-1], self.builder.sub(count, e.I64(1))
        found = []
        for row in map(e.I64, range(self.rows.height)):
            start = builder.mul(a_row, builder.select(builder.icmp_signed("<", row, last), row, last))
            found.append([e.opaque(builder, builder.add(start, builder.mul(a_part, e.I64(part)))) for part in parts])
        return found

    def rows_of(self, count: ir.Value, add: Callable[[int], None]) -> None:
        """Emit `add(row)` for each row of the block; the result has `count` of them, at least one."""
        for row in range(self.rows.height):
            if row == 0:
                add(row)
                continue
            with self.builder.if_then(self.builder.icmp_signed("<", e.I64(row), count)):
                add(row)

    def masks(self, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The number of whole vectors in `count` values, and the mask of the rest."""
        whole = self.builder.sdiv(count, e.I64(self.lanes))
        return whole, self.first(self.builder.sub(count, self.builder.mul(whole, e.I64(self.lanes))))

    def first(self, count: ir.Value) -> ir.Value:
        """The mask of the lanes that so many values fill."""
        return e.first_lanes(self.builder, count, self.lanes)

    def with_products(self, total: ir.Value, factors: list[ir.Value], parts: list[ir.Value]) -> ir.Value:
        """A vector of sums with the products of the parts."""
        name = f"llvm.fma.v{self.lanes}f{8 * self.number.size}"
        for factor, part in zip(factors, parts, strict=True):
            total = e.call(self.builder, name, self.kind, factor, part, total)
        return total


def _pieces(builder: ir.IRBuilder, how: _Vectors, count: ir.Value, sums: list, piece: Callable) -> list:
    """Emit `piece(index, mask, sums)` for every vector of `count` values; the last sums."""
    whole, rest = how.masks(count)
    some = builder.icmp_signed(">", whole, e.I64(0))
    sums = _where(
        builder, some, sums, lambda: e.loop(builder, whole, sums, lambda index, now: piece(index, how.all, now))
    )
    ragged = builder.icmp_signed("!=", builder.mul(whole, e.I64(how.lanes)), count)
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


def _of_width(builder: ir.IRBuilder, several: ir.Value, width: int, emit: Callable[[int, bool], None]) -> None:
    """`emit(width, True)` where the boolean holds; else `emit(1, False)`."""
    with builder.if_else(builder.trunc(several, ir.IntType(1))) as (those, one):
        with those:
            emit(width, True)
        with one:
            emit(1, False)


@emitter
def convert_row(builder, leaf: Type, count, source: Pointer, out: Pointer) -> None:
    """Values that are neighbours, widened and rounded like those of the matrix, in whole vectors."""
    how = _Vectors(builder, leaf)

    def piece(index: ir.Value, mask: ir.Value, _: list) -> list:
        (value,) = how.read(e.offset(builder, source, builder.mul(index, e.I64(how.lanes * how.element.size))), mask)
        e.store(builder, value, e.offset(builder, out, builder.mul(index, e.I64(e.LINE))), e.LINE)
        return []

    _pieces(builder, how, count, [], piece)


@emitter
def add_rows(
    builder, leaf: Type, several: boolean, rows, depth, a: Fields, b: Pointer, step, ahead: Pointer, totals: Fields,
    columns,
) -> None:  # fmt: skip
    """totals[r] += the sum over `depth` of a[r, q] * b[q], for `rows` rows, at most those that are multiplied at a
    time, and one (possibly partial) vector of columns, or `several` whole ones. a is an address with the bytes from row
    to row and from part to part, totals one with those from row to row. Rows of the matrix lie `step` bytes apart, and
    are prefetched from `ahead` on."""
    (a, a_row, a_part), (totals, totals_row) = a, totals
    a, totals = (builder.inttoptr(x, e.POINTER) for x in (a, totals))
    how = _Vectors(builder, leaf)
    size, bytes_of_b = how.number.size, how.lanes * how.element.size

    def emit(width: int, whole: bool) -> None:
        of_a, mask = how.factors(rows, a_row, a_part), how.all if whole else how.first(columns)

        def place(index: ir.Value, sums: list) -> list:
            at, after = e.offset(builder, b, builder.mul(index, step)), []
            of_b = [how.read(e.offset(builder, at, bytes_of_b * number), mask) for number in range(width)]
            if how.rows.asks:
                soon = e.offset(builder, ahead, builder.mul(index, step))
                e.prefetch_to_l2(builder, soon, -(-width * bytes_of_b // e.LINE))
            start = e.offset(builder, a, builder.mul(index, e.I64(size)))
            for row, starts in enumerate(of_a):
                factors = [e.load(builder, how.number.stored, e.offset(builder, start, by), size) for by in starts]
                factors = [e.broadcast(builder, factor, how.lanes) for factor in factors]
                for number, parts in enumerate(of_b):
                    after.append(how.with_products(sums[row * width + number], factors, parts))
            return after

        sums = e.loop(builder, depth, [e.zero(how.kind)] * (how.rows.height * width), place)

        def add(row: int) -> None:
            for number in range(width):
                at = e.offset(builder, e.offset(builder, totals, builder.mul(totals_row, e.I64(row))), e.LINE * number)
                how.sums.write(builder.fadd(how.sums.read(at, None, mask), sums[row * width + number]), at, mask)

        how.rows_of(rows, add)

    _of_width(builder, several, how.rows.vectors, emit)


@emitter
def sum_rows(builder, leaf: Type, several: boolean, rows, depth, a: Fields, b: Pointer, b_line, totals: Fields) -> None:
    """totals[r, c] += the sum over `depth` of a[r] * b[c], for `rows` rows, at most those that are multiplied at a
    time, and one line of the matrix or `several`. a is an address with the bytes from row to row and from part to part,
    totals one with those from row to row and from column to column."""
    (a, a_row, a_part), (totals, totals_row, totals_column) = a, totals
    a, totals = (builder.inttoptr(x, e.POINTER) for x in (a, totals))
    how = _Vectors(builder, leaf)
    size = how.number.size

    def emit(width: int, _: bool) -> None:
        of_a = how.factors(rows, a_row, a_part)
        of_b = [e.offset(builder, b, builder.mul(b_line, e.I64(line))) for line in range(width)]

        def piece(index: ir.Value, mask: ir.Value, sums: list) -> list:
            first, after = builder.mul(index, e.I64(how.lanes * how.element.size)), []
            values = [how.read(e.offset(builder, at, first), mask) for at in of_b]
            start = e.offset(builder, a, builder.shl(index, e.I64(6)))
            for row, starts in enumerate(of_a):
                factors = [how.sums.read(e.offset(builder, start, by), None, mask) for by in starts]
                for line, parts in enumerate(values):
                    after.append(how.with_products(sums[row * width + line], factors, parts))
            return after

        sums = _pieces(builder, how, depth, [e.zero(how.kind)] * (how.rows.height * width), piece)
        found = [_totals(builder, sums[first : first + how.lanes]) for first in range(0, len(sums), how.lanes)]

        def add(row: int) -> None:
            start = e.offset(builder, totals, builder.mul(totals_row, e.I64(row)))
            for line in range(width):
                at = e.offset(builder, start, builder.mul(totals_column, e.I64(line)))
                vector_of, lane = divmod(row * width + line, how.lanes)
                total = builder.extract_element(found[vector_of], e.I32(lane))
                e.store(builder, builder.fadd(e.load(builder, how.number.stored, at, size), total), at, size)

        how.rows_of(rows, add)

    _of_width(builder, several, how.rows.lines, emit)


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
            builder.fadd(*[builder.shuffle_vector(*pair, ir.Constant(e.vector(e.I32, count), half)) for half in halves])
            for pair in pairs
        ]
    return values[0]
