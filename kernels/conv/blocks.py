"""Convolutions on vector units: an implicit product, whose rows are read where the padded input lies.

A row of a block is a position, a column an output channel. The microkernels of `block.vectors` multiply one value of
each position at a time with vectors of weights, packed as the right operand of a product. Positions lie in segments of
7 neighbours (AVX-512) or 3, two for each microkernel, so that rows of an image that end with a segment leave no place
empty. What explicit im2col would copy for every tap is read for each from the L1 and L2 caches.

Blocks are of up to 16 positions, so that their results are written as `gather_scatter` writes groups: row by row
where the channels of a position are neighbours, and transposed elsewhere.
"""

from __future__ import annotations

from typing import Any

from ..block import emit as e
from ..block.microkernels import Rows, convert
from ..block.tags import constant
from ..runtime.emitter import Class, Pointer, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from ..runtime.raw_memory import record_at
from .descriptor import PassPlan, Plan
from .gather_scatter import write_apart, write_together
from .geometry import GROUP, NOWHERE, RUN_BYTES
from .memory import read32
from .tiles import BlockArguments


def segments_of(kernel: Any) -> tuple[int, int]:
    """Positions of a segment, and segments of a block."""
    return kernel.mr // 2, GROUP // kernel.mr * 2


def sums_bytes(kernel: Any) -> int:
    """Of the sums of a block, and of the same transposed."""
    return 2 * GROUP * kernel.nr * kernel.size


_EMBEDDED = 4
"""Rows whose values the products read for themselves (`vectors.Avx512Float32`). Of positions, which unlike packed rows
begin anywhere in a cache line: 8 x 128 x 28 x 28 to 128 channels, 3 x 3, on one core of a Zen 5, in milliseconds with
0, 4, 7 and 11 rows: 7.3, 7.1, 7.8, 8.5."""


@emitter
def _multiply(builder, kernel: Class, steps, first, second, table: Pointer, weights: Pointer, sums: Pointer) -> None:
    """sums (mr x nr) = the products of the values at the table's distances from two segments of positions with `steps`
    places of a panel of weights."""
    length, columns = kernel.mr // 2, kernel.nr // kernel.lanes
    kind = e.vector(kernel.element, kernel.lanes)

    def step(index: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
        shift = e.load(builder, e.I64, e.offset(builder, table, builder.shl(index, e.I64(3))), 8)
        copies = []
        for segment in (first, second):
            places = [e.opaque(builder, builder.add(segment, shift))]
            while len(places) < columns:
                places.append(e.opaque(builder, places[-1]) if kernel.embedded else places[-1])
            copies.append([builder.inttoptr(place, e.POINTER) for place in places])

        def of_a(row: int, column: int) -> ir.Value:
            return e.offset(builder, copies[row // length][column], row % length * kernel.size)

        of_b = e.offset(builder, weights, builder.mul(index, e.I64(kernel.b_bytes)))
        return kernel.add_place(builder, of_a, of_b, totals, _EMBEDDED if kernel.embedded else 0)

    totals = e.loop(builder, steps, [e.zero(kind)] * (kernel.mr * columns), step)
    for place, total in enumerate(totals):
        e.store(builder, total, e.offset(builder, sums, place * kernel.lanes * kernel.size), kernel.size)


@emitter
def _put_row(builder, kernel: Class, kind: Class, sums: Pointer, bias: Pointer, at: Pointer, columns, relu) -> None:
    """Store the first `columns` channels of a position, plus their bias."""
    lanes, size = kernel.lanes, kernel.size
    access = Rows(builder, kind, lanes)
    for first in range(0, kernel.nr, lanes):
        value, added = (
            e.load(builder, e.vector(kernel.element, lanes), e.offset(builder, each, first * size), size)
            for each in (sums, bias)
        )
        value = convert(builder, e.relu(builder, builder.fadd(value, added), relu), kind)
        access.write(value, e.offset(builder, at, first * kind.size), e.first_lanes(builder, columns, lanes, first))


@emitter
def _turn(builder, kernel: Class, sums: Pointer, turned: Pointer) -> None:
    """turned (nr x 16) = the transpose of sums (16 x nr)."""
    lanes, size = kernel.lanes, kernel.size
    kind = e.vector(kernel.element, lanes)
    for row in range(0, GROUP, lanes):
        for column in range(0, kernel.nr, lanes):
            lines = [
                e.load(builder, kind, e.offset(builder, sums, ((row + i) * kernel.nr + column) * size), size)
                for i in range(lanes)
            ]
            for i, line in enumerate(e.transpose(builder, lines)):
                e.store(builder, line, e.offset(builder, turned, ((column + i) * GROUP + row) * size), size)


@emitter
def _put_column(
    builder, kind: Class, sums: Pointer, bias: Pointer, at: Pointer, run, base, offsets: Pointer, relu
) -> None:
    """Store 16 positions of a channel, plus its bias."""
    wide, size = e.vector(kind.working, GROUP), 8 if kind.working is e.F64 else 4
    added = e.broadcast(builder, e.load(builder, kind.working, bias, size), GROUP)
    value = e.relu(builder, builder.fadd(e.load(builder, wide, sums, size), added), relu)
    here, bits = e.offset(builder, at, base), ir.IntType(GROUP)
    lanes = builder.bitcast(builder.trunc(run, bits), e.vector(ir.IntType(1), GROUP))
    with builder.if_else(builder.icmp_unsigned("<=", run, e.I64(0xFFFF))) as (together, apart):
        with together:
            holes = builder.icmp_signed("!=", builder.and_(run, builder.add(run, e.I64(1))), e.I64(0))
            with builder.if_else(holes) as (some, none):
                with some:
                    write_together(builder, kind, value, here, lanes)
                with none:
                    Rows(builder, kind, GROUP).write(convert(builder, value, kind), here, lanes)
        with apart:
            write_apart(builder, kind, value, at, offsets)


@subroutine
def _write(leaf, job, panel, out, place):
    """Store the block in the scratch memory for one panel of channels, at a row of the tables of the pass."""
    tag, plan, one = leaf.kernel, record_at(Plan, job.plan), record_at(PassPlan, job.one)
    mr, nr, size = constant(tag, "mr"), constant(tag, "nr"), constant(tag, "size")
    stride, relu = plan.channel_stride, plan.relu
    columns, bias = min(nr, plan.columns - panel * nr), job.bias + panel * nr * size
    out, offsets = out + panel * nr * stride, one.offsets + 64 * place
    if stride == constant(leaf.element, "size"):
        for row in range(16 // mr * mr):
            at = read32(offsets + 4 * row)
            if at != NOWHERE:
                _put_row(tag, leaf.element, job.scratch + row * nr * size, bias, out + at, columns, relu)
        return
    turned, runs = job.scratch + 16 * nr * size, one.runs + RUN_BYTES * place
    run, base = read32(runs + 4), read32(runs)
    if run == 0:
        return
    _turn(tag, job.scratch, turned)
    for column in range(columns):
        _put_column(
            leaf.element, turned + 16 * column * size, bias + column * size, out + column * stride, run, base, offsets,
            relu,
        )  # fmt: skip


@subroutine
def _convolve(leaf, job):
    """Blocks of positions, for panels of output channels."""
    tag, one = leaf.kernel, record_at(PassPlan, job.one)
    mr, nr, size, b_bytes = (
        constant(tag, "mr"), constant(tag, "nr"), constant(tag, "size"), constant(tag, "b_bytes")
    )  # fmt: skip
    steps, table, groups = one.steps, one.table, one.groups
    starts, parts = one.starts, 16 // mr
    for panel in range(job.first_panel, job.last_panel):
        weights = job.b + panel * steps * b_bytes
        for block in range(job.first, job.last):
            place, period = block % groups, block // groups
            a = job.a + period * one.period * size
            for part in range(parts):
                at = starts + 8 * (place * parts + part)
                first, second = a + size * read32(at), a + size * read32(at + 4)
                _multiply(tag, steps, first, second, table, weights, job.scratch + part * mr * nr * size)
            _write(leaf, job, panel, job.out + period * one.period_stride, place)


ConvolveVectors = leaf_class("ConvolveVectors", "kernel element", _convolve, BlockArguments)
"""Leaf: a part of the result. Fields: a microkernel of `block.vectors`, and the result's element type."""
