"""Transposed copies, square by square in registers."""

from __future__ import annotations

from ..runtime.emitter import Class, Pointer, emitter
from ..runtime.jit import ir, subroutine
from .emit import I64, POINTER, load, offset, store, transpose, vector
from .tags import constant


def _places(builder: ir.IRBuilder, address: ir.Value, stride: ir.Value, count: int) -> list[ir.Value]:
    start = builder.inttoptr(address, POINTER)
    return [offset(builder, start, builder.mul(stride, I64(index))) for index in range(count)]


@emitter
def _transpose_square(builder, kind: Class, source, source_stride, target, target_stride) -> None:
    """Transpose a square of as many rows and columns as a vector has lanes."""
    whole = vector(kind.element, kind.lanes)
    places = _places(builder, source, source_stride, kind.lanes)
    lines = transpose(builder, [load(builder, whole, place, kind.size) for place in places])
    for line, place in zip(lines, _places(builder, target, target_stride, kind.lanes), strict=True):
        store(builder, line, place, kind.size)


@emitter
def _copy_one(builder, kind: Class, source: Pointer, target: Pointer) -> None:
    store(builder, load(builder, kind.element, source, kind.size), target, kind.size)


@subroutine
def copy_transposed(tag, rows, columns, source, source_stride, target, target_stride):
    """Column j of the source, whose rows are `source_stride` bytes apart, becomes row j of the target. The tag's class
    has the type of an `element`, its `size` in bytes, and the `lanes` of a vector."""
    lanes, size = constant(tag, "lanes"), constant(tag, "size")
    whole_rows, whole_columns = rows - rows % lanes, columns - columns % lanes
    for i in range(0, whole_rows, lanes):
        for j in range(0, whole_columns, lanes):
            _transpose_square(
                tag, source + i * source_stride + j * size, source_stride, target + j * target_stride + i * size,
                target_stride,
            )  # fmt: skip
    for i in range(rows):
        for j in range(whole_columns if i < whole_rows else 0, columns):
            _copy_one(tag, source + i * source_stride + j * size, target + j * target_stride + i * size)
