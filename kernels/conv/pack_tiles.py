"""Lines for tiles: the activations as bf16 parts, one cache line of 32 channels for each position.

16 lines from any position on are a tile of A: what a tap of a convolution reads is what it reads for the first tap,
some lines further on. Values are rounded or split on the way, and their least and greatest magnitude is found. Each
part has a plane of lines of its own.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block import emit as e
from ..block.packing import joined_limits, parts_of, widened_range
from ..block.tags import constant, field_class
from ..runtime.emitter import Class, Pointer, Type, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from ..runtime.raw_memory import record_at
from .descriptor import Plan
from .gather_scatter import read_positions, widen
from .geometry import GROUP, NOWHERE, RUN_BYTES
from .memory import clear


class AlongTaps(NamedTuple):
    """An order of reading: folded taps and channels of a position are adjacent, and a mask marks the existing ones.

    The masks are where the offsets of a second table would be.
    """

    along_k = True


def no_range_of_halves() -> list[ir.Value]:
    """The least magnitude less one and the greatest of no bfloat16, as bits."""
    return [e.splat(e.I16, -1, 32), e.splat(e.I16, 0, 32)]


def range_of_halves(builder: ir.IRBuilder, values: list[ir.Value], found: list[ir.Value]) -> list[ir.Value]:
    """What was found, with vectors of 32 bfloat16 taken in."""
    bits = e.vector(e.I16, 32)
    for value in values:
        magnitude = builder.and_(value, e.splat(e.I16, 0x7FFF, 32))
        less = builder.sub(magnitude, e.splat(e.I16, 1, 32))
        found = [
            e.call(builder, "llvm.umin.v32i16", bits, found[0], less),
            e.call(builder, "llvm.umax.v32i16", bits, found[1], magnitude),
        ]
    return found


@emitter
def _pack_group(
    builder, source: Type, conversion: Class, at: Pointer, runs: Pointer, offsets: Pointer, run_bytes,
    channels_at: Pointer, count, target: Pointer, part_bytes, limits_at: Pointer,
) -> None:  # fmt: skip
    """Pack 16 positions of `count` channels, at most 32.

    `at` is the address of the first position's period; `runs` and `offsets` are those of rows of `Spots`, which are
    `run_bytes` (and four times that) from table to table; `channels_at` has for each channel its distance in bytes and
    its table.
    """
    element = field_class(source, "element")
    order = field_class(source, "order")
    emit = _along if order.along_k else _across
    slots = [e.offset(builder, limits_at, e.LINE * slot) for slot in (0, 1)]
    found = [e.load(builder, e.vector(e.I32), slot, 4) for slot in slots]
    if order is AlongTaps:
        runs = e.offset(builder, offsets, builder.shl(run_bytes, e.I64(2)))
    elif order.along_k:
        runs = None
    found = emit(
        builder, element, conversion, found, at, runs, offsets, run_bytes, channels_at, count, target,
        part_bytes,
    )  # fmt: skip
    for slot, limit in zip(slots, found, strict=True):
        e.store(builder, limit, slot, 4)


def _along(
    builder, element, conversion, found, at, masks, offsets, run_bytes, channels, count, target, part_bytes
):  # fmt: skip
    """The channels of a position are neighbours in memory: a line is read as two vectors, or as one of bfloat16 that
    need no conversion. The line of the position 16 further on is asked for."""
    copies = element.stored is e.I16 and conversion.target == "bf16"
    exist = e.first_lanes(builder, count, 32)
    lanes = 32 if copies else 16
    kind = e.vector(element.stored, lanes)
    first = e.load(builder, e.I64, channels, 8)

    def place_of(index: ir.Value) -> tuple[ir.Value, ir.Value]:
        place = e.load(builder, e.I32, e.offset(builder, offsets, builder.shl(index, e.I64(2))), 4)
        return place, e.offset(builder, at, builder.add(builder.sext(place, e.I64), first))

    def line(index: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        _, soon = place_of(builder.add(index, e.I64(GROUP)))
        e.prefetch_to_l2(builder, soon, 32 * element.size // e.LINE)
        place, here = place_of(index)
        if masks is None:
            there = builder.select(builder.icmp_signed("!=", place, e.I32(NOWHERE)), exist, e.zero(e.vector(e.I1, 32)))
        else:
            bits = e.load(builder, e.I32, e.offset(builder, masks, builder.shl(index, e.I64(2))), 4)
            there = builder.bitcast(bits, e.vector(e.I1, 32))
        values = []
        for start in range(0, 32, lanes):
            order = ir.Constant(e.vector(e.I32, lanes), list(range(start, start + lanes)))
            mask = builder.shuffle_vector(there, there, order)
            values.append(
                e.masked_load(builder, kind, e.offset(builder, here, start * element.size), element.size, mask)
            )
        if copies:
            e.store(builder, values[0], e.offset(builder, target, builder.shl(index, e.I64(6))), e.LINE)
            return range_of_halves(builder, values, limits)
        values = [widen(builder, value, element) for value in values]
        for part, value in enumerate(parts_of(builder, conversion, values)):
            to = e.offset(builder, target, builder.mul(part_bytes, e.I64(part)))
            e.store(builder, value, e.offset(builder, to, builder.shl(index, e.I64(6))), e.LINE)
        return widened_range(builder, values, limits)

    if copies:
        return joined_limits(builder, e.loop(builder, e.I64(GROUP), no_range_of_halves(), line), found)
    return e.loop(builder, e.I64(GROUP), found, line)


def _across(builder, element, conversion, found, at, runs, offsets, run_bytes, channels, count, target, part_bytes):
    """The positions of a channel are neighbours in memory: pairs of channels are read, and transposed."""
    parts = conversion.tile_parts
    with builder.goto_entry_block():
        square = builder.alloca(ir.ArrayType(e.I32, parts * 256))
        slot = builder.alloca(e.vector(element.working))
    square.align = e.LINE
    square = builder.bitcast(square, offsets.type)
    interleave = ir.Constant(e.vector(e.I32, 32), [lane // 2 + 16 * (lane % 2) for lane in range(32)])
    pairs = builder.ashr(builder.add(count, e.I64(1)), e.I64(1))

    def read(channel: ir.Value) -> ir.Value:
        entry = e.offset(builder, channels, builder.shl(channel, e.I64(4)))
        here = e.offset(builder, at, e.load(builder, e.I64, entry, 8))
        table = e.load(builder, e.I64, e.offset(builder, entry, 8), 8)
        run = e.offset(builder, runs, builder.mul(table, run_bytes))
        places = e.offset(builder, offsets, builder.mul(table, builder.shl(run_bytes, e.I64(2))))
        read_positions(builder, element, here, run, places, builder.icmp_signed("<", channel, count), slot)
        return builder.load(slot)

    def pair(index: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        values = [read(builder.add(builder.shl(index, e.I64(1)), e.I64(which))) for which in (0, 1)]
        for part, both in enumerate(parts_of(builder, conversion, values)):
            both = builder.shuffle_vector(both, both, interleave)
            e.store(builder, both, e.offset(builder, square, _row(builder, part, index)), e.LINE)
        return widened_range(builder, values, limits)

    found = e.loop(builder, pairs, found, pair)
    for part in range(parts):
        rows = []
        for index in range(16):
            row = e.load(builder, e.vector(e.I32), e.offset(builder, square, _row(builder, part, e.I64(index))), e.LINE)
            rows.append(builder.select(builder.icmp_signed("<", e.I64(index), pairs), row, e.zero(e.vector(e.I32))))
        to = e.offset(builder, target, builder.mul(part_bytes, e.I64(part)))
        for index, line in enumerate(e.transpose(builder, rows)):
            e.store(builder, line, e.offset(builder, to, e.LINE * index), e.LINE)
    return found


def _row(builder: ir.IRBuilder, part: int, index: ir.Value) -> ir.Value:
    return builder.add(builder.shl(index, e.I64(6)), e.I64(part * e.TILE))


@subroutine
def _pack_one(leaf, job, array, group):
    """One group of the positions of one plane of one block of channels; zeros outside of the images."""
    plan = record_at(Plan, job.plan)
    part_bytes, parts = plan.part_bytes, plan.parts
    target = job.target + array * plan.array_bytes + 1024 * (group - job.region)
    if group < 0 or group >= plan.all_groups:
        for part in range(parts):
            clear(target + part * part_bytes, 1024)
        return
    planes, groups, tables = plan.planes, plan.groups, plan.tables
    plane, block, row = array % planes, array // planes, group % groups
    place = plane * tables * groups + row
    _pack_group(
        leaf.source, leaf.conversion, job.at + group // groups * plan.period_stride,
        plan.runs + RUN_BYTES * place, plan.offsets + 64 * place,
        RUN_BYTES * groups,
        plan.channels + 512 * block, min(32, plan.count - 32 * block),
        target, part_bytes, job.limits,
    )  # fmt: skip


@subroutine
def _pack_lines(leaf, job):
    # In memory's order: positions of a channel, or the channels of a position.
    if constant(leaf.source, "along_k"):
        for group in range(job.first, job.last):
            for array in range(job.first_array, job.last_array):
                _pack_one(leaf, job, array, group)
    else:
        for array in range(job.first_array, job.last_array):
            for group in range(job.first, job.last):
                _pack_one(leaf, job, array, group)


LineArguments = namedtuple("LineArguments", "plan at target limits region first last first_array last_array")
"""Groups `first` to `last` into the region at `target`, which begins with group `region`."""


PackLines = leaf_class("PackLines", "source conversion", _pack_lines, LineArguments)
"""Leaf: pack groups of positions. Fields: tags of a source and of a conversion."""
