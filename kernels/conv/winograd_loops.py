"""Winograd's convolutions, compiled: a block of tiles is read, multiplied and written while it is in the L2 cache.

Lanes are tiles: 16 of one channel are gathered, place by place, transformed, and stored as values (places, channels,
tiles). The microkernels of `block.vectors` multiply them with panels of transformed weights, some panels at a time, for
each place (sums: places, outputs, tiles), and what these become is scattered to the result.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..block.avx512 import instruction
from ..block.emit import F32, I1, I16, I32, I64, VOID, broadcast, call, load, offset, pointers, splat, store, vector
from ..block.emit import relu as relu_where
from ..block.microkernels import multiply_panels
from ..block.sources import ELEMENTS
from ..block.tags import constant, field_class, tag_class
from ..block.vectors import Avx2Float32, Avx512Float32
from ..runtime.emitter import Pointer, Type, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import record_at
from ..runtime.record import Address, Bytes, Count, Record
from .gather_scatter import gather

_LANES, _VECTOR = 16, 64

_Values = list[ir.Value]


Avx512 = tag_class("Avx512", __name__, Avx512Float32, turn=1, ahead_a=1, ahead_b=0)
"""Weights are read once for each block of tiles, which is often from beyond the L2 cache."""

Avx2 = tag_class("Avx2", __name__, Avx2Float32, turn=2, ahead_a=1, ahead_b=0)


SIDE, RESULTS = 4, 2
"""The sides of a tile of the input, and of the results that it gives."""


def _read(builder: ir.IRBuilder, values: _Values) -> _Values:
    """The transform of a line of a tile."""
    a, b, c, d = values
    return [builder.fsub(a, c), builder.fadd(b, c), builder.fsub(c, b), builder.fsub(b, d)]


def _write(builder: ir.IRBuilder, values: _Values) -> _Values:
    """The results of a line of sums."""
    a, b, c, d = values
    return [builder.fadd(a, builder.fadd(b, c)), builder.fsub(builder.fsub(b, c), d)]


def _mask(builder: ir.IRBuilder, masks: ir.Value, place: int) -> ir.Value:
    """Which of 16 tiles have the place: masks are 16 bits for each."""
    return builder.bitcast(load(builder, I16, offset(builder, masks, 2 * place), 2), vector(I1))


def _gather(builder: ir.IRBuilder, wide: bool, at: ir.Value, offsets: ir.Value, mask: ir.Value) -> ir.Value:
    if wide:
        return gather(builder, ELEMENTS["float32"], at, offsets, mask)
    places = pointers(builder, at, offsets, F32)
    return call(builder, "llvm.masked.gather.v16f32.v16p0", vector(F32), places, I32(4), mask, splat(F32, 0))


def _scatter(
    builder: ir.IRBuilder, wide: bool, value: ir.Value, at: ir.Value, offsets: ir.Value, mask: ir.Value
) -> None:
    if wide:
        instruction(builder, "avx512.mask.scatter.dps.512", VOID, at, mask, offsets, value, I32(1))
    else:
        places = pointers(builder, at, offsets, F32)
        call(builder, "llvm.masked.scatter.v16f32.v16p0", VOID, value, places, I32(4), mask)


def _square(builder: ir.IRBuilder, rows: int, columns: int) -> Any:
    """Memory for a square of vectors: a function from (row, column) to a pointer."""
    with builder.goto_entry_block():
        space = builder.alloca(ir.ArrayType(vector(F32), rows * columns))
    space.align = _VECTOR
    base = builder.bitcast(space, ir.IntType(8).as_pointer())
    return lambda i, j: offset(builder, base, _VECTOR * (i * columns + j))


@emitter
def _read_tiles(
    builder, leaf: Type, at: Pointer, row, column, offsets: Pointer, masks: Pointer, target: Pointer, place_bytes
) -> None:
    """16 tiles of a channel, transformed: a vector at `target` for each place, `place_bytes` apart."""
    side, wide = range(SIDE), field_class(leaf, "kernel").lanes == _LANES
    where = load(builder, vector(I32), offsets, 4)
    half_done = _square(builder, SIDE, SIDE)
    for j in side:
        values = []
        for i in side:
            here = builder.add(builder.mul(row, I64(i)), builder.mul(column, I64(j)))
            mask = _mask(builder, masks, i * SIDE + j)
            values.append(_gather(builder, wide, offset(builder, at, here), where, mask))
        for i, value in enumerate(_read(builder, values)):
            store(builder, value, half_done(i, j), _VECTOR)
    for i in side:
        values = _read(builder, [load(builder, vector(F32), half_done(i, j), _VECTOR) for j in side])
        for j, value in enumerate(values):
            to = offset(builder, target, builder.mul(place_bytes, I64(i * SIDE + j)))
            store(builder, value, to, _VECTOR)


@emitter
def _write_tiles(
    builder, leaf: Type, source: Pointer, place_bytes, bias: Pointer, relu, at: Pointer, row, column,
    offsets: Pointer, masks: Pointer,
) -> None:  # fmt: skip
    """The results of 16 tiles of an output channel, from the sums of their places."""
    side, results, wide = range(SIDE), range(RESULTS), field_class(leaf, "kernel").lanes == _LANES
    where, added = load(builder, vector(I32), offsets, 4), broadcast(builder, load(builder, F32, bias, 4))
    half_done = _square(builder, RESULTS, SIDE)
    for j in side:
        places = [builder.mul(place_bytes, I64(i * SIDE + j)) for i in side]
        values = [load(builder, vector(F32), offset(builder, source, place), _VECTOR) for place in places]
        for i, value in enumerate(_write(builder, values)):
            store(builder, value, half_done(i, j), _VECTOR)
    for i in results:
        values = _write(builder, [load(builder, vector(F32), half_done(i, j), _VECTOR) for j in side])
        for j, value in enumerate(values):
            value = relu_where(builder, builder.fadd(value, added), relu)
            here = builder.add(builder.mul(row, I64(i)), builder.mul(column, I64(j)))
            mask = _mask(builder, masks, i * RESULTS + j)
            _scatter(builder, wide, value, offset(builder, at, here), where, mask)


class Winograd(Record):
    """A convolution of one shape: the weights' panels of outputs, and where values of tiles and their sums lie.

    Attributes:
        panel_chunk: panels that are multiplied together; `chunks`, tasks of one block of tiles.
        read_offsets, read_masks, write_offsets, write_masks: where tiles lie in the image and in the result.
        value_bytes, sum_bytes: between two places of a tile.
        worker_bytes: the memory of a worker.
    """

    leaf: Address
    channels: Count
    outputs: Count
    panels: Count
    panel_chunk: Count
    chunks: Count
    x_channel: Bytes
    x_row: Bytes
    x_column: Bytes
    out_channel: Bytes
    out_row: Bytes
    out_column: Bytes
    read_offsets: Address
    read_masks: Address
    write_offsets: Address
    write_masks: Address
    value_bytes: Bytes
    sum_bytes: Bytes
    worker_bytes: Bytes
    relu: int


@subroutine
def _multiply_places(leaf, plan, values, sums, weights, first, last):
    """For each place the sums of panels first to last of the outputs."""
    tag = leaf.kernel
    channels, panels = plan.channels, plan.panels
    panel_bytes, row_bytes = channels * constant(tag, "a_bytes"), 4 * constant(tag, "nr")
    block_bytes = constant(tag, "mr") * row_bytes
    for place in range(SIDE * SIDE):
        b = values + place * plan.value_bytes
        to = sums + place * plan.sum_bytes
        for panel in range(first, last):
            a = weights + (place * panels + panel) * panel_bytes
            ahead = a + panel_bytes * (1 if panel + 1 < last else panels - last + first + 1)
            multiply_panels(tag, channels, a, b, 0, False, to + (panel - first) * block_bytes, row_bytes, ahead, b)


@subroutine
def _read_block(leaf, plan, x, block, values):
    """The values of all channels of a block of tiles."""
    tiles = constant(leaf.kernel, "nr")
    for half in range(tiles // 16):
        group = block * (tiles // 16) + half
        offsets = plan.read_offsets + 64 * group
        masks = plan.read_masks + 2 * SIDE * SIDE * group
        for channel in range(plan.channels):
            _read_tiles(
                leaf, x + channel * plan.x_channel, plan.x_row, plan.x_column, offsets, masks,
                values + 4 * tiles * channel + 64 * half, plan.value_bytes,
            )  # fmt: skip


@subroutine
def _write_block(leaf, job, sums, first, last):
    """The results of outputs first to last of a block of tiles."""
    plan, tiles = record_at(Winograd, job.plan), constant(leaf.kernel, "nr")
    for output in range(first, last):
        for half in range(tiles // 16):
            group = job.block * (tiles // 16) + half
            _write_tiles(
                leaf, sums + 4 * tiles * (output - first) + 64 * half, plan.sum_bytes,
                job.bias + 4 * output, plan.relu, job.out + output * plan.out_channel, plan.out_row, plan.out_column,
                plan.write_offsets + 64 * group, plan.write_masks + 2 * RESULTS * RESULTS * group,
            )  # fmt: skip


@subroutine
def _tiles(leaf, job):
    """A block of tiles, and some panels of outputs."""
    plan, mr = record_at(Winograd, job.plan), constant(leaf.kernel, "mr")
    sums = job.memory + SIDE * SIDE * plan.value_bytes
    _read_block(leaf, plan, job.x, job.block, job.memory)
    for first in range(job.first, job.last, plan.panel_chunk):
        last = min(first + plan.panel_chunk, job.last)
        _multiply_places(leaf, plan, job.memory, sums, job.weights, first, last)
        last_output = min(last * mr, plan.outputs)
        _write_block(leaf, job, sums, first * mr, last_output)


_Arguments = namedtuple("_Arguments", "plan x out weights bias memory block first last")


Tiles = leaf_class("Tiles", "kernel", _tiles, _Arguments)
"""Leaf: results of a block of tiles. Field: a microkernel of `block.vectors`."""


@task("plan x out weights bias memory")
def _task(task, worker, job):
    plan = job.plan
    panels, chunks = plan.panels, plan.chunks
    each = (panels + chunks - 1) // chunks
    first = task % chunks * each
    call_at(
        plan.leaf,
        _Arguments(
            plan, job.x, job.out, job.weights, job.bias, job.memory + worker * plan.worker_bytes,
            task // chunks, first, min(first + each, panels),
        ),
    )  # fmt: skip


@njit
def run(pool, threads, tasks, plan: Winograd, x, out, weights, bias, memory):
    """Convolve. `plan` is a `Winograd`; all others are addresses but `threads` and `tasks`."""
    launch(pool, threads, tasks, _task(plan, x, out, weights, bias, memory))
