"""What the lanes of depthwise convolutions are, and how they are read and written.

With channels last in memory the lanes of a vector are neighbouring channels (`Channels`). Elsewhere they are columns of
a row (`Columns`): of one channel, or, where images are narrow, of a few, each in a segment of the vector. A stride of
the columns is in the reading, which takes every other value, or, for a gradient with respect to the input, in the
writing, which interleaves the results of each phase. Masks leave out columns that do not exist: nothing is padded.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

from ..block import emit as e
from ..block.conversions import convert_lanes
from ..block.microkernels import convert
from ..block.tags import field_class
from ..runtime import cpu
from ..runtime.jit import ir
from .descriptor import DepthwisePlan, read_field
from .gather_scatter import widen

VECTOR_BYTES = 64 if cpu.refusal("avx512") is None else 32

_NEVER = 1 << 30  # the number of a lane that is below no limit

_FIELDS = (
    "weighs", "spreads", "taps", "stride", "dilation", "phase", "outputs", "across", "segments", "nested", "beside",
)  # fmt: skip


@functools.cache
def window_tag(*values: int) -> Any:
    """A tag of how results and the values that they meet lie to one another, under a name by which it is found when
    compiled code is read again. Without `taps` it is the tag of any window: taps, stride, dilation and phase are then
    read from the plan.

    Arguments:
        weighs, spreads: whether it is a gradient with respect to the weight, or to the input.
        taps, stride, dilation: along the dimension of blocks.
        phase: for a gradient with respect to the input the padding modulo the stride.
        outputs: of a block.
        across: the stride of the columns, where lanes are columns; 0 where they are channels.
        segments: where lanes are columns, the channels of a vector; else 1 where a vector has lanes without a channel.
        nested: whether results meet any number of planes but one, or those of several outputs.
        beside: vectors of columns of a block where all of them exist; 1 for no such blocks.
    """
    name = "Window" + "_".join(map(str, values))
    tag: Any = namedtuple(name, (), module=__name__)
    globals()[name] = tag
    for field, value in zip(_FIELDS, values, strict=True):
        setattr(tag, field, value)
    tag.any = int(tag.taps == 0)
    sources: dict[tuple[int, int], int] = {}
    for output in range(tag.outputs):
        for tap in range(tag.taps):
            if not tag.spreads:
                sources[output, tap] = output * tag.stride + tap * tag.dilation
            elif (output + tag.phase - tap * tag.dilation) % tag.stride == 0:
                sources[output, tap] = (output + tag.phase - tap * tag.dilation) // tag.stride
    tag.low, tag.met = min(sources.values(), default=0), {}
    for pair, source in sorted(sources.items(), key=lambda item: (item[1], item[0])):
        tag.met.setdefault(source - tag.low, []).append(pair)
    tag.reach = max(tag.met, default=0) + 1
    # A single sum would wait for each of its products.
    tag.together = 4 if (tag.across or tag.any) and tag.outputs == 1 and not tag.weighs else 1
    return tag


class Lanes:
    """What all have in common: a leaf's element and conversion, and vectors of the working type."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, plan: ir.Value | None) -> None:
        self.builder = builder
        names = () if plan is None else DepthwisePlan.places()
        self.fields = {name: read_field(builder, DepthwisePlan, plan, name) for name in names}
        self.element, self.conversion = field_class(leaf, "element"), field_class(leaf, "conversion")
        self.size = 8 if self.element.working is e.F64 else 4
        self.count = VECTOR_BYTES // self.size
        self.kind = e.vector(self.element.working, self.count)

    def field(self, name: str) -> ir.Value:
        """A field of the plan, which is read before all loops."""
        return self.fields[name]

    def add(self, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        """total + a * b, with one rounding."""
        return e.call(self.builder, f"llvm.fma.{e.suffix(self.element.working, self.count)}", self.kind, a, b, total)

    def working(self, at: ir.Value) -> ir.Value:
        """A vector of the working type."""
        return e.load(self.builder, self.kind, at, self.size)

    def below(self, limit: ir.Value, numbers: ir.Constant | None = None) -> ir.Value:
        """Lanes whose numbers are less than an int64."""
        builder, numbers = self.builder, numbers or e.lane_numbers(self.count)
        limit = builder.select(builder.icmp_signed("<", limit, e.I64(_NEVER)), limit, e.I64(_NEVER))
        limit = builder.select(builder.icmp_signed(">", limit, e.I64(-_NEVER)), limit, e.I64(-_NEVER))
        return builder.icmp_signed("<", numbers, e.broadcast(builder, builder.trunc(limit, e.I32), self.count))

    def store_some(self, value: ir.Value, at: ir.Value, mask: ir.Value) -> None:
        """Store the lanes of a mask."""
        e.masked_store(self.builder, value, at, self.size if value.type == self.kind else self.element.size, mask)

    def store_elements(self, value: ir.Value, at: ir.Value, mask: ir.Value | None) -> None:
        """Store values of the working type as elements, where the mask says so."""
        value = convert(self.builder, value, self.element)
        if mask is None:
            e.store(self.builder, value, at, self.element.size)
        else:
            self.store_some(value, at, mask)

    def convert(self, found: ir.Value) -> ir.Value:
        """Elements as what is multiplied."""
        return convert_lanes(self.builder, widen(self.builder, found, self.element), self.conversion)


class Channels(Lanes):
    """Lanes are neighbouring channels. With a segment, only as many as there are channels."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, plan: ir.Value, row: ir.Value) -> None:
        super().__init__(builder, leaf, plan)
        self.mask = self.below(self.field("channels")) if field_class(leaf, "window").segments else None
        self.phases = 1

    def begin_line(self, source: ir.Value) -> None:
        """Prepare to read the values that a tap meets."""

    def read(self, at: ir.Value) -> ir.Value:
        """What a tap meets."""
        kind = e.vector(self.element.stored, self.count)
        if self.mask is None:
            return self.convert(e.load(self.builder, kind, at, self.element.size))
        return self.convert(e.masked_load(self.builder, kind, at, self.element.size, self.mask))

    read_result = read

    def weight(self, at: ir.Value) -> ir.Value:
        return self.working(at)

    bias = weight

    def write(self, values: list[ir.Value], at: ir.Value) -> None:
        """Write the results of a position."""
        self.store_elements(values[0], at, self.mask)


class Columns(Lanes):
    """Lanes are columns of a row, from `row` vectors on, of as many channels as there are segments."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, plan: ir.Value, row: ir.Value) -> None:
        super().__init__(builder, leaf, plan)
        window = field_class(leaf, "window")
        self.segments, self.weighs = window.segments, window.weighs
        self.step, self.phases = (1, window.across) if window.spreads else (window.across, 1)
        self.width = self.count // self.segments
        before = builder.mul(row, e.I64(self.count * self.phases))
        self.results_left = builder.sub(self.field("result_columns"), before)
        self.reading: list[list[tuple[int, ir.Value | None]]] = []
        self.whole = False

    def _columns(self, step: int) -> list[list[tuple[int, ir.Constant]]]:
        """The segments of each of `step` neighbouring vectors, with the column of every lane. With a step above two
        the vectors are read as one."""
        kind, found = e.vector(e.I32, self.count), []
        if step > 2:
            return [[(0, ir.Constant(kind, list(range(0, step * self.count, step))))]]
        for start in range(0, step * self.count, self.count):
            lanes = [divmod(lane, step * self.width) for lane in range(start, start + self.count)]
            owns = {one: [column if own == one else _NEVER for own, column in lanes] for one, _ in lanes}
            found.append([(one, ir.Constant(kind, columns)) for one, columns in owns.items()])
        return found

    def _masks(self, step: int, limit: ir.Value, first: ir.Value | None = None) -> list[list[tuple[int, ir.Value]]]:
        """The segments of each of `step` neighbouring vectors, with masks: lanes from column `first` on, below a limit.
        No mask is an `and` with a constant: where LLVM splits a masked load in two, it reads past such a mask."""
        builder = self.builder

        def mask(own: ir.Constant) -> ir.Value:
            below = self.below(limit, own)
            return below if first is None else builder.and_(builder.not_(self.below(first, own)), below)

        return [[(segment, mask(own)) for segment, own in columns] for columns in self._columns(step)]

    def _pieces(self, at: ir.Value, step: int, channel: str, masks: list) -> list[list[tuple]]:
        """For each of `step` vectors of neighbours: where its segments lie, and the masks of these."""
        builder, found = self.builder, []
        for raw, own in enumerate(masks):
            pieces = []
            for segment, mask in own:
                here = e.offset(builder, at, (raw * self.count - segment * step * self.width) * self.element.size)
                here = e.offset(builder, here, builder.mul(self.field(channel), e.I64(segment)))
                pieces.append((here, mask))
            found.append(pieces)
        return found

    def _load(self, pieces: list[tuple]) -> ir.Value:
        """The vector that lies in these pieces."""
        kind, builder = e.vector(self.element.stored, self.count), self.builder
        found, name = e.zero(kind), f"llvm.masked.load.{e.suffix(self.element.stored, self.count)}.p0"
        for here, mask in pieces:
            if mask is None:
                return e.load(builder, kind, here, self.element.size)
            at = builder.bitcast(here, kind.as_pointer())
            found = e.call(builder, name, kind, at, e.I32(self.element.size), mask, found)
        return found

    def begin_line(self, source: ir.Value) -> None:
        """Find which lanes meet a column that exists, where the first one meets column `source`."""
        if self.whole:
            self.reading = [[(0, None)]] * self.step
            return
        builder, limit = self.builder, self.builder.sub(self.field("columns"), source)
        if self.weighs:  # what no result meets is zero on both sides
            most = builder.add(builder.mul(builder.sub(self.results_left, e.I64(1)), e.I64(self.step)), e.I64(1))
            limit = builder.select(builder.icmp_signed("<", most, limit), most, limit)
        self.reading = self._masks(self.step, limit, builder.sub(e.I64(0), source))

    def read(self, at: ir.Value) -> ir.Value:
        """What a tap meets."""
        if self.step > 2:
            kind, stride = e.vector(self.element.stored, self.count), e.I64(self.step * self.element.size)
            return self.convert(e.masked_load(self.builder, kind, at, self.element.size, self.reading[0][0][1], stride))
        raws = [self._load(pieces) for pieces in self._pieces(at, self.step, "read_channel", self.reading)]
        if self.step == 1:
            return self.convert(raws[0])
        raws = [widen(self.builder, raw, self.element) for raw in raws]
        order = ir.Constant(e.vector(e.I32, self.count), list(range(0, 2 * self.count, 2)))
        return convert_lanes(self.builder, self.builder.shuffle_vector(*raws, order), self.conversion)

    def read_result(self, at: ir.Value) -> ir.Value:
        """What lies where results do, zero behind the last one."""
        masks = [[(0, None)]] if self.whole else self._masks(1, self.results_left)
        return self.convert(self._load(self._pieces(at, 1, "write_channel", masks)[0]))

    def _of_channels(self, at: ir.Value, step: ir.Value) -> ir.Value:
        """A number of each channel in all its lanes."""
        builder, found = self.builder, None
        for segment in range(self.segments):
            own = ir.Constant(e.vector(e.I1, self.count), [lane // self.width == segment for lane in range(self.count)])
            here = e.offset(builder, at, builder.mul(step, e.I64(segment)))
            value = e.broadcast(builder, e.load(builder, self.element.working, here, self.size), self.count)
            found = value if found is None else builder.select(own, value, found)
        return found

    def weight(self, at: ir.Value) -> ir.Value:
        return self.working(at) if self.weighs else self._of_channels(at, self.field("weight_channel"))

    def bias(self, at: ir.Value) -> ir.Value:
        return self._of_channels(at, e.I64(self.size))

    def write(self, values: list[ir.Value], at: ir.Value) -> None:
        """Write a row of results, given for each phase."""
        builder, phases = self.builder, self.phases
        if phases > 2:
            for phase, value in enumerate(values):
                numbers = [lane * phases + phase for lane in range(self.count)]
                mask = self.below(self.results_left, ir.Constant(e.vector(e.I32, self.count), numbers))
                offsets = ir.Constant(e.vector(e.I32, self.count), [each * self.element.size for each in numbers])
                places = e.pointers(builder, at, offsets, self.element.stored)
                name = f"llvm.masked.scatter.{e.suffix(self.element.stored, self.count)}.v{self.count}p0"
                value = convert(builder, value, self.element)
                e.call(builder, name, e.VOID, value, places, e.I32(self.element.size), mask)
            return
        if phases == 2:
            half, kind = self.count // 2, e.vector(e.I32, self.count)
            orders = [[lane + raw * half + of * self.count for lane in range(half) for of in (0, 1)] for raw in (0, 1)]
            values = [builder.shuffle_vector(*values, ir.Constant(kind, order)) for order in orders]
        pieces = self._pieces(at, phases, "write_channel", self._masks(phases, self.results_left))

        def store(masked: bool) -> list:
            for value, own in zip(values, pieces, strict=True):
                for here, mask in own:
                    self.store_elements(value, here, mask if masked else None)
            return []

        if self.whole or self.segments > 1 or VECTOR_BYTES == 64:
            store(masked=not self.whole)
        else:  # AVX2 stores with a mask in twelve times the time
            least = builder.icmp_signed(">=", self.results_left, e.I64(self.count * phases))
            e.either(builder, least, lambda: store(masked=False), lambda: store(masked=True))


def lanes_of(builder: ir.IRBuilder, leaf: Any, plan: ir.Value, row: ir.Value) -> Channels | Columns:
    return (Columns if field_class(leaf, "window").across else Channels)(builder, leaf, plan, row)
