"""Convolutions of images whose channels are neighbours in memory, which are read where they lie.

A strip of positions multiplies the channels that its taps meet as the blocks of `gemm.unpacked_strips` do: values, or
words of two bf16, are broadcast and multiplied with vectors of packed weights. A table has, for each tap and position,
the distance to the first channel that they meet, or `NOWHERE` outside of the image, where zeros are read. (M. Dukhan,
"The Indirect Convolution Algorithm", arXiv 1907.02129.) Sums never leave the registers before they are results.

The magnitudes of the images (`block.ranges`) are found by the leaf that lays images out elsewhere.
"""

from __future__ import annotations

import functools
import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..block import emit as e
from ..block.loops import leaf_address
from ..block.microkernels import Rows, convert
from ..block.packing import joined_limits, to_bf16, updated_limits
from ..block.sources import ELEMENTS
from ..block.tags import constant, field_class
from ..block.tuning import tuning
from ..block.unpacked_strips import LEAST_ROWS, Strip, multiply_strips
from ..gemm.compiled import pairs_multiply, vector_isa
from ..registry import Refused
from ..runtime.emitter import Pointer, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from ..runtime.raw_memory import record_at
from ..runtime.workspace import address_of
from .descriptor import PassPlan, Plan
from .geometry import NOWHERE, Geometry, Pass
from .input_layout import is_channels_last, is_one_row
from .pack_tiles import LineArguments, no_range_of_halves, range_of_halves
from .params import Setting
from .tiles import BlockArguments

COLUMNS = 64
"""Of the widest strips."""

_HEIGHTS = {4: 6, 3: 8, 2: 8, 1: 12}
"""Rows of a strip by the vectors of its columns: as many as registers have room for, and addresses of rows."""

WORDS = 8
"""Values, or words of two, of a tap that are multiplied before those of the next tap. (Half of
`weights.PAIRED_DEPTH`.)"""

_TABLE_BYTES = 1 << 18
"""Of the distances of some images, which are one period if these are few."""

_LEAST_POSITIONS = 256
"""Of float32 images, whose weights are packed more slowly for steps of few channels. (1 x 256 x 14 x 14 to 256, 3 x 3:
650 microseconds where planes are laid out, 720 in place; 8 images 3900 and 3750.)"""

_NEAR_BYTES, _NEAR_ROWS = 1 << 14, 48
"""Of what a block reads again for every 64 columns, and rows that it has at least."""

_LINE = 32
"""Values whose magnitudes are found at once."""

_StripArguments = namedtuple(
    "_StripArguments", "x table tap_bytes taps zeros words weights panel_bytes bias out offsets relu rows columns ahead"
)


class _Emitted:
    """Emits one strip."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, vectors: int, job: _StripArguments, first: ir.Value) -> None:
        self.builder, self.job, self.first = builder, job, first
        self.kernel, self.element = field_class(leaf, "kernel"), field_class(leaf, "element")
        self.strip = Strip(builder, self.kernel, vectors, _HEIGHTS)
        panel = builder.sdiv(first, e.I64(self.kernel.nr))
        self.weights = builder.add(job.weights, builder.mul(panel, job.panel_bytes))

    def sums(self, start: ir.Value) -> list[ir.Value]:
        """The sums of the rows from one on."""
        builder, job = self.builder, self.job
        table = builder.add(job.table, builder.shl(start, e.I64(2)))
        steps = builder.sdiv(job.words, e.I64(WORDS))
        rest = builder.sub(job.words, builder.mul(steps, e.I64(WORDS)))

        def step(index: ir.Value, sums: list[ir.Value], words: int | ir.Value = WORDS) -> list[ir.Value]:
            before = builder.mul(index, e.I64(WORDS))
            return e.loop(builder, job.taps, sums, lambda tap, sums: self._tap(table, before, tap, words, sums))

        sums = e.loop_of_any(builder, steps, self.strip.zeros(), step)
        some = builder.icmp_signed(">", rest, e.I64(0))
        return e.either(builder, some, lambda: step(steps, sums, rest), lambda: sums)

    def _tap(
        self, table: ir.Value, before: ir.Value, tap: ir.Value, words: int | ir.Value, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """The sums with the products of so many words of a tap, from the one `before` on."""
        builder, job, row_of_b = self.builder, self.job, e.I64(self.kernel.b_bytes)
        at, channel = builder.add(table, builder.mul(tap, job.tap_bytes)), builder.mul(before, e.I64(self.kernel.size))
        at, rows = builder.inttoptr(at, e.POINTER), []
        for place in range(self.strip.height):
            distance = e.load(builder, e.I32, e.offset(builder, at, 4 * place), 4)
            row = builder.add(job.x, builder.sext(distance, e.I64))
            row = builder.select(builder.icmp_signed("==", distance, e.I32(NOWHERE)), job.zeros, row)
            rows.append(builder.add(row, channel))
        of_b = builder.mul(tap, e.I64(words) if isinstance(words, int) else words)
        of_b = builder.mul(builder.add(builder.mul(before, job.taps), of_b), row_of_b)
        panels = self.strip.panels(builder.add(self.weights, of_b), job.panel_bytes)
        if isinstance(words, int):
            for row in rows:  # what the worker's next strip of images holds
                e.prefetch_to_l2(builder, builder.inttoptr(builder.add(row, job.ahead), e.POINTER), 1)
            return self.strip.add_places(rows, panels, row_of_b, words, sums)

        def single(word: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            steps = builder.mul(word, e.I64(self.kernel.size)), builder.mul(word, row_of_b)
            places = [
                [builder.add(each, step) for each in some] for some, step in zip((rows, panels), steps, strict=True)
            ]
            return self.strip.add_places(*places, row_of_b, 1, sums)

        return e.loop(builder, words, sums, single)

    def put(self, sums: list[ir.Value], start: ir.Value, skipped: ir.Value) -> None:
        """Store the sums of the rows from `start` on, but for some, plus their bias."""
        builder, job, lanes, width = self.builder, self.job, self.kernel.lanes, self.strip.width
        bias = builder.inttoptr(builder.add(job.bias, builder.shl(self.first, e.I64(2))), e.POINTER)
        added = [e.load(builder, self.strip.kind, e.offset(builder, bias, 4 * v * lanes), 4) for v in range(width)]
        relu = builder.icmp_signed("!=", job.relu, e.I64(0))
        floor = builder.select(relu, self.kernel.element(0.0), self.kernel.element(-math.inf))
        floor, values = e.broadcast(builder, floor, lanes), []
        for index, each in enumerate(sums):
            value = builder.fadd(each, added[index % width])
            values.append(builder.select(builder.fcmp_ordered(">", floor, value), floor, value))
        if self.element.size == self.kernel.size:
            self._write(values, start, skipped, lambda value: value, 1)
            return
        with builder.if_else(self._are_normal(values), likely=True) as (fast, slow):
            with fast:
                self._write(values, start, skipped, lambda *two: to_bf16(builder, *two), 2)
            with slow:
                self._write(values, start, skipped, self._both_rounded, 2)

    def _write(
        self, values: list[ir.Value], start: ir.Value, skipped: ir.Value, join: Callable[..., ir.Value], group: int
    ) -> None:
        """Store the rows that exist, so many vectors at a time, as they are joined."""
        builder, job, size, width = self.builder, self.job, self.element.size, self.strip.width
        lanes, step = group * self.kernel.lanes, group * self.kernel.lanes * size
        offsets = builder.inttoptr(builder.add(job.offsets, builder.shl(start, e.I64(2))), e.POINTER)
        out, left = builder.add(job.out, builder.mul(self.first, e.I64(size))), builder.sub(job.rows, start)
        last = (width - 1) // group
        mask = e.first_lanes(builder, builder.sub(job.columns, self.first), lanes, last * lanes)
        for row in range(self.strip.height):
            exists = builder.icmp_signed("<", e.I64(row), left)
            with builder.if_then(builder.and_(exists, builder.icmp_signed("<=", skipped, e.I64(row))), likely=True):
                distance = builder.sext(e.load(builder, e.I32, e.offset(builder, offsets, 4 * row), 4), e.I64)
                at = builder.inttoptr(builder.add(out, distance), e.POINTER)
                line = [*values[row * width : (row + 1) * width], values[(row + 1) * width - 1]]
                for place in range(last):
                    e.store(builder, join(*line[group * place :][:group]), e.offset(builder, at, place * step), size)
                tail = join(*line[group * last :][:group])
                Rows(builder, self.element, lanes).write(tail, e.offset(builder, at, last * step), mask)

    def _both_rounded(self, *two: ir.Value) -> ir.Value:
        halves = [convert(self.builder, value, self.element) for value in two]
        return self.builder.shuffle_vector(*halves, e.lane_numbers(2 * self.kernel.lanes))

    def _are_normal(self, values: list[ir.Value]) -> ir.Value:
        """Whether no values are subnormal, which the CPU would flush."""
        builder, least = self.builder, None
        for value in values:
            bits = builder.bitcast(value, e.vector(e.I32))
            here = builder.sub(builder.shl(bits, e.splat(e.I32, 1)), e.splat(e.I32, 1))
            least = here if least is None else e.call(builder, "llvm.umin.v16i32", here.type, least, here)
        small = builder.icmp_unsigned("<", least, e.splat(e.I32, 0xFFFFFF))
        return builder.icmp_unsigned("==", builder.bitcast(small, e.I16), e.I16(0))


@subroutine
def _convolve(leaf, job):
    """Blocks of positions, for panels of output channels."""
    plan, one = record_at(Plan, job.plan), record_at(PassPlan, job.one)
    nr, size = constant(leaf.kernel, "nr"), constant(leaf.element, "size")
    groups, rows, first = one.groups, one.starts, job.first_panel * nr
    taps, words = one.steps, plan.depth
    panel_bytes = taps * words * constant(leaf.kernel, "b_bytes")
    for block in range(job.first, job.last):
        period, at = block // groups, block % groups * rows
        multiply_strips(
            leaf,
            _StripArguments(
                job.a + period * one.period, one.table + 4 * at,
                one.runs, taps, plan.zeros, words,
                job.b + job.first_panel * panel_bytes, panel_bytes, job.bias + 4 * first,
                job.out + period * one.period_stride + first * size,
                one.offsets + 4 * at, plan.relu,
                min(rows, one.end - at),
                min(job.last_panel * nr, plan.columns) - first, plan.ahead,
            ),
        )  # fmt: skip


class ConvolveInPlace(NamedTuple):
    """Leaf: a part of the result. Fields: a microkernel whose packed weights are read, and the element type."""

    kernel: NamedTuple
    element: NamedTuple
    run = _convolve
    arguments = BlockArguments
    heights = _HEIGHTS

    @staticmethod
    def emit(builder: ir.IRBuilder, leaf: Any, vectors: int, job: _StripArguments, first, start, skipped) -> None:
        emitted = _Emitted(builder, leaf, vectors, job, first)
        emitted.put(emitted.sums(start), start, skipped)


@emitter
def _find_magnitudes(builder, at: Pointer, count, limits: Pointer) -> None:
    """Take so many bfloat16 from an address on into the limits."""

    def line(index: ir.Value, found: list[ir.Value], mask: ir.Value) -> list[ir.Value]:
        here = e.offset(builder, at, builder.mul(index, e.I64(2 * _LINE)))
        return range_of_halves(builder, [e.masked_load(builder, e.vector(e.I16, _LINE), here, 2, mask)], found)

    def values(before: list[ir.Value]) -> list[ir.Value]:
        whole, rest = builder.sdiv(count, e.I64(_LINE)), builder.trunc(builder.srem(count, e.I64(_LINE)), e.I32)
        every = ir.Constant(e.vector(ir.IntType(1), _LINE), [1] * _LINE)
        found = e.loop_of_any(builder, whole, no_range_of_halves(), lambda *each: line(*each, every))
        mask = builder.icmp_signed("<", e.lane_numbers(_LINE), e.broadcast(builder, rest, _LINE))
        return joined_limits(builder, line(whole, found, mask), before)

    updated_limits(builder, limits, values)


@subroutine
def _look(leaf, job):
    first, last = job.first * 32, min(job.last * 32, record_at(Plan, job.plan).count)
    if first < last:
        _find_magnitudes(job.at + 2 * first, last - first, job.limits)


FindMagnitudes = leaf_class("FindMagnitudes", "", _look, LineArguments)
"""Leaf: find the magnitudes of groups of 32 values of images that are not laid out."""


def takes(setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether images are read in place: exact values, or whole pairs, that lie in a row."""
    item, exact = dtype.itemsize, False
    if dtype == np.float32 and vector_isa() == "avx512":
        many = shape[0] * math.prod(shape[2:]) >= _LEAST_POSITIONS
        exact = many and setting.conversion("avx512", dtype)[0] == "ieee"
    elif item == 2 and pairs_multiply(dtype, setting.precision):
        exact = shape[1] % 2 == 0
    fitting = setting.groups == 1 and shape[1] >= WORDS and 0 not in shape and math.prod(shape[1:]) * item < 1 << 30
    return exact and fitting and is_channels_last(shape, strides, item) and is_one_row(shape, strides, item)


def _source_distances(
    setting: Setting, where: Geometry, one: Pass, images: int, strides: tuple[int, ...]
) -> np.ndarray:
    """The distances in bytes of what each tap (rows) meets at each position of some images."""
    task, gradient = where.task, setting.gradient
    found, read = np.arange(images).reshape(1, -1) * strides[0], task.output if gradient else task.size
    for axis in range(3):
        taps, places = np.ix_(range(task.kernel[axis]), range(one.counts[axis]))
        stride, padding, dilation = (each[axis] for each in task[3:])
        met = places * stride - padding + taps * dilation
        if gradient:
            met = (one.phase[axis] + places * stride + padding - taps * dilation) // stride
        met = np.where((met >= 0) & (met < read[axis]), met * strides[axis + 1], -(1 << 40))
        found = (found[:, None, :, None] + met[None, :, None, :]).reshape(len(met) * len(found), -1)
    return np.where(found < 0, NOWHERE, found)[[index for _, _, index in one.taps]]


def _result_distances(where: Geometry, one: Pass, images: int, strides: tuple[int, ...]) -> np.ndarray:
    """The distances in bytes of the results at each position of some images."""
    along = [np.arange(images) * strides[0]]
    for axis, step in enumerate(strides[1:]):
        along.append((one.phase[axis] + np.arange(one.counts[axis]) * where.result_step[axis]) * step)
    return functools.reduce(np.add.outer, along).reshape(1, -1)


def describe(
    setting: Setting, where: Geometry, passes: list[Pass], unit: Any, dtype: np.dtype, channels: int, columns: int,
    strides: tuple[int, ...], out_strides: tuple[int, ...], threads: int,
) -> tuple[dict[str, int], list[dict[str, int]], tuple[Any, ...]]:  # fmt: skip
    """The fields of the plan, and of each pass, of images and results with these strides (images, three dimensions),
    and what they point to. A pass has taps as its steps, `runs` bytes from tap to tap, `end` positions in a period, of
    so many bytes, and `starts` in a block.

    The weights of a task fill half of the L2 cache; images in strips are looked at where they are read.
    """
    kernel, a_row, images = unit.kernel, channels * dtype.itemsize, where.task.images
    weights = -(-len(passes[0].taps) * a_row * columns // (tuning(vector_isa()).cache_bytes // 2))
    pairs, values, rows, kept = -(-columns // COLUMNS), images * strides[0] // dtype.itemsize, [], list[Any]()
    for one in passes:
        most = _TABLE_BYTES // (4 * len(one.taps) * math.prod(one.counts))
        most = min(most, images, (1 << 30) // max(strides[0], out_strides[0]))
        together = max((n for n in range(1, most + 1) if images % n == 0), default=1)
        distances = (
            _source_distances(setting, where, one, together, strides),
            _result_distances(where, one, together, out_strides),
        )
        table, positions = np.concatenate(distances), distances[0].shape[1]
        if table.max() >= 1 << 31:
            raise Refused("an array reaches too far for offsets of 32 bits")
        table = np.concatenate([table, np.repeat(table[:, -1:], LEAST_ROWS, axis=1)], axis=1).astype(np.int32)
        block = -(-positions // -(-positions // max(_NEAR_ROWS, _NEAR_BYTES // a_row)) // 6) * 6
        groups = -(-positions // block)
        count = groups * images // together
        across = min(pairs, max(weights, -(-4 * threads // count)))
        rows.append({
            "steps": len(one.taps), "table": address_of(table), "runs": table.strides[0], "end": positions,
            "starts": block, "groups": groups, "period": together * strides[0], "blocks": count,
            "period_stride": together * out_strides[0], "offsets": address_of(table[-1]),
            "block_chunk": max(1, count * across // (8 * threads)),
            "panel_chunk": -(-pairs // across) * (COLUMNS // kernel.nr),
        })  # fmt: skip
        kept.append(table)
    lines, zeros = -(-values // _LINE), np.zeros(a_row, np.uint8)
    strips = -(-max(one["blocks"] for one in rows) // 2) if weights == 1 else 0
    strips = strips if strips >= 4 * threads else 0
    firsts = [np.arange(strips + 1) * one["blocks"] // max(strips, 1) for one in rows]
    region = -(-lines // max(strips, 1))
    bounds = [each for first in firsts for each in (first[:-1], first[1:])]
    strip_table = np.stack([np.arange(strips) * region, *bounds], axis=1).astype(np.int64)
    fields = {
        "pack": leaf_address(FindMagnitudes()), "count": values if unit.has_limits else 0,
        "blocks": 1, "planes": 1, "array_chunk": 1, "region_groups": region, "pack_chunk": -(-region // (4 * threads)),
        "zeros": address_of(zeros), "ahead": threads * region * _LINE * dtype.itemsize,
        "depth": channels // unit.together, "strip_table": address_of(strip_table), "strips": strips,
        "convolve": leaf_address(ConvolveInPlace(kernel, ELEMENTS[dtype.name])), "region_bytes": 0,
    }  # fmt: skip
    return fields, rows, (zeros, strip_table, *kept)
