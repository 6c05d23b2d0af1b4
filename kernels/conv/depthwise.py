"""Depthwise convolutions on vector units: every channel on its own, without a matrix product.

A channel of an image is laid out flat with its padding in the worker's memory (`geometry`), where a tap is a shift, and
16 neighbouring positions are a vector. An image's channel is packed and convolved by one thread, within its L2 cache.
Where channels are neighbours in memory, `depthwise_last` has other loops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import cpu
from ..gemm.emit import F64, I1, I64, broadcast, call, load, loop, offset, store, suffix, vector, zero
from ..gemm.packing import convert_lanes
from ..gemm.tags import field_class
from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from .descriptor import PASS, field
from .geometry import GROUP, RUN_BYTES
from .memory import clear, read32, read64
from .positions import pointer, read_positions, write_all, write_apart, write_together

__all__ = ["LANES", "SUMS_BYTES", "Depthwise", "DepthwiseWeight", "convolve"]

LANES = 16
_UNROLLED = 8 if cpu.refusal("avx512") is None else 4
"""Vectors of results whose sums are in registers."""
_POSITIONS = LANES * _UNROLLED
SUMS_BYTES = 8 * _POSITIONS
_PARTIAL = 4
_PASS_BYTES = 8 * len(PASS)


def _size(element: Any) -> int:
    return 8 if element.working is F64 else 4


class _Lanes(NamedTuple):
    """How a leaf's lanes are loaded and stored."""

    element: Any

    @property
    def kind(self) -> ir.Type:
        return vector(self.element.working, LANES)


def _lanes(leaf: Any) -> _Lanes:
    return _Lanes(field_class(leaf, "element"))


@intrinsic
def _position_bytes(typingctx, leaf):
    size = _size(_lanes(leaf).element)

    def codegen(context, builder, signature, arguments):
        return I64(size)

    return types.int64(leaf), codegen


@intrinsic
def _fill(typingctx, leaf, at, run, offsets, target):
    """Lay out 16 positions of a channel."""
    lanes, conversion = _lanes(leaf), field_class(leaf, "conversion")

    def codegen(context, builder, signature, arguments):
        at, run, offsets, target = (pointer(builder, x) for x in arguments[1:])
        with builder.goto_entry_block():
            slot = builder.alloca(lanes.kind)
        read_positions(builder, lanes.element, at, run, offsets, I1(1), slot)
        store(builder, convert_lanes(builder, builder.load(slot), conversion), target, _size(lanes.element))
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 4), codegen


def _weight(builder: ir.IRBuilder, lanes: _Lanes, at: ir.Value) -> ir.Value:
    """A weight or a bias for all lanes."""
    return broadcast(builder, load(builder, lanes.element.working, at, _size(lanes.element)), LANES)


def _totals(builder: ir.IRBuilder, lanes: _Lanes, plane: Any, table: Any, weights: Any, taps: Any, bias: Any) -> list:
    """Some vectors of results from the address `plane` on: the bias, and each tap's values times its weight."""
    plane, table, weights, bias = (pointer(builder, x) for x in (plane, table, weights, bias))
    size = _size(lanes.element)

    def tap(index: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
        here = offset(builder, plane, load(builder, I64, offset(builder, table, builder.shl(index, I64(3))), 8))
        weight = _weight(builder, lanes, offset(builder, weights, builder.mul(index, I64(size))))
        after = []
        for place, total in enumerate(totals):
            value = load(builder, lanes.kind, offset(builder, here, place * size * LANES), size)
            after.append(_add(builder, value, weight, total))
        return after

    return loop(builder, taps, [_weight(builder, lanes, bias)] * _UNROLLED, tap)


@intrinsic
def _accumulate(typingctx, leaf, plane, table, weights, taps, bias, sums):
    """Some vectors of results (`_totals`) into memory."""
    lanes = _lanes(leaf)

    def codegen(context, builder, signature, arguments):
        _, plane, table, weights, taps, bias, sums = arguments
        sums, size = pointer(builder, sums), _size(lanes.element)
        for place, total in enumerate(_totals(builder, lanes, plane, table, weights, taps, bias)):
            store(builder, total, offset(builder, sums, place * size * LANES), size)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 6), codegen


def _relu_if(builder: ir.IRBuilder, value: ir.Value, relu: ir.Value) -> ir.Value:
    """max(value, 0) where `relu` is not 0; NaN stays."""
    none = zero(value.type)
    wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)), LANES)
    return builder.select(builder.and_(builder.fcmp_ordered("<", value, none), wanted), none, value)


def _add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
    """total + a * b. One rounding where the CPU has an instruction for it; two elsewhere."""
    name = f"llvm.fmuladd.{suffix(a.type.element, LANES)}"
    return call(builder, name, a.type, a, b, total)


@intrinsic
def _put(typingctx, leaf, sums, at, run, base, offsets, relu):
    """Store a vector of 16 positions."""
    lanes = _lanes(leaf)
    element = lanes.element

    def codegen(context, builder, signature, arguments):
        _, sums, at, run, base, offsets, relu = arguments
        sums, at, offsets = (pointer(builder, x) for x in (sums, at, offsets))
        value = _relu_if(builder, load(builder, lanes.kind, sums, _size(element)), relu)
        here = offset(builder, at, base)
        with builder.if_else(builder.icmp_unsigned("==", run, I64(0xFFFF))) as (whole, partial):
            with whole:
                write_all(builder, element, value, here)
            with partial, builder.if_else(builder.icmp_unsigned("<=", run, I64(0xFFFF))) as (together, apart):
                with together:
                    mask = builder.bitcast(builder.trunc(run, ir.IntType(16)), vector(I1, LANES))
                    write_together(builder, element, value, here, mask)
                with apart:
                    write_apart(builder, element, value, at, offsets)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 6), codegen


@intrinsic
def _dot(typingctx, leaf, g, x, steps, sums):
    """Add to four vectors of sums the products of `steps` times four vectors of each operand."""
    lanes = _lanes(leaf)
    size = _size(lanes.element)
    step = size * LANES

    def codegen(context, builder, signature, arguments):
        _, g, x, steps, sums = arguments
        g, x, sums = (pointer(builder, a) for a in (g, x, sums))
        places = [offset(builder, sums, step * p) for p in range(_PARTIAL)]

        def body(index: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            first = builder.mul(index, I64(_PARTIAL * step))
            after = []
            for p, total in enumerate(totals):
                here = builder.add(first, I64(p * step))
                a, b = (load(builder, lanes.kind, offset(builder, of, here), size) for of in (g, x))
                after.append(_add(builder, a, b, total))
            return after

        totals = loop(builder, steps, [load(builder, lanes.kind, place, size) for place in places], body)
        for place, total in zip(places, totals, strict=True):
            store(builder, total, place, size)
        return context.get_dummy_value()

    return types.void(leaf, *[types.int64] * 4), codegen


@subroutine
def _lay_out(leaf, plan, at, channel_stride, target):
    """All planes of the channels that are read for one result."""
    unit, lines, front = _position_bytes(leaf), field("depthwise", plan, "lines"), field("depthwise", plan, "front")
    groups, planes = field("depthwise", plan, "groups"), field("depthwise", plan, "planes")
    for which in range(field("depthwise", plan, "reads")):
        for plane in range(planes):
            begin = target + (which * planes + plane) * lines * unit
            clear(begin, front * unit)
            clear(begin + (front + 16 * groups) * unit, (lines - front - 16 * groups) * unit)
            for group in range(groups):
                row = plane * groups + group
                _fill(
                    leaf, at + which * channel_stride, field("depthwise", plan, "runs") + RUN_BYTES * row,
                    field("depthwise", plan, "offsets") + 64 * row, begin + (front + 16 * group) * unit,
                )  # fmt: skip


@subroutine
def _convolve_positions(leaf, job, planes, one, out, weights, bias):
    """One result of a pass, some positions at a time."""
    taps, table, end = field("pass", one, "steps"), field("pass", one, "table"), field("pass", one, "end")
    runs, offsets, unit = field("pass", one, "runs"), field("pass", one, "offsets"), _position_bytes(leaf)
    sums = job.memory + field("depthwise", job.plan, "memory") - SUMS_BYTES
    for position in range(0, end, _POSITIONS):
        _accumulate(leaf, planes + position * unit, table, weights, taps, bias, sums)
        for here in range(position, min(position + _POSITIONS, end), 16):
            run = runs + here // GROUP * RUN_BYTES
            _put(
                leaf, sums + (here - position) * unit, out, read32(run + 4), read32(run), offsets + 4 * here,
                field("depthwise", job.plan, "relu"),
            )  # fmt: skip


@subroutine
def _convolve(leaf, job):
    """The results of one image that come from one channel."""
    plan, unit = job.plan, _position_bytes(leaf)
    _lay_out(leaf, plan, job.x, field("depthwise", plan, "read_stride"), job.memory)
    planes = job.memory + field("depthwise", plan, "front") * unit
    weights = job.weights
    for index in range(field("depthwise", plan, "passes")):
        one = field("depthwise", plan, "pass_table") + index * _PASS_BYTES
        taps = field("pass", one, "steps")
        for result in range(field("depthwise", plan, "results") if taps > 0 else 0):
            out, bias = job.out + result * field("depthwise", plan, "write_stride"), job.bias + result * unit
            _convolve_positions(leaf, job, planes, one, out, weights, bias)
            weights += taps * unit


class _Arguments(NamedTuple):
    plan: int
    x: int
    out: int
    weights: int
    bias: int
    memory: int


class Depthwise(NamedTuple):
    """Leaf: the results of one channel. Fields: an element type, and a conversion of operands."""

    element: NamedTuple
    conversion: NamedTuple
    run = _convolve
    arguments = _Arguments


@subroutine
def _weight_gradient(leaf, job):
    """The weight's gradient of one channel over all images; sums of four vectors for each result and tap."""
    plan, unit = job.plan, _position_bytes(leaf)
    g_plan, one = field("depthwise", plan, "other"), field("depthwise", plan, "pass_table")
    taps, table = field("pass", one, "steps"), field("pass", one, "table")
    results, lines = field("depthwise", g_plan, "reads"), field("depthwise", g_plan, "lines")
    g_planes = job.memory + field("depthwise", plan, "memory")
    vector_bytes = unit * 16
    clear(job.out, results * taps * 4 * vector_bytes)
    for image in range(field("depthwise", plan, "images")):
        x = job.x + image * field("depthwise", plan, "image_stride")
        g = job.bias + image * field("depthwise", g_plan, "image_stride")
        _lay_out(leaf, plan, x, 0, job.memory)
        _lay_out(leaf, g_plan, g, field("depthwise", g_plan, "read_stride"), g_planes)
        for result in range(results):
            of_g = g_planes + result * lines * unit
            for tap in range(taps):
                of_x = job.memory + field("depthwise", plan, "front") * unit + read64(table + 8 * tap)
                sums = job.out + (result * taps + tap) * 4 * vector_bytes
                _dot(leaf, of_g, of_x, lines // 64, sums)


class DepthwiseWeight(NamedTuple):
    """Leaf: the gradient with respect to the weight. Fields as those of `Depthwise`."""

    element: NamedTuple
    conversion: NamedTuple
    run = _weight_gradient
    arguments = _Arguments


@subroutine
def _task(task, worker, job):
    plan, channels = job.plan, field("depthwise", job.plan, "channels")
    channel, image = task % channels, task // channels
    call_at(
        field("depthwise", plan, "leaf"),
        _Arguments(
            plan, job.x + image * field("depthwise", plan, "image_stride") + channel * job.x_stride,
            job.out + image * field("depthwise", plan, "result_image") + channel * job.out_stride,
            job.weights + channel * job.weight_stride, job.bias + channel * job.bias_stride,
            job.memory + worker * job.worker_bytes,
        ),
    )  # fmt: skip


class _Job(NamedTuple):
    plan: int
    x: int
    x_stride: int
    out: int
    out_stride: int
    weights: int
    weight_stride: int
    bias: int
    bias_stride: int
    memory: int
    worker_bytes: int
    run = _task


@njit
def convolve(
    pool, threads, plan, images, x, x_stride, out, out_stride, weights, weight_stride, bias, bias_stride, memory,
    worker_bytes,
):  # fmt: skip
    """Convolve, image by image (`images` of them; 1 where the leaf goes through all) and channel by channel; strides
    are from channel to channel. For the gradient with respect to the weight g takes the place of the bias."""
    job = _Job(
        plan, x, x_stride, out, out_stride, weights, weight_stride, bias, bias_stride, memory, worker_bytes
    )  # fmt: skip
    launch(pool, threads, images * field("depthwise", plan, "channels"), job)
