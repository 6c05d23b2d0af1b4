"""Lines for tiles: the activations as bf16 parts, one cache line of 32 channels for each position.

16 lines from any position on are a tile of A: what a tap of a convolution reads is what it reads for the first tap,
some lines further on. Values are rounded or split on the way, and their least and greatest magnitude is found. Each
part has a plane of lines of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import I1, I16, I32, I64, broadcast, call, lane_numbers, load, loop, offset, store, transpose, vector, zero
from ..gemm.packing import _parts, _widened_range
from ..gemm.tags import constant, field_class, instance
from ..jit import intrinsic, ir, njit, types
from ..launch import call_at, launch
from ..gemm.loops import LIMITS_BYTES, found_limits, reset_limits
from .geometry import GROUP
from .memory import clear, read32
from .positions import existing, gathered, pointer, read_neighbours, suffix, widened

__all__ = ["PackLines", "pack_lines"]

_LINE, _TILE = 64, 1024
_LIMITS = 2


@intrinsic
def _pack_group(
    typingctx, source, conversion, at, run, base, offsets, table_bytes, channels_at, count, target, part_bytes, limits
):
    """Pack 16 positions of `count` channels, at most 32.

    `at` is the address of the first position's period; `channels_at` has for each channel its distance in bytes and its
    table. `run` and `base` are the row of `Spots.runs`, `offsets` the address of that of `Spots.offsets`.
    """
    element = field_class(source, "element")
    emit = _along if field_class(source, "order").along_k else _across

    def codegen(context, builder, signature, arguments):
        _, _, at, run, base, offsets, table_bytes, channels_at, count, target, part_bytes, limits_at = arguments
        at, offsets, channels_at, target, limits_at = (
            pointer(builder, x) for x in (at, offsets, channels_at, target, limits_at)
        )
        slots = [offset(builder, limits_at, _LINE * slot) for slot in (0, 1)]
        found = [load(builder, vector(I32), slot, 4) for slot in slots]
        run = builder.trunc(run, I32)
        found = emit(
            builder, element, instance(conversion), found, at, run, base, offsets, table_bytes, channels_at, count,
            target, part_bytes,
        )  # fmt: skip
        for slot, limit in zip(slots, found, strict=True):
            store(builder, limit, slot, 4)
        return context.get_dummy_value()

    return types.void(source, conversion, *[types.int64] * 10), codegen


def _along(builder, element, conversion, found, at, run, base, offsets, table_bytes, channels, count, target, part_bytes):
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


def _across(builder, element, conversion, found, at, run, base, offsets, table_bytes, channels, count, target, part_bytes):
    """The positions of a channel are neighbours in memory: pairs of channels are read, and transposed."""
    parts = conversion.tile_parts
    with builder.goto_entry_block():
        square = builder.alloca(ir.ArrayType(I32, parts * 256))
        slots = [builder.alloca(vector(I32)) for _ in range(_LIMITS)]
    square.align = _LINE
    square = builder.bitcast(square, offsets.type)
    for slot, limit in zip(slots, found, strict=True):
        builder.store(limit, slot)
    interleave = ir.Constant(vector(I32, 32), [lane // 2 + 16 * (lane % 2) for lane in range(32)])
    pairs = builder.ashr(builder.add(count, I64(1)), I64(1))

    def fill(read) -> None:
        def pair(index: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
            values = []
            for which in (0, 1):
                channel = builder.add(builder.shl(index, I64(1)), I64(which))
                entry = offset(builder, channels, builder.shl(channel, I64(4)))
                exists = broadcast(builder, builder.icmp_signed("<", channel, count))
                values.append(read(load(builder, I64, entry, 8), load(builder, I64, offset(builder, entry, 8), 8), exists))
            for part, both in enumerate(_parts(builder, conversion, values)):
                both = builder.shuffle_vector(both, both, interleave)
                store(builder, both, offset(builder, square, _row(builder, part, index)), _LINE)
            return _widened_range(builder, values, limits)

        for slot, limit in zip(slots, loop(builder, pairs, [builder.load(s) for s in slots], pair), strict=True):
            builder.store(limit, slot)

    def neighbours(distance: ir.Value, table: ir.Value, exists: ir.Value) -> ir.Value:
        mask = builder.bitcast(builder.trunc(run, I16), vector(I1))
        here = offset(builder, at, builder.add(base, distance))
        return read_neighbours(builder, element, here, builder.and_(mask, exists))

    def apart(distance: ir.Value, table: ir.Value, exists: ir.Value) -> ir.Value:
        places, there = existing(builder, offset(builder, offsets, builder.mul(table, table_bytes)))
        here = offset(builder, at, distance)
        return gathered(builder, element, here, places, builder.and_(there, exists))

    with builder.if_else(builder.icmp_signed("<", run, I32(0))) as (irregular, regular):
        with irregular:
            fill(apart)
        with regular:
            fill(neighbours)
    for part in range(parts):
        rows = []
        for index in range(16):
            row = load(builder, vector(I32), offset(builder, square, _row(builder, part, I64(index))), _LINE)
            rows.append(builder.select(builder.icmp_signed("<", I64(index), pairs), row, zero(vector(I32))))
        to = offset(builder, target, builder.mul(part_bytes, I64(part)))
        for index, line in enumerate(transpose(builder, rows)):
            store(builder, line, offset(builder, to, _LINE * index), _LINE)
    return [builder.load(slot) for slot in slots]


def _row(builder: ir.IRBuilder, part: int, index: ir.Value) -> ir.Value:
    return builder.add(builder.shl(index, I64(6)), I64(part * _TILE))


@njit(cache=False, no_cpython_wrapper=True)
def _pack_lines(leaf, job):
    for group in range(job.first, job.last):
        row = group % job.groups
        table = job.offsets + 64 * row
        run = job.runs + 8 * row
        mask = read32(run + 4)
        if job.tables > 1:
            mask = -1
        _pack_group(
            leaf.source, leaf.conversion, job.at + group // job.groups * job.period_stride, mask, read32(run), table,
            64 * job.groups, job.channels, job.count, job.target + 1024 * group, job.part_bytes, job.limits,
        )  # fmt: skip


class _LineArguments(NamedTuple):
    at: int
    period_stride: int
    runs: int
    offsets: int
    groups: int
    tables: int
    channels: int
    count: int
    target: int
    part_bytes: int
    limits: int
    first: int
    last: int


class PackLines(NamedTuple):
    """Leaf: pack groups of positions, for one plane and 32 channels. Fields: tags of a source and of a conversion."""

    source: NamedTuple
    conversion: NamedTuple
    run = _pack_lines
    arguments = _LineArguments


@njit(cache=False, no_cpython_wrapper=True)
def _lines_task(task, worker, job):
    """A part of the groups of one plane of one block of channels."""
    array, first = task // job.chunks, task % job.chunks * job.chunk
    last = min(first + job.chunk, job.all_groups)
    plane, block = array % job.planes, array // job.planes
    begin = job.target + array * job.array_bytes
    for part in range(job.parts):
        here = begin + part * job.part_bytes
        if first == 0:
            clear(here, 64 * job.front)
        if last == job.all_groups:
            end = job.front + GROUP * job.all_groups
            clear(here + 64 * end, job.part_bytes - 64 * end)
    tables, group_block = job.tables, block // job.blocks
    count = min(32, job.count - block % job.blocks * 32)
    call_at(
        job.leaf,
        _LineArguments(
            job.at + group_block * job.group_stride, job.period_stride,
            job.runs + plane * tables * job.groups * 8, job.offsets + plane * tables * job.groups * 64,
            job.groups, tables, job.channels + 512 * (block % job.blocks), count,
            begin + 64 * job.front, job.part_bytes, job.limits + worker * LIMITS_BYTES, first, last,
        ),
    )  # fmt: skip


class _Lines(NamedTuple):
    leaf: int
    at: int
    group_stride: int
    period_stride: int
    runs: int
    offsets: int
    groups: int
    tables: int
    planes: int
    channels: int
    count: int
    blocks: int
    target: int
    array_bytes: int
    part_bytes: int
    parts: int
    front: int
    all_groups: int
    chunk: int
    chunks: int
    limits: int
    run = _lines_task


@njit
def pack_lines(
    pool, threads, leaf, at, group_stride, period_stride, runs, offsets, groups, tables, planes, channels, count,
    blocks, channel_groups, target, array_bytes, part_bytes, parts, front, all_groups, chunk, limits,
):  # fmt: skip
    """Pack all positions of all channels; the magnitudes found, as `gemm.loops.pack` has them.

    `leaf` is the address of a `PackLines`. Each of `channel_groups` has `count` channels in `blocks` blocks of 32, each
    of these `planes` planes, and each of these the parts, with `front` lines of zeros before and more behind.
    """
    reset_limits(limits, threads)
    chunks = (all_groups + chunk - 1) // chunk
    job = _Lines(
        leaf, at, group_stride, period_stride, runs, offsets, groups, tables, planes, channels, count, blocks,
        target, array_bytes, part_bytes, parts, front, all_groups, chunk, chunks, limits,
    )  # fmt: skip
    launch(pool, threads, channel_groups * blocks * planes * chunks, job)
    return found_limits(limits, threads)
