"""The gradient of a convolution with respect to its weight on AMX tiles: a product whose sums run over positions.

gw[o, c, tap] = sum over m of g[o, m] x[c, m + offset(tap)]. Both operands are packed as `lines` first. 32 lines of g,
transposed, are two tiles of A; pairs of neighbouring lines of x, interleaved, are rows of tiles of B. A tap is a shift
along these rows; x is paired twice, from even and from odd lines on, so that every shift finds its pairs aligned.
"""

from __future__ import annotations

from collections import namedtuple

from ..block.amx import tile
from ..block.emit import F32, I16, I32, I64, LINE, TILE, load, loop, offset, store, transpose, vector
from ..block.loops import LIMITS_BYTES, found_limits, reset_limits
from ..block.microkernels import begin, end
from ..block.tags import constant
from ..runtime.emitter import Class, Pointer, boolean, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import record_at
from .descriptor import Plan, WeightPlan
from .gather_scatter import pointer
from .memory import read64, write32
from .pack_tiles import LineArguments
from .strips import pack_whole

_PAIR = _SUMS_ROW = 128
SUMS_BYTES = 32 * _SUMS_ROW
"""Of the sums of a block."""


def _interleave(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> list[ir.Value]:
    """Two lines of 32 bf16 as pairs: those of 16 channels, and of the other 16."""
    pairs = []
    for half in (0, 1):
        order = [16 * half + lane // 2 + 32 * (lane % 2) for lane in range(32)]
        pairs.append(builder.shuffle_vector(first, second, ir.Constant(vector(I32, 32), order)))
    return pairs


@emitter
def _pair_lines(builder, at, count, target) -> None:
    """`count` pairs of the lines from `at` on."""
    at, target = pointer(builder, at), pointer(builder, target)
    kind = vector(I16, 32)

    def pair(index: ir.Value, _: list) -> list:
        here = builder.shl(index, I64(7))
        lines = [load(builder, kind, offset(builder, offset(builder, at, here), 64 * which), LINE) for which in (0, 1)]
        for half, both in enumerate(_interleave(builder, *lines)):
            store(builder, both, offset(builder, offset(builder, target, here), 64 * half), LINE)
        return []

    loop(builder, count, [], pair)


@emitter
def _transpose_lines(builder, at: Pointer, target: Pointer) -> None:
    """32 lines of 32 bf16 as 32 rows of 32 bf16."""
    lines = [load(builder, vector(I16, 32), offset(builder, at, 64 * line), LINE) for line in range(32)]
    pairs = [_interleave(builder, *lines[line : line + 2]) for line in range(0, 32, 2)]
    for half in (0, 1):
        square = [builder.bitcast(both[half], vector(I32)) for both in pairs]
        for row, values in enumerate(transpose(builder, square)):
            store(builder, values, offset(builder, target, TILE * half + 64 * row), LINE)


@emitter
def _multiply_pairs(
    builder, kernel: Class, steps, a: Pointer, b: Pointer, part_bytes, sums: Pointer, resume: boolean
) -> None:
    """sums = [sums +] the products of 32 rows of a with 32 columns of pairs, over `steps` steps of 32 positions."""
    parts = kernel.b_bytes // 64
    corners = [offset(builder, sums, (r >> 1) * 16 * _SUMS_ROW + (r & 1) * LINE) for r in range(4)]
    with builder.if_else(resume) as (go_on, start):
        with go_on:
            for register, at in enumerate(corners):
                tile(builder, "tileloadd64", register, at, I64(_SUMS_ROW))
        with start:
            for register in range(4):
                tile(builder, "tilezero", register)

    def step(index: ir.Value, pointers: list[ir.Value]) -> list[ir.Value]:
        a, b = pointers
        before: tuple[int | None, int | None] = (None, None)
        for now in kernel.walk:
            of_a = offset(builder, a, 2 * TILE * now[0])
            of_b = offset(builder, b, builder.mul(part_bytes, I64(now[1])))
            if before[0] != now[0]:
                tile(builder, "tileloadd64", 4, of_a, I64(LINE))
                tile(builder, "tileloadd64", 5, offset(builder, of_a, TILE), I64(LINE))
            if before[1] != now[1]:
                tile(builder, "tileloadd64", 6, of_b, I64(_PAIR))
                tile(builder, "tileloadd64", 7, offset(builder, of_b, LINE), I64(_PAIR))
            for register in range(4):
                tile(builder, "tdpbf16ps", register, 4 + (register >> 1), 6 + (register & 1))
            before = now
        return [offset(builder, a, 2 * TILE * parts), offset(builder, b, 16 * _PAIR)]

    loop(builder, steps, [a, b], step)
    for register, at in enumerate(corners):
        tile(builder, "tilestored64", register, at, I64(_SUMS_ROW))


@subroutine
def _multiply(leaf, job):
    """One block of channels, panels first to last of output channels, taps first_tap to last_tap; then their store,
    unless there are 0 columns."""
    tag, plan = leaf.kernel, record_at(WeightPlan, job.plan)
    chunk, all_steps = plan.chunk, plan.steps
    panel_bytes, step_bytes = plan.a_panel, 32 * constant(leaf.kernel, "a_bytes")
    part_bytes = plan.b_part
    begin(tag)
    for p in range(0, all_steps, chunk):
        sums, steps = job.scratch, min(chunk, all_steps - p)
        for panel in range(job.first, job.last):
            a = job.a + panel * panel_bytes + p * step_bytes
            for tap in range(job.first_tap, job.last_tap):
                b = job.b + read64(plan.table + 8 * tap) + p * 16 * 128
                _multiply_pairs(tag, steps, a, b, part_bytes, sums, p > 0)
                sums += SUMS_BYTES
    end(tag)
    if job.columns > 0:
        for panel in range(job.first, job.last):
            sums = job.scratch + (panel - job.first) * (job.last_tap - job.first_tap) * SUMS_BYTES
            _store_panel(plan, sums, job.out, job.columns, panel, job.first_tap, job.last_tap)


@subroutine
def _store_panel(plan, sums, out, columns, panel, first_tap, last_tap):
    """Store the sums of a panel of output channels and a block of channels, whose first is at `out`."""
    channel_stride, tap_stride = plan.channel_stride, plan.tap_stride
    for row in range(min(32, plan.outputs - 32 * panel)):
        for tap in range(last_tap - first_tap):
            to = out + (32 * panel + row) * plan.row_stride + (first_tap + tap) * tap_stride
            for column in range(columns):
                write32(to + column * channel_stride, sums + tap * SUMS_BYTES + row * _SUMS_ROW + 4 * column)


_MultiplyArguments = namedtuple("_MultiplyArguments", "plan a b out columns scratch first last first_tap last_tap")


MultiplyPairs = leaf_class("MultiplyPairs", "kernel", _multiply, _MultiplyArguments)
"""Leaf: a part of the result. Field: a class of `block.tiles`."""


@task("lines target part_bytes pairs parities odd")
def _pair_task(task, worker, job):
    """One part of one plane of lines of x, from even or from odd lines on."""
    array, odd = task // job.parities, task % job.parities + job.odd
    _pair_lines(job.lines + array * job.part_bytes + 64 * odd, job.pairs, job.target + task * job.part_bytes)


@task("lines target part_bytes panel_bytes parts steps")
def _transpose_task(task, worker, job):
    """Some steps of one part of one block of lines of g."""
    chunks = (job.steps + 7) // 8
    array, first = task // chunks, task % chunks * 8
    block, part = array // job.parts, array % job.parts
    for step in range(first, min(first + 8, job.steps)):
        to = job.target + block * job.panel_bytes + (step * job.parts + part) * 2048
        _transpose_lines(job.lines + array * job.part_bytes + 2048 * step, to)


@task("plan a b out scratch")
def _product_task(task, worker, job):
    plan = job.plan
    panels, panel_chunk = plan.panels, plan.panel_chunk
    taps, tap_chunk = plan.taps, plan.tap_chunk
    blocks, channels = plan.blocks, plan.channels
    across, along = (panels + panel_chunk - 1) // panel_chunk, (taps + tap_chunk - 1) // tap_chunk
    panel, rest = task % across * panel_chunk, task // across
    tap, rest = rest % along * tap_chunk, rest // along
    block, group = rest % blocks, rest // blocks
    out = job.out + group * plan.outputs * plan.row_stride
    out += 32 * block * plan.channel_stride
    call_at(
        plan.leaf,
        _MultiplyArguments(
            plan, job.a + group * panels * plan.a_panel,
            job.b + (group * blocks + block) * plan.b_block, out, min(32, channels - 32 * block),
            job.scratch + worker * plan.sums_bytes, panel, min(panel + panel_chunk, panels),
            tap, min(tap + tap_chunk, taps),
        ),
    )  # fmt: skip


@njit
def weight_gradient(
    pool, threads, plan: WeightPlan, x_plan: Plan, g_plan: Plan, x, g, out, x_lines, g_lines, a, b, scratch, limits
):
    """The gradient, float32 (groups, outputs, channels, taps) at `out`. All are addresses but `threads`; the last six
    of memory for the lines, for both operands of the product, for sums, and for limits of each thread, twice.

    Returns the magnitudes found in x and in g.
    """
    limits_g = limits + threads * LIMITS_BYTES
    reset_limits(limits, 2 * threads)
    pack_whole(pool, threads, x_plan, x, x_lines, limits)
    pack_whole(pool, threads, g_plan, g, g_lines, limits_g)
    groups, parts = x_plan.channel_groups, x_plan.parts
    arrays = groups * x_plan.blocks * x_plan.planes * parts
    part_bytes = x_plan.part_bytes
    parities, odd = plan.parities, plan.odd
    pairs = _pair_task(x_lines, b, part_bytes, (part_bytes // 64 - 1) // 2, parities, odd)
    launch(pool, threads, parities * arrays, pairs)
    steps = plan.steps
    transposes = _transpose_task(
        g_lines, a, g_plan.part_bytes, plan.a_panel, parts, steps
    )  # fmt: skip
    launch(pool, threads, groups * plan.panels * parts * ((steps + 7) // 8), transposes)
    panel_chunk, tap_chunk = plan.panel_chunk, plan.tap_chunk
    across = (plan.panels + panel_chunk - 1) // panel_chunk
    along = (plan.taps + tap_chunk - 1) // tap_chunk
    tasks = groups * plan.blocks * across * along
    launch(pool, threads, tasks, _product_task(plan, a, b, out, scratch))
    return found_limits(limits, threads), found_limits(limits_g, threads)


@task("plan x_plan g_plan x g memory worker_bytes sums limits threads")
def _partition_task(task, worker, job):
    """The sums of one group over one part of the positions."""
    plan, x_plan, g_plan = job.plan, job.x_plan, job.g_plan
    partitions, steps = plan.partitions, plan.steps
    group, first = task // partitions, task % partitions * steps
    mine = job.memory + worker * job.worker_bytes
    g_lines = mine + plan.lines_x
    a = g_lines + plan.lines_g
    b = a + plan.panels_bytes
    limits = job.limits + worker * LIMITS_BYTES
    region = 2 * first - plan.front_groups
    arrays = x_plan.blocks * x_plan.planes
    call_at(
        x_plan.pack,
        LineArguments(
            x_plan, job.x + group * x_plan.group_stride, mine, limits, region, region,
            region + x_plan.region_groups, 0, arrays,
        ),
    )  # fmt: skip
    panels = plan.panels
    call_at(
        g_plan.pack,
        LineArguments(
            g_plan, job.g + group * g_plan.group_stride, g_lines,
            limits + job.threads * LIMITS_BYTES, 2 * first, 2 * first, 2 * first + 2 * steps, 0, panels,
        ),
    )  # fmt: skip
    parts, parities = x_plan.parts, plan.parities
    odd = plan.odd
    part_bytes = x_plan.part_bytes
    for array in range(arrays * parts):
        for which in range(parities):
            at, to = mine + array * part_bytes + 64 * (odd + which), b + (array * parities + which) * part_bytes
            _pair_lines(at, (part_bytes // 64 - 1) // 2, to)
    part_bytes = g_plan.part_bytes
    for array in range(panels * parts):
        for step in range(steps):
            to = a + array // parts * plan.a_panel + (step * parts + array % parts) * 2048
            _transpose_lines(g_lines + array * part_bytes + 2048 * step, to)
    taps = plan.taps
    for block in range(plan.blocks):
        sums = job.sums + (task * plan.blocks + block) * panels * taps * SUMS_BYTES
        call_at(
            plan.leaf,
            _MultiplyArguments(
                plan, a, b + block * plan.b_block, 0, 0, sums, 0, panels, 0, taps
            ),
        )  # fmt: skip


@emitter
def _add_sums(builder, target: Pointer, source: Pointer, count) -> None:
    """Add `count` vectors of 16 float32 to those at the target."""

    def one(index: ir.Value, _: list) -> list:
        here = builder.shl(index, I64(6))
        values = [load(builder, vector(F32), offset(builder, at, here), LINE) for at in (target, source)]
        store(builder, builder.fadd(*values), offset(builder, target, here), LINE)
        return []

    loop(builder, count, [], one)


@task("plan sums out")
def _reduce_task(task, worker, job):
    """Add the parts of the sums of one panel and one block in their order, and store them."""
    plan, panels = job.plan, job.plan.panels
    blocks, taps = plan.blocks, plan.taps
    channels = plan.channels
    panel, block, group = task % panels, task // panels % blocks, task // (panels * blocks)
    partitions, size = plan.partitions, taps * SUMS_BYTES
    whole = blocks * panels * size
    sums = job.sums + group * partitions * whole + (block * panels + panel) * size
    for partition in range(1, partitions):
        _add_sums(sums, sums + partition * whole, size // 64)
    out = job.out + group * plan.outputs * plan.row_stride
    out += 32 * block * plan.channel_stride
    _store_panel(plan, sums, out, min(32, channels - 32 * block), panel, 0, taps)


@njit
def weight_gradient_in_partitions(
    pool, threads, plan: WeightPlan, x_plan: Plan, g_plan: Plan, x, g, out, memory, worker_bytes, sums, limits
):  # fmt: skip
    """As `weight_gradient`, where each of a fixed number of parts of the positions is packed and summed by one thread
    within its cache, and the parts' sums are added in their order. Workers have worker_bytes of the memory each."""
    reset_limits(limits, 2 * threads)
    groups = x_plan.channel_groups
    job = _partition_task(plan, x_plan, g_plan, x, g, memory, worker_bytes, sums, limits, threads)
    launch(pool, threads, groups * plan.partitions, job)
    tasks = groups * plan.blocks * plan.panels
    launch(pool, threads, tasks, _reduce_task(plan, sums, out))
    return found_limits(limits, threads), found_limits(limits + threads * LIMITS_BYTES, threads)
