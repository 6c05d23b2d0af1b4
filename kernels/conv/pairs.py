"""The gradient of a convolution with respect to its weight, on AMX tiles: a product whose sums run over positions.

gw[o, c, tap] = sum over m of g[o, m] x[c, m + offset(tap)]. Both operands are packed as `lines` first. 32 lines of g,
transposed, are two tiles of A; pairs of neighbouring lines of x, interleaved, are rows of tiles of B. A tap is a shift
along these rows; x is paired twice, from even and from odd lines on, so that every shift finds its pairs aligned.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I16, I32, I64, load, loop, offset, store, transpose, vector
from ..gemm.loops import LIMITS_BYTES, found_limits, reset_limits
from ..gemm.microkernels import begin, end
from ..gemm.tags import constant, instance
from ..jit import intrinsic, ir, njit, types
from ..launch import call_at, launch
from .descriptor import field
from .memory import read64, write32
from .positions import pointer
from .strips import pack_whole
from .tiles import tile

__all__ = ["MultiplyPairs", "weight_gradient"]

_TILE, _ROW, _PAIR = 1024, 64, 128
_SUMS_ROW = 128
SUMS_BYTES = 32 * _SUMS_ROW
"""Of the sums of a block."""


def _interleaved(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> list[ir.Value]:
    """Two lines of 32 bf16 as pairs: those of 16 channels, and of the other 16."""
    pairs = []
    for half in (0, 1):
        order = [16 * half + lane // 2 + 32 * (lane % 2) for lane in range(32)]
        pairs.append(builder.shuffle_vector(first, second, ir.Constant(vector(I32, 32), order)))
    return pairs


@intrinsic
def _pair_lines(typingctx, at, count, target):
    """`count` pairs of the lines from `at` on."""

    def codegen(context, builder, signature, arguments):
        at, target = pointer(builder, arguments[0]), pointer(builder, arguments[2])
        kind = vector(I16, 32)

        def pair(index: ir.Value, _: list) -> list:
            here = builder.shl(index, I64(7))
            lines = [
                load(builder, kind, offset(builder, offset(builder, at, here), 64 * which), _ROW) for which in (0, 1)
            ]
            for half, both in enumerate(_interleaved(builder, *lines)):
                store(builder, both, offset(builder, offset(builder, target, here), 64 * half), _ROW)
            return []

        loop(builder, arguments[1], [], pair)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


@intrinsic
def _transpose_lines(typingctx, at, target):
    """32 lines of 32 bf16 as 32 rows of 32 bf16."""

    def codegen(context, builder, signature, arguments):
        at, target = (pointer(builder, x) for x in arguments)
        lines = [load(builder, vector(I16, 32), offset(builder, at, 64 * line), _ROW) for line in range(32)]
        pairs = [_interleaved(builder, *lines[line : line + 2]) for line in range(0, 32, 2)]
        for half in (0, 1):
            square = [builder.bitcast(both[half], vector(I32)) for both in pairs]
            for row, values in enumerate(transpose(builder, square)):
                store(builder, values, offset(builder, target, _TILE * half + 64 * row), _ROW)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def _multiply_pairs(typingctx, tag, steps, a, b, part_bytes, sums, resume):
    """sums = [sums +] the products of 32 rows of a with 32 columns of pairs, over `steps` steps of 32 positions."""
    kernel = instance(tag)
    parts = kernel.b_bytes // 64

    def codegen(context, builder, signature, arguments):
        _, steps, a, b, part_bytes, sums, resume = arguments
        a, b, sums = (pointer(builder, x) for x in (a, b, sums))
        corners = [offset(builder, sums, (r >> 1) * 16 * _SUMS_ROW + (r & 1) * _ROW) for r in range(4)]
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
                of_a = offset(builder, a, 2 * _TILE * now[0])
                of_b = offset(builder, b, builder.mul(part_bytes, I64(now[1])))
                if before[0] != now[0]:
                    tile(builder, "tileloadd64", 4, of_a, I64(_ROW))
                    tile(builder, "tileloadd64", 5, offset(builder, of_a, _TILE), I64(_ROW))
                if before[1] != now[1]:
                    tile(builder, "tileloadd64", 6, of_b, I64(_PAIR))
                    tile(builder, "tileloadd64", 7, offset(builder, of_b, _ROW), I64(_PAIR))
                for register in range(4):
                    tile(builder, "tdpbf16ps", register, 4 + (register >> 1), 6 + (register & 1))
                before = now
            return [offset(builder, a, 2 * _TILE * parts), offset(builder, b, 16 * _PAIR)]

        loop(builder, steps, [a, b], step)
        for register, at in enumerate(corners):
            tile(builder, "tilestored64", register, at, I64(_SUMS_ROW))
        return context.get_dummy_value()

    integer = types.int64
    return types.void(tag, *[integer] * 5, types.boolean), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _multiply(leaf, job):
    """One block of channels, panels first to last of output channels, taps first_tap to last_tap; then their store."""
    tag, plan = leaf.kernel, job.plan
    chunk, all_steps = field("weight", plan, "chunk"), field("weight", plan, "steps")
    panel_bytes, step_bytes = field("weight", plan, "a_panel"), 32 * constant(leaf.kernel, "a_bytes")
    part_bytes, taps = field("weight", plan, "b_part"), field("weight", plan, "taps")
    begin(tag)
    for p in range(0, all_steps, chunk):
        sums, steps = job.scratch, min(chunk, all_steps - p)
        for panel in range(job.first, job.last):
            a = job.a + panel * panel_bytes + p * step_bytes
            for tap in range(job.first_tap, job.last_tap):
                b = job.b + read64(field("weight", plan, "table") + 8 * tap) + p * 16 * 128
                _multiply_pairs(tag, steps, a, b, part_bytes, sums, p > 0)
                sums += 4096
    end(tag)
    rows, columns, channels = field("weight", plan, "outputs"), job.columns, field("weight", plan, "channels")
    some = job.last_tap - job.first_tap
    for panel in range(job.first, job.last):
        for row in range(min(32, rows - 32 * panel)):
            sums = job.scratch + (panel - job.first) * some * 4096 + row * 128
            to = job.out + 4 * ((32 * panel + row) * channels * taps + job.first_tap)
            for column in range(columns):
                for tap in range(some):
                    write32(to + 4 * (column * taps + tap), sums + tap * 4096 + 4 * column)


class _MultiplyArguments(NamedTuple):
    plan: int
    a: int
    b: int
    out: int
    columns: int
    scratch: int
    first: int
    last: int
    first_tap: int
    last_tap: int


class MultiplyPairs(NamedTuple):
    """Leaf: a part of the result. Field: a class of `gemm.tiles`."""

    kernel: NamedTuple
    run = _multiply
    arguments = _MultiplyArguments


@njit(cache=False, no_cpython_wrapper=True)
def _pair_task(task, worker, job):
    """One part of one plane of lines of x, from even or from odd lines on."""
    odd, array = task % 2, task // 2
    _pair_lines(job.lines + array * job.part_bytes + 64 * odd, job.pairs, job.target + task * job.part_bytes)


class _Pairs(NamedTuple):
    lines: int
    target: int
    part_bytes: int
    pairs: int
    run = _pair_task


@njit(cache=False, no_cpython_wrapper=True)
def _transpose_task(task, worker, job):
    """Some steps of one part of one block of lines of g."""
    chunks = (job.steps + 7) // 8
    array, first = task // chunks, task % chunks * 8
    block, part = array // job.parts, array % job.parts
    for step in range(first, min(first + 8, job.steps)):
        to = job.target + block * job.panel_bytes + (step * job.parts + part) * 2048
        _transpose_lines(job.lines + array * job.part_bytes + 2048 * step, to)


class _Transposes(NamedTuple):
    lines: int
    target: int
    part_bytes: int
    panel_bytes: int
    parts: int
    steps: int
    run = _transpose_task


@njit(cache=False, no_cpython_wrapper=True)
def _product_task(task, worker, job):
    plan = job.plan
    panels, panel_chunk = field("weight", plan, "panels"), field("weight", plan, "panel_chunk")
    taps, tap_chunk = field("weight", plan, "taps"), field("weight", plan, "tap_chunk")
    blocks, channels = field("weight", plan, "blocks"), field("weight", plan, "channels")
    across, along = (panels + panel_chunk - 1) // panel_chunk, (taps + tap_chunk - 1) // tap_chunk
    panel, rest = task % across * panel_chunk, task // across
    tap, rest = rest % along * tap_chunk, rest // along
    block, group = rest % blocks, rest // blocks
    out = job.out + 4 * taps * (group * field("weight", plan, "outputs") * channels + 32 * block)
    call_at(
        field("weight", plan, "leaf"),
        _MultiplyArguments(
            plan, job.a + group * panels * field("weight", plan, "a_panel"),
            job.b + (group * blocks + block) * field("weight", plan, "b_block"), out, min(32, channels - 32 * block),
            job.scratch + worker * field("weight", plan, "sums_bytes"), panel, min(panel + panel_chunk, panels),
            tap, min(tap + tap_chunk, taps),
        ),
    )  # fmt: skip


class _Products(NamedTuple):
    plan: int
    a: int
    b: int
    out: int
    scratch: int
    run = _product_task


@njit
def weight_gradient(pool, threads, plan, x_plan, g_plan, x, g, out, x_lines, g_lines, a, b, scratch, limits):
    """The gradient, float32 (groups, outputs, channels, taps) at `out`. All are addresses but `threads`; the last six
    of memory for the lines, for both operands of the product, for sums, and for limits of each thread, twice.

    Returns the magnitudes found in x and in g.
    """
    limits_g = limits + threads * LIMITS_BYTES
    reset_limits(limits, 2 * threads)
    pack_whole(pool, threads, x_plan, x, x_lines, limits)
    pack_whole(pool, threads, g_plan, g, g_lines, limits_g)
    groups, parts = field("plan", x_plan, "channel_groups"), field("plan", x_plan, "parts")
    arrays = groups * field("plan", x_plan, "blocks") * field("plan", x_plan, "planes") * parts
    part_bytes = field("plan", x_plan, "part_bytes")
    launch(pool, threads, 2 * arrays, _Pairs(x_lines, b, part_bytes, (part_bytes // 64 - 1) // 2))
    steps = field("weight", plan, "steps")
    transposes = _Transposes(
        g_lines, a, field("plan", g_plan, "part_bytes"), field("weight", plan, "a_panel"), parts, steps
    )  # fmt: skip
    launch(pool, threads, groups * field("weight", plan, "panels") * parts * ((steps + 7) // 8), transposes)
    panel_chunk, tap_chunk = field("weight", plan, "panel_chunk"), field("weight", plan, "tap_chunk")
    across = (field("weight", plan, "panels") + panel_chunk - 1) // panel_chunk
    along = (field("weight", plan, "taps") + tap_chunk - 1) // tap_chunk
    tasks = groups * field("weight", plan, "blocks") * across * along
    launch(pool, threads, tasks, _Products(plan, a, b, out, scratch))
    return found_limits(limits, threads), found_limits(limits_g, threads)
