"""Lines for tiles: the activations as bf16 parts, one cache line of 32 channels for each position.

16 lines from any position on are a tile of A: what a tap of a convolution reads is what it reads for the first tap,
some lines further on. Values are rounded or split on the way, and their least and greatest magnitude is found. Each
part has a plane of lines of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I1, I32, I64, broadcast, call, lane_numbers, load, loop, offset, store, transpose, vector, zero
from ..gemm.packing import _parts, _widened_range
from ..gemm.tags import constant, field_class, instance
from ..jit import intrinsic, ir, njit, types
from .descriptor import field
from .geometry import GROUP, RUN_BYTES
from .memory import clear
from .positions import pointer, read_positions, suffix, widened

__all__ = ["LineArguments", "PackLines"]

_LINE, _TILE = 64, 1024


@intrinsic
def _pack_group(
    typingctx, source, conversion, at, runs, offsets, run_bytes, channels_at, count, target, part_bytes, limits
):
    """Pack 16 positions of `count` channels, at most 32.

    `at` is the address of the first position's period; `runs` and `offsets` are those of rows of `Spots`, which are
    `run_bytes` (and four times that) from table to table; `channels_at` has for each channel its distance in bytes and
    its table.
    """
    element = field_class(source, "element")
    emit = _along if field_class(source, "order").along_k else _across

    def codegen(context, builder, signature, arguments):
        _, _, at, runs, offsets, run_bytes, channels_at, count, target, part_bytes, limits_at = arguments
        at, runs, offsets, channels_at, target, limits_at = (
            pointer(builder, x) for x in (at, runs, offsets, channels_at, target, limits_at)
        )
        slots = [offset(builder, limits_at, _LINE * slot) for slot in (0, 1)]
        found = [load(builder, vector(I32), slot, 4) for slot in slots]
        found = emit(
            builder, element, instance(conversion), found, at, runs, offsets, run_bytes, channels_at, count, target,
            part_bytes,
        )  # fmt: skip
        for slot, limit in zip(slots, found, strict=True):
            store(builder, limit, slot, 4)
        return context.get_dummy_value()

    return types.void(source, conversion, *[types.int64] * 9), codegen


def _along(builder, element, conversion, found, at, runs, offsets, run_bytes, channels, count, target, part_bytes):
    """The channels of a position are neighbours in memory: a line is read as two vectors."""
    left = broadcast(builder, builder.trunc(count, I32))
    kind, name = vector(element.stored), f"llvm.masked.load.{suffix(element.stored, 16)}.p0"
    first = load(builder, I64, channels, 8)

    def line(index: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        place = load(builder, I32, offset(builder, offsets, builder.shl(index, I64(2))), 4)
        exists = builder.icmp_signed("!=", place, I32(-(1 << 31)))
        here = offset(builder, at, builder.add(builder.sext(place, I64), first))
        values = []
        for half in (0, 1):
            mask = builder.icmp_signed("<", lane_numbers(16, 16 * half), left)
            mask = builder.select(exists, mask, zero(vector(I1)))
            where = builder.bitcast(offset(builder, here, 16 * half * element.size), kind.as_pointer())
            loaded = call(builder, name, kind, where, I32(element.size), mask, zero(kind))
            values.append(widened(builder, loaded, element))
        for part, value in enumerate(_parts(builder, conversion, values)):
            to = offset(builder, target, builder.mul(part_bytes, I64(part)))
            store(builder, value, offset(builder, to, builder.shl(index, I64(6))), _LINE)
        return _widened_range(builder, values, limits)

    return loop(builder, I64(GROUP), found, line)


def _across(builder, element, conversion, found, at, runs, offsets, run_bytes, channels, count, target, part_bytes):
    """The positions of a channel are neighbours in memory: pairs of channels are read, and transposed."""
    parts = conversion.tile_parts
    with builder.goto_entry_block():
        square = builder.alloca(ir.ArrayType(I32, parts * 256))
        slot = builder.alloca(vector(element.working))
    square.align = _LINE
    square = builder.bitcast(square, offsets.type)
    interleave = ir.Constant(vector(I32, 32), [lane // 2 + 16 * (lane % 2) for lane in range(32)])
    pairs = builder.ashr(builder.add(count, I64(1)), I64(1))

    def read(channel: ir.Value) -> ir.Value:
        entry = offset(builder, channels, builder.shl(channel, I64(4)))
        here = offset(builder, at, load(builder, I64, entry, 8))
        table = load(builder, I64, offset(builder, entry, 8), 8)
        run = offset(builder, runs, builder.mul(table, run_bytes))
        places = offset(builder, offsets, builder.mul(table, builder.shl(run_bytes, I64(2))))
        read_positions(builder, element, here, run, places, builder.icmp_signed("<", channel, count), slot)
        return builder.load(slot)

    def pair(index: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        values = [read(builder.add(builder.shl(index, I64(1)), I64(which))) for which in (0, 1)]
        for part, both in enumerate(_parts(builder, conversion, values)):
            both = builder.shuffle_vector(both, both, interleave)
            store(builder, both, offset(builder, square, _row(builder, part, index)), _LINE)
        return _widened_range(builder, values, limits)

    found = loop(builder, pairs, found, pair)
    for part in range(parts):
        rows = []
        for index in range(16):
            row = load(builder, vector(I32), offset(builder, square, _row(builder, part, I64(index))), _LINE)
            rows.append(builder.select(builder.icmp_signed("<", I64(index), pairs), row, zero(vector(I32))))
        to = offset(builder, target, builder.mul(part_bytes, I64(part)))
        for index, line in enumerate(transpose(builder, rows)):
            store(builder, line, offset(builder, to, _LINE * index), _LINE)
    return found


def _row(builder: ir.IRBuilder, part: int, index: ir.Value) -> ir.Value:
    return builder.add(builder.shl(index, I64(6)), I64(part * _TILE))


@njit(cache=False, no_cpython_wrapper=True)
def _pack_one(leaf, job, array, group):
    """One group of the positions of one plane of one block of channels; zeros outside of the images."""
    plan = job.plan
    part_bytes, parts = field("plan", plan, "part_bytes"), field("plan", plan, "parts")
    target = job.target + array * field("plan", plan, "array_bytes") + 1024 * (group - job.region)
    if group < 0 or group >= field("plan", plan, "all_groups"):
        for part in range(parts):
            clear(target + part * part_bytes, 1024)
        return
    planes, groups, tables = field("plan", plan, "planes"), field("plan", plan, "groups"), field("plan", plan, "tables")
    plane, block, row = array % planes, array // planes, group % groups
    place = plane * tables * groups + row
    _pack_group(
        leaf.source, leaf.conversion, job.at + group // groups * field("plan", plan, "period_stride"),
        field("plan", plan, "runs") + RUN_BYTES * place, field("plan", plan, "offsets") + 64 * place,
        RUN_BYTES * groups,
        field("plan", plan, "channels") + 512 * block, min(32, field("plan", plan, "count") - 32 * block),
        target, part_bytes, job.limits,
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
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


class LineArguments(NamedTuple):
    """Groups `first` to `last` into the region at `target`, which begins with group `region`."""

    plan: int
    at: int
    target: int
    limits: int
    region: int
    first: int
    last: int
    first_array: int
    last_array: int


class PackLines(NamedTuple):
    """Leaf: pack groups of positions. Fields: tags of a source and of a conversion."""

    source: NamedTuple
    conversion: NamedTuple
    run = _pack_lines
    arguments = LineArguments
