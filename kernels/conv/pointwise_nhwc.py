"""Convolutions of one tap on AMX tiles, where the channels of a position are neighbours in memory.

The positions of all images are one long row then. Between the steps of tile products some lines of the next block of
positions are read, and some results of the panel before are written, while their sums are still in the L1 cache: memory
never rests. Lines of bfloat16 that follow one another are multiplied where they lie; all others, those of float32 and
of a stride, are packed, 32 positions at a time.
"""

from __future__ import annotations

from collections import namedtuple

from ..block.amx import tile
from ..block.emit import I64, LINE, loop, offset
from ..block.loops import LIMITS_BYTES, found_limits, reset_limits
from ..block.microkernels import begin, end
from ..block.tags import constant, field_class
from ..runtime.emitter import Pointer, Type, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import record_at
from .descriptor import NhwcPlan, read_field
from .gather_scatter import pointer
from .pipeline import (
    BLOCK,
    SUMS_BYTES,
    SUMS_ROW,
    TOGETHER,
    Reading,
    Rows,
    Writing,
    keep,
    nothing_found,
    packs,
    read,
    results_of,
    write,
)
from .tiles import multiply_step

_SLOTS = 3
"""Sums of so many panels: tile stores do not forward to vector loads, which would wait for them."""

SLOTS_BYTES = _SLOTS * SUMS_BYTES
"""Memory of the sums of a worker, before that of what is packed."""


def _rows(builder: ir.IRBuilder, plan: ir.Value, x: ir.Value) -> Rows:
    row, a_row, ahead = (read_field(builder, NhwcPlan, plan, name) for name in ("x_row", "a_row", "ahead"))
    return Rows(x, builder.add(x, row), ahead, builder.shl(a_row, I64(5)))


@emitter
def _read_block(builder, leaf: Type, plan, x, at, to, turns, limits) -> None:
    """Read so many times four lines, at least one, before the first block is multiplied."""
    rows = _rows(builder, plan, x)
    reading = Reading(pointer(builder, at), rows.begin, pointer(builder, to), turns, *nothing_found(leaf))
    keep(builder, leaf, pointer(builder, limits), read(builder, leaf, reading, None, rows))


@emitter
def _write_panel(builder, leaf: Type, plan, sums, to) -> None:
    """Write the results of a panel."""
    writing = Writing(pointer(builder, sums), pointer(builder, to), I64(BLOCK // TOGETHER))
    write(builder, leaf, writing, None, results_of(builder, plan))


def _start(builder: ir.IRBuilder, bias: ir.Value, number: ir.Value) -> None:
    """Set the sums of a panel to its bias, or to zero without one."""
    with builder.if_else(builder.icmp_signed("!=", builder.ptrtoint(bias, I64), I64(0))) as (some, none):
        with some:
            row = offset(builder, bias, builder.mul(number, I64(2 * LINE)))
            for register in range(4):
                tile(builder, "tileloadd64", register, offset(builder, row, (register & 1) * LINE), I64(0))
        with none:
            for register in range(4):
                tile(builder, "tilezero", register)


@emitter
def _multiply_block(
    builder, leaf: Type, plan, x, a: Pointer, b: Pointer, bias: Pointer, memory: Pointer, slot: Pointer, panels,
    out: Pointer, following: Pointer, target: Pointer, reads, read_each, limits: Pointer, before: Pointer,
    to: Pointer, writes,
) -> None:  # fmt: skip
    """32 positions, whose first line is at `a`, with so many panels of weights, to `out`: the sums of each go to the
    next of the slots in `memory`, the first to `slot`. `reads` turns of lines are read that begin at `following`, and
    packed to `target`, `read_each` after each step, and `writes` turns of results of a panel `before` are written
    first. The last panel's are not."""
    kernel = field_class(leaf, "kernel")
    # Weights pass by once for each block, and are not to drive the block's own lines out of the L1 cache (1024-256
    # at 14 x 14: 444 microseconds, 397; 512-128 at 28 x 28: 404, 315).
    load_b = "tileloaddt164"
    rows = _rows(builder, plan, x)
    steps, a_row, write_each = (read_field(builder, NhwcPlan, plan, name) for name in ("steps", "a_row", "write_each"))
    results, last_slot = results_of(builder, plan), offset(builder, memory, SUMS_BYTES * (_SLOTS - 1))

    def step(_: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        a, b, *others = state
        multiply_step(builder, kernel.walk, a, a_row, builder.shl(a_row, I64(5)), b, load_b)
        reading = read(builder, leaf, Reading(*others[:6]), read_each, rows)
        writing = write(builder, leaf, Writing(*others[6:]), write_each, results)
        return [offset(builder, a, LINE), offset(builder, b, 32 * kernel.b_bytes), *reading, *writing]

    def panel(number: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        b, slot, *others = state
        _start(builder, bias, number)
        _, b, *others = loop(builder, steps, [a, b, *others], step)
        for register in range(4):
            at = offset(builder, slot, (register >> 1) * 16 * SUMS_ROW + (register & 1) * LINE)
            tile(builder, "tilestored64", register, at, I64(SUMS_ROW))
        to = offset(builder, out, builder.mul(number, I64(32 * field_class(leaf, "element").size)))
        ends = builder.icmp_unsigned("==", slot, last_slot)
        following = builder.select(ends, memory, offset(builder, slot, SUMS_BYTES))
        return [b, following, *others[:6], slot, to, I64(BLOCK // TOGETHER)]

    reading = Reading(following, rows.begin, target, reads, *nothing_found(leaf))
    _, _, *state = loop(builder, panels, [b, slot, *reading, before, to, writes], panel)
    keep(builder, leaf, limits, Reading(*state[:6]))


@subroutine
def _source(leaf, job, position):
    """Where the row of a position is read."""
    if constant(leaf.order, "picked"):
        return record_at(NhwcPlan, job.plan).table + 8 * position
    return job.x + position * record_at(NhwcPlan, job.plan).x_row


@subroutine
def _multiply_flat(leaf, job):
    """Positions `first` to `last`, with panels `first_panel` to `last_panel`. The last block ends with the last
    position, so all blocks are whole; some positions may be computed twice, with the same bits."""
    plan, panels = record_at(NhwcPlan, job.plan), job.last_panel - job.first_panel
    steps, a_row, out_row = plan.steps, plan.a_row, plan.out_row
    size = constant(leaf.element, "size")
    turns, out = BLOCK // TOGETHER * steps, job.out + 32 * size * job.first_panel
    b = job.b + 32 * constant(leaf.kernel, "b_bytes") * steps * job.first_panel
    bias = job.bias + (128 * job.first_panel if job.bias != 0 else 0)
    read_each, end_of_block = (turns + panels * steps - 1) // (panels * steps), job.last - BLOCK
    here, slot, before, to, writes = min(job.first, end_of_block), 0, job.memory, job.out, 0
    packed_bytes = BLOCK * a_row * constant(leaf.kernel, "a_bytes") // 64
    packed, other = job.memory + SLOTS_BYTES, job.memory + SLOTS_BYTES + packed_bytes
    begin(leaf.kernel)
    _read_block(leaf, plan, job.x, _source(leaf, job, here), packed, turns, job.limits)
    while True:
        following, rows = min(here + BLOCK, end_of_block), out + here * out_row
        a = packed if constant(leaf, "packs") else job.x + here * a_row
        _multiply_block(
            leaf, plan, job.x, a, b, bias, job.memory, job.memory + SUMS_BYTES * slot, panels, rows,
            _source(leaf, job, following), other, turns if following > here else 0, read_each, job.limits, before, to,
            writes,
        )  # fmt: skip
        before, to = job.memory + SUMS_BYTES * ((slot + panels - 1) % _SLOTS), rows + 32 * size * (panels - 1)
        slot, writes = (slot + panels) % _SLOTS, BLOCK // TOGETHER
        packed, other = other, packed
        if following == here:
            break
        here = following
    end(leaf.kernel)
    _write_panel(leaf, plan, before, to)


_Arguments = namedtuple("_Arguments", "plan x out b bias memory limits first last first_panel last_panel")


MultiplyFlat = leaf_class("MultiplyFlat", "kernel element conversion order", _multiply_flat, _Arguments, packs=packs)
"""Leaf: some positions with some panels. Fields: a class of `block.tiles`, an element type, a conversion of operands,
and the order of reading."""


@task("plan x out b bias memory limits")
def _strip_task(task, worker, job):
    plan = job.plan
    strips = plan.strips
    strip, chunk = plan.strip, plan.panel_chunk
    first, panel = task % strips * strip, task // strips * chunk
    call_at(
        plan.leaf,
        _Arguments(
            plan, job.x, job.out, job.b, job.bias, job.memory + worker * plan.worker_bytes,
            job.limits + worker * LIMITS_BYTES, first, min(first + strip, plan.positions), panel,
            min(panel + chunk, plan.panels),
        ),
    )  # fmt: skip


@njit
def multiply(pool, threads, tasks, plan: NhwcPlan, x, out, b, bias, memory, limits):
    """Multiply, in so many tasks. All are addresses but `threads` and `tasks`; `b` that of the packed weights, `bias`
    that of a row of whole panels, or 0. Returns the magnitudes found in x."""
    reset_limits(limits, threads)
    launch(pool, threads, tasks, _strip_task(plan, x, out, b, bias, memory, limits))
    return found_limits(limits, threads)
