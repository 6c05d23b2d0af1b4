"""Storing a block of sums, 32 positions x 32 channels: transposed where positions are neighbours in the result."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block import emit as e
from ..block.avx512 import instruction
from ..block.microkernels import convert
from ..block.packing import to_bf16
from ..block.tags import constant
from ..runtime.emitted import Class, Pointer, emitted
from ..runtime.jit import ir, subroutine
from .descriptor import field
from .gather_scatter import write_all, write_apart, write_together
from .geometry import NOWHERE, RUN_BYTES
from .memory import read32

_ROW = 32 * 4
_BLOCK_ROWS = 16


def _relu_where(builder: ir.IRBuilder, value: ir.Value, relu: ir.Value) -> ir.Value:
    """max(value, 0) where `relu` (a vector of booleans) says so; NaN stays."""
    none = e.splat(e.F32, 0.0)
    negative = builder.fcmp_ordered("<", value, none)
    return builder.select(builder.and_(negative, relu), none, value)


@emitted
def _store_channels(builder, target: Class, sums: Pointer, at: Pointer, offsets: Pointer, columns, relu) -> None:
    """Store 16 positions, whose channels are neighbours in the result."""
    lanes = 32 if target.stored is e.I16 else 16
    left = e.broadcast(builder, builder.trunc(columns, e.I32), lanes)
    wanted = e.broadcast(builder, builder.icmp_signed("!=", relu, e.I64(0)))
    kind, name = e.vector(target.stored, lanes), f"llvm.masked.store.{e.suffix(target.stored, lanes)}.p0"

    def row(index: ir.Value, _: list) -> list:
        place = e.load(builder, e.I32, e.offset(builder, offsets, builder.shl(index, e.I64(2))), 4)
        with builder.if_then(builder.icmp_signed("!=", place, e.I32(NOWHERE))):
            here = e.offset(builder, at, builder.sext(place, e.I64))
            source = e.offset(builder, sums, builder.mul(index, e.I64(_ROW)))
            values = [e.load(builder, e.vector(e.F32), e.offset(builder, source, 64 * half), 64) for half in (0, 1)]
            values = [_relu_where(builder, value, wanted) for value in values]
            if target.stored is e.I16:
                values = [to_bf16(builder, *values)]
            for start, value in zip(range(0, 32, lanes), values, strict=False):
                value = convert(builder, value, target)
                to = builder.bitcast(e.offset(builder, here, start * target.size), kind.as_pointer())
                mask = builder.icmp_signed("<", e.lane_numbers(lanes, start), left)
                e.call(builder, name, e.VOID, value, to, e.I32(target.size), mask)
        return []

    e.loop(builder, e.I64(_BLOCK_ROWS), [], row)


@emitted
def _store_positions(
    builder, target: Class, sums: Pointer, at: Pointer, run, base, offsets: Pointer, channel_stride, columns, relu
) -> None:
    """Store 16 positions, which are neighbours in the result."""
    wanted = e.broadcast(builder, builder.icmp_signed("!=", relu, e.I64(0)))
    lanes = builder.bitcast(builder.trunc(run, e.I16), e.vector(e.I1))
    begin = e.offset(builder, at, base)

    def channels(write) -> None:
        for half in (0, 1):
            places = [e.offset(builder, sums, _ROW * row + 64 * half) for row in range(16)]
            rows = [e.load(builder, e.vector(e.F32), place, 64) for place in places]
            for row, line in enumerate(e.transpose(builder, rows)):
                channel = e.I64(16 * half + row)
                with builder.if_then(builder.icmp_signed("<", channel, columns), likely=True):
                    value = _relu_where(builder, line, wanted)
                    if target.stored is e.I16:
                        value = instruction(builder, "avx512bf16.cvtneps2bf16.512", e.vector(e.BF16), value)
                        value = builder.bitcast(value, e.vector(e.I16))
                    write(value, builder.mul(channel, channel_stride))

    with builder.if_else(builder.icmp_unsigned("==", run, e.I64(0xFFFF))) as (whole, partial):
        with whole:
            channels(lambda value, to: write_all(builder, target, value, e.offset(builder, begin, to)))
        with partial, builder.if_else(builder.icmp_unsigned("<=", run, e.I64(0xFFFF))) as (together, apart):
            with together:
                channels(lambda value, to: write_together(builder, target, value, e.offset(builder, begin, to), lanes))
            with apart:
                channels(lambda value, to: write_apart(builder, target, value, e.offset(builder, at, to), offsets))


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
