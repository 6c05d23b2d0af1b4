"""Convolutions on AMX tiles: the tile load is the im2col.

The loop along K walks through a table of distances, one for each block of 32 channels and tap: 16 lines from there on
are the tile of A. Weights are panels of 32 output channels, as `gemm.packing` has them, in the order of the table.

A step of the table is a tap of a block of channels, taps first, so that the lines of one block stay in the L1 cache
for all of its taps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm import tiles
from ..gemm.emit import I8, I64, VOID, call, load, loop, offset, prefetch_to_l2
from ..gemm.microkernels import begin, end
from ..gemm.tags import constant, instance
from ..jit import intrinsic, ir, njit, types
from ..launch import call_at, launch
from .finish import FinishArguments
from .memory import read32
from .positions import pointer

__all__ = ["KERNELS", "ConvolveBlock", "convolve"]

_TILE, _ROW = 1024, 64
_SUMS_ROW = 128
_SUMS = 32 * _SUMS_ROW

KERNELS = {
    "bf16": tiles.Tiles1(),
    "bf16x3": tiles.Tiles3(),
    "tf32": tiles.Tiles4(),
    "fp16": tiles.Tiles4(),
    "bf16x6": tiles.Tiles6(),
    "tf32x3": tiles.Tiles6(),
    "bf16x9": tiles.Tiles9(),
}
"""The walks through the products of parts, by precision."""


def _tile(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    """Call a tile intrinsic; an `int` is a register."""
    call(builder, f"llvm.x86.{name}", VOID, *[I8(a) if isinstance(a, int) else a for a in arguments])


def _multiply_step(builder: ir.IRBuilder, walk: Any, a: ir.Value, part_bytes: ir.Value, b: ir.Value) -> None:
    """Add the products of one step, loading only the tiles that the product before had not."""
    before: tuple[int | None, int | None] = (None, None)
    for now in walk:
        of_a = offset(builder, a, builder.mul(part_bytes, I64(now[0])))
        of_b = offset(builder, b, 2 * now[1] * _TILE)
        new_a, new_b = before[0] != now[0], before[1] != now[1]
        if new_a:
            _tile(builder, "tileloadd64", 4, of_a, I64(_ROW))
        if new_b:
            _tile(builder, "tileloadd64", 6, of_b, I64(_ROW))
        _tile(builder, "tdpbf16ps", 0, 4, 6)
        if new_b:
            _tile(builder, "tileloadd64", 7, offset(builder, of_b, _TILE), I64(_ROW))
        _tile(builder, "tdpbf16ps", 1, 4, 7)
        if new_a:
            _tile(builder, "tileloadd64", 5, offset(builder, of_a, _TILE), I64(_ROW))
        _tile(builder, "tdpbf16ps", 2, 5, 6)
        _tile(builder, "tdpbf16ps", 3, 5, 7)
        before = now


@intrinsic
def _multiply_lines(
    typingctx, tag, steps, a, part_bytes, table, b, sums, resume, bias, low, high, stride, ahead
):
    """32 positions x 32 channels: the sums so far (or the bias, a row of 32) and `steps` steps of the table.

    The upper 16 rows of the result go to `low`, the others to `high`, in rows of `stride` bytes. Weights at `ahead` are
    needed soon.
    """
    kernel = instance(tag)
    parts = kernel.b_bytes // 64

    def codegen(context, builder, signature, arguments):
        _, steps, a, part_bytes, table, b, sums, resume, bias, low, high, stride, ahead = arguments
        a, table, b, sums, bias, low, high, ahead = (
            pointer(builder, x) for x in (a, table, b, sums, bias, low, high, ahead)
        )
        with builder.if_else(resume) as (go_on, start):
            with go_on:
                for register in range(4):
                    at = offset(builder, sums, (register >> 1) * 16 * _SUMS_ROW + (register & 1) * _ROW)
                    _tile(builder, "tileloadd64", register, at, I64(_SUMS_ROW))
            with start:
                for register in range(4):
                    _tile(builder, "tileloadd64", register, offset(builder, bias, (register & 1) * _ROW), I64(0))

        def step(index: ir.Value, pointers: list[ir.Value]) -> list[ir.Value]:
            table, b, ahead = pointers
            prefetch_to_l2(builder, ahead, 4 * parts)
            here = offset(builder, a, load(builder, I64, table, 8))
            _multiply_step(builder, kernel.walk, here, part_bytes, b)
            return [
                offset(builder, table, 8), offset(builder, b, 2 * _TILE * parts), offset(builder, ahead, 256 * parts)
            ]  # fmt: skip

        loop(builder, steps, [table, b, ahead], step)
        for register in range(4):
            at = offset(builder, high if register >> 1 else low, (register & 1) * _ROW)
            _tile(builder, "tilestored64", register, at, stride)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(tag, *[integer] * 6, types.boolean, *[integer] * 5), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _convolve_block(leaf, job):
    """Blocks of positions first to last, for panels first_panel to last_panel."""
    tag, step_bytes = leaf.kernel, 32 * constant(leaf.kernel, "b_bytes")
    begin(tag)
    for p in range(0, job.steps, job.chunk):
        steps, last, slot = min(job.chunk, job.steps - p), p + job.chunk >= job.steps, job.scratch
        for panel in range(job.first_panel, job.last_panel):
            weights = job.b + (panel * job.steps + p) * step_bytes
            ahead = weights + (job.steps if panel + 1 < job.last_panel else 0) * step_bytes
            columns = job.columns - 32 * panel
            for block in range(job.first, job.last):
                low, high, stride, direct = slot, slot + 16 * _SUMS_ROW, _SUMS_ROW, False
                if last and job.direct and columns >= 32 and 32 * block + 16 < job.end:
                    first, second = 2 * block % job.groups, (2 * block + 1) % job.groups
                    if read32(job.runs + 8 * first + 4) == 0xFFFF and read32(job.runs + 8 * second + 4) == 0xFFFF:
                        direct, stride = True, job.direct
                        low = job.out + 128 * panel + 2 * block // job.groups * job.period_stride
                        low += read32(job.runs + 8 * first)
                        high = job.out + 128 * panel + (2 * block + 1) // job.groups * job.period_stride
                        high += read32(job.runs + 8 * second)
                _multiply_lines(
                    tag, steps, job.a + 2048 * block, job.part_bytes, job.table + 8 * p, weights, slot, p > 0,
                    job.bias + 128 * panel, low, high, stride, ahead,
                )  # fmt: skip
                if last and not direct:
                    call_at(
                        job.finish,
                        FinishArguments(
                            slot, job.out + 32 * panel * job.channel_stride, 2 * block, job.end, job.groups,
                            job.period_stride, job.runs, job.offsets, job.channel_stride, columns, job.relu,
                        ),
                    )  # fmt: skip
                if job.steps > job.chunk:
                    slot += _SUMS
                ahead += steps * step_bytes // 8
    end(tag)


class _BlockArguments(NamedTuple):
    steps: int
    chunk: int
    a: int
    part_bytes: int
    table: int
    b: int
    bias: int
    scratch: int
    first: int
    last: int
    first_panel: int
    last_panel: int
    end: int
    finish: int
    out: int
    groups: int
    period_stride: int
    runs: int
    offsets: int
    channel_stride: int
    columns: int
    relu: int
    direct: int


class ConvolveBlock(NamedTuple):
    """Leaf: a part of the result. Field: a class of `gemm.tiles`."""

    kernel: NamedTuple
    run = _convolve_block
    arguments = _BlockArguments


@njit(cache=False, no_cpython_wrapper=True)
def _convolve_task(task, worker, job):
    down = (job.blocks + job.block_chunk - 1) // job.block_chunk
    across = (job.panels + job.panel_chunk - 1) // job.panel_chunk
    group, first, panel = task // (across * down), task % down * job.block_chunk, task // down % across
    call_at(
        job.leaf,
        _BlockArguments(
            job.steps, job.chunk, job.a + group * job.a_group, job.part_bytes, job.table,
            job.b + group * job.b_group, job.bias + group * job.panels * 128,
            job.scratch + worker * job.scratch_bytes, first, min(first + job.block_chunk, job.blocks),
            panel * job.panel_chunk, min((panel + 1) * job.panel_chunk, job.panels), job.end, job.finish,
            job.out + group * job.columns * job.channel_stride, job.groups, job.period_stride, job.runs, job.offsets,
            job.channel_stride, job.columns, job.relu, job.direct,
        ),
    )  # fmt: skip


class _Convolution(NamedTuple):
    leaf: int
    finish: int
    channel_groups: int
    steps: int
    chunk: int
    a: int
    a_group: int
    part_bytes: int
    table: int
    b: int
    b_group: int
    bias: int
    blocks: int
    panels: int
    block_chunk: int
    panel_chunk: int
    end: int
    out: int
    groups: int
    period_stride: int
    runs: int
    offsets: int
    channel_stride: int
    columns: int
    relu: int
    direct: int
    scratch: int
    scratch_bytes: int
    run = _convolve_task


@njit
def convolve(
    pool, threads, leaf, finish, channel_groups, steps, chunk, a, a_group, part_bytes, table, b, b_group, bias, blocks,
    panels, block_chunk, panel_chunk, end, out, groups, period_stride, runs, offsets, channel_stride, columns, relu,
    direct, scratch, scratch_bytes,
):  # fmt: skip
    """One pass of a convolution.

    Arguments: `leaf` and `finish` are addresses of a `ConvolveBlock` and of a `FinishBlock`. a is the address of
    position 0 of the first plane of lines, b that of the packed weights, bias that of rows of 32 float32 (`panels` of
    them in each group). `table` has for each step the distance in bytes of its lines. `blocks` of 32 positions are done
    in tasks of block_chunk x panel_chunk, `chunk` steps at a time. Spots of the result are `runs` and `offsets`.
    `direct` is 0, or the bytes from position to position where tiles may be stored into the result.
    """
    job = _Convolution(
        leaf, finish, channel_groups, steps, chunk, a, a_group, part_bytes, table, b, b_group, bias, blocks,
        panels, block_chunk, panel_chunk, end, out, groups, period_stride, runs, offsets, channel_stride, columns, relu,
        direct, scratch, scratch_bytes,
    )  # fmt: skip
    down, across = (blocks + block_chunk - 1) // block_chunk, (panels + panel_chunk - 1) // panel_chunk
    launch(pool, threads, channel_groups * down * across, job)
