"""Products of operands that are read where they lie: blocks of six rows and four vectors of columns.

Packing an operand costs as much as multiplying with it a few dozen times. Here a value of A is broadcast from memory,
and a row of B is read as vectors from the matrix itself or from packed panels. Both may reach over the whole of K with
any distance from row to row: the block needs six values of A and four vectors of B for 24 products, so that the L2
cache keeps up with it.

A strip, the rows of one block, goes through one step of K (`kc`) and adds its sums to those before in the result, so
that values are summed in the order of `loops.py`, to the bit. Columns that four vectors do not fill take blocks of
fewer vectors and more rows, and a last vector is masked. The last strip ends with the last row: rows that the strip
before it has stored are computed again and not stored.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from ..runtime import cpu
from ..runtime.emitter import Class, Constant, Fields, Pointer, Type, emitter, int64
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from . import emit as e
from .microkernels import Rows
from .sources import ELEMENTS
from .tags import constant, field_class, instance
from .vectors import Avx512Float32, Avx512Float64

_UNROLLED = 4
"""Places along K in a turn of the loop."""

HEIGHTS = {4: 6, 3: 8, 2: 12, 1: 12}
"""Rows of a strip by the vectors of its columns."""

LEAST_ROWS = 12

_GROUP = 4
"""Rows whose addresses are one register and multiples of the distance between rows."""

KERNELS = {("avx512", 4): Avx512Float32(), ("avx512", 8): Avx512Float64()}
"""By instruction set and size of an element: the microkernel whose packed right operands are read."""


def _opaque_after(builder: ir.IRBuilder, address: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
    """An address and vectors, opaque to LLVM: it cannot read from the address before the vectors are computed. Where it
    can, it reads values of A far ahead of their products, and has no registers for them."""
    if cpu.is_emulated("avx512"):  # whose vectors no register holds
        return [e.opaque(builder, address), *values]
    all_values = [address, *values]
    kinds = [each.type for each in all_values]
    both = ir.LiteralStructType(kinds)
    outputs = ",".join(["=r", *["=v"] * len(values), *map(str, range(len(all_values)))])
    found = builder.asm(ir.FunctionType(both, kinds), "", outputs, all_values, side_effect=False)
    return [builder.extract_value(found, index) for index in range(len(all_values))]


def _multiple(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    return builder.mul(value, e.I64(count))


UnpackedArguments = namedtuple("UnpackedArguments", "a a_row a_k b b_k b_pair c c_row rows columns depth more")
"""A step along K for some rows and columns of a product; pairs of vectors of B are `b_pair` bytes apart, and `more`
is 1 where sums are added to the result."""


class Strip:
    """Emits the products of one strip, of so many vectors of columns."""

    def __init__(self, builder: ir.IRBuilder, kernel: Any, width: int, heights: dict[int, int]) -> None:
        self.builder, self.kernel, self.width, self.height = builder, kernel, width, heights[width]
        self.kind = e.vector(kernel.element, kernel.lanes)
        self.in_panel = kernel.nr // kernel.lanes

    def zeros(self) -> list[ir.Value]:
        """The sums of no products."""
        return [e.zero(self.kind)] * (self.height * self.width)

    def mask(self, columns: ir.Value) -> ir.Value:
        """The lanes of the last vector that are among so many columns."""
        lanes = self.kernel.lanes
        return e.first_lanes(self.builder, columns, lanes, lanes * (self.width - 1))

    def panels(self, first: ir.Value, step: ir.Value) -> list[ir.Value]:
        """The addresses of panels so many bytes apart."""
        builder, count = self.builder, -(-self.width // self.in_panel)
        return [builder.add(first, _multiple(builder, step, panel)) if panel else first for panel in range(count)]

    def _row_of_b(self, panels: list[ir.Value], distance: ir.Value, mask: ir.Value | None) -> list[ir.Value]:
        """The vectors of B so many bytes after the first ones; the last one where the mask says so."""
        builder, size, found = self.builder, self.kernel.size, []
        for v in range(self.width):
            at = e.offset(builder, panels[v // self.in_panel], distance)
            at = e.offset(builder, at, v % self.in_panel * self.kernel.lanes * size)
            whole = mask is None or v < self.width - 1
            found.append(
                e.load(builder, self.kind, at, size) if whole else e.masked_load(builder, self.kind, at, size, mask)
            )
        return found

    def add_places(
        self, bases: list[ir.Value], panels: list[ir.Value], b_k: ir.Value, count: int, sums: list[ir.Value],
        steps: tuple[ir.Value, ir.Value] | None = None, mask: ir.Value | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        """The sums with the products of so many places along K. `bases` are addresses of rows of A, or of the first of
        some rows; `steps` are the distances between these and between places, of neighbouring values unless given."""
        builder, kernel, width = self.builder, self.kernel, self.width
        group = 1 if len(bases) == self.height else _GROUP
        row_step, a_k = steps or (e.I64(0), e.I64(kernel.size))
        panels = [builder.inttoptr(e.opaque(builder, panel), e.POINTER) for panel in panels]
        for place in range(count):
            line, after = self._row_of_b(panels, _multiple(builder, b_k, place), mask), list[ir.Value]()
            for row in range(self.height):
                if row % group == 0:
                    chain = after or sums
                    before = width if group == 1 else 1
                    base, *chain[-before:] = _opaque_after(builder, bases[row // group], chain[-before:])
                    at = builder.inttoptr(base, e.POINTER)
                at_row = e.offset(builder, at, _multiple(builder, row_step, row % group))
                at_row = e.offset(builder, at_row, _multiple(builder, a_k, place))
                x = e.broadcast(builder, e.load(builder, kernel.element, at_row, kernel.size), kernel.lanes)
                after += [kernel.add_product(builder, x, y, sums[row * width + v]) for v, y in enumerate(line)]
            sums = after
        return sums


class _Unpacked(Strip):
    """A strip at the addresses a and b of a job; `along`: A lies along K."""

    def __init__(self, builder: ir.IRBuilder, kernel: Any, along: bool, width: int, job: UnpackedArguments) -> None:
        super().__init__(builder, kernel, width, HEIGHTS)
        size = e.I64(kernel.size)
        self.a, self.steps = job.a, (job.a_row, size) if along else (size, job.a_k)
        self.b, self.b_k, self.b_pair = job.b, job.b_k, job.b_pair

    def places(self, first: ir.Value, count: int, sums: list[ir.Value], mask: ir.Value) -> list[ir.Value]:
        """The sums with the products of so many places along K, from one on."""
        builder, (row_step, a_k) = self.builder, self.steps
        of_a = builder.add(self.a, builder.mul(first, a_k))
        bases = [builder.add(of_a, _multiple(builder, row_step, row)) for row in range(0, self.height, _GROUP)]
        panels = self.panels(builder.add(self.b, builder.mul(first, self.b_k)), self.b_pair)
        return self.add_places(bases, panels, self.b_k, count, sums, self.steps, mask)

    def products(self, depth: ir.Value, mask: ir.Value) -> list[ir.Value]:
        """The sums of all products, row by row."""
        builder, shift = self.builder, e.I64(_UNROLLED.bit_length() - 1)
        turns = builder.ashr(depth, shift)
        done = builder.shl(turns, shift)

        def turn(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return self.places(_multiple(builder, index, _UNROLLED), _UNROLLED, sums, mask)

        def single(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return self.places(builder.add(done, index), 1, sums, mask)

        sums = e.loop_of_any(builder, turns, self.zeros(), turn)
        return e.loop_of_any(builder, builder.sub(depth, done), sums, single)

    def put(self, at: ir.Value, sums: list[ir.Value], more: ir.Value, mask: ir.Value) -> None:
        """Store the sums of a row, or add them to what is stored there where `more` says so."""
        builder, size = self.builder, self.kernel.size
        access = Rows(builder, type(ELEMENTS[f"float{8 * size}"]), self.kernel.lanes)
        *whole, last = [e.offset(builder, at, v * self.kernel.lanes * size) for v in range(self.width)]
        with builder.if_else(more) as (resume, start):
            with resume:
                for to, each in zip(whole, sums[:-1], strict=True):
                    e.store(builder, builder.fadd(e.load(builder, self.kind, to, size), each), to, size)
                access.write(builder.fadd(access.read(last, None, mask), sums[-1]), last, mask)
            with start:
                for to, each in zip(whole, sums[:-1], strict=True):
                    e.store(builder, each, to, size)
                access.write(sums[-1], last, mask)


@emitter
def _strip(builder, leaf: Type, width: Constant, job: Fields, first, start, skipped) -> None:
    """One strip of `width` vectors of columns from the one `first`, and of rows from `start` on, whose first `skipped`
    are not stored."""
    instance(leaf).emit(builder, leaf, width, job, first, start, skipped)


@emitter
def _height(builder, leaf: Class, width) -> int64:
    heights = leaf.heights
    found = e.I64(heights[1])
    for vectors, rows in heights.items():
        found = builder.select(builder.icmp_signed("==", width, e.I64(vectors)), e.I64(rows), found)
    return found


@subroutine
def multiply_strips(leaf, job):
    """All strips of the rows and columns of a job. The last one ends with the last row, if there are so many."""
    lanes = constant(leaf.kernel, "lanes")
    for first in range(0, job.columns, 4 * lanes):
        width = min((job.columns - first + lanes - 1) // lanes, 4)
        height = _height(leaf, width)
        for row in range(0, job.rows, height):
            start = max(min(row, job.rows - height), 0)
            if width == 4:
                _strip(leaf, 4, job, first, start, row - start)
            elif width == 3:
                _strip(leaf, 3, job, first, start, row - start)
            elif width == 2:
                _strip(leaf, 2, job, first, start, row - start)
            else:
                _strip(leaf, 1, job, first, start, row - start)


class MultiplyUnpacked(NamedTuple):
    """Leaf: a step of K for some rows and columns. Fields: one of `KERNELS`, and the order in which A lies."""

    kernel: NamedTuple
    order: NamedTuple
    run = multiply_strips
    arguments = UnpackedArguments
    heights = HEIGHTS

    @staticmethod
    def emit(builder: ir.IRBuilder, leaf: Any, vectors: int, job: UnpackedArguments, first, start, skipped) -> None:
        kernel, along = field_class(leaf, "kernel"), field_class(leaf, "order").along_k
        missing = builder.sub(e.I64(HEIGHTS[vectors]), job.rows)  # rows before this block, which are not stored
        missing = builder.select(builder.icmp_signed(">", missing, e.I64(0)), missing, e.I64(0))
        start, skipped = builder.sub(start, missing), builder.add(skipped, missing)
        panel = builder.mul(builder.sdiv(first, e.I64(2 * kernel.lanes)), job.b_pair)
        a, b = builder.add(job.a, builder.mul(start, job.a_row)), builder.add(job.b, panel)
        c = builder.add(builder.add(job.c, builder.mul(start, job.c_row)), _multiple(builder, first, kernel.size))
        strip = _Unpacked(builder, kernel, along, vectors, job._replace(a=a, b=b))
        c, mask = builder.inttoptr(c, e.POINTER), strip.mask(builder.sub(job.columns, first))
        rows = [e.offset(builder, c, _multiple(builder, job.c_row, row)) for row in range(strip.height)]
        for at in rows:
            e.prefetch_to_write(builder, at, vectors)
        sums, more = strip.products(job.depth, mask), builder.icmp_signed("!=", job.more, e.I64(0))
        for row, at in enumerate(rows):
            with builder.if_then(builder.icmp_signed("<=", skipped, e.I64(row))):
                strip.put(at, sums[row * vectors : (row + 1) * vectors], more, mask)


@emitter
def _finish_row(builder, leaf: Type, at: Pointer, columns, alpha, beta, addend: Pointer, step, relu) -> None:
    """at[column] = alpha * at[column] + beta * addend[column], whose values are `step` bytes apart, not below zero
    where `relu` says so; NaN stays."""
    kernel = field_class(leaf, "kernel")
    lanes, size = kernel.lanes, kernel.size
    element = ELEMENTS[f"float{8 * kernel.size}"]
    factors = [builder.bitcast(each, e.F64) for each in (alpha, beta)]
    factors = [builder.fptrunc(each, e.F32) if size == 4 else each for each in factors]
    alpha, beta = (e.broadcast(builder, each, lanes) for each in factors)
    access, neighbours = Rows(builder, type(element), lanes), builder.icmp_signed("==", step, e.I64(size))

    def some(index: ir.Value, _: list) -> list:
        first = _multiple(builder, index, lanes)
        mask = e.first_lanes(builder, builder.sub(columns, first), lanes)
        here = e.offset(builder, at, _multiple(builder, first, size))
        of_addend = e.offset(builder, addend, builder.mul(first, step))
        added = e.either(
            builder, neighbours, lambda: [access.read(of_addend, None, mask)],
            lambda: [access.read(of_addend, step, mask)],
        )[0]  # fmt: skip
        value = builder.fmul(alpha, access.read(here, None, mask))
        access.write(e.relu(builder, builder.fadd(value, builder.fmul(beta, added)), relu), here, mask)
        return []

    e.loop_of_any(builder, builder.sdiv(builder.add(columns, e.I64(lanes - 1)), e.I64(lanes)), [], some)


@subroutine
def _finish(leaf, job):
    for row in range(job.rows):
        _finish_row(
            leaf, job.c + row * job.c_row, job.columns, job.alpha, job.beta, job.addend + row * job.addend_row,
            job.addend_column, job.relu,
        )  # fmt: skip


FinishArguments = namedtuple("FinishArguments", "c c_row rows columns alpha beta addend addend_row addend_column relu")


FinishUnpacked = leaf_class("FinishUnpacked", "kernel", _finish, FinishArguments)
"""Leaf: what is done with a block of the result. Field: one of `KERNELS`."""
