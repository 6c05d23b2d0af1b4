"""What is joined to totals, and vectors of float64 that join it: emitted code."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...block import emit as e
from ...block.microkernels import Rows
from ...block.tags import field_class, tag_class
from ...runtime.emitter import Pointer, Type, emitter, float64, int64
from ...runtime.jit import cgutils, ir

TILE = 1024
"""Number of results whose totals are held at a time, 8 KiB of the L1 cache."""

_ROWS = 4
"""Rows that are joined with one another before they are joined with the totals."""


# `emit` is given vectors of float64: numbers, and those that `SquaredDistance` subtracts.


class _Sum:
    start = -0.0  # the sum of negative zeros is one
    emit_join = staticmethod(lambda builder, a, b: builder.fadd(a, b))


class Value(NamedTuple):
    """sum(x)"""

    base = _Sum
    emit = staticmethod(lambda builder, x, about: x)


Magnitude = tag_class(
    "Magnitude", __name__, base=_Sum, emit=staticmethod(lambda builder, x, about: e.call(builder,
    f"llvm.fabs.{e.suffix(e.F64, x.type.count)}", x.type, x)),
)  # fmt: skip
"""sum(|x|)"""

Square = tag_class("Square", __name__, base=_Sum, emit=staticmethod(lambda builder, x, about: builder.fmul(x, x)))
"""sum(x**2)"""


class SquaredDistance(NamedTuple):
    """sum((x - about)**2)"""

    base = _Sum

    @staticmethod
    def emit(builder: ir.IRBuilder, x: ir.Value, about: ir.Value) -> ir.Value:
        distance = builder.fsub(x, about)
        return builder.fmul(distance, distance)


class _Product:
    start = 1.0
    emit_join = staticmethod(lambda builder, a, b: builder.fmul(a, b))


Product = tag_class("Product", __name__, base=_Product, emit=staticmethod(lambda builder, x, about: x))
"""prod(x)"""


FUNCTIONS = {each.__name__: each() for each in (Value, Magnitude, Square, SquaredDistance, Product)}


class _Emitter:
    """Emits the reading of numbers as vectors of float64, and the joining of what a function makes of them."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, lanes: int = 0) -> None:
        self.builder, self.leaf, self.function = builder, leaf, field_class(leaf, "function")
        element = field_class(leaf, "element")
        self.size, self.widen = element.size, element.working is not e.F64
        self.lanes = lanes or (16 if self.widen else 8)
        self.rows, self.kind = Rows(builder, element, self.lanes), e.vector(e.F64, self.lanes)
        self.start = e.splat(e.F64, self.function.base.start, self.lanes)
        self.all = ir.Constant(e.vector(ir.IntType(1), self.lanes), [1] * self.lanes)

    def join(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.function.base.emit_join(self.builder, a, b)

    def load_vector(self, at: ir.Value, stride: ir.Value | None, mask: ir.Value | None, about: ir.Value) -> ir.Value:
        """What the function makes of numbers from an address on; nothing to join where the mask is false."""
        value = self.made_of(self.rows.read(at, stride, self.all if mask is None else mask), about)
        return value if mask is None else self.builder.select(mask, value, self.start)

    def made_of(self, x: ir.Value, about: ir.Value) -> ir.Value:
        return self.function.emit(self.builder, self.builder.fpext(x, self.kind) if self.widen else x, about)

    def first(self, count: ir.Value) -> ir.Value:
        builder = self.builder
        return builder.icmp_signed(
            "<", e.lane_numbers(self.lanes), e.broadcast(builder, builder.trunc(count, e.I32), self.lanes)
        )

    def vectors(self, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The number of full vectors, and the remaining numbers."""
        whole = self.builder.sdiv(count, e.I64(self.lanes))
        return whole, self.builder.sub(count, self.builder.mul(whole, e.I64(self.lanes)))

    def place(self, at: ir.Value, index: ir.Value, stride: ir.Value | None, size: int = 0) -> ir.Value:
        """Where the vector of an index lies, whose numbers are side by side or `stride` bytes apart."""
        builder = self.builder
        step = e.I64(self.lanes * (size or self.size)) if stride is None else builder.mul(stride, e.I64(self.lanes))
        return e.offset(builder, at, builder.mul(index, step))

    def row(self, at: ir.Value, count: ir.Value, about: ir.Value) -> ir.Value:
        """The numbers of a row, joined to one vector by two chains, so that neither waits for the other."""
        builder, (whole, left) = self.builder, self.vectors(count)
        about = e.broadcast(builder, about, self.lanes)

        def one(index: ir.Value, before: ir.Value, mask: ir.Value | None = None) -> ir.Value:
            return self.join(before, self.load_vector(self.place(at, index, None), None, mask, about))

        def two(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            first = builder.mul(index, e.I64(2))
            return [one(first, before[0]), one(builder.add(first, e.I64(1)), before[1])]

        pairs = builder.sdiv(whole, e.I64(2))
        chains = e.loop_of_any(builder, pairs, [self.start] * 2, two)
        done = builder.mul(pairs, e.I64(2))
        rest = builder.sub(whole, done)
        [first] = e.loop_of_any(builder, rest, chains[:1], lambda index, b: [one(builder.add(done, index), b[0])])
        return self.join(first, one(whole, chains[1], self.first(left)))

    def strided_row(self, at: ir.Value, stride: ir.Value, count: ir.Value, about: ir.Value) -> ir.Value:
        """The same of numbers that lie apart, which are read one by one: no slower than gathering, anywhere."""
        builder, single = self.builder, _Emitter(self.builder, self.leaf, 1)
        about = e.broadcast(builder, about, 1)
        groups = builder.sdiv(count, e.I64(8))
        done = builder.mul(groups, e.I64(8))

        def one(index: ir.Value, before: ir.Value) -> ir.Value:
            return self.join(
                before, single.load_vector(e.offset(builder, at, builder.mul(index, stride)), None, None, about)
            )

        def some(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            first = builder.mul(index, e.I64(8))
            return [one(builder.add(first, e.I64(chain)), each) for chain, each in enumerate(before)]

        start = e.splat(e.F64, self.function.base.start, 1)
        chains = e.loop_of_any(builder, groups, [start] * 8, some)
        rest = builder.sub(count, done)
        [chains[0]] = e.loop_of_any(builder, rest, chains[:1], lambda index, b: [one(builder.add(done, index), b[0])])
        found = self.start
        for lane, each in enumerate(chains):
            found = builder.insert_element(found, builder.extract_element(each, e.I32(0)), e.I32(lane))
        return found

    def every_second(self, at: ir.Value, stride: ir.Value, count: ir.Value, about: ir.Value) -> ir.Value:
        """The same of every second number in memory. All are read, but for the last ones, which may end the memory."""
        builder, all_about = self.builder, e.broadcast(self.builder, about, self.lanes)
        order = ir.Constant(e.vector(e.I32, self.lanes), [2 * lane for lane in range(self.lanes)])
        whole = builder.sdiv(builder.sub(count, e.I64(1)), e.I64(self.lanes))

        def one(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            start = builder.mul(index, e.I64(2))
            halves = [self.place(at, builder.add(start, e.I64(part)), None) for part in range(2)]
            x = builder.shuffle_vector(*[self.rows.read(half, None, self.all) for half in halves], order)
            return [self.join(before[0], self.made_of(x, all_about))]

        [found] = e.loop_of_any(builder, whole, [self.start], one)
        done = builder.mul(whole, e.I64(self.lanes))
        rest = e.offset(builder, at, builder.mul(done, stride))
        return self.join(found, self.strided_row(rest, stride, builder.sub(count, done), about))

    def columns(
        self, at: ir.Value, row_stride: ir.Value, rows: int, stride: ir.Value | None, count: ir.Value,
        abouts: ir.Value, totals: ir.Value,
    ) -> None:  # fmt: skip
        """Join so many rows with the totals of their columns."""
        builder, (whole, left) = self.builder, self.vectors(count)

        def some(index: ir.Value, mask: ir.Value | None = None) -> list:
            total = self.place(totals, index, None, 8)
            about = e.load(builder, self.kind, self.place(abouts, index, None, 8), 8)
            made = []
            for row in range(rows):
                start = e.offset(builder, at, builder.mul(row_stride, e.I64(row)))
                made.append(self.load_vector(self.place(start, index, stride), stride, mask, about))
            while len(made) > 1:
                made = [self.join(*pair) for pair in zip(made[::2], made[1::2], strict=True)]
            e.store(builder, self.join(e.load(builder, self.kind, total, 8), made[0]), total, 8)
            return []

        e.loop_of_any(builder, whole, [], lambda index, _: some(index))
        with builder.if_then(builder.icmp_signed(">", left, e.I64(0))):
            some(whole, self.first(left))

    def side_by_side(self, stride: ir.Value) -> ir.Value:
        return self.builder.icmp_signed("==", stride, e.I64(self.size))


@emitter
def join_row(builder, leaf: Type, at: Pointer, stride, count, about: Pointer, total: Pointer) -> None:
    """Join a row of numbers with the vector at an address; `about` is the address of one number."""
    emitter, about = _Emitter(builder, leaf), e.load(builder, e.F64, about, 8)
    second = builder.icmp_signed("==", stride, e.I64(2 * emitter.size))

    def sum_strided():
        return e.either(builder, second, *[lambda row=row: [row(at, stride, count, about)] for row in rows])

    rows = emitter.every_second, emitter.strided_row
    [found] = e.either(builder, emitter.side_by_side(stride), lambda: [emitter.row(at, count, about)], sum_strided)
    e.store(builder, emitter.join(e.load(builder, emitter.kind, total, 8), found), total, 8)


@emitter
def join_rows(
    builder, leaf: Type, at: Pointer, row_stride, rows, stride, count, abouts: Pointer, totals: Pointer
) -> None:
    """Join rows with the totals of their columns; `abouts` and `totals` are addresses of one float64 for each."""
    emitter = _Emitter(builder, leaf)

    def some(index, first, together, step):
        start = e.offset(builder, at, builder.mul(builder.add(first, builder.mul(index, e.I64(together))), row_stride))
        emitter.columns(start, row_stride, together, step, count, abouts, totals)
        return []

    def contiguous():
        groups = builder.sdiv(rows, e.I64(_ROWS))
        done = builder.mul(groups, e.I64(_ROWS))
        e.loop_of_any(builder, groups, [], lambda index, _: some(index, e.I64(0), _ROWS, None))
        e.loop_of_any(builder, builder.sub(rows, done), [], lambda index, _: some(index, done, 1, None))
        return []

    def sum_strided():
        return e.loop_of_any(builder, rows, [], lambda index, _: some(index, e.I64(0), 1, stride))

    e.either(builder, emitter.side_by_side(stride), contiguous, sum_strided)


@emitter
def clear(builder, leaf: Type, totals, count) -> None:
    """Write the neutral element, for as many vectors as the numbers begin."""
    emitter, totals = _Emitter(builder, leaf), builder.inttoptr(totals, e.POINTER)
    count = builder.sdiv(builder.add(count, e.I64(emitter.lanes - 1)), e.I64(emitter.lanes))

    def one(index, _):
        e.store(builder, emitter.start, emitter.place(totals, index, None, 8), 8)
        return []

    e.loop_of_any(builder, count, [], one)


@emitter
def join_lanes(builder, leaf: Type, total) -> float64:
    """The lanes of the vector at an address, joined in pairs."""
    emitter = _Emitter(builder, leaf)
    value, distance = (e.load(builder, emitter.kind, builder.inttoptr(total, e.POINTER), 8), emitter.lanes // 2)
    while distance:
        order = ir.Constant(e.vector(e.I32, emitter.lanes), [lane ^ distance for lane in range(emitter.lanes)])
        value = emitter.join(value, builder.shuffle_vector(value, value, order))
        distance //= 2
    return builder.extract_element(value, e.I32(0))


@emitter
def join(builder, leaf: Type, a: float64, b: float64) -> float64:
    return field_class(leaf, "function").base.emit_join(builder, a, b)


@emitter
def load_float64(builder, address) -> float64:
    return e.load(builder, e.F64, builder.inttoptr(address, e.POINTER), 8)


@emitter
def store_as(builder, at: Pointer, value: float64, size) -> None:
    """Write a float64 as a number of 4 or 8 bytes."""
    with builder.if_else(builder.icmp_signed("==", size, e.I64(4))) as (narrow, wide):
        with narrow:
            e.store(builder, builder.fptrunc(value, e.F32), at, 4)
        with wide:
            e.store(builder, value, at, 8)


@emitter
def buffers(builder) -> int64:
    """The address of three tiles of float64 on the stack: totals, those of a block of rows, numbers to subtract."""
    memory = cgutils.alloca_once(builder, ir.ArrayType(e.F64, 3 * TILE))
    memory.align = 64
    return builder.ptrtoint(memory, e.I64)
