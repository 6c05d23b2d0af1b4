"""Convolutions on AMX tiles: the tile load is the im2col.

The loop along K walks through a table of distances, one for each block of 32 channels and tap: 16 lines from there on
are the tile of A. Weights are panels of 32 output channels, as `block.packing` has them, in the order of the table.

A step of the table is a tap of a block of channels, taps first, so that the lines of one block stay in the L1 cache
for all of its taps.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..block.amx import tile
from ..block.emit import I64, LINE, TILE, load, loop, offset, prefetch_to_l2
from ..block.microkernels import begin, end
from ..block.tags import constant
from ..runtime.emitter import Class, Pointer, boolean, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import call_at, leaf_class
from ..runtime.raw_memory import record_at
from .descriptor import PassPlan, Plan
from .epilogue import FinishArguments
from .geometry import RUN_BYTES
from .memory import read32

_SUMS_ROW = 128
_SUMS = SUMS_BYTES = 32 * _SUMS_ROW
"""Of the sums of a block."""


def multiply_step(
    builder: ir.IRBuilder, walk: Any, a: ir.Value, a_row: ir.Value, part_bytes: ir.Value, b: ir.Value,
    load_b: str = "tileloadd64",
) -> None:  # fmt: skip
    """Add the products of one step, loading only the tiles that the product before had not. `a_row` are the bytes from
    position to position, `part_bytes` those from part to part; `load_b` loads the weights."""
    before: tuple[int | None, int | None] = (None, None)
    for now in walk:
        of_a = offset(builder, a, builder.mul(part_bytes, I64(now[0])))
        of_b = offset(builder, b, 2 * now[1] * TILE)
        new_a, new_b = before[0] != now[0], before[1] != now[1]
        if new_a:
            tile(builder, "tileloadd64", 4, of_a, a_row)
        if new_b:
            tile(builder, load_b, 6, of_b, I64(LINE))
        tile(builder, "tdpbf16ps", 0, 4, 6)
        if new_b:
            tile(builder, load_b, 7, offset(builder, of_b, TILE), I64(LINE))
        tile(builder, "tdpbf16ps", 1, 4, 7)
        if new_a:
            tile(builder, "tileloadd64", 5, offset(builder, of_a, builder.shl(a_row, I64(4))), a_row)
        tile(builder, "tdpbf16ps", 2, 5, 6)
        tile(builder, "tdpbf16ps", 3, 5, 7)
        before = now


@emitter
def _multiply_lines(
    builder, kernel: Class, steps, a: Pointer, part_bytes, table: Pointer, b: Pointer, sums: Pointer,
    resume: boolean, bias: Pointer, low: Pointer, high: Pointer, stride, ahead: Pointer,
) -> None:  # fmt: skip
    """32 positions x 32 channels: the sums so far (or the bias, a row of 32) and `steps` steps of the table.

    The upper 16 rows of the result go to `low`, the others to `high`, in rows of `stride` bytes. Weights at `ahead` are
    needed soon.
    """
    parts = kernel.b_bytes // 64
    with builder.if_else(resume) as (go_on, start):
        with go_on:
            for register in range(4):
                at = offset(builder, sums, (register >> 1) * 16 * _SUMS_ROW + (register & 1) * LINE)
                tile(builder, "tileloadd64", register, at, I64(_SUMS_ROW))
        with start:
            for register in range(4):
                tile(builder, "tileloadd64", register, offset(builder, bias, (register & 1) * LINE), I64(0))

    def step(index: ir.Value, pointers: list[ir.Value]) -> list[ir.Value]:
        table, b, ahead = pointers
        prefetch_to_l2(builder, ahead, 4 * parts)
        here = offset(builder, a, load(builder, I64, table, 8))
        multiply_step(builder, kernel.walk, here, I64(LINE), part_bytes, b)
        return [offset(builder, table, 8), offset(builder, b, 2 * TILE * parts), offset(builder, ahead, 256 * parts)]

    loop(builder, steps, [table, b, ahead], step)
    for register in range(4):
        at = offset(builder, high if register >> 1 else low, (register & 1) * LINE)
        tile(builder, "tilestored64", register, at, stride)


@subroutine
def _in_place(one, out, group):
    """Where 16 positions may be stored as they are, or 0."""
    groups = one.groups
    run = one.runs + RUN_BYTES * (group % groups)
    if read32(run + 4) != 0xFFFF:
        return 0
    return out + group // groups * one.period_stride + read32(run)


@subroutine
def _convolve_block(leaf, job):
    """Blocks of positions first to last, for panels first_panel to last_panel."""
    tag, step_bytes = leaf.kernel, 32 * constant(leaf.kernel, "b_bytes")
    plan, one = record_at(Plan, job.plan), record_at(PassPlan, job.one)
    all_steps, chunk, end_of_pass = one.steps, plan.chunk, one.end
    direct, part_bytes = plan.direct, plan.part_bytes
    channel_stride = plan.channel_stride
    table, finish, all_columns = (one.table, plan.finish, plan.columns)
    begin(tag)
    for p in range(0, all_steps, chunk):
        steps, last, slot = min(chunk, all_steps - p), p + chunk >= all_steps, job.scratch
        for panel in range(job.first_panel, job.last_panel):
            weights = job.b + (panel * all_steps + p) * step_bytes
            ahead = weights + (all_steps if panel + 1 < job.last_panel else 0) * step_bytes
            if all_steps <= chunk:
                slot = job.scratch
            columns, first_slot, out = all_columns - 32 * panel, slot, job.out + 32 * panel * channel_stride
            for block in range(job.first, job.last):
                low, high, stride = slot, slot + 16 * _SUMS_ROW, _SUMS_ROW
                if last and direct and columns >= 32 and 32 * block + 16 < end_of_pass:
                    to, and_to = _in_place(one, out, 2 * block), _in_place(one, out, 2 * block + 1)
                    if to and and_to:
                        low, high, stride = to, and_to, direct
                _multiply_lines(
                    tag, steps, job.a + 2 * TILE * block, part_bytes, table + 8 * p, weights, slot,
                    p > 0, job.bias + 128 * panel, low, high, stride, ahead,
                )  # fmt: skip
                slot += _SUMS
                ahead += steps * step_bytes // 8
            if last:
                # Tile stores do not forward to vector loads: blocks are stored when all of a panel are done.
                for block in range(job.first, job.last):
                    in_place = direct and columns >= 32 and 32 * block + 16 < end_of_pass
                    if not (in_place and _in_place(one, out, 2 * block) and _in_place(one, out, 2 * block + 1)):
                        sums = first_slot + (block - job.first) * _SUMS
                        call_at(finish, FinishArguments(plan, one, sums, out, 2 * block, columns))
    end(tag)


BlockArguments = namedtuple("BlockArguments", "plan one a b bias out scratch first last first_panel last_panel")
"""Blocks of 32 positions and panels of 32 channels of one pass; `a` is the address of the line of position 0, `b`,
`bias` and `out` those of the first channel of the group."""


ConvolveBlock = leaf_class("ConvolveBlock", "kernel", _convolve_block, BlockArguments)
"""Leaf: a part of the result. Field: a class of `block.tiles`."""
