"""Convolutions on vector units: an implicit product, whose columns are read where the padded input lies.

Each channel is laid out flat with its padding (`geometry`), so that 32 neighbouring positions of a tap are 32 values in
a row. The microkernels of `gemm.vectors` multiply a panel of weights (rows: output channels) with them: what explicit
im2col would copy for every tap is read once for each from the L2 cache.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import F64, I64, broadcast, call, load, loop, offset, store, vector, zero
from ..gemm.packing import convert_lanes, factors_in_two, updated_limits, widened_range
from ..gemm.tags import constant, instance
from ..jit import intrinsic, ir, subroutine, types
from .descriptor import field
from .geometry import GROUP, RUN_BYTES
from .lines import LineArguments
from .memory import clear, read32
from .positions import pointer, read_positions, write_all, write_apart, write_together
from .tiles import BlockArguments

__all__ = ["ConvolveVectors", "PackPlanes"]


@intrinsic
def _fill(typingctx, element, conversion, at, run, offsets, target, part_bytes, limits):
    """Lay out 16 positions of a channel; those in two parts in one array each, and their magnitudes are taken in."""
    kind, how = instance(element), instance(conversion)

    def codegen(context, builder, signature, arguments):
        at, run, offsets, target, limits_at = (pointer(builder, x) for x in (*arguments[2:6], arguments[7]))
        with builder.goto_entry_block():
            slot = builder.alloca(vector(kind.working, GROUP))
        read_positions(builder, kind, at, run, offsets, ir.IntType(1)(1), slot)
        value, size = builder.load(slot), 8 if kind.working is F64 else 4
        if how.vector_parts == 1:
            store(builder, convert_lanes(builder, value, how), target, size)
            return context.get_dummy_value()
        for part, factor in enumerate(factors_in_two(builder, "b", value)):
            store(builder, factor, offset(builder, target, builder.mul(arguments[6], I64(part))), size)
        updated_limits(builder, limits_at, lambda limits: widened_range(builder, [value], limits))
        return context.get_dummy_value()

    return types.void(element, conversion, *[types.int64] * 6), codegen


@subroutine
def _pack_planes(leaf, job):
    """An array is a plane of a channel, in as many parts as the conversion makes."""
    plan, parts = job.plan, constant(leaf.conversion, "vector_parts")
    planes, groups = field("plan", plan, "planes"), field("plan", plan, "groups")
    all_groups = field("plan", plan, "all_groups")
    group_bytes, channel = field("plan", plan, "group_bytes"), field("plan", plan, "channels")
    part_bytes = field("plan", plan, "part_bytes")
    for group in range(job.first, job.last):
        row, exists = group % groups, 0 <= group < all_groups
        at = job.at + group // groups * field("plan", plan, "period_stride")
        for array in range(job.first_array, job.last_array):
            target = job.target + array * field("plan", plan, "array_bytes") + group_bytes * (group - job.region)
            place = array % planes * groups + row
            if exists:
                _fill(
                    leaf.element, leaf.conversion, at + array // planes * channel,
                    field("plan", plan, "runs") + RUN_BYTES * place, field("plan", plan, "offsets") + 64 * place,
                    target, part_bytes, job.limits,
                )  # fmt: skip
            else:
                for part in range(parts):
                    clear(target + part * part_bytes, group_bytes)


class PackPlanes(NamedTuple):
    """Leaf: lay out groups of positions. Fields: tags of an element and of a conversion."""

    element: NamedTuple
    conversion: NamedTuple
    run = _pack_planes
    arguments = LineArguments


@intrinsic
def _multiply(typingctx, tag, steps, weights, plane, table, sums):
    """sums (mr x nr) = the products of `steps` places of a panel of weights with the values at the table's distances
    from `plane` on."""
    kernel = instance(tag)
    columns, size = kernel.nr // kernel.lanes, kernel.size

    def codegen(context, builder, signature, arguments):
        _, steps, weights, plane, table, sums = arguments
        weights, plane, table, sums = (pointer(builder, x) for x in (weights, plane, table, sums))
        kind = vector(kernel.element, kernel.lanes)

        def step(index: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            here = offset(builder, plane, load(builder, I64, offset(builder, table, builder.shl(index, I64(3))), 8))
            panel = offset(builder, weights, builder.mul(index, I64(kernel.a_bytes)))
            values = [load(builder, kind, offset(builder, here, c * kernel.lanes * size), size) for c in range(columns)]
            after = []
            for row in range(kernel.mr):
                weight = load(builder, kernel.element, offset(builder, panel, row * size), size)
                weight = broadcast(builder, weight, kernel.lanes)
                name = f"llvm.fma.v{kernel.lanes}f{8 * size}"
                after += [call(builder, name, kind, weight, x, totals[row * columns + c]) for c, x in enumerate(values)]
            return after

        totals = loop(builder, steps, [zero(kind)] * (kernel.mr * columns), step)
        for place, total in enumerate(totals):
            store(builder, total, offset(builder, sums, place * kernel.lanes * size), size)
        return context.get_dummy_value()

    return types.void(tag, *[types.int64] * 5), codegen


@intrinsic
def _put(typingctx, element, sums, bias, at, run, base, offsets, relu):
    """Store 16 positions of a channel, plus its bias."""
    kind = instance(element)

    def codegen(context, builder, signature, arguments):
        _, sums, bias, at, run, base, offsets, relu = arguments
        sums, bias, at, offsets = (pointer(builder, x) for x in (sums, bias, at, offsets))
        wide, size = vector(kind.working, GROUP), 8 if kind.working is F64 else 4
        added = broadcast(builder, load(builder, kind.working, bias, size), GROUP)
        value = builder.fadd(load(builder, wide, sums, size), added)
        wanted = broadcast(builder, builder.icmp_signed("!=", relu, I64(0)), GROUP)
        negative = builder.fcmp_ordered("<", value, zero(wide))
        value = builder.select(builder.and_(negative, wanted), zero(wide), value)
        here = offset(builder, at, base)
        with builder.if_else(builder.icmp_unsigned("==", run, I64(0xFFFF))) as (whole, partial):
            with whole:
                write_all(builder, kind, value, here)
            with partial, builder.if_else(builder.icmp_unsigned("<=", run, I64(0xFFFF))) as (together, apart):
                with together:
                    lanes = builder.trunc(run, ir.IntType(16))
                    lanes = builder.bitcast(lanes, vector(ir.IntType(1), GROUP))
                    write_together(builder, kind, value, here, lanes)
                with apart:
                    write_apart(builder, kind, value, at, offsets)
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 7), codegen


@subroutine
def _convolve(leaf, job):
    """Blocks of 32 positions, for panels of output channels."""
    tag, plan, one = leaf.kernel, job.plan, job.one
    mr, nr, size, a_bytes = (
        constant(tag, "mr"), constant(tag, "nr"), constant(tag, "size"), constant(tag, "a_bytes")
    )  # fmt: skip
    steps, table, end = field("pass", one, "steps"), field("pass", one, "table"), field("pass", one, "end")
    groups, stride = field("pass", one, "groups"), field("plan", plan, "channel_stride")
    columns, relu = field("plan", plan, "columns"), field("plan", plan, "relu")
    for panel in range(job.first_panel, job.last_panel):
        weights, rows = job.b + panel * steps * a_bytes, min(mr, columns - panel * mr)
        for position in range(32 * job.first, min(32 * job.last, end), nr):
            _multiply(tag, steps, weights, job.a + position * size, table, job.scratch)
            for half in range(nr // 16):
                group = position // 16 + half
                place = group % groups
                if group * 16 >= end:
                    continue
                runs = field("pass", one, "runs") + RUN_BYTES * place
                run, base, offsets = read32(runs + 4), read32(runs), field("pass", one, "offsets") + 64 * place
                out = job.out + group // groups * field("pass", one, "period_stride") + panel * mr * stride
                for row in range(rows):
                    _put(
                        leaf.element, job.scratch + (row * nr + 16 * half) * size, job.bias + (panel * mr + row) * size,
                        out + row * stride, run, base, offsets, relu,
                    )  # fmt: skip


class ConvolveVectors(NamedTuple):
    """Leaf: a part of the result. Fields: a microkernel of `gemm.vectors`, and the result's element type."""

    kernel: NamedTuple
    element: NamedTuple
    run = _convolve
    arguments = BlockArguments
