"""Operands in memory, of any strides and of several element types, read as vectors of float32 or float64.

An operand is seen as *lines* (the rows of A, the columns of B) that run along K. What is out of range reads as zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..runtime.jit import ir
from . import emit as e
from .tags import field_class, tag_class


class Float32(NamedTuple):
    size = 4
    stored = working = e.F32
    fused = True  # whether a product is added without being rounded, where the CPU can


class Float64(NamedTuple):
    size = 8
    stored = working = e.F64
    fused = True


class Float16(NamedTuple):
    size = 2
    stored = e.F16
    working = e.F32
    fused = True


class BFloat16(NamedTuple):
    size = 2
    stored = e.I16
    working = e.F32
    fused = True


UnfusedFloat32 = tag_class("UnfusedFloat32", __name__, Float32, fused=False)
UnfusedFloat64 = tag_class("UnfusedFloat64", __name__, Float64, fused=False)
UnfusedFloat16 = tag_class("UnfusedFloat16", __name__, Float16, fused=False)
UnfusedBFloat16 = tag_class("UnfusedBFloat16", __name__, BFloat16, fused=False)


ELEMENTS = {"float32": Float32(), "float64": Float64(), "float16": Float16(), "bfloat16": BFloat16()}
UNFUSED = {
    "float32": UnfusedFloat32(),
    "float64": UnfusedFloat64(),
    "float16": UnfusedFloat16(),
    "bfloat16": UnfusedBFloat16(),
}
"""The same for functions whose bits are those of all CPUs (`kernels/runtime/invariance.py`)."""


class AlongK(NamedTuple):
    """Vectors are read along K: the smaller stride is that along K."""

    along_k = True


class Across(NamedTuple):
    """Vectors are read across neighbouring lines."""

    along_k = False


class Contiguous(NamedTuple):
    unit = True


class Strided(NamedTuple):
    unit = False


class Source(NamedTuple):
    """How an operand is read: the order, and the element type."""

    order: AlongK | Across
    spacing: Contiguous | Strided
    element: Float32 | Float64 | Float16 | BFloat16

    @staticmethod
    def along_k(tag: Any) -> bool:
        return field_class(tag, "order").along_k


class Reader:
    """Emits the reading of a square of at most 16 lines (8 for float64), or twice as far along K as across.

    Arguments: Numba's type of the source, the pointer to (line 0, k = 0) of the square, the strides, and how many
    lines and places along K exist from there on (any number; negative means none).
    """

    def __init__(
        self, builder: ir.IRBuilder, source: Any, at: ir.Value, strides: tuple, lines_left: ir.Value, k_left: ir.Value
    ) -> None:
        self.builder, self.at, self.lines_left, self.k_left = builder, at, lines_left, k_left
        self.line_stride, self.k_stride = strides
        self.along_k = field_class(source, "order").along_k
        self.unit = field_class(source, "spacing").unit
        self.element = field_class(source, "element")
        self.lanes = 8 if self.element.working is e.F64 else 16

    def along(self, line: ir.Value, first: int = 0) -> ir.Value:
        """The values at `first`, `first` + 1, ... along K of one line."""
        builder = self.builder
        at = e.offset(builder, self.at, builder.mul(line, self.line_stride))
        at = e.offset(builder, at, builder.mul(self.k_stride, e.I64(first)))
        return self._read(at, self.k_stride, self._mask(self.k_left, first, line, self.lines_left))

    def across(self, k: ir.Value, first: int = 0) -> ir.Value:
        """The values of the lines `first`, `first` + 1, ... at one place along K."""
        builder = self.builder
        at = e.offset(builder, self.at, builder.mul(k, self.k_stride))
        at = e.offset(builder, at, builder.mul(self.line_stride, e.I64(first)))
        return self._read(at, self.line_stride, self._mask(self.lines_left, first, k, self.k_left))

    def whole(self, index: int) -> ir.Value:
        """The vector at so many vectors after the first place, which exists completely and has adjacent values."""
        at = e.offset(self.builder, self.at, index * self.lanes * self.element.size)
        return self._widen(e.load(self.builder, e.vector(self.element.stored, self.lanes), at, self.element.size))

    def load_stored(self, index: ir.Value, lanes: int) -> ir.Value:
        """Neighbouring 16-bit values as they are: `lanes` places along K of one line, or lines at one place."""
        builder, (stride, other) = self.builder, (self.line_stride, self.k_stride)
        inside, left = (self.k_left, self.lines_left) if self.along_k else (self.lines_left, self.k_left)
        at = e.offset(builder, self.at, builder.mul(index, stride if self.along_k else other))
        kind = e.vector(e.I16, lanes)
        mask = self._mask(inside, 0, index, left, lanes)
        return e.masked_load(builder, kind, at, 2, mask)

    def _mask(self, left: ir.Value, first: int, index: ir.Value, index_limit: ir.Value, lanes: int = 0) -> ir.Value:
        builder, lanes = self.builder, lanes or self.lanes
        least = builder.select(builder.icmp_signed("<", left, e.I64(64)), left, e.I64(64))
        inside = builder.icmp_signed(
            "<", e.lane_numbers(lanes, first), e.broadcast(builder, builder.trunc(least, e.I32), lanes)
        )
        exists = builder.icmp_signed("<", index, index_limit)
        return builder.select(exists, inside, e.zero(e.vector(e.I1, lanes)))

    def _read(self, at: ir.Value, stride: ir.Value, mask: ir.Value) -> ir.Value:
        kind, stride = e.vector(self.element.stored, self.lanes), None if self.unit else stride
        found = e.masked_load(self.builder, kind, at, self.element.size, mask, stride)
        return self._widen(found)

    def _widen(self, stored: ir.Value) -> ir.Value:
        """Stored values as those that are worked with."""
        builder, kind = self.builder, self.element.stored
        if kind is e.F16:
            return builder.fpext(stored, e.vector(e.F32, self.lanes))
        if kind is e.I16:  # bfloat16: the upper half of a float32
            return builder.bitcast(
                builder.shl(builder.zext(stored, e.vector(e.I32)), e.splat(e.I32, 16)), e.vector(e.F32)
            )
        return stored
