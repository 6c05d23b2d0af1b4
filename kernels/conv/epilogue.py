"""Storing a block of sums, 32 positions x 32 channels: transposed where positions are neighbours in the result."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block.avx512 import instruction
from ..block.emit import (
    BF16,
    F32,
    I1,
    I16,
    I32,
    I64,
    VOID,
    broadcast,
    call,
    lane_numbers,
    load,
    loop,
    offset,
    splat,
    suffix,
    transpose,
    vector,
)
from ..block.microkernels import convert
from ..block.packing import to_bf16
from ..block.tags import constant, instance
from ..runtime.jit import intrinsic, ir, subroutine, types
from .descriptor import field
from .gather_scatter import pointer, write_all, write_apart, write_together
from .geometry import NOWHERE, RUN_BYTES
from .memory import read32

_ROW = 32 * 4
_BLOCK_ROWS = 16


def _relu_where(builder: ir.IRBuilder, value: ir.Value, relu: ir.Value) -> ir.Value:
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
        lanes = 32 if target.stored is I16 else 16
        left = broadcast(builder, builder.trunc(columns, I32), lanes)
        wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)))
        kind, name = vector(target.stored, lanes), f"llvm.masked.store.{suffix(target.stored, lanes)}.p0"

        def row(index: ir.Value, _: list) -> list:
            place = load(builder, I32, offset(builder, offsets, builder.shl(index, I64(2))), 4)
            with builder.if_then(builder.icmp_signed("!=", place, I32(NOWHERE))):
                here = offset(builder, at, builder.sext(place, I64))
                source = offset(builder, sums, builder.mul(index, I64(_ROW)))
                values = [load(builder, vector(F32), offset(builder, source, 64 * half), 64) for half in (0, 1)]
                values = [_relu_where(builder, value, wanted) for value in values]
                if target.stored is I16:
                    values = [to_bf16(builder, *values)]
                for start, value in zip(range(0, 32, lanes), values, strict=False):
                    value = convert(builder, value, target)
                    to = builder.bitcast(offset(builder, here, start * target.size), kind.as_pointer())
                    mask = builder.icmp_signed("<", lane_numbers(lanes, start), left)
                    call(builder, name, VOID, value, to, I32(target.size), mask)
            return []

        loop(builder, I64(_BLOCK_ROWS), [], row)
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 5), codegen


@intrinsic
def _store_positions(typingctx, element, sums, at, run, base, offsets, channel_stride, columns, relu):
    """Store 16 positions, which are neighbours in the result."""
    target = instance(element)

    def codegen(context, builder, signature, arguments):
        _, sums, at, run, base, offsets, channel_stride, columns, relu = arguments
        sums, at, offsets = (pointer(builder, x) for x in (sums, at, offsets))
        wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)))
        lanes = builder.bitcast(builder.trunc(run, I16), vector(I1))
        begin = offset(builder, at, base)

        def channels(write) -> None:
            for half in (0, 1):
                places = [offset(builder, sums, _ROW * row + 64 * half) for row in range(16)]
                rows = [load(builder, vector(F32), place, 64) for place in places]
                for row, line in enumerate(transpose(builder, rows)):
                    channel = I64(16 * half + row)
                    with builder.if_then(builder.icmp_signed("<", channel, columns), likely=True):
                        value = _relu_where(builder, line, wanted)
                        if target.stored is I16:
                            value = instruction(builder, "avx512bf16.cvtneps2bf16.512", vector(BF16), value)
                            value = builder.bitcast(value, vector(I16))
                        write(value, builder.mul(channel, channel_stride))

        with builder.if_else(builder.icmp_unsigned("==", run, I64(0xFFFF))) as (whole, partial):
            with whole:
                channels(lambda value, to: write_all(builder, target, value, offset(builder, begin, to)))
            with partial, builder.if_else(builder.icmp_unsigned("<=", run, I64(0xFFFF))) as (together, apart):
                with together:
                    channels(
                        lambda value, to: write_together(builder, target, value, offset(builder, begin, to), lanes)
                    )
                with apart:
                    channels(lambda value, to: write_apart(builder, target, value, offset(builder, at, to), offsets))
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 8), codegen


@subroutine
def _finish(leaf, job):
    plan, groups = job.plan, field("pass", job.one, "groups")
    for half in range(2):
        group = job.group + half
        row = group % groups
        if group * 16 < field("pass", job.one, "end"):
            at = job.out + group // groups * field("pass", job.one, "period_stride")
            offsets = field("pass", job.one, "offsets") + 64 * row
            sums, relu = job.sums + half * 2048, field("plan", plan, "relu")
            if constant(leaf.order, "along_k"):
                _store_channels(leaf.element, sums, at, offsets, job.columns, relu)
            else:
                runs = field("pass", job.one, "runs") + RUN_BYTES * row
                run = read32(runs + 4)
                if run != 0:
                    stride = field("plan", plan, "channel_stride")
                    _store_positions(leaf.element, sums, at, run, read32(runs), offsets, stride, job.columns, relu)


FinishArguments = namedtuple("FinishArguments", "plan one sums out group columns")
"""The block of sums at `sums`, of the positions from `group` on; `out` is where its first channel begins."""


class FinishBlock(NamedTuple):
    """Leaf: store a block. Fields: `AlongK` where channels are neighbours in the result, and its element type."""

    order: NamedTuple
    element: NamedTuple
    run = _finish
    arguments = FinishArguments
