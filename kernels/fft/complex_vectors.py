"""Vectors of the complex numbers that lie in the user's memory, as two vectors of their parts."""

from __future__ import annotations

from typing import Any

from ..gemm.emit import (
    F32,
    F64,
    I32,
    I64,
    align_stack,
    broadcast,
    call,
    lane_numbers,
    load,
    offset,
    transpose,
    vector,
    zero,
)
from ..jit import ir
from .butterflies import Arithmetic, Complex

__all__ = ["Vectors", "lane_order"]


def lane_order(values: list[int]) -> ir.Constant:
    """The mask of a shuffle."""
    return ir.Constant(vector(I32, len(values)), values)


class Vectors:
    """Emits what vectors of the user's complex numbers need."""

    def __init__(self, builder: ir.IRBuilder, tag: Any) -> None:
        self.builder, self.tag, self.lanes, self.size = builder, tag, tag.lanes, tag.size
        self.arithmetic = Arithmetic(builder, tag.element, tag.lanes)
        self.kind = vector(tag.element, tag.lanes)
        align_stack(builder)

    def number(self, bits: ir.Value) -> ir.Value:
        """A vector of the float64 that an int64 holds the bits of."""
        value = self.builder.bitcast(bits, F64)
        value = value if self.tag.element is F64 else self.builder.fptrunc(value, F32)
        return broadcast(self.builder, value, self.lanes)

    def load(self, base: ir.Value, elements: ir.Value | int, align: int | None = None) -> ir.Value:
        at = elements * self.size if isinstance(elements, int) else self.builder.mul(elements, I64(self.size))
        return load(self.builder, self.kind, offset(self.builder, base, at), align or self.size)

    def masks(self, numbers: ir.Value) -> list[ir.Value]:
        """Of both halves of a row of so many complex numbers, int64."""
        parts = broadcast(self.builder, self.builder.trunc(self.builder.add(numbers, numbers), I32), self.lanes)
        first = (lane_numbers(self.lanes, half * self.lanes) for half in range(2))
        return [self.builder.icmp_signed("<", each, parts) for each in first]

    def _load_some(self, at: ir.Value, mask: ir.Value) -> ir.Value:
        name = f"llvm.masked.load.v{self.lanes}f{8 * self.size}.p0"
        at = self.builder.bitcast(at, self.kind.as_pointer())
        return call(self.builder, name, self.kind, at, I32(self.size), mask, zero(self.kind))

    def read(self, low: ir.Value, high: ir.Value, masks: list[ir.Value] | None = None, backwards: int = 0) -> Complex:
        """The complex numbers that lie at two addresses, or those of them that the masks say; `backwards` many at a
        time in the opposite order."""
        if masks is None:
            halves = [self.load(each, 0) for each in (low, high)]
        else:
            halves = [self._load_some(*each) for each in zip((low, high), masks, strict=True)]
        numbers = list(range(self.lanes))
        if backwards:
            numbers = [lane // backwards * backwards + backwards - 1 - lane % backwards for lane in numbers]
        orders = [lane_order([2 * lane + part for lane in numbers]) for part in range(2)]
        return Complex(*[self.builder.shuffle_vector(*halves, order) for order in orders])

    def plain(self, base: ir.Value, number: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """The addresses of a vector of the complex numbers from one on."""
        step = 2 * self.size
        at = number * step if isinstance(number, int) else self.builder.mul(number, I64(step))
        low = offset(self.builder, base, at)
        return low, offset(self.builder, low, self.lanes * self.size)

    def turn(self, rows: list[Complex]) -> list[Complex]:
        parts = [transpose(self.builder, [row[part] for row in rows]) for part in range(2)]
        return [Complex(*each) for each in zip(*parts, strict=True)]
