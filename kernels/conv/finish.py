"""Storing a block of sums, 32 positions x 32 channels: transposed where positions are neighbours in the result."""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import F32, I32, I64, VOID, broadcast, call, lane_numbers, load, loop, offset, splat, store, transpose, vector
from ..gemm.microkernels import convert
from ..gemm.tags import constant, instance
from ..jit import intrinsic, ir, njit, types
from .geometry import NOWHERE
from .memory import read32
from .positions import pointer, suffix, write_positions

__all__ = ["FinishArguments", "FinishBlock"]

_ROW = 32 * 4
_BLOCK_ROWS = 16


def _activated(builder: ir.IRBuilder, value: ir.Value, relu: ir.Value) -> ir.Value:
    """max(value, 0) where `relu` (a vector of booleans) says so; NaN stays."""
    none = splat(F32, 0.0)
    negative = builder.fcmp_ordered("<", value, none)
    return builder.select(builder.and_(negative, relu), none, value)


@intrinsic
def _store_channels(typingctx, element, sums, at, offsets, columns, relu):
    """Store 16 positions, whose channels are neighbours in the result."""
    target = instance(element)

    def codegen(context, builder, signature, arguments):
        _, sums, at, offsets, columns, relu = arguments
        sums, at, offsets = (pointer(builder, x) for x in (sums, at, offsets))
        left = broadcast(builder, builder.trunc(columns, I32))
        wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)))
        kind, name = vector(target.stored), f"llvm.masked.store.{suffix(target.stored, 16)}.p0"

        def row(index: ir.Value, _: list) -> list:
            place = load(builder, I32, offset(builder, offsets, builder.shl(index, I64(2))), 4)
            with builder.if_then(builder.icmp_signed("!=", place, I32(NOWHERE))):
                here = offset(builder, at, builder.sext(place, I64))
                source = offset(builder, sums, builder.mul(index, I64(_ROW)))
                for half in (0, 1):
                    value = load(builder, vector(F32), offset(builder, source, 64 * half), 64)
                    value = convert(builder, _activated(builder, value, wanted), target)
                    to = builder.bitcast(offset(builder, here, 16 * half * target.size), kind.as_pointer())
                    mask = builder.icmp_signed("<", lane_numbers(16, 16 * half), left)
                    call(builder, name, VOID, value, to, I32(target.size), mask)
            return []

        loop(builder, I64(_BLOCK_ROWS), [], row)
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 5), codegen


@intrinsic
def _store_positions(typingctx, element, sums, at, run, base, offsets, channel_stride, columns, relu):
    """Store 16 positions, which are neighbours in the result; the block of sums is overwritten."""
    target = instance(element)

    def codegen(context, builder, signature, arguments):
        _, sums, at, run, base, offsets, channel_stride, columns, relu = arguments
        sums, at, offsets = (pointer(builder, x) for x in (sums, at, offsets))
        run = builder.trunc(run, I32)
        at = builder.select(builder.icmp_signed("<", run, I32(0)), at, offset(builder, at, base))
        wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)))
        least = builder.select(builder.icmp_signed("<", columns, I64(32)), columns, I64(32))
        for half in (0, 1):
            rows = [load(builder, vector(F32), offset(builder, sums, _ROW * r + 64 * half), 64) for r in range(16)]
            for r, line in enumerate(transpose(builder, rows)):
                store(builder, _activated(builder, line, wanted), offset(builder, sums, _ROW * r + 64 * half), 64)

        def channel(index: ir.Value, _: list) -> list:
            row, half = builder.and_(index, I64(15)), builder.lshr(index, I64(4))
            place = builder.add(builder.mul(row, I64(_ROW)), builder.shl(half, I64(6)))
            value = load(builder, vector(F32), offset(builder, sums, place), 64)
            here = offset(builder, at, builder.mul(index, channel_stride))
            write_positions(builder, target, value, here, run, offsets)
            return []

        loop(builder, least, [], channel)
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 8), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _finish(leaf, job):
    for half in range(2):
        group = job.group + half
        row = group % job.groups
        if group * 16 < job.end:
            at = job.out + group // job.groups * job.period_stride
            offsets, sums = job.offsets + 64 * row, job.sums + half * 2048
            if constant(leaf.order, "along_k"):
                _store_channels(leaf.element, sums, at, offsets, job.columns, job.relu)
            else:
                run = read32(job.runs + 8 * row + 4)
                if run != 0:
                    base = read32(job.runs + 8 * row)
                    _store_positions(
                        leaf.element, sums, at, run, base, offsets, job.channel_stride, job.columns, job.relu
                    )


class FinishArguments(NamedTuple):
    sums: int
    out: int
    group: int
    end: int
    groups: int
    period_stride: int
    runs: int
    offsets: int
    channel_stride: int
    columns: int
    relu: int


class FinishBlock(NamedTuple):
    """Leaf: store a block. Fields: `AlongK` where channels are neighbours in the result, and its element type."""

    order: NamedTuple
    element: NamedTuple
    run = _finish
    arguments = FinishArguments


