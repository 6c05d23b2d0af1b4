"""The planes of convolutions on vector units: each channel is laid out flat with its padding (`geometry`), rounded or
in parts on the way, so that neighbouring positions of a tap are values in a row (see `blocks`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import cpu
from ..gemm.emit import F64, I32, I64, masked_load, offset, store, transpose, vector, zero
from ..gemm.packing import convert_lanes, factors_in_two, updated_limits, widened_range
from ..gemm.tags import constant, instance
from ..jit import intrinsic, ir, subroutine, types
from .descriptor import field
from .geometry import GROUP, RUN_BYTES
from .lines import LineArguments
from .memory import clear
from .positions import existing, pointer, read_positions, widen

__all__ = ["PackPlanes", "PackPositions"]


def _lay_out(builder: ir.IRBuilder, how: Any, value: ir.Value, target: ir.Value, part_bytes: ir.Value, limits_at):
    """Store 16 positions of a channel; those in two parts in one array each, and their magnitudes are taken in."""
    size = 8 if value.type.element is F64 else 4
    if how.vector_parts == 1:
        store(builder, convert_lanes(builder, value, how), target, size)
        return
    for part, factor in enumerate(factors_in_two(builder, "a", value)):
        store(builder, factor, offset(builder, target, builder.mul(part_bytes, I64(part))), size)
    updated_limits(builder, limits_at, lambda limits: widened_range(builder, [value], limits))


@intrinsic
def _fill(typingctx, element, conversion, at, run, offsets, target, part_bytes, limits):
    """Lay out 16 positions of a channel."""
    kind, how = instance(element), instance(conversion)

    def codegen(context, builder, signature, arguments):
        at, run, offsets, target, limits_at = (pointer(builder, x) for x in (*arguments[2:6], arguments[7]))
        with builder.goto_entry_block():
            slot = builder.alloca(vector(kind.working, GROUP))
        read_positions(builder, kind, at, run, offsets, ir.IntType(1)(1), slot)
        _lay_out(builder, how, builder.load(slot), target, arguments[6], limits_at)
        return context.get_dummy_value()

    return types.void(element, conversion, *[types.int64] * 6), codegen


@intrinsic
def _fill_channels(typingctx, element, conversion, at, offsets, count, target, channel_bytes, part_bytes, limits):
    """Lay out 16 positions of `count` channels, at most 16, which are neighbours in memory: a square is transposed."""
    kind, how = instance(element), instance(conversion)
    lanes = 16 if cpu.refusal("avx512") is None and kind.working is not F64 else 8

    def codegen(context, builder, signature, arguments):
        _, _, at, offsets, count, target, channel_bytes, part_bytes, limits = arguments
        at, offsets, target, limits_at = (pointer(builder, x) for x in (at, offsets, target, limits))
        places, there = existing(builder, offsets)
        places = builder.select(there, places, zero(places.type))
        left = builder.trunc(count, I32)

        def rows(first: int, channel: int) -> list[ir.Value]:
            numbers = ir.Constant(vector(I32, lanes), [channel + lane for lane in range(lanes)])
            bound = builder.insert_element(ir.Constant(vector(I32, lanes), ir.Undefined), left, I32(0))
            bound = builder.shuffle_vector(bound, bound, zero(vector(I32, lanes)))
            inside, found = builder.icmp_signed("<", numbers, bound), []
            for lane in range(first, first + lanes):
                here = offset(builder, at, builder.sext(builder.extract_element(places, I32(lane)), I64))
                mask = builder.select(builder.extract_element(there, I32(lane)), inside, zero(inside.type))
                here = offset(builder, here, channel * kind.size)
                value = masked_load(builder, vector(kind.stored, lanes), here, kind.size, mask)
                found.append(widen(builder, value, kind))
            return transpose(builder, found)

        both = ir.Constant(vector(I32, GROUP), list(range(GROUP)))
        for channel in range(0, GROUP, lanes):
            squares = [rows(first, channel) for first in range(0, GROUP, lanes)]
            for index, pieces in enumerate(zip(*squares, strict=True)):
                with builder.if_then(builder.icmp_signed(">", count, I64(channel + index)), likely=True):
                    value = pieces[0] if lanes == GROUP else builder.shuffle_vector(*pieces, both)
                    to = offset(builder, target, builder.mul(channel_bytes, I64(channel + index)))
                    _lay_out(builder, how, value, to, part_bytes, limits_at)
        return context.get_dummy_value()

    return types.void(element, conversion, *[types.int64] * 7), codegen


@subroutine
def _pack_planes(leaf, job):
    """An array is a plane of a channel, in as many parts as the conversion makes."""
    plan, parts = job.plan, constant(leaf.conversion, "vector_parts")
    planes, groups = field("plan", plan, "planes"), field("plan", plan, "groups")
    all_groups = field("plan", plan, "all_groups")
    group_bytes, channel = field("plan", plan, "group_bytes"), field("plan", plan, "channels")
    part_bytes = field("plan", plan, "part_bytes")
    for group in range(job.first, job.last):
        row, exists = group % groups, 0 <= group < all_groups
        at = job.at + group // groups * field("plan", plan, "period_stride")
        for array in range(job.first_array, job.last_array):
            target = job.target + array * field("plan", plan, "array_bytes") + group_bytes * (group - job.region)
            place = array % planes * groups + row
            if exists:
                _fill(
                    leaf.element, leaf.conversion, at + array // planes * channel,
                    field("plan", plan, "runs") + RUN_BYTES * place, field("plan", plan, "offsets") + 64 * place,
                    target, part_bytes, job.limits,
                )  # fmt: skip
            else:
                for part in range(parts):
                    clear(target + part * part_bytes, group_bytes)


class PackPlanes(NamedTuple):
    """Leaf: lay out groups of positions. Fields: tags of an element and of a conversion."""

    element: NamedTuple
    conversion: NamedTuple
    run = _pack_planes
    arguments = LineArguments


@subroutine
def _pack_positions(leaf, job):
    """The same where the channels of a position are neighbours in memory; all arrays."""
    plan, parts, size = job.plan, constant(leaf.conversion, "vector_parts"), constant(leaf.element, "size")
    planes, groups = field("plan", plan, "planes"), field("plan", plan, "groups")
    all_groups, channels = field("plan", plan, "all_groups"), job.last_array // planes
    group_bytes, part_bytes = field("plan", plan, "group_bytes"), field("plan", plan, "part_bytes")
    array_bytes = field("plan", plan, "array_bytes")
    for group in range(job.first, job.last):
        at = job.at + group // groups * field("plan", plan, "period_stride")
        target = job.target + group_bytes * (group - job.region)
        if group < 0 or group >= all_groups:
            for part in range(job.last_array * parts):
                clear(target + part * part_bytes, group_bytes)
            continue
        for plane in range(planes):
            offsets = field("plan", plan, "offsets") + 64 * (plane * groups + group % groups)
            for channel in range(0, channels, 16):
                _fill_channels(
                    leaf.element, leaf.conversion, at + channel * size, offsets, min(16, channels - channel),
                    target + (channel * planes + plane) * array_bytes, planes * array_bytes, part_bytes, job.limits,
                )  # fmt: skip


class PackPositions(NamedTuple):
    """Leaf: lay out groups of positions whose channels are neighbours. Fields: tags of an element and a conversion."""

    element: NamedTuple
    conversion: NamedTuple
    run = _pack_positions
    arguments = LineArguments
