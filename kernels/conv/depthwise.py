"""Depthwise convolutions on vector units: every channel on its own, without a matrix product, read where it lies.

Lanes are channels or columns (`depthwise_lanes`), and results are found in blocks (`depthwise_blocks`). A piece is some
rows of an image, for some vectors of lanes; a task is some pieces.
"""

from __future__ import annotations

from collections import namedtuple

from ..block.emit import I64, loop, masked_load, offset, store, transpose
from ..block.tags import constant, field_class
from ..runtime.emitter import Type, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import record_at
from .depthwise_blocks import AXIS_BYTES, UNIT_BYTES, emit_block
from .depthwise_lanes import Lanes
from .descriptor import DepthwisePlan
from .gather_scatter import pointer
from .memory import clear, read64


@subroutine
def _rows(leaf, job, image, row_of_all, limit, unit, end):
    """The blocks of a row of an image, or of some before the limit, for some vectors of lanes: a block of all of them
    before the next one, so that memory is read in order where lanes are channels. Returns how many rows."""
    plan, beside = record_at(DepthwisePlan, job.plan), constant(leaf.window, "beside")
    rows = plan.rows
    plane, row = row_of_all // rows, row_of_all % rows
    inside = plan.whole_from <= row <= plan.whole_to - beside
    planes = plan.plane_table + AXIS_BYTES * plane
    lines = plan.line_table + plan.line_row * row
    across, units = (planes, lines, row), (unit, end)
    outputs, reach = constant(leaf.window, "outputs"), plan.reach
    first, advance = plan.first, plan.advance
    left, places = plan.results, plan.positions
    x = job.x + image * plan.x_image + first * plan.read_step
    out = job.out + image * plan.out_image
    out += plane * plan.out_plane + row * plan.out_row
    if beside > 1 and inside and row_of_all + beside <= limit:
        emit_block(leaf, 3, plan, (x, out, job.weights, job.bias), across, (first, left), units)
        return beside
    while left > 0:
        starts, along = (x, out, job.weights, job.bias), (first, left)
        at_edge = first < 0 or first + reach > places
        if left < outputs or (constant(leaf.window, "any") and at_edge):
            emit_block(leaf, 2, plan, starts, across, along, units)
        elif at_edge:
            emit_block(leaf, 1, plan, starts, across, along, units)
        else:
            emit_block(leaf, 0, plan, starts, across, along, units)
        first, left = first + advance, left - outputs
        x += advance * plan.read_step
        out += outputs * plan.write_step
    return 1


@subroutine
def _convolve(leaf, job):
    """The results of some pieces: some rows of an image, for some vectors of lanes."""
    plan, piece = record_at(DepthwisePlan, job.plan), job.first
    while piece < job.end:
        image, rest = piece // plan.pieces, piece % plan.pieces
        chunk, strip = rest // plan.strips, rest % plan.strips
        unit, row = chunk * plan.chunk, strip * plan.strip
        end = min(unit + plan.chunk, plan.units)
        limit = min(row + plan.strip, plan.all_rows)
        while row < limit:
            row += _rows(leaf, job, image, row, limit, unit, end)
        piece += 1


_Arguments = namedtuple("_Arguments", "plan x out weights bias results first end")


Depthwise = leaf_class("Depthwise", "element conversion window", _convolve, _Arguments)
"""Leaf: the results of some pieces. Fields: an element type, a conversion of operands, and a window."""


@emitter
def _finish(builder, leaf: Type, plan, sums, result, taps) -> None:
    """Add the sums (taps, lanes) of each channel's lanes, and store them as (channels, taps)."""
    window = field_class(leaf, "window")
    lanes = Lanes(builder, leaf, plan)
    sums, result = pointer(builder, sums), pointer(builder, result)
    channels = window.segments if window.across else lanes.count
    width, step = lanes.count // channels, lanes.count * lanes.size

    def square(index: ir.Value, _: list) -> list:
        first = builder.mul(index, I64(lanes.count))
        here = offset(builder, sums, builder.mul(first, I64(step)))
        found = transpose(builder, [lanes.working(offset(builder, here, step * tap)) for tap in range(lanes.count)])
        exist = lanes.below(builder.sub(taps, first))
        for channel in range(channels):
            parts = found[channel * width : (channel + 1) * width]
            while len(parts) > 1:
                parts = [builder.fadd(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
            place = builder.add(first, builder.mul(taps, I64(channel)))
            to = offset(builder, result, builder.mul(place, I64(lanes.size)))
            with builder.if_then(builder.icmp_signed("<", I64(channel), lanes.field("channels"))):
                lanes.store_some(parts[0], to, exist)
        return []

    count = builder.sdiv(builder.add(taps, I64(lanes.count - 1)), I64(lanes.count))
    loop(builder, count, [], square)


@subroutine
def _weigh(leaf, job):
    """The weight's gradient by some pieces: of the rows of all images some, for some vectors of lanes."""
    plan, piece = record_at(DepthwisePlan, job.plan), job.first
    taps, unit_bytes = plan.all_taps, plan.unit_bytes
    rows, strip = plan.all_rows, plan.strip
    while piece < job.end:
        part, chunk = piece // plan.chunks, piece % plan.chunks
        unit, row = chunk * plan.chunk, part * strip
        end = min(unit + plan.chunk, plan.units)
        clear(job.weights, (end - unit) * unit_bytes)
        # The sums of a chunk lie at the beginning of the worker's memory.
        limit = min(row + strip, rows * plan.images)
        while row < limit:
            own = _Arguments(job.plan, job.x, job.out, job.weights - unit * unit_bytes, 0, 0, 0, 0)
            first = row // rows * rows
            row += _rows(leaf, own, row // rows, row - first, min(limit - first, rows), unit, end)
        for one in range(unit, end):
            result = job.results + part * plan.part_bytes
            result += read64(plan.unit_table + UNIT_BYTES * one + 24)
            _finish(leaf, plan, job.weights + (one - unit) * unit_bytes, result, taps)
        piece += 1


DepthwiseWeight = leaf_class("DepthwiseWeight", "element conversion window", _weigh, _Arguments)
"""Leaf: some pieces of the gradient with respect to the weight. Fields as those of `Depthwise`."""


@emitter
def _pack_unit(builder, leaf: Type, weights, taps, channels, target) -> None:
    """Weights (channels, taps) as vectors of channels, (taps, lanes)."""
    lanes = Lanes(builder, leaf, None)
    weights, target = pointer(builder, weights), pointer(builder, target)

    def square(index: ir.Value, _: list) -> list:
        first, lines = builder.mul(index, I64(lanes.count)), []
        for channel in range(lanes.count):
            there = builder.icmp_signed("<", I64(channel), channels)
            left = builder.select(there, builder.sub(taps, first), I64(0))
            place = builder.add(first, builder.mul(taps, I64(channel)))
            at = offset(builder, weights, builder.mul(place, I64(lanes.size)))
            lines.append(masked_load(builder, lanes.kind, at, lanes.size, lanes.below(left)))
        to = offset(builder, target, builder.mul(first, I64(lanes.count * lanes.size)))
        for tap, value in enumerate(transpose(builder, lines)):
            store(builder, value, offset(builder, to, tap * lanes.count * lanes.size), lanes.size)
        return []

    count = builder.sdiv(builder.add(taps, I64(lanes.count - 1)), I64(lanes.count))
    loop(builder, count, [], square)


@subroutine
def _pack(leaf, job):
    """Pack all weights."""
    plan = record_at(DepthwisePlan, job.plan)
    for unit in range(plan.units):
        at = plan.unit_table + UNIT_BYTES * unit
        source = job.x + read64(at + 24) * plan.all_taps
        _pack_unit(
            leaf, source, plan.all_taps, plan.channels,
            job.out + read64(at + 16),
        )  # fmt: skip


PackWeights = leaf_class("PackWeights", "element conversion", _pack, _Arguments)
"""Leaf: weights (channels, taps) at `x` as vectors of channels at `out`. Fields as those of `Depthwise`."""


@task("plan x out weights worker_bytes bias results")
def _task(task, worker, job):
    plan = job.plan
    each = plan.pieces_each
    call_at(
        plan.leaf,
        _Arguments(
            plan, job.x, job.out, job.weights + worker * job.worker_bytes, job.bias, job.results, task * each,
            min((task + 1) * each, plan.all_pieces),
        ),
    )  # fmt: skip


@njit
def run(pool, threads, plan: DepthwisePlan, x, out, weights, memory, worker_bytes, bias, results):
    """Run the plan's leaf. All are addresses but `threads` and `worker_bytes`. Weights are packed into `memory` where
    the plan says so; for the gradient with respect to the weight it is that of workers, and `out` is g."""
    if plan.pack != 0:
        call_at(plan.pack, _Arguments(plan, weights, memory, 0, 0, 0, 0, 0))
    if plan.pack != 0 or worker_bytes != 0:
        weights = memory
    each = plan.pieces_each
    tasks = (plan.all_pieces + each - 1) // each
    launch(pool, threads, tasks, _task(plan, x, out, weights, worker_bytes, bias, results))
