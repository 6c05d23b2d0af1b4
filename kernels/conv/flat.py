"""Convolutions of one tap of bfloat16 on AMX tiles, where the channels of a position are neighbours in memory.

The positions of all images are one long row then, and tiles read the array where it lies: nothing is packed. While a
block of 32 positions is multiplied with all weights, the next block is looked through for magnitudes that tiles flush,
which brings it into the cache, and the results of the block before are rounded and written: both in memory's order,
some lines after each step of tile products, so that memory never rests.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..gemm.emit import (
    F32,
    I16,
    I32,
    I64,
    broadcast,
    either,
    load,
    loop,
    offset,
    prefetch_to_l2,
    store,
    vector,
)
from ..gemm.loops import LIMITS_BYTES, found_limits, reset_limits
from ..gemm.microkernels import begin, end
from ..gemm.packing import _joined_limits, _to_bf16
from ..jit import intrinsic, ir, njit, types
from ..launch import call_at, launch
from .descriptor import field, read_field
from .lines import no_range_of_halves, range_of_halves
from .positions import pointer
from .tiles import tile

__all__ = ["SUMS_BYTES", "MultiplyFlat", "multiply"]

BLOCK = 32
"""Positions, channels of a step, and columns of a panel."""

_LINE, _TILE, _SUMS_ROW = 64, 1024, 128
_SUMS = SUMS_BYTES = 32 * _SUMS_ROW
"""Of the sums of a block and a panel."""

_AHEAD = 4096
"""Bytes in front of what is looked through that are asked for."""


class _Reading(NamedTuple):
    """Where lines are looked through: the next one, how many are left, and the magnitudes found."""

    at: ir.Value
    left: ir.Value
    least: ir.Value
    greatest: ir.Value


class _Writing(NamedTuple):
    """Where results are written: sums of panel 0 of a row, where they go, the panel, and how many lines are left."""

    sums: ir.Value
    to: ir.Value
    panel: ir.Value
    left: ir.Value


def _some(builder: ir.IRBuilder, left: ir.Value, most: ir.Value | None, state: list, body) -> list[ir.Value]:
    """`body` for as many of the `left` lines as `most` says, perhaps none."""
    count = left
    if most is not None:
        count = builder.select(builder.icmp_signed("<", left, most), left, most)
    state = [*state]

    def turns() -> list[ir.Value]:
        return loop(builder, count, state, lambda _, now: body(*now))

    return [*either(builder, builder.icmp_signed(">", count, I64(0)), turns, lambda: state), builder.sub(left, count)]


def _read(builder: ir.IRBuilder, reading: _Reading, most: ir.Value | None) -> _Reading:
    def line(at: ir.Value, *found: ir.Value) -> list[ir.Value]:
        prefetch_to_l2(builder, offset(builder, at, _AHEAD), 1)
        value = load(builder, vector(I16, 32), at, _LINE)
        return [offset(builder, at, _LINE), *range_of_halves(builder, [value], list(found))]

    at, *found, left = _some(builder, reading.left, most, [reading.at, reading.least, reading.greatest], line)
    return _Reading(at, left, *found)


def _write(
    builder: ir.IRBuilder, writing: _Writing, most: ir.Value | None, panels: ir.Value, to_row: ir.Value, floor: ir.Value
) -> _Writing:
    """Round lines of 32 sums, those of a position one after the other; `to_row` are bytes from the end of one's results
    to the next one's."""

    def line(sums: ir.Value, to: ir.Value, panel: ir.Value) -> list[ir.Value]:
        here = offset(builder, sums, builder.mul(panel, I64(_SUMS)))
        values = [load(builder, vector(F32), offset(builder, here, _LINE * half), _LINE) for half in (0, 1)]
        # NaN stays, as do zeros with a sign.
        values = [builder.select(builder.fcmp_ordered(">", floor, value), floor, value) for value in values]
        store(builder, _to_bf16(builder, *values), to, _LINE)
        after = builder.add(panel, I64(1))
        ends = builder.icmp_signed("==", after, panels)
        to = offset(builder, to, builder.add(I64(_LINE), builder.select(ends, to_row, I64(0))))
        sums = offset(builder, sums, builder.select(ends, I64(_SUMS_ROW), I64(0)))
        return [sums, to, builder.select(ends, I64(0), after)]

    return _Writing(*_some(builder, writing.left, most, [writing.sums, writing.to, writing.panel], line))


def _floor(builder: ir.IRBuilder, relu: ir.Value) -> ir.Value:
    least = builder.select(builder.icmp_signed("!=", relu, I64(0)), ir.Constant(F32, 0.0), ir.Constant(F32, -math.inf))
    return broadcast(builder, least)


def _limits(builder: ir.IRBuilder, at: ir.Value) -> list[ir.Value]:
    return [offset(builder, at, _LINE * slot) for slot in (0, 1)]


def _keep(builder: ir.IRBuilder, slots: list[ir.Value], reading: _Reading) -> None:
    known = [load(builder, vector(I32), slot, 4) for slot in slots]
    found = _joined_limits(builder, [reading.least, reading.greatest], known)
    for slot, value in zip(slots, found, strict=True):
        store(builder, value, slot, 4)


@intrinsic
def _look_through(typingctx, at, lines, limits):
    """Find the magnitudes in so many lines, at least one."""

    def codegen(context, builder, signature, arguments):
        at, lines, limits = arguments
        reading = _Reading(pointer(builder, at), lines, *no_range_of_halves())
        _keep(builder, _limits(builder, pointer(builder, limits)), _read(builder, reading, None))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


@intrinsic
def _write_rows(typingctx, sums, to, lines, panels, to_row, relu):
    """Write so many lines of results, at least one."""

    def codegen(context, builder, signature, arguments):
        sums, to, lines, panels, to_row, relu = arguments
        writing = _Writing(pointer(builder, sums), pointer(builder, to), I64(0), lines)
        _write(builder, writing, None, panels, to_row, _floor(builder, relu))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), codegen


@intrinsic
def _multiply_block(
    typingctx, plan, a, b, bias, sums, panels, following, reads, limits, before, to, writes, to_row, read_each,
    write_each,
):  # fmt: skip
    """32 positions, whose first line is at `a`, with so many panels of weights, into `sums`. Meanwhile `reads` lines
    are looked through that begin at `following`, and `writes` lines of the sums `before` are written, at most
    `read_each` and `write_each` after each step."""

    def codegen(context, builder, signature, arguments):
        plan, a, b, bias, sums, panels, following, reads, limits, before, to, writes, to_row, *each = arguments
        steps, chunk, x_row, relu = (
            read_field(builder, "flat", plan, name) for name in ("steps", "chunk", "x_row", "relu")
        )
        a, b, bias, sums, following, limits, before, to = (
            pointer(builder, x) for x in (a, b, bias, sums, following, limits, before, to)
        )
        floor, lower = _floor(builder, relu), builder.shl(x_row, I64(4))
        rest = panels, to_row, floor

        def step(_: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            a, b, *others = state
            reading, writing = _Reading(*others[:4]), _Writing(*others[4:])
            tile(builder, "tileloadd64", 4, a, x_row)
            tile(builder, "tileloaddt164", 6, b, I64(_LINE))
            tile(builder, "tdpbf16ps", 0, 4, 6)
            tile(builder, "tileloaddt164", 7, offset(builder, b, _TILE), I64(_LINE))
            tile(builder, "tdpbf16ps", 1, 4, 7)
            tile(builder, "tileloadd64", 5, offset(builder, a, lower), x_row)
            tile(builder, "tdpbf16ps", 2, 5, 6)
            tile(builder, "tdpbf16ps", 3, 5, 7)
            reading = _read(builder, reading, each[0])
            writing = _write(builder, writing, each[1], *rest)
            return [offset(builder, a, _LINE), offset(builder, b, 2 * _TILE), *reading, *writing]

        def part(index: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            """Steps of all panels between which A stays in the L1 cache."""
            first = builder.mul(index, chunk)
            left, starts = builder.sub(steps, first), builder.icmp_signed("==", index, I64(0))
            count = builder.select(builder.icmp_signed("<", left, chunk), left, chunk)
            here, row = offset(builder, a, builder.shl(first, I64(6))), builder.select(starts, I64(0), I64(_SUMS_ROW))

            def panel(number: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
                slot = offset(builder, sums, builder.mul(number, I64(_SUMS)))
                start = builder.select(starts, offset(builder, bias, builder.mul(number, I64(2 * _LINE))), slot)
                for register in range(4):
                    at = offset(builder, start, builder.mul(row, I64((register >> 1) * 16)))
                    tile(builder, "tileloadd64", register, offset(builder, at, (register & 1) * _LINE), row)
                weights = builder.add(builder.mul(number, steps), first)
                weights = offset(builder, b, builder.mul(weights, I64(2 * _TILE)))
                state = loop(builder, count, [here, weights, *state], step)[2:]
                for register in range(4):
                    at = offset(builder, slot, (register >> 1) * 16 * _SUMS_ROW + (register & 1) * _LINE)
                    tile(builder, "tilestored64", register, at, I64(_SUMS_ROW))
                return state

            return loop(builder, panels, state, panel)

        chunks = builder.sdiv(builder.add(steps, builder.sub(chunk, I64(1))), chunk)
        reading = _Reading(following, reads, *no_range_of_halves())
        writing = _Writing(before, to, I64(0), writes)
        state = loop(builder, chunks, [*reading, *writing], part)
        reading = _read(builder, _Reading(*state[:4]), None)
        _write(builder, _Writing(*state[4:]), None, *rest)
        _keep(builder, _limits(builder, limits), reading)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 15), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _multiply_flat(leaf, job):
    """Positions `first` to `last`, with panels `first_panel` to `last_panel`. The last block ends with the last
    position, so that there are no partial ones: some positions may be found twice, with the same bits."""
    plan, panels = job.plan, job.last_panel - job.first_panel
    steps, x_row, out_row = field("flat", plan, "steps"), field("flat", plan, "x_row"), field("flat", plan, "out_row")
    lines, to_row, relu = BLOCK * steps, out_row - 64 * panels, field("flat", plan, "relu")
    b, bias, out = (
        job.b + 2048 * steps * job.first_panel,
        job.bias + 128 * job.first_panel,
        job.out + 64 * job.first_panel,
    )
    read_each, write_each = (lines + panels * steps - 1) // (panels * steps), (BLOCK + steps - 1) // steps
    sums, before, writes, end_of_block = job.sums, job.sums + 4096 * panels, 0, job.last - BLOCK
    here = min(job.first, end_of_block)
    to = here
    begin(leaf.kernel)
    _look_through(job.x + here * x_row, lines, job.limits)
    while True:
        following = min(here + BLOCK, end_of_block)
        _multiply_block(
            plan, job.x + here * x_row, b, bias, sums, panels, job.x + following * x_row,
            lines if following > here else 0, job.limits, before, out + to * out_row, writes, to_row, read_each,
            write_each,
        )  # fmt: skip
        sums, before, to, writes = before, sums, here, BLOCK * panels
        if following == here:
            break
        here = following
    end(leaf.kernel)
    _write_rows(before, out + to * out_row, writes, panels, to_row, relu)


class _Arguments(NamedTuple):
    plan: int
    x: int
    out: int
    b: int
    bias: int
    sums: int
    limits: int
    first: int
    last: int
    first_panel: int
    last_panel: int


class MultiplyFlat(NamedTuple):
    """Leaf: some positions with some panels. Field: the class of `gemm.tiles` of one part."""

    kernel: NamedTuple
    run = _multiply_flat
    arguments = _Arguments


@njit(cache=False, no_cpython_wrapper=True)
def _strip_task(task, worker, job):
    plan, strips = job.plan, field("flat", job.plan, "strips")
    strip, chunk = field("flat", plan, "strip"), field("flat", plan, "panel_chunk")
    first, panel = task % strips * strip, task // strips * chunk
    call_at(
        field("flat", plan, "leaf"),
        _Arguments(
            plan, job.x, job.out, job.b, job.bias, job.memory + worker * field("flat", plan, "sums_bytes"),
            job.limits + worker * LIMITS_BYTES, first, min(first + strip, field("flat", plan, "positions")), panel,
            min(panel + chunk, field("flat", plan, "panels")),
        ),
    )  # fmt: skip


class _Strips(NamedTuple):
    plan: int
    x: int
    out: int
    b: int
    bias: int
    memory: int
    limits: int
    run = _strip_task


@njit
def multiply(pool, threads, tasks, plan, x, out, b, bias, memory, limits):
    """Multiply, in so many tasks. All are addresses but `threads` and `tasks`; `b` that of the packed weights, `bias`
    that of a row of whole panels. Returns the magnitudes found in x."""
    reset_limits(limits, threads)
    launch(pool, threads, tasks, _Strips(plan, x, out, b, bias, memory, limits))
    return found_limits(limits, threads)
