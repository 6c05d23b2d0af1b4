"""The planes of convolutions on vector units: each channel is laid out flat with its padding (`geometry`), rounded or
in parts on the way, so that neighbouring positions of a tap are values in a row (see `blocks`).

A plane is read row by row: of a row of an image, the positions of a plane are a row of values a constant distance
apart, between zeros. Where channels are neighbours in memory squares of 16 positions and 16 channels are transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import emit as e
from ..block.conversions import convert_lanes
from ..block.packing import factors_in_two, interleaved_parts, joined_limits, parts_of, updated_limits, widened_range
from ..block.tags import constant, instance, tag_class
from ..runtime import cpu
from ..runtime.emitter import Type, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from ..runtime.raw_memory import behind, record_at
from .descriptor import Plan, Plane, read_field, table_of
from .gather_scatter import pointer, widen
from .geometry import GROUP, Geometry
from .memory import clear
from .pack_tiles import LineArguments, no_range_of_halves, range_of_halves


def plane_rows(where: Geometry, strides: tuple[int, ...]) -> np.ndarray:
    """For each plane the fields "plane" of its reading, for an array with these strides in bytes (images, channels,
    three dimensions)."""
    paces = where.task.stride if where.result_step == (1, 1, 1) else (1, 1, 1)
    steps = [pace * stride for pace, stride in zip(paces, strides[2:], strict=True)]
    _, rows, columns = where.pitches
    found = []
    for source in where.sources:
        values: dict[str, int] = {"origin": 0, "rows": rows, "columns": columns, "image": where.image}
        values |= {"images": where.task.images, "image_stride": strides[0]}
        for axis, index, step, pace, stride in zip("dhw", source, steps, paces, strides[2:], strict=True):
            there = np.flatnonzero(index >= 0)
            first, last = (int(there[0]), int(there[-1]) + 1) if there.size else (0, 0)
            values |= {f"first_{axis}": first, f"last_{axis}": last, f"step_{axis}": step}
            values["origin"] += stride * (int(index[first]) - pace * first) if there.size else 0
        found.append(values)
    return table_of(Plane, found)


_InRows = tag_class("_InRows", __name__, values=1, squares=False)
"""How the values of a row of positions lie in memory: side by side, `values` apart (0: by any step); or `squares`,
where channels are neighbours."""

_EveryOther = tag_class("_EveryOther", __name__, values=2, squares=False)
_Anywhere = tag_class("_Anywhere", __name__, values=0, squares=False)
_Squares = tag_class("_Squares", __name__, values=0, squares=True)


def pace_of(step: int, item: int, squares: bool) -> type:
    """The class of tags for values so many bytes apart, of one channel or of squares of channels."""
    if squares:
        return _Squares
    return _InRows if step == item else _EveryOther if step == 2 * item else _Anywhere


def _within(builder: ir.IRBuilder, first: ir.Value, last: ir.Value, lanes: int, begin: int = 0) -> ir.Value:
    """Which of the lanes from `begin` on have numbers from `first` to before `last`; both are int64 of any size."""
    numbers = e.lane_numbers(lanes, begin)
    bounds = []
    for bound in (first, last):
        low = builder.select(builder.icmp_signed(">", bound, e.I64(-1)), bound, e.I64(0))
        low = builder.select(builder.icmp_signed("<", low, e.I64(64)), low, e.I64(64))
        bounds.append(e.broadcast(builder, builder.trunc(low, e.I32), lanes))
    return builder.and_(builder.icmp_signed(">=", numbers, bounds[0]), builder.icmp_signed("<", numbers, bounds[1]))


class _Layout:
    """Emits the laying out of positions of a plane: of 16 of a channel, or of a square of 16 channels.

    Arguments: classes of the element, the conversion and the pace; addresses of the plan and of the plane.
    """

    together = 1
    """Channels whose values lie in a word."""

    def __init__(self, builder: ir.IRBuilder, tags: list[Any], plan: ir.Value, plane: ir.Value) -> None:
        self.builder, (self.element, self.how, self.pace) = builder, tags
        self.step, self.part_bytes = (
            read_field(builder, Plane, plane, "step_w"),
            read_field(builder, Plan, plan, "part_bytes"),
        )
        arrays = read_field(builder, Plan, plan, "planes"), read_field(builder, Plan, plan, "array_bytes")
        self.apart, self.channel = builder.mul(*arrays), read_field(builder, Plan, plan, "channels")
        self.size = 8 if self.element.working is e.F64 else 4

    def within_limits(self, at: ir.Value, layout: Callable[[list[ir.Value]], list[ir.Value]]) -> None:
        """Do what `layout` emits, which finds magnitudes of values in parts, to widen the limits at an address."""
        if self.how.vector_parts == 1 and not self.how.paired:
            layout([])
        else:
            updated_limits(self.builder, at, layout)

    def _read(self, at: ir.Value, mask: ir.Value, stride: ir.Value | None = None) -> ir.Value:
        kind = e.vector(self.element.stored, mask.type.count)
        return e.masked_load(self.builder, kind, at, self.element.size, mask, stride)

    def _row(self, at: ir.Value, first: ir.Value, last: ir.Value) -> ir.Value:
        """The values of 16 positions from `at` on; zero before lane `first` and from `last` on."""
        builder = self.builder
        if self.pace.values != 2:
            return self._read(at, _within(builder, first, last, GROUP), None if self.pace.values else self.step)
        first, last = builder.shl(first, e.I64(1)), builder.sub(builder.shl(last, e.I64(1)), e.I64(1))
        halves = [
            self._read(e.offset(builder, at, begin * self.element.size), _within(builder, first, last, GROUP, begin))
            for begin in (0, GROUP)
        ]
        return builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, GROUP), list(range(0, 32, 2))))

    def _convert(self, value: ir.Value, limits: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """The parts of values, and the limits."""
        if self.how.vector_parts == 1:
            return [convert_lanes(self.builder, value, self.how)], []
        return factors_in_two(self.builder, "a", value), self._widen(value, limits)

    def _widen(self, value: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        """The limits, which have 16 lanes, with 16 or 8 values taken in."""
        if value.type.count < GROUP:
            twice = ir.Constant(e.vector(e.I32, GROUP), [*range(value.type.count)] * 2)
            value = self.builder.shuffle_vector(value, value, twice)
        return widened_range(self.builder, [value], limits)

    def _put(self, parts: list[ir.Value], count: ir.Value, target: ir.Value) -> None:
        """Store the first `count` of 16 positions, the parts in one array each."""
        builder, mask = self.builder, _within(self.builder, e.I64(0), count, GROUP)
        for part, value in enumerate(parts):
            to = e.offset(builder, target, builder.mul(self.part_bytes, e.I64(part)))
            e.masked_store(builder, value, to, self.size, mask)

    def row(
        self, at: ir.Value, ends: tuple[ir.Value, ir.Value], count: ir.Value, channels: ir.Value, target: ir.Value,
        limits: list[ir.Value],
    ) -> list[ir.Value]:  # fmt: skip
        """Of the channels of a word. Those of the next one are asked for: rows are too short for the CPU to do so by
        itself. Returns the limits, as `square` does."""
        lines = max(1, self.pace.values * self.element.size // 4)
        e.prefetch(self.builder, e.offset(self.builder, at, self.channel), lines)
        parts, limits = self._row_of_words(at, ends, channels, limits)
        self._put(parts, count, target)
        return limits

    def _row_of_words(
        self, at: ir.Value, ends: tuple[ir.Value, ir.Value], channels: ir.Value, limits: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        return self._convert(widen(self.builder, self._row(at, *ends), self.element), limits)

    def square(
        self, at: ir.Value, ends: tuple[ir.Value, ir.Value], count: ir.Value, channels: ir.Value, target: ir.Value,
        limits: list[ir.Value],
    ) -> list[ir.Value]:  # fmt: skip
        """Of `channels` channels, which are neighbours in memory; at most those of 16 words."""
        builder = self.builder
        lanes = 16 if cpu.refusal("avx512") is None and self.size <= 4 else 8
        both = ir.Constant(e.vector(e.I32, GROUP), list(range(GROUP)))
        for word in range(0, GROUP, lanes):
            squares: list[list[list[ir.Value]]] = []
            for place in range(0, GROUP, lanes):
                found = []
                for lane in range(place, place + lanes):
                    after = builder.icmp_signed("<=", ends[0], e.I64(lane))
                    there = builder.and_(after, builder.icmp_signed("<", e.I64(lane), ends[1]))
                    here = e.offset(builder, at, builder.mul(self.step, e.I64(lane)))
                    parts, limits = self._words(here, there, channels, self.together * word, lanes, limits)
                    found.append(parts)
                squares.append([e.transpose(builder, list(part)) for part in zip(*found, strict=True)])
            for index in range(lanes):
                pieces = [[part[index] for part in square] for square in squares]
                joined = [
                    parts[0] if lanes == GROUP else builder.shuffle_vector(*parts, both)
                    for parts in zip(*pieces, strict=True)
                ]
                exists = builder.icmp_signed(">", channels, e.I64(self.together * (word + index)))
                with builder.if_then(exists, likely=True):
                    self._put(joined, count, e.offset(builder, target, builder.mul(self.apart, e.I64(word + index))))
        return limits

    def _words(
        self, at: ir.Value, there: ir.Value, channels: ir.Value, first: int, lanes: int, limits: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The parts of channels from `first` on of a position, zero where it is not there."""
        value = self._channels(at, there, channels, first, lanes)
        return self._convert(widen(self.builder, value, self.element), limits)

    def _channels(self, at: ir.Value, there: ir.Value, channels: ir.Value, first: int, lanes: int) -> ir.Value:
        inside = _within(self.builder, e.I64(0), channels, lanes, first)
        mask = self.builder.select(there, inside, e.zero(inside.type))
        return self._read(e.offset(self.builder, at, first * self.element.size), mask)


class _HalvesLayout(_Layout):
    """Of positions as bf16 or its parts, where two neighbours are a word. Magnitudes of all values are found."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.size = 2

    def _convert(self, value: ir.Value, limits: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        limits = self._widen(value, limits)
        exact = self.element.stored is e.I16 and self.how.vector_parts == 1
        return [value] if exact else super()._convert(value, limits)[0], limits

    def _put(self, parts: list[ir.Value], count: ir.Value, target: ir.Value) -> None:
        words = _words_of(self.builder, parts)
        upper = [self.builder.lshr(word, e.splat(e.I32, 16)) for word in words]
        super()._put([self.builder.trunc(word, e.vector(e.I16, GROUP)) for word in upper], count, target)


class _PairedLayout(_Layout):
    """Of channels in twos, side by side in words, as bf16 or its parts. Magnitudes of all values are found."""

    together = 2

    def within_limits(self, at: ir.Value, layout: Callable[[list[ir.Value]], list[ir.Value]]) -> None:
        if self.element.stored is e.I16:
            found = layout(no_range_of_halves())
            updated_limits(self.builder, at, lambda limits: joined_limits(self.builder, found, limits))
        else:
            updated_limits(self.builder, at, layout)

    def _row_of_words(
        self, at: ir.Value, ends: tuple[ir.Value, ir.Value], channels: ir.Value, limits: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        builder, (first, last) = self.builder, ends
        second = e.offset(builder, at, builder.ashr(self.channel, e.I64(1)))
        exists = builder.icmp_signed(">", channels, e.I64(1))
        values = [self._row(at, first, last), self._row(second, first, builder.select(exists, last, e.I64(0)))]
        if self.element.stored is not e.I16:
            return _words_of(builder, interleaved_parts(builder, self.how, values)), widened_range(
                builder, values, limits
            )
        low, high = (builder.zext(value, e.vector(e.I32)) for value in values)
        words = builder.or_(low, builder.shl(high, e.splat(e.I32, 16)))
        return [words], range_of_halves(builder, [builder.bitcast(words, e.vector(e.I16, 32))], limits)

    def _words(
        self, at: ir.Value, there: ir.Value, channels: ir.Value, first: int, lanes: int, limits: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        builder = self.builder
        if self.element.stored is e.I16:
            value = self._channels(at, there, channels, first, 2 * lanes)
            return [builder.bitcast(value, e.vector(e.I32))], range_of_halves(builder, [value], limits)
        values = [self._channels(at, there, channels, begin, lanes) for begin in (first, first + lanes)]
        return _words_of(builder, parts_of(builder, self.how, values)), widened_range(builder, values, limits)


def _layout_class(how: Any) -> type[_Layout]:
    if not how.paired:
        return _Layout
    return _HalvesLayout if how.in_place else _PairedLayout


def _words_of(builder: ir.IRBuilder, parts: list[ir.Value]) -> list[ir.Value]:
    return [builder.bitcast(part, e.vector(e.I32)) for part in parts]


@emitter
def _fill(
    builder, element: Type, conversion: Type, pace: Type, plan, plane, at, place, count, channels, target, limits
) -> None:
    """Lay out `count` positions of a row from a place on, whose value lies at `at`, of some channels: zeros outside
    of the values. More channels than those of a word are neighbours in memory."""
    tags = [instance(each) for each in (element, conversion, pace)]
    at, target = pointer(builder, at), pointer(builder, target)
    layout = _layout_class(tags[1])(builder, tags, plan, plane)
    ends = [builder.sub(read_field(builder, Plane, plane, name), place) for name in ("first_w", "last_w")]

    def sixteen(index: ir.Value, limits: list) -> list:
        begin = builder.shl(index, e.I64(4))
        here = e.offset(builder, at, builder.mul(begin, layout.step))
        first, last, left = (builder.sub(end, begin) for end in (*ends, count))
        to = e.offset(builder, target, builder.mul(begin, e.I64(layout.size)))
        if not layout.pace.squares:
            return layout.row(here, (first, last), left, channels, to, limits)
        width = GROUP * layout.together

        def square(index: ir.Value, limits: list) -> list:
            channel = builder.mul(index, e.I64(width))
            of_channels = e.offset(builder, here, builder.mul(channel, e.I64(layout.element.size)))
            below = e.offset(builder, to, builder.mul(builder.shl(index, e.I64(4)), layout.apart))
            return layout.square(of_channels, (first, last), left, builder.sub(channels, channel), below, limits)

        squares = builder.sdiv(builder.add(channels, e.I64(width - 1)), e.I64(width))
        return e.loop(builder, squares, limits, square)

    turns = builder.ashr(builder.add(count, e.I64(15)), e.I64(4))
    layout.within_limits(pointer(builder, limits), lambda found: e.loop(builder, turns, found, sixteen))


@subroutine
def _pack_planes(leaf, job):
    """Positions of some arrays, an array being a plane of a channel, in as many parts as the conversion makes."""
    plan, parts, squares = (
        record_at(Plan, job.plan),
        constant(leaf.conversion, "vector_parts"),
        constant(leaf.pace, "squares"),
    )
    together = constant(leaf.conversion, "arrays_each")
    planes, array_bytes = plan.planes, plan.array_bytes
    part_bytes, size = plan.part_bytes, plan.group_bytes // 16
    words = job.last_array // planes if squares else 1
    for array in range(job.first_array, planes if squares else job.last_array):
        channels = min(together * words, plan.count - array // planes * together)
        plane = behind(record_at(Plane, plan.plane_table), array % planes)
        source = job.at + plane.origin + array // planes * plan.channels
        rows, columns, image = (plane.rows, plane.columns, plane.image)
        position, end, step = 16 * job.first, 16 * job.last, plane.step_w
        target = job.target + array * array_bytes + size * (position - 16 * job.region)
        d = h = w = number = 0
        if position > 0:
            number, rest = position // image, position % image
            d, h, w = rest // (rows * columns), rest // columns % rows, rest % columns
        while position < end:
            if position < 0 or number >= plane.images:
                count, inside = end - position if position >= 0 else min(-position, end - position), False
            else:
                count = min(columns - w, image - (d * rows + h) * columns - w, end - position)
                inside = plane.first_d <= d < plane.last_d
                inside = inside and plane.first_h <= h < plane.last_h
            if inside:
                at = source + number * plane.image_stride + d * plane.step_d
                at += h * plane.step_h + w * step
                _fill(leaf.element, leaf.conversion, leaf.pace, plan, plane, at, w, count, channels, target, job.limits)
            else:
                for word in range(words):
                    for part in range(parts):
                        clear(target + word * planes * array_bytes + part * part_bytes, count * size)
            target += count * size
            position += count
            w += count if position > 0 else 0
            if (d * rows + h) * columns + w >= image:
                number, d, h, w = number + 1, 0, 0, 0
            elif w >= columns:
                h, w = h + 1, 0
                if h >= rows:
                    d, h = d + 1, 0


PackPlanes = leaf_class("PackPlanes", "element conversion pace", _pack_planes, LineArguments)
"""Leaf: lay out groups of positions. Fields: tags of an element and of a conversion, and one that `pace_of` has."""
