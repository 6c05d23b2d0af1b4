"""What the loops call of a microkernel, whichever it is: begin, multiply one pair of panels, store a block, end.

A microkernel is a tag class with these attributes: `mr` and `nr`, the rows and columns of its block; `step`, which
divides the depth of a panel; `size`, bytes of an accumulator; `a_bytes` and `b_bytes`, bytes of a panel for each place
along K; `ahead_a` and `ahead_b`, cache lines that it prefetches from the panels of later blocks every `turn` places
along K (for each 64 bytes of a_bytes); `subtracts`, whether `emit` can subtract from what it finds at `out`; and
functions that emit its code: `emit_begin`, `emit`, `emit_end`. A new one needs a class, and a row in `plans.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..runtime.emitter import Class, Pointer, Type, boolean, emitter, float64
from ..runtime.jit import ir
from . import emit as e
from .sources import Contiguous, Strided
from .tags import field_class, instance, tag_class


@emitter
def begin(builder, tag: Class) -> None:
    """Prepare the core for the microkernel."""
    tag.emit_begin(builder)


@emitter
def end(builder, tag: Class) -> None:
    """Undo what `begin` did."""
    tag.emit_end(builder)


@emitter
def multiply_panels(
    builder, tag: Class, depth, a: Pointer, b: Pointer, c: Pointer, accumulate: boolean, out: Pointer, out_stride,
    ahead_a: Pointer, ahead_b: Pointer,
) -> None:  # fmt: skip
    """out = [c +] a @ b for one panel of each operand; all but the tag are int64, addresses or bytes.

    c is a contiguous block (mr x nr) that is read where `accumulate` (a boolean) says so; out has `out_stride` bytes
    from row to row. `depth` is a multiple of the tag's step and not zero. Panels at `ahead_a` and `ahead_b` come soon.
    """
    tag.emit(builder, depth, a, b, c, accumulate, out, out_stride, ahead_a, ahead_b)


@emitter
def subtract_panels(
    builder, tag: Class, finish: Class, depth, a: Pointer, b: Pointer, c: Pointer, accumulate: boolean, out: Pointer,
    out_stride,
) -> None:  # fmt: skip
    """out -= [c +] a @ b, as `multiply_panels`, by the microkernels that are marked with `subtracts`; nothing is
    emitted where the result is not finished by `Less`, as that of integers never is."""
    if tag.subtracts and finish is Less:
        tag.emit(builder, depth, a, b, c, accumulate, out, out_stride, a, b, less=True)


Plain = tag_class("Plain", __name__, plain=True, less=False)
"""The result is the product."""

Less = tag_class("Less", __name__, plain=False, less=True)
"""The product is subtracted from the addend, where the result is stored."""


class Affine(NamedTuple):
    """The result is alpha * product + beta * addend, in the accumulator's type, rounded once. The addend has the
    result's element type, and strides in bytes that may be zero."""

    spacing: Contiguous | Strided
    plain, less = False, False


def convert(builder: ir.IRBuilder, value: ir.Value, element: type) -> ir.Value:
    """Accumulators rounded to the element's type, to nearest even, subnormals kept; 16 bits are taken as they are."""
    if value.type.element is e.I16:
        return value
    if element.stored is e.F16:
        return builder.fptrunc(value, e.vector(e.F16, value.type.count))
    if element.stored is not e.I16:
        return value
    lanes = value.type.count
    bits = builder.bitcast(value, e.vector(e.I32, lanes))
    odd = builder.and_(builder.lshr(bits, e.splat(e.I32, 16, lanes)), e.splat(e.I32, 1, lanes))
    rounded = builder.add(builder.add(bits, e.splat(e.I32, 0x7FFF, lanes)), odd)
    quiet = builder.or_(bits, e.splat(e.I32, 0x400000, lanes))
    rounded = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
    return builder.trunc(builder.lshr(rounded, e.splat(e.I32, 16, lanes)), e.vector(e.I16, lanes))


class Rows:
    """Masked reading and writing of up to `lanes` values of a row of the result or of the addend."""

    def __init__(self, builder: ir.IRBuilder, element: type, lanes: int) -> None:
        self.builder, self.element, self.lanes = builder, element, lanes
        self.kind = e.vector(element.stored, lanes)

    def write(self, value: ir.Value, at: ir.Value, mask: ir.Value) -> None:
        e.masked_store(self.builder, value, at, self.element.size, mask)

    def read(self, at: ir.Value, stride: ir.Value | None, mask: ir.Value) -> ir.Value:
        builder, lanes = self.builder, self.lanes
        found = e.masked_load(builder, self.kind, at, self.element.size, mask, stride)
        if self.element.stored is e.F16:
            return builder.fpext(found, e.vector(e.F32, lanes))
        if self.element.stored is e.I16:
            wide = builder.shl(builder.zext(found, e.vector(e.I32, lanes)), e.splat(e.I32, 16, lanes))
            return builder.bitcast(wide, e.vector(e.F32, lanes))
        return found


@emitter
def store_block(
    builder, leaf: Type, c: Pointer, out: Pointer, out_stride, rows, columns, alpha: float64, beta: float64, addend,
    row_stride, column_stride,
) -> None:  # fmt: skip
    """Finish a contiguous block of accumulators at `c` and store its first `rows` x `columns` values at `out`.

    Of the leaf, `element` is the tag of the result's type and `finish` is `Plain`, `Less`, or `Affine`, whose alpha and
    beta are float64 and whose addend for this block begins at the address `addend`.
    """
    kernel, target, finish = (
        field_class(leaf, "kernel"),
        field_class(leaf, "element"),
        leaf.types[leaf.fields.index("finish")],
    )
    affine, less = instance(finish) is Affine, instance(finish) is Less
    working = e.F64 if kernel.size == 8 else e.F32
    lanes = 8 if working is e.F64 else 16
    access = Rows(builder, target, lanes)
    if affine:
        factors = [builder.fptrunc(x, e.F32) if working is e.F32 else x for x in (alpha, beta)]
        factors = [e.broadcast(builder, factor, lanes) for factor in factors]
        stride = None if field_class(finish, "spacing").unit else column_stride

    def finish_value(value: ir.Value, row: ir.Value, column: int, mask: ir.Value, at: ir.Value) -> ir.Value:
        if less:
            return builder.fsub(access.read(at, None, mask), value)
        if not affine:
            return value
        place = builder.add(builder.mul(row, row_stride), builder.mul(e.I64(column), column_stride))
        added = access.read(builder.inttoptr(builder.add(addend, place), e.POINTER), stride, mask)
        return builder.fadd(builder.fmul(factors[0], value), builder.fmul(factors[1], added))

    def one_row(index: ir.Value, _: list) -> list:
        source = e.offset(builder, c, builder.mul(index, e.I64(kernel.nr * kernel.size)))
        target_row = e.offset(builder, out, builder.mul(index, out_stride))
        for first in range(0, kernel.nr, lanes):
            mask = e.first_lanes(builder, columns, lanes, first)
            in_block = ir.Constant(e.vector(ir.IntType(1), lanes), [first + x < kernel.nr for x in range(lanes)])
            reader = Rows(builder, _Working[kernel.size], lanes)
            value = reader.read(e.offset(builder, source, first * kernel.size), None, in_block)
            at = e.offset(builder, target_row, first * target.size)
            value = convert(builder, finish_value(value, index, first, mask, at), target)
            access.write(value, at, mask)
        return []

    e.loop(builder, rows, [], one_row)


class _Float32:
    stored, size = e.F32, 4


class _Float64:
    stored, size = e.F64, 8


_Working: dict[int, Any] = {4: _Float32, 8: _Float64}
