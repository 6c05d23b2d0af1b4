"""Convolutions of one tap of bfloat16 on AMX tiles, where the channels of a position are neighbours in memory.

The positions of all images are one long row then, and tiles read the array where it lies: nothing is packed. After each
step of tile products some lines of the next block of positions are looked through for magnitudes that tiles flush,
which brings them into the cache, and some results of the panel before are rounded and written, while their sums are
still in the L1 cache: memory never rests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

__all__ = ["WORKER_BYTES", "MultiplyFlat", "multiply"]

BLOCK = 32
"""Positions, channels of a step, and columns of a panel."""

_LINE, _TILE, _SUMS_ROW = 64, 1024, 128
SUMS_BYTES = 32 * _SUMS_ROW
"""Of the sums of a block and a panel."""

_AHEAD = 4096
"""Bytes in front of what is looked through that are asked for."""

_TOGETHER = 4
"""Lines that are read or written one after the other, without a branch."""

_SLOTS = 3
"""Sums of so many panels: tile stores do not forward to vector loads, which would wait for them."""

WORKER_BYTES = _SLOTS * SUMS_BYTES
"""Memory that each worker needs."""


class _Reading(NamedTuple):
    """Where lines are looked through: the next ones, how many turns are left, and the magnitudes found."""

    at: ir.Value
    left: ir.Value
    least: ir.Value
    greatest: ir.Value


class _Writing(NamedTuple):
    """Where results are written: sums of a position, where they go, and how many turns are left."""

    sums: ir.Value
    to: ir.Value
    left: ir.Value


def _some(builder: ir.IRBuilder, left: ir.Value, most: ir.Value | None, state: list, body: Callable) -> list[ir.Value]:
    """`body` for as many of the turns that are `left` as `most` says, perhaps none."""
    count = left
    if most is not None:
        count = builder.select(builder.icmp_signed("<", left, most), left, most)

    def turns() -> list[ir.Value]:
        return loop(builder, count, state, lambda _, now: body(*now))

    return [*either(builder, builder.icmp_signed(">", count, I64(0)), turns, lambda: state), builder.sub(left, count)]


def _read(builder: ir.IRBuilder, reading: _Reading, most: ir.Value | None) -> _Reading:
    def lines(at: ir.Value, *found: ir.Value) -> list[ir.Value]:
        prefetch_to_l2(builder, offset(builder, at, _AHEAD), _TOGETHER)
        values = [load(builder, vector(I16, 32), offset(builder, at, _LINE * line), _LINE) for line in range(_TOGETHER)]
        return [offset(builder, at, _LINE * _TOGETHER), *range_of_halves(builder, values, list(found))]

    at, *found, left = _some(builder, reading.left, most, [reading.at, reading.least, reading.greatest], lines)
    return _Reading(at, left, *found)


def _write(
    builder: ir.IRBuilder, writing: _Writing, most: ir.Value | None, row_bytes: ir.Value, floor: ir.Value
) -> _Writing:
    """Round 32 sums of each position; results are `row_bytes` from position to position."""

    def lines(sums: ir.Value, to: ir.Value) -> list[ir.Value]:
        for line in range(_TOGETHER):
            here = offset(builder, sums, _SUMS_ROW * line)
            values = [load(builder, vector(F32), offset(builder, here, _LINE * half), _LINE) for half in (0, 1)]
            # NaN stays, as do zeros with a sign.
            values = [builder.select(builder.fcmp_ordered(">", floor, value), floor, value) for value in values]
            store(builder, _to_bf16(builder, *values), to, _LINE)
            to = offset(builder, to, row_bytes)
        return [offset(builder, sums, _SUMS_ROW * _TOGETHER), to]

    return _Writing(*_some(builder, writing.left, most, [writing.sums, writing.to], lines))


def _floor(builder: ir.IRBuilder, relu: ir.Value) -> ir.Value:
    least = builder.select(builder.icmp_signed("!=", relu, I64(0)), ir.Constant(F32, 0.0), ir.Constant(F32, -math.inf))
    return broadcast(builder, least)


def _keep(builder: ir.IRBuilder, limits: ir.Value, reading: _Reading) -> None:
    slots = [offset(builder, limits, _LINE * slot) for slot in (0, 1)]
    known = [load(builder, vector(I32), slot, 4) for slot in slots]
    found = _joined_limits(builder, [reading.least, reading.greatest], known)
    for slot, value in zip(slots, found, strict=True):
        store(builder, value, slot, 4)


@intrinsic
def _look_through(typingctx, at, turns, limits):
    """Find the magnitudes in so many times four lines, at least one."""

    def codegen(context, builder, signature, arguments):
        at, turns, limits = arguments
        reading = _Reading(pointer(builder, at), turns, *no_range_of_halves())
        _keep(builder, pointer(builder, limits), _read(builder, reading, None))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


@intrinsic
def _write_panel(typingctx, sums, to, row_bytes, relu):
    """Write the results of a panel."""

    def codegen(context, builder, signature, arguments):
        sums, to, row_bytes, relu = arguments
        writing = _Writing(pointer(builder, sums), pointer(builder, to), I64(BLOCK // _TOGETHER))
        _write(builder, writing, None, row_bytes, _floor(builder, relu))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


def _start(builder: ir.IRBuilder, bias: ir.Value, number: ir.Value) -> None:
    """Set the sums of a panel to its bias, or to zero where there is none."""
    with builder.if_else(builder.icmp_signed("!=", builder.ptrtoint(bias, I64), I64(0))) as (some, none):
        with some:
            row = offset(builder, bias, builder.mul(number, I64(2 * _LINE)))
            for register in range(4):
                tile(builder, "tileloadd64", register, offset(builder, row, (register & 1) * _LINE), I64(0))
        with none:
            for register in range(4):
                tile(builder, "tilezero", register)


def _multiply_step(builder: ir.IRBuilder, a: ir.Value, a_row: ir.Value, b: ir.Value) -> None:
    """Weights, which pass by once for each block, are not to drive the block's own lines out of the L1 cache (1024-256
    at 14 x 14: 444 microseconds, 397; 512-128 at 28 x 28: 404, 315)."""
    tile(builder, "tileloadd64", 4, a, a_row)
    tile(builder, "tileloaddt164", 6, b, I64(_LINE))
    tile(builder, "tdpbf16ps", 0, 4, 6)
    tile(builder, "tileloaddt164", 7, offset(builder, b, _TILE), I64(_LINE))
    tile(builder, "tdpbf16ps", 1, 4, 7)
    tile(builder, "tileloadd64", 5, offset(builder, a, builder.shl(a_row, I64(4))), a_row)
    tile(builder, "tdpbf16ps", 2, 5, 6)
    tile(builder, "tdpbf16ps", 3, 5, 7)


@intrinsic
def _multiply_block(
    typingctx, plan, a, b, bias, memory, slot, panels, out, following, reads, read_each, limits, before, to, writes
):
    """32 positions, whose first line is at `a`, with so many panels of weights, to `out`: the sums of each go to the
    next of the slots in `memory`, the first to `slot`. `reads` turns of lines are looked through that begin at
    `following`, `read_each` after each step, and `writes` turns of results of a panel `before` are written first. The
    last panel's are not."""

    def codegen(context, builder, signature, arguments):
        plan, a, b, bias, memory, slot, panels, out, following, reads, read_each, limits, *pending = arguments
        a, b, bias, memory, slot, out, following, limits = (
            pointer(builder, x) for x in (a, b, bias, memory, slot, out, following, limits)
        )
        pending = [*(pointer(builder, x) for x in pending[:2]), pending[2]]
        names = "steps", "x_row", "out_row", "relu", "write_each"
        steps, a_row, out_row, relu, write_each = (read_field(builder, "flat", plan, name) for name in names)
        floor, last_slot = _floor(builder, relu), offset(builder, memory, SUMS_BYTES * (_SLOTS - 1))

        def step(_: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            a, b, *others = state
            _multiply_step(builder, a, a_row, b)
            reading = _read(builder, _Reading(*others[:4]), read_each)
            writing = _write(builder, _Writing(*others[4:]), write_each, out_row, floor)
            return [offset(builder, a, _LINE), offset(builder, b, 2 * _TILE), *reading, *writing]

        def panel(number: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            b, slot, *others = state
            _start(builder, bias, number)
            _, b, *others = loop(builder, steps, [a, b, *others], step)
            for register in range(4):
                at = offset(builder, slot, (register >> 1) * 16 * _SUMS_ROW + (register & 1) * _LINE)
                tile(builder, "tilestored64", register, at, I64(_SUMS_ROW))
            to = offset(builder, out, builder.mul(number, I64(_LINE)))
            ends = builder.icmp_unsigned("==", slot, last_slot)
            following = builder.select(ends, memory, offset(builder, slot, SUMS_BYTES))
            return [b, following, *others[:4], slot, to, I64(BLOCK // _TOGETHER)]

        reading = _Reading(following, reads, *no_range_of_halves())
        _, _, *state = loop(builder, panels, [b, slot, *reading, *pending], panel)
        _keep(builder, limits, _Reading(*state[:4]))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 15), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _multiply_flat(leaf, job):
    """Positions `first` to `last`, with panels `first_panel` to `last_panel`. The last block ends with the last
    position, so that there are no partial ones: some positions may be found twice, with the same bits."""
    plan, panels = job.plan, job.last_panel - job.first_panel
    steps, x_row, out_row = field("flat", plan, "steps"), field("flat", plan, "x_row"), field("flat", plan, "out_row")
    turns, out = BLOCK // _TOGETHER * steps, job.out + 64 * job.first_panel
    b, bias = job.b + 2048 * steps * job.first_panel, job.bias + (128 * job.first_panel if job.bias != 0 else 0)
    read_each, end_of_block = (turns + panels * steps - 1) // (panels * steps), job.last - BLOCK
    here, slot, before, to, writes = min(job.first, end_of_block), 0, job.sums, job.out, 0
    begin(leaf.kernel)
    _look_through(job.x + here * x_row, turns, job.limits)
    while True:
        following, rows = min(here + BLOCK, end_of_block), out + here * out_row
        _multiply_block(
            plan, job.x + here * x_row, b, bias, job.sums, job.sums + SUMS_BYTES * slot, panels, rows,
            job.x + following * x_row, turns if following > here else 0, read_each, job.limits, before, to, writes,
        )  # fmt: skip
        before, to = job.sums + SUMS_BYTES * ((slot + panels - 1) % _SLOTS), rows + 64 * (panels - 1)
        slot, writes = (slot + panels) % _SLOTS, BLOCK // _TOGETHER
        if following == here:
            break
        here = following
    end(leaf.kernel)
    _write_panel(before, to, out_row, field("flat", plan, "relu"))


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
            plan, job.x, job.out, job.b, job.bias, job.memory + worker * WORKER_BYTES,
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
    that of a row of whole panels, or 0. Returns the magnitudes found in x."""
    reset_limits(limits, threads)
    launch(pool, threads, tasks, _Strips(plan, x, out, b, bias, memory, limits))
    return found_limits(limits, threads)
