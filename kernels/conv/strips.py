"""A convolution divided among threads: in strips of positions, or packed as a whole first.

A strip is packed, with the neighbours that its taps reach, into the worker's own memory and convolved from there at
once, so that what is packed stays in the L2 cache. Where there are too few positions for strips, or all of them fit,
all are packed first, in one parallel step, and the result is divided into blocks in the next. Every value of the result
is summed by one thread in one order: the bits do not depend on how many there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..block.loops import LIMITS_BYTES, found_limits, reset_limits
from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, launch, task
from ..runtime.raw_memory import behind, record_at
from .descriptor import PassPlan, Plan
from .memory import read64
from .pack_tiles import LineArguments
from .tiles import BlockArguments


def even_strips(strip: int, strips: int, front: int, counts: list[int]) -> np.ndarray:
    """The table of strips of so many blocks of 32 positions, where passes have so many blocks in all: for each the
    first group of 16 positions that is packed, and of each pass its first block and the one after its last."""
    first = np.arange(strips) * strip
    ends = [np.minimum(first + strip, count) for count in counts]
    of_passes = [each for end in ends for each in (np.minimum(first, end), end)]
    return np.stack([2 * first - front, *of_passes], axis=1).astype(np.int64)


class Addresses(NamedTuple):
    """What changes from call to call: a plan, its arrays, and memory."""

    plan: Plan
    x: int
    form: int
    """Of pairs of int64 for each pass: its packed weights, and the bytes from group to group."""
    bias: int
    out: int
    memory: int
    worker_bytes: int
    limits: int


@task("on")
def _strip_task(task, worker, job):
    on = job.on
    plan, passes = on.plan, on.plan.passes
    strips, arrays = plan.strips, plan.blocks * plan.planes
    group, row = task // strips, plan.strip_table + task % strips * (8 + 16 * passes)
    mine = on.memory + worker * on.worker_bytes
    region = read64(row)
    call_at(
        plan.pack,
        LineArguments(
            plan, on.x + group * plan.group_stride, mine, on.limits + worker * LIMITS_BYTES,
            region, region, region + plan.region_groups, 0, arrays,
        ),
    )  # fmt: skip
    a = mine - plan.group_bytes * region
    for index in range(passes):
        one, end = behind(record_at(PassPlan, plan.pass_table), index), read64(row + 16 * index + 16)
        for i in range(read64(row + 16 * index + 8), end, one.block_chunk):
            last = min(i + one.block_chunk, end)
            for j in range(0, plan.panels, one.panel_chunk):
                _call_block(on, one, index, group, a, worker, i, last, j)


@subroutine
def _call_block(on, one, index, group, a, worker, first, last, panel):
    plan, panels = on.plan, on.plan.panels
    scratch = on.memory + (worker + 1) * on.worker_bytes - plan.sums_bytes
    form = on.form + 16 * index
    if plan.zeros != 0:  # images are read in place
        a = on.x
    columns = plan.columns * plan.channel_stride
    call_at(
        plan.convolve,
        BlockArguments(
            plan, one, a, read64(form) + group * read64(form + 8), on.bias + group * plan.bias_group,
            on.out + group * columns, scratch, first, last, panel,
            min(panel + one.panel_chunk, panels),
        ),
    )  # fmt: skip


@task("plan x target limits")
def _pack_task(task, worker, job):
    plan, chunk = job.plan, job.plan.pack_chunk
    region, all_groups = -plan.front_groups, plan.region_groups
    arrays = plan.blocks * plan.planes
    some, chunks = plan.array_chunk, (all_groups + chunk - 1) // chunk
    parts = (arrays + some - 1) // some
    group, array, first = task // (chunks * parts), task // chunks % parts * some, task % chunks * chunk
    call_at(
        plan.pack,
        LineArguments(
            plan, job.x + group * plan.group_stride,
            job.target + group * plan.region_bytes, job.limits + worker * LIMITS_BYTES,
            region, region + first, region + min(first + chunk, all_groups), array,
            min(array + some, arrays),
        ),
    )  # fmt: skip


@subroutine
def pack_whole(pool, threads, plan, x, target, limits):
    """Pack all positions of an array."""
    chunk, some = plan.pack_chunk, plan.array_chunk
    chunks = (plan.region_groups + chunk - 1) // chunk
    parts = (plan.blocks * plan.planes + some - 1) // some
    tasks = plan.channel_groups * chunks * parts
    launch(pool, threads, tasks, _pack_task(plan, x, target, limits))


@task("on one index region")
def _block_task(task, worker, job):
    on, one = job.on, job.one
    plan, blocks = on.plan, job.one.blocks
    block_chunk, panel_chunk = one.block_chunk, one.panel_chunk
    down = (blocks + block_chunk - 1) // block_chunk
    across = (plan.panels + panel_chunk - 1) // panel_chunk
    group, first, panel = task // (across * down), task % down * block_chunk, task // down % across
    a = on.memory + job.region + group * plan.region_bytes
    a += plan.group_bytes * plan.front_groups
    _call_block(on, one, job.index, group, a, worker, first, min(first + block_chunk, blocks), panel * panel_chunk)


@njit
def convolve(pool, threads, plan: Plan, x, form, bias, out, memory, worker_bytes, limits):
    """Convolve. All are addresses but `threads` and worker_bytes; the memory has so many bytes for each thread, and
    behind these the packed activations where they are packed as a whole. Returns the magnitudes found in x."""
    reset_limits(limits, threads)
    on = Addresses(plan, x, form, bias, out, memory, worker_bytes, limits)
    groups = plan.channel_groups
    if plan.strips > 0:
        launch(pool, threads, groups * plan.strips, _strip_task(on))
        return found_limits(limits, threads)
    region = threads * worker_bytes
    pack_whole(pool, threads, plan, x, memory + region, limits)
    for index in range(plan.passes):
        one = behind(record_at(PassPlan, plan.pass_table), index)
        block_chunk, panel_chunk = one.block_chunk, one.panel_chunk
        down = (one.blocks + block_chunk - 1) // block_chunk
        across = (plan.panels + panel_chunk - 1) // panel_chunk
        launch(pool, threads, groups * down * across, _block_task(on, one, index, region))
    return found_limits(limits, threads)
