"""Depthwise convolutions of arrays whose channels are neighbours in memory: lanes are channels, read where they lie.

A task is a strip of rows of one image, with all its channels, so that memory is read in order and a row's neighbours
are in the L2 cache when the next rows want them. Operands that have to be rounded are rounded first, strip by strip,
into the worker's memory. See `cells` for what is done at each position.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import (
    F64,
    I32,
    I64,
    VOID,
    broadcast,
    call,
    lane_numbers,
    load,
    loop,
    masked_load,
    offset,
    store,
    suffix,
    vector,
    zero,
)
from ..gemm.microkernels import convert
from ..gemm.packing import convert_lanes
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from .cells import CELL, CELL_FIELDS
from .descriptor import field
from .memory import clear, read64
from .positions import pointer, widen

__all__ = ["LANES", "Channels", "ChannelsWeight", "Lanes", "StripArguments", "rounds", "run", "source_of"]

LANES = 16
_CELL_BYTES, _TAP_BYTES = 8 * CELL_FIELDS, 16

_VECTORS = 4
"""Of channels that are convolved together where there are so many, so that a tap is looked up once for all of them."""


class Lanes:
    """Emits the reading, adding and writing of one vector of channels with `count` valid lanes, or all for None."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, count: ir.Value | None) -> None:
        self.builder, self.element = builder, field_class(leaf, "element")
        self.conversion = field_class(leaf, "conversion")
        self.kind = vector(self.element.working, LANES)
        self.size = 8 if self.element.working is F64 else 4
        left = I32(LANES) if count is None else builder.trunc(count, I32)
        self.mask = builder.icmp_signed("<", lane_numbers(LANES), broadcast(builder, left, LANES))

    def load_stored(self, at: ir.Value) -> ir.Value:
        """Values of an operand as they are."""
        builder, element = self.builder, self.element
        found = masked_load(builder, vector(element.stored, LANES), at, element.size, self.mask)
        return widen(builder, found, element)

    @property
    def operand_bytes(self) -> int:
        """Of a vector of what taps meet."""
        return LANES * (self.element.size if self.conversion.target is None else self.size)

    def operand(self, at: ir.Value) -> ir.Value:
        """Values of what taps meet: an operand, or what `_round` has made of it."""
        return self.load_stored(at) if self.conversion.target is None else load(self.builder, self.kind, at, self.size)

    def working(self, at: ir.Value) -> ir.Value:
        return load(self.builder, self.kind, at, self.size)

    def add(self, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        """total + a * b, with one rounding."""
        name = f"llvm.fma.{suffix(self.element.working, LANES)}"
        return call(self.builder, name, self.kind, a, b, total)

    def write(self, value: ir.Value, at: ir.Value) -> None:
        builder, element = self.builder, self.element
        value = convert(builder, value, element)
        name = f"llvm.masked.store.{suffix(element.stored, LANES)}.p0"
        call(builder, name, VOID, value, builder.bitcast(at, value.type.as_pointer()), I32(element.size), self.mask)


def _pairs(builder: ir.IRBuilder, taps: ir.Value, index: ir.Value) -> list[ir.Value]:
    """The bytes to the value and to the weight of a tap."""
    at = offset(builder, taps, builder.mul(index, I64(_TAP_BYTES)))
    return [load(builder, I64, offset(builder, at, 8 * which), 8) for which in (0, 1)]


@intrinsic(prefer_literal=True)
def _convolve_cell(typingctx, leaf, positions, vectors, x, out, taps, count, weights, bias, steps, channels, relu):
    """Some vectors of channels of one cell: one with some valid lanes, or several whole ones. `steps` are the bytes
    from position to position of x and of the result, and from vector to vector of the weights."""
    places, several = range(positions.literal_value), range(vectors.literal_value)

    def codegen(context, builder, signature, arguments):
        _, _, _, x, out, taps, count, weights, bias, steps, channels, relu = arguments
        x, out, taps, weights, bias = (pointer(builder, a) for a in (x, out, taps, weights, bias))
        read_step, write_step, weight_step = (builder.extract_value(steps, which) for which in range(3))
        lanes = Lanes(builder, leaf, channels if len(several) == 1 else None)
        starts = [offset(builder, x, builder.mul(read_step, I64(place))) for place in places]

        def tap(index: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            to_value, to_weight = _pairs(builder, taps, index)
            after = []
            for which in several:
                at = builder.add(to_weight, builder.mul(weight_step, I64(which)))
                weight = lanes.working(offset(builder, weights, at))
                for place, start in enumerate(starts):
                    here = offset(builder, offset(builder, start, to_value), which * lanes.operand_bytes)
                    after.append(lanes.add(lanes.operand(here), weight, totals[which * len(starts) + place]))
            return after

        none = zero(lanes.kind)
        wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)), LANES)
        biases = [lanes.working(offset(builder, bias, which * LANES * lanes.size)) for which in several]
        totals = loop(builder, count, [each for each in biases for _ in places], tap)
        for index, total in enumerate(totals):
            which, place = divmod(index, len(starts))
            negative = builder.and_(builder.fcmp_ordered("<", total, none), wanted)
            to = offset(builder, out, builder.mul(write_step, I64(place)))
            lanes.write(builder.select(negative, none, total), offset(builder, to, which * LANES * lanes.element.size))
        return context.get_dummy_value()

    integer = types.int64
    return types.void(leaf, positions, vectors, *[integer] * 6, types.UniTuple(integer, 3), integer, integer), codegen


@intrinsic(prefer_literal=True)
def _weigh_cell(typingctx, leaf, positions, x, g, taps, count, sums, steps, channels):
    """Add the products of one cell of g with the values that its taps meet to the sums of the taps."""
    places = range(positions.literal_value)

    def codegen(context, builder, signature, arguments):
        _, _, x, g, taps, count, sums, steps, channels = arguments
        x, g, taps, sums = (pointer(builder, a) for a in (x, g, taps, sums))
        read_step, write_step = (builder.extract_value(steps, which) for which in (0, 1))
        lanes = Lanes(builder, leaf, channels)
        starts = [offset(builder, x, builder.mul(read_step, I64(place))) for place in places]
        factors = [lanes.load_stored(offset(builder, g, builder.mul(write_step, I64(place)))) for place in places]
        factors = [convert_lanes(builder, factor, lanes.conversion) for factor in factors]

        def tap(index: ir.Value, _: list) -> list:
            to_value, to_sum = _pairs(builder, taps, index)
            slot = offset(builder, sums, to_sum)
            total = lanes.working(slot)
            for start, factor in zip(starts, factors, strict=True):
                total = lanes.add(lanes.operand(offset(builder, start, to_value)), factor, total)
            store(builder, total, slot, lanes.size)
            return []

        loop(builder, count, [], tap)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(leaf, positions, *[integer] * 5, types.UniTuple(integer, 2), integer), codegen


@intrinsic
def _round(typingctx, leaf, at, count, target):
    """Round so many values to the conversion's target."""

    def codegen(context, builder, signature, arguments):
        _, at, count, target = arguments
        at, target = pointer(builder, at), pointer(builder, target)

        def one(index: ir.Value, _: list) -> list:
            first = builder.mul(index, I64(LANES))
            lanes = Lanes(builder, leaf, builder.sub(count, first))
            value = lanes.load_stored(offset(builder, at, builder.mul(first, I64(lanes.element.size))))
            to = offset(builder, target, builder.mul(first, I64(lanes.size)))
            store(builder, convert_lanes(builder, value, lanes.conversion), to, lanes.size)
            return []

        loop(builder, builder.sdiv(builder.add(count, I64(LANES - 1)), I64(LANES)), [], one)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 3), codegen


@intrinsic
def rounds(typingctx, leaf):
    """Whether operands are rounded first."""
    needed = field_class(leaf, "conversion").target is not None

    def codegen(context, builder, signature, arguments):
        return ir.IntType(1)(int(needed))

    return types.boolean(leaf), codegen


@subroutine
def source_of(leaf, job):
    """Where the values that a strip meets are read: the address of byte 0 of the image."""
    plan = job.plan
    if not rounds(leaf):
        return job.x
    strip = field("channels", plan, "strip_table") + 32 * job.strip
    low, high, size = read64(strip + 16), read64(strip + 24), constant(leaf.element, "size")
    _round(leaf, job.x + low, (high - low) // size + field("channels", plan, "channels"), job.memory)
    return job.memory - low // size * field("channels", plan, "working")


@subroutine
def _convolve(leaf, job):
    """The results of one strip."""
    plan, x = job.plan, source_of(leaf, job)
    strip = field("channels", plan, "strip_table") + 32 * job.strip
    unit, relu, all_taps = field("channels", plan, "working"), field("channels", plan, "relu"), job.taps
    channels, size = field("channels", plan, "channels"), constant(leaf.element, "size")
    source_size = unit if rounds(leaf) else size
    weight_step = field("channels", plan, "weight_stride")
    steps = field("channels", plan, "read_step"), field("channels", plan, "write_step"), weight_step
    for at in range(read64(strip), read64(strip + 8), _CELL_BYTES):
        positions, taps, count = read64(at + 16), all_taps + _TAP_BYTES * read64(at + 24), read64(at + 32)
        here, to = x + read64(at), job.out + read64(at + 8)
        weights, bias, left = job.weights, job.bias, channels
        while left > 0:
            if left < LANES * _VECTORS or unit == 8:
                vectors = 1
                if positions == CELL:
                    _convolve_cell(leaf, CELL, 1, here, to, taps, count, weights, bias, steps, left, relu)
                else:
                    _convolve_cell(leaf, 1, 1, here, to, taps, count, weights, bias, steps, left, relu)
            else:
                vectors = _VECTORS
                if positions == CELL:
                    _convolve_cell(leaf, CELL, _VECTORS, here, to, taps, count, weights, bias, steps, left, relu)
                else:
                    _convolve_cell(leaf, 1, _VECTORS, here, to, taps, count, weights, bias, steps, left, relu)
            here, to = here + vectors * LANES * source_size, to + vectors * LANES * size
            weights, bias = weights + vectors * weight_step, bias + vectors * LANES * unit
            left -= vectors * LANES


@subroutine
def _weigh(leaf, job):
    """The sums of one strip, (blocks of channels, taps, LANES) at `weights`; g is what `out` is for a convolution."""
    plan, x = job.plan, source_of(leaf, job)
    strip = field("channels", plan, "strip_table") + 32 * job.strip
    unit, all_taps, sum_stride = field("channels", plan, "working"), job.taps, field("channels", plan, "weight_stride")
    channels, size = field("channels", plan, "channels"), constant(leaf.element, "size")
    source_size = unit if rounds(leaf) else size
    steps = field("channels", plan, "read_step"), field("channels", plan, "write_step")
    clear(job.weights, (channels + LANES - 1) // LANES * sum_stride)
    for at in range(read64(strip), read64(strip + 8), _CELL_BYTES):
        positions, taps, count = read64(at + 16), all_taps + _TAP_BYTES * read64(at + 24), read64(at + 32)
        here, g, sums = x + read64(at), job.out + read64(at + 8), job.weights
        for channel in range(0, channels, LANES):
            if positions == CELL:
                _weigh_cell(leaf, CELL, here, g, taps, count, sums, steps, channels - channel)
            else:
                _weigh_cell(leaf, 1, here, g, taps, count, sums, steps, channels - channel)
            here, g, sums = here + LANES * source_size, g + LANES * size, sums + sum_stride


class StripArguments(NamedTuple):
    plan: int
    x: int
    out: int
    taps: int
    weights: int
    bias: int
    memory: int
    strip: int


class Channels(NamedTuple):
    """Leaf: a strip. Fields: an element type, and a conversion of operands."""

    element: NamedTuple
    conversion: NamedTuple
    run = _convolve
    arguments = StripArguments


class ChannelsWeight(NamedTuple):
    """Leaf: the sums of a strip for the gradient with respect to the weight. Fields as those of `Channels`."""

    element: NamedTuple
    conversion: NamedTuple
    run = _weigh
    arguments = StripArguments


@subroutine
def _task(task, worker, job):
    plan, strips = job.plan, field("channels", job.plan, "strips")
    image = task // strips
    call_at(
        field("channels", plan, "leaf"),
        StripArguments(
            plan, job.x + image * field("channels", plan, "x_image"),
            job.out + image * field("channels", plan, "out_image"), field("channels", plan, "taps"),
            job.weights + task * job.sums_bytes, job.bias, job.memory + worker * field("channels", plan, "memory"),
            task % strips,
        ),
    )  # fmt: skip


class _Job(NamedTuple):
    plan: int
    x: int
    out: int
    weights: int
    sums_bytes: int
    bias: int
    memory: int
    run = _task


@njit
def run(pool, threads, tasks, plan, x, out, weights, sums_bytes, bias, memory):
    """Run the leaf for all strips of all images. All are addresses but `threads`, `tasks` and sums_bytes, the bytes
    from one task's sums to the next one's (0 for weights, which tasks share)."""
    launch(pool, threads, tasks, _Job(plan, x, out, weights, sums_bytes, bias, memory))
