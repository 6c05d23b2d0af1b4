"""Convolutions of kernels of one tap on AMX tiles, where the columns of a channel are neighbours: plain products.

The rows of a tile of A are output channels, and the columns of a tile of B positions. Two channels of x, interleaved,
are a line of B, and a tile of results is stored where it belongs: nothing is transposed, which `lines` does on the way
in and `epilogue` on the way out. (64-256 at 56 x 56, batch 8, bf16: of 1270 microseconds these two took 1000.)

A task is a strip of positions of one image and one group of channels: packed into the worker's memory, and multiplied
from there at once with all weights.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable

from ..block import emit as e
from ..block.loops import LIMITS_BYTES, found_limits, reset_limits
from ..block.microkernels import begin, convert, end, multiply_panels
from ..block.packing import interleaved_parts, joined_limits, to_bf16, updated_limits, widened_range
from ..block.tags import constant, field_class
from ..runtime.emitter import Class, Pointer, Type, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import record_at
from .descriptor import NchwPlan
from .gather_scatter import pointer, read_positions, widen
from .geometry import RUN_BYTES
from .pack_tiles import no_range_of_halves, range_of_halves

_ROW = 128
SUMS_BYTES = 32 * _ROW
"""Of the sums of 32 channels and 32 positions."""


@emitter
def _pack_pair(
    builder, leaf: Type, at: Pointer, stride, channels, count, target: Pointer, block_bytes, limits_at: Pointer
) -> None:
    """Interleave `count` positions of two channels, 0 to 2 of them existing, in blocks of 32."""
    element, conversion = field_class(leaf, "element"), field_class(leaf, "conversion")
    copies = element.stored is e.I16 and conversion.target == "bf16"
    kind = e.vector(element.stored, 32 if copies else 16)
    rows = at, e.offset(builder, at, stride)

    def pack(block: ir.Value, found: list[ir.Value], read: Callable[[int, int], ir.Value]) -> list[ir.Value]:
        to = e.offset(builder, target, builder.mul(block, block_bytes))
        if copies:
            both = [read(channel, 0) for channel in (0, 1)]
            for half in (0, 1):
                order = [16 * half + lane // 2 + 32 * (lane % 2) for lane in range(32)]
                line = builder.shuffle_vector(*both, ir.Constant(e.vector(e.I32, 32), order))
                e.store(builder, line, e.offset(builder, to, e.TILE * half), e.LINE)
            return range_of_halves(builder, both, found)
        for half in (0, 1):
            both = [widen(builder, read(channel, half), element) for channel in (0, 1)]
            for part, line in enumerate(interleaved_parts(builder, conversion, both)):
                e.store(builder, line, e.offset(builder, to, e.TILE * (2 * part + half)), e.LINE)
            found = widened_range(builder, both, found)
        return found

    def place(channel: int, block: ir.Value, half: int) -> ir.Value:
        begin = builder.add(builder.shl(block, e.I64(5)), e.I64(16 * half))
        return e.offset(builder, rows[channel], builder.mul(begin, e.I64(element.size)))

    def whole(block: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        for channel in (0, 1):  # of the next pair
            ahead = e.offset(builder, place(channel, block, 0), builder.shl(stride, e.I64(1)))
            e.prefetch_to_l2(builder, ahead, element.size // 2)
        return pack(block, found, lambda c, half: e.load(builder, kind, place(c, block, half), element.size))

    def mask_values(block: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        def read(channel: int, half: int) -> ir.Value:
            left = builder.select(builder.icmp_signed(">", channels, e.I64(channel)), count, e.I64(0))
            left = builder.sub(left, builder.add(builder.shl(block, e.I64(5)), e.I64(16 * half)))
            here, mask = place(channel, block, half), e.first_lanes(builder, left, kind.count)
            return e.masked_load(builder, kind, here, element.size, mask)

        return pack(block, found, read)

    def turns(first: ir.Value, blocks: ir.Value, body: Callable) -> None:
        def widen_limits(limits: list[ir.Value]) -> list[ir.Value]:
            start = no_range_of_halves() if copies else limits
            found = e.loop(builder, blocks, start, lambda index, found: body(builder.add(first, index), found))
            return joined_limits(builder, found, limits) if copies else found

        with builder.if_then(builder.icmp_signed(">", blocks, e.I64(0))):
            updated_limits(builder, limits_at, widen_limits)

    full = builder.select(builder.icmp_signed("==", channels, e.I64(2)), builder.ashr(count, e.I64(5)), e.I64(0))
    turns(e.I64(0), full, whole)
    turns(full, builder.sub(builder.ashr(builder.add(count, e.I64(31)), e.I64(5)), full), mask_values)


@emitter
def _pack_spots(
    builder, leaf: Type, at: Pointer, stride, channels, run: Pointer, offsets: Pointer, target: Pointer,
    limits_at: Pointer,
) -> None:  # fmt: skip
    """Interleave 16 positions of two channels that are not adjacent, as rows of `Spots` say."""
    element, conversion = field_class(leaf, "element"), field_class(leaf, "conversion")
    with builder.goto_entry_block():
        slot = builder.alloca(e.vector(e.F32))
    near = builder.sext(e.load(builder, e.I32, run, 4), e.I64)
    both = []
    for channel in (0, 1):
        here = e.offset(builder, at, stride) if channel else at
        e.prefetch_to_l2(builder, e.offset(builder, here, builder.add(near, builder.shl(stride, e.I64(1)))), 2)
        exists = builder.icmp_signed(">", channels, e.I64(channel))
        read_positions(builder, element, here, run, offsets, exists, slot)
        both.append(builder.load(slot))
    for part, line in enumerate(interleaved_parts(builder, conversion, both)):
        e.store(builder, line, e.offset(builder, target, 2 * e.TILE * part), e.LINE)
    slots = [e.offset(builder, limits_at, e.LINE * slot) for slot in (0, 1)]
    limits = [e.load(builder, e.vector(e.I32), slot, 4) for slot in slots]
    for slot, found in zip(slots, widened_range(builder, both, limits), strict=True):
        e.store(builder, found, slot, 4)


@emitter
def _store_rows(builder, target: Class, sums, at, stride, rows, count, relu) -> None:
    """Store `count` positions, at most 32, of so many channels, in rows of `stride` bytes."""
    lanes = 32 if target.size == 2 else 16
    sums, at = pointer(builder, sums), pointer(builder, at)
    masks = [e.first_lanes(builder, count, lanes, first) for first in range(0, 32, lanes)]

    def row(index: ir.Value, _: list) -> list:
        here = e.offset(builder, sums, builder.mul(index, e.I64(_ROW)))
        to = e.offset(builder, at, builder.mul(index, stride))
        values = [e.load(builder, e.vector(e.F32), e.offset(builder, here, e.LINE * half), e.LINE) for half in (0, 1)]
        values = [e.relu(builder, value, relu) for value in values]
        if target.stored is e.I16:  # sums of tiles are not subnormal, which this instruction would flush
            values = [to_bf16(builder, *values)]
        elif lanes == 32:
            values = [convert(builder, value, target) for value in values]
            values = [builder.shuffle_vector(*values, ir.Constant(e.vector(e.I32, 32), list(range(32))))]
        for first, (value, mask) in enumerate(zip(values, masks, strict=True)):
            e.masked_store(builder, value, e.offset(builder, to, first * lanes * target.size), target.size, mask)
        return []

    e.loop(builder, rows, [], row)


@subroutine
def _pack_strip(leaf, job):
    """Interleave the channels of a strip, and zeros for those that fill the last step."""
    plan, step_bytes = record_at(NchwPlan, job.plan), 32 * constant(leaf.kernel, "b_bytes")
    channels, stride = plan.channels, plan.x_channel
    runs, block_bytes, size = (plan.runs, plan.block_bytes, plan.size)
    for pair in range(16 * plan.steps):
        exist = max(0, min(2, channels - 2 * pair))
        at, of_second = job.x + (2 * pair * stride if exist > 0 else 0), stride if exist > 1 else 0
        to = job.memory + pair // 16 * step_bytes + pair % 16 * 64
        if runs == 0:
            _pack_pair(leaf, at + job.first * size, of_second, exist, job.count, to, block_bytes, job.limits)
            continue
        for group in range((job.count + 31) // 32 * 2):
            here = to + group // 2 * block_bytes + group % 2 * 1024
            place = min(job.first // 16 + group, plan.spots - 1)
            _pack_spots(
                leaf, at, of_second, exist if job.first // 16 + group == place else 0, runs + RUN_BYTES * place,
                plan.offsets + 64 * place, here, job.limits,
            )  # fmt: skip


@subroutine
def _multiply_rows(leaf, job):
    """One strip: `count` positions from the one `first` of x on, to out."""
    tag, plan = leaf.kernel, record_at(NchwPlan, job.plan)
    step_bytes, line_bytes = 32 * constant(tag, "a_bytes"), 2 * constant(tag, "a_bytes")
    _pack_strip(leaf, job)
    all_steps, chunk, columns = (plan.steps, plan.chunk, plan.columns)
    panels, together = plan.panels, plan.panel_chunk
    block_bytes, stride = plan.block_bytes, plan.out_channel
    direct, relu, size = plan.direct, plan.relu, constant(leaf.element, "size")
    blocks = (job.count + 31) // 32
    begin(tag)
    for first_panel in range(0, panels, together):
        for p in range(0, all_steps, chunk):
            steps, last, slot = min(chunk, all_steps - p), p + chunk >= all_steps, job.sums
            for panel in range(first_panel, min(first_panel + together, panels)):
                a, rows = job.a + (panel * all_steps + p) * step_bytes, min(32, columns - 32 * panel)
                out = job.out + 32 * panel * stride
                if all_steps <= chunk:
                    slot = job.sums
                of_panel = slot
                for block in range(blocks):
                    before, resume, to, row_bytes = slot, p > 0, slot, 128
                    if p == 0 and job.bias != 0:
                        before, resume = job.bias + panel * 4096, True
                    if last and direct and rows == 32 and 32 * block + 32 <= job.count:
                        to, row_bytes = out + 128 * block, stride
                    b = job.memory + block * block_bytes + p * step_bytes
                    multiply_panels(
                        tag, 32 * steps, a, b, before, resume, to, row_bytes,
                        a + all_steps * step_bytes + block * steps * line_bytes, b,
                    )  # fmt: skip
                    slot += 4096
                if last:
                    # Tile stores do not forward to vector loads: blocks are stored when all of a panel are done.
                    for block in range(blocks):
                        if not (direct and rows == 32 and 32 * block + 32 <= job.count):
                            _store_rows(
                                leaf.element, of_panel + 4096 * block, out + 32 * size * block, stride, rows,
                                min(32, job.count - 32 * block), relu,
                            )  # fmt: skip
    end(tag)


_Arguments = namedtuple("_Arguments", "plan x out a bias memory sums limits first count")


MultiplyRows = leaf_class("MultiplyRows", "kernel element conversion", _multiply_rows, _Arguments)
"""Leaf: one strip. Fields: a class of `block.tiles`, an element type, and a conversion of operands."""


@task("plan x out a bias memory worker_bytes limits")
def _strip_task(task, worker, job):
    plan = job.plan
    strip = 32 * plan.strip
    strips, groups = plan.strips, plan.groups
    first, group, image = task % strips * strip, task // strips % groups, task // (strips * groups)
    memory, size = job.memory + worker * job.worker_bytes, plan.size
    x = job.x + image * plan.x_image + group * plan.x_group
    out = job.out + image * plan.out_image + group * plan.out_group
    panels = group * plan.panels
    call_at(
        plan.leaf,
        _Arguments(
            plan, x, out + first * size, job.a + panels * plan.a_panel,
            job.bias + panels * 4096 if job.bias != 0 else 0, memory, memory + plan.packed_bytes,
            job.limits + worker * LIMITS_BYTES, first, min(strip, plan.positions - first),
        ),
    )  # fmt: skip


@njit
def multiply(pool, threads, tasks, plan: NchwPlan, x, out, a, bias, memory, worker_bytes, limits):
    """Multiply, in so many tasks. All are addresses but `threads`, `tasks` and worker_bytes; `a` that of the packed
    weights, `bias` that of blocks of 32 x 32 for each panel, or 0. Returns the magnitudes found in x."""
    reset_limits(limits, threads)
    launch(pool, threads, tasks, _strip_task(plan, x, out, a, bias, memory, worker_bytes, limits))
    return found_limits(limits, threads)
