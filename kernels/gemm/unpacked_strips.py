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

from .. import cpu
from ..jit import intrinsic, ir, subroutine, types
from .emit import (
    F32,
    F64,
    I32,
    I64,
    POINTER,
    broadcast,
    call,
    either,
    lane_numbers,
    load,
    loop_of_any,
    masked_load,
    offset,
    opaque,
    prefetch_to_write,
    store,
    vector,
    zero,
)
from .microkernels import Rows
from .sources import ELEMENTS
from .tags import constant, field_class
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


def _opaque_after(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> list[ir.Value]:
    """An address and a vector, opaque to LLVM: it cannot read from the address before the vector is computed. Where it
    can, it reads values of A far ahead of their products, and has no registers for them."""
    if cpu.is_emulated("avx512"):  # whose vectors no register holds
        return [opaque(builder, address), value]
    both = ir.LiteralStructType([address.type, value.type])
    kind = ir.FunctionType(both, [address.type, value.type])
    found = builder.asm(kind, "", "=r,=v,0,1", [address, value], side_effect=False)
    return [builder.extract_value(found, index) for index in (0, 1)]


def _multiple(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    return builder.mul(value, I64(count))


UnpackedArguments = namedtuple("UnpackedArguments", "a a_row a_k b b_k b_pair c c_row rows columns depth more")
"""A step along K for some rows and columns of a product; pairs of vectors of B are `b_pair` bytes apart, and `more`
is 1 where sums are added to the result."""


class _Strip:
    """Emits one strip, of so many vectors of columns, at the addresses a and b of a job; `along`: A lies along K."""

    def __init__(self, builder: ir.IRBuilder, kernel: Any, along: bool, width: int, job: UnpackedArguments) -> None:
        self.builder, self.kernel, self.width, self.height = builder, kernel, width, HEIGHTS[width]
        self.kind, self.size = vector(kernel.element, kernel.lanes), I64(kernel.size)
        self.a, self.row_step, self.a_k = job.a, job.a_row if along else self.size, self.size if along else job.a_k
        self.b, self.b_k, self.b_pair = job.b, job.b_k, job.b_pair

    def mask(self, columns: ir.Value) -> ir.Value:
        """The lanes of the last vector that are among so many columns."""
        lanes = self.kernel.lanes
        left = broadcast(self.builder, self.builder.trunc(columns, I32), lanes)
        return self.builder.icmp_signed("<", lane_numbers(lanes, lanes * (self.width - 1)), left)

    def row_of_b(self, pairs: list[ir.Value], place: int, mask: ir.Value) -> list[ir.Value]:
        """The vectors of B at so many places after the first one."""
        builder, size, found = self.builder, self.kernel.size, []
        for v in range(self.width):
            at = offset(builder, pairs[v // 2], _multiple(builder, self.b_k, place))
            at = offset(builder, at, v % 2 * self.kernel.lanes * size)
            whole = v < self.width - 1
            found.append(
                load(builder, self.kind, at, size) if whole else masked_load(builder, self.kind, at, size, mask)
            )
        return found

    def places(self, first: ir.Value, count: int, sums: list[ir.Value], mask: ir.Value) -> list[ir.Value]:
        """The sums with the products of so many places along K, from one on."""
        builder, kernel, width = self.builder, self.kernel, self.width
        of_a = builder.add(self.a, builder.mul(first, self.a_k))
        bases = [builder.add(of_a, _multiple(builder, self.row_step, row)) for row in range(0, self.height, _GROUP)]
        of_b = builder.add(self.b, builder.mul(first, self.b_k))
        pairs = [builder.add(of_b, self.b_pair) if pair else of_b for pair in range((width + 1) // 2)]
        pairs = [builder.inttoptr(opaque(builder, pair), POINTER) for pair in pairs]
        name = f"llvm.fma.v{kernel.lanes}f{8 * kernel.size}"
        for place in range(count):
            line, after = self.row_of_b(pairs, place, mask), list[ir.Value]()
            for row in range(self.height):
                if row % _GROUP == 0:
                    chain = after or sums
                    base, chain[-1] = _opaque_after(builder, bases[row // _GROUP], chain[-1])
                    at = builder.inttoptr(base, POINTER)
                at_row = offset(builder, at, _multiple(builder, self.row_step, row % _GROUP))
                at_row = offset(builder, at_row, _multiple(builder, self.a_k, place))
                x = broadcast(builder, load(builder, kernel.element, at_row, kernel.size), kernel.lanes)
                after += [call(builder, name, self.kind, x, y, sums[row * width + v]) for v, y in enumerate(line)]
            sums = after
        return sums

    def products(self, depth: ir.Value, mask: ir.Value) -> list[ir.Value]:
        """The sums of all products, row by row."""
        builder, shift = self.builder, I64(_UNROLLED.bit_length() - 1)
        turns = builder.ashr(depth, shift)
        done = builder.shl(turns, shift)

        def turn(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return self.places(_multiple(builder, index, _UNROLLED), _UNROLLED, sums, mask)

        def single(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return self.places(builder.add(done, index), 1, sums, mask)

        sums = loop_of_any(builder, turns, [zero(self.kind)] * (self.height * self.width), turn)
        return loop_of_any(builder, builder.sub(depth, done), sums, single)

    def put(self, at: ir.Value, sums: list[ir.Value], more: ir.Value, mask: ir.Value) -> None:
        """Store the sums of a row, or add them to what is stored there where `more` says so."""
        builder, size = self.builder, self.kernel.size
        access = Rows(builder, type(ELEMENTS[f"float{8 * size}"]), self.kernel.lanes)
        *whole, last = [offset(builder, at, v * self.kernel.lanes * size) for v in range(self.width)]
        with builder.if_else(more) as (resume, start):
            with resume:
                for to, each in zip(whole, sums[:-1], strict=True):
                    store(builder, builder.fadd(load(builder, self.kind, to, size), each), to, size)
                access.write(builder.fadd(access.read(last, None, mask), sums[-1]), last, mask)
            with start:
                for to, each in zip(whole, sums[:-1], strict=True):
                    store(builder, each, to, size)
                access.write(sums[-1], last, mask)


@intrinsic(prefer_literal=True)
def _strip(typingctx, leaf, width, job, first, start, skipped):
    """One strip of `width` vectors of columns from the one `first`, and of rows from `start` on, whose first `skipped`
    are not stored."""
    kernel, along, vectors = field_class(leaf, "kernel"), field_class(leaf, "order").along_k, width.literal_value

    def codegen(context, builder, signature, arguments):
        values, first, start, skipped = arguments[2:]
        job = UnpackedArguments(
            *(builder.extract_value(values, place) for place in range(len(UnpackedArguments._fields)))
        )
        panel = builder.mul(builder.sdiv(first, I64(2 * kernel.lanes)), job.b_pair)
        a, b = builder.add(job.a, builder.mul(start, job.a_row)), builder.add(job.b, panel)
        c = builder.add(builder.add(job.c, builder.mul(start, job.c_row)), _multiple(builder, first, kernel.size))
        strip = _Strip(builder, kernel, along, vectors, job._replace(a=a, b=b))
        c, mask = builder.inttoptr(c, POINTER), strip.mask(builder.sub(job.columns, first))
        rows = [offset(builder, c, _multiple(builder, job.c_row, row)) for row in range(strip.height)]
        for at in rows:
            prefetch_to_write(builder, at, vectors)
        sums, more = strip.products(job.depth, mask), builder.icmp_signed("!=", job.more, I64(0))
        for row, at in enumerate(rows):
            with builder.if_then(builder.icmp_signed("<=", skipped, I64(row))):
                strip.put(at, sums[row * vectors : (row + 1) * vectors], more, mask)
        return context.get_dummy_value()

    return types.void(leaf, width, job, *[types.int64] * 3), codegen


@intrinsic
def _height(typingctx, leaf, width):
    def codegen(context, builder, signature, arguments):
        found = I64(HEIGHTS[1])
        for vectors, rows in HEIGHTS.items():
            found = builder.select(builder.icmp_signed("==", arguments[1], I64(vectors)), I64(rows), found)
        return found

    return types.int64(leaf, types.int64), codegen


@subroutine
def _multiply(leaf, job):
    """A step of K for some rows and columns."""
    lanes = constant(leaf.kernel, "lanes")
    for first in range(0, job.columns, 4 * lanes):
        width = min((job.columns - first + lanes - 1) // lanes, 4)
        height = _height(leaf, width)
        for row in range(0, job.rows, height):
            start = min(row, job.rows - height)
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
    run = _multiply
    arguments = UnpackedArguments


@intrinsic
def _finish_row(typingctx, leaf, at, columns, alpha, beta, addend, step, relu):
    """at[column] = alpha * at[column] + beta * addend[column], whose values are `step` bytes apart, not below zero
    where `relu` says so; NaN stays."""
    kernel = field_class(leaf, "kernel")
    lanes, size = kernel.lanes, kernel.size
    kind, element = vector(kernel.element, lanes), ELEMENTS[f"float{8 * kernel.size}"]

    def codegen(context, builder, signature, arguments):
        at, columns, alpha, beta, addend, step, relu = arguments[1:]
        at, addend = (builder.inttoptr(each, POINTER) for each in (at, addend))
        factors = [builder.bitcast(each, F64) for each in (alpha, beta)]
        factors = [builder.fptrunc(each, F32) if size == 4 else each for each in factors]
        alpha, beta = (broadcast(builder, each, lanes) for each in factors)
        relu = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)), lanes)
        access, neighbours = Rows(builder, type(element), lanes), builder.icmp_signed("==", step, I64(size))

        def some(index: ir.Value, _: list) -> list:
            first = _multiple(builder, index, lanes)
            left = broadcast(builder, builder.trunc(builder.sub(columns, first), I32), lanes)
            mask, here = (
                builder.icmp_signed("<", lane_numbers(lanes), left),
                offset(builder, at, _multiple(builder, first, size)),
            )
            of_addend = offset(builder, addend, builder.mul(first, step))
            added = either(
                builder, neighbours, lambda: [access.read(of_addend, None, mask)],
                lambda: [access.read(of_addend, step, mask)],
            )[0]  # fmt: skip
            value = builder.fmul(alpha, access.read(here, None, mask))
            value = builder.fadd(value, builder.fmul(beta, added))
            negative = builder.fcmp_ordered("<", value, zero(kind))
            access.write(builder.select(builder.and_(negative, relu), zero(kind), value), here, mask)
            return []

        loop_of_any(builder, builder.sdiv(builder.add(columns, I64(lanes - 1)), I64(lanes)), [], some)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 7), codegen


@subroutine
def _finish(leaf, job):
    for row in range(job.rows):
        _finish_row(
            leaf, job.c + row * job.c_row, job.columns, job.alpha, job.beta, job.addend + row * job.addend_row,
            job.addend_column, job.relu,
        )  # fmt: skip


FinishArguments = namedtuple("FinishArguments", "c c_row rows columns alpha beta addend addend_row addend_column relu")


class FinishUnpacked(NamedTuple):
    """Leaf: what is done with a block of the result. Field: one of `KERNELS`."""

    kernel: NamedTuple
    run = _finish
    arguments = FinishArguments
