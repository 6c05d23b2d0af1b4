"""Storing a block of sums, 32 positions x 32 channels: transposed where positions are neighbours in the result."""

from __future__ import annotations

from collections import namedtuple

from ..block import emit as e
from ..block.avx512 import instruction
from ..block.microkernels import convert
from ..block.packing import to_bf16
from ..block.tags import constant
from ..runtime.emitter import Class, Pointer, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from ..runtime.raw_memory import record_at
from .descriptor import PassPlan, Plan
from .gather_scatter import write_all, write_apart, write_together
from .geometry import NOWHERE, RUN_BYTES
from .memory import read32

_ROW = 32 * 4
_BLOCK_ROWS = 16


@emitter
def _store_channels(builder, target: Class, sums: Pointer, at: Pointer, offsets: Pointer, columns, relu) -> None:
    """Store 16 positions, whose channels are neighbours in the result."""
    lanes = 32 if target.stored is e.I16 else 16

    def row(index: ir.Value, _: list) -> list:
        place = e.load(builder, e.I32, e.offset(builder, offsets, builder.shl(index, e.I64(2))), 4)
        with builder.if_then(builder.icmp_signed("!=", place, e.I32(NOWHERE))):
            here = e.offset(builder, at, builder.sext(place, e.I64))
            source = e.offset(builder, sums, builder.mul(index, e.I64(_ROW)))
            values = [e.load(builder, e.vector(e.F32), e.offset(builder, source, 64 * half), 64) for half in (0, 1)]
            values = [e.relu(builder, value, relu) for value in values]
            if target.stored is e.I16:
                values = [to_bf16(builder, *values)]
            for start, value in zip(range(0, 32, lanes), values, strict=False):
                value = convert(builder, value, target)
                to, mask = e.offset(builder, here, start * target.size), e.first_lanes(builder, columns, lanes, start)
                e.masked_store(builder, value, to, target.size, mask)
        return []

    e.loop(builder, e.I64(_BLOCK_ROWS), [], row)


@emitter
def _store_positions(
    builder, target: Class, sums: Pointer, at: Pointer, run, base, offsets: Pointer, channel_stride, columns, relu
) -> None:
    """Store 16 positions, which are neighbours in the result."""
    lanes = builder.bitcast(builder.trunc(run, e.I16), e.vector(e.I1))
    begin = e.offset(builder, at, base)

    def channels(write) -> None:
        for half in (0, 1):
            places = [e.offset(builder, sums, _ROW * row + 64 * half) for row in range(16)]
            rows = [e.load(builder, e.vector(e.F32), place, 64) for place in places]
            for row, line in enumerate(e.transpose(builder, rows)):
                channel = e.I64(16 * half + row)
                with builder.if_then(builder.icmp_signed("<", channel, columns), likely=True):
                    value = e.relu(builder, line, relu)
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
    plan, one = record_at(Plan, job.plan), record_at(PassPlan, job.one)
    groups = one.groups
    for half in range(2):
        group = job.group + half
        row = group % groups
        if group * 16 < one.end:
            at = job.out + group // groups * one.period_stride
            offsets = one.offsets + 64 * row
            sums, relu = job.sums + half * 2048, plan.relu
            if constant(leaf.order, "along_k"):
                _store_channels(leaf.element, sums, at, offsets, job.columns, relu)
            else:
                runs = one.runs + RUN_BYTES * row
                run = read32(runs + 4)
                if run != 0:
                    stride = plan.channel_stride
                    _store_positions(leaf.element, sums, at, run, read32(runs), offsets, stride, job.columns, relu)


FinishArguments = namedtuple("FinishArguments", "plan one sums out group columns")
"""The block of sums at `sums`, of the positions from `group` on; `out` is where its first channel begins."""


FinishBlock = leaf_class("FinishBlock", "order element", _finish, FinishArguments)
"""Leaf: store a block. Fields: `AlongK` where channels are neighbours in the result, and its element type."""
