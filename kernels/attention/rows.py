"""What the gradients of flash attention do to a row of scores, in vectors of 64 bytes: emitted code.

Numbers are of float32 or of float64, as the one among a function's arguments is.
"""

from __future__ import annotations

import math
from typing import Any

from ..block.emit import F64, I64, broadcast, first_lanes, load, loop, offset, store
from ..block.microkernels import Rows
from ..block.sources import Float32, Float64
from ..runtime.emitter import Pointer, Value, emitter
from ..runtime.jit import ir
from .powers import Powers

VECTOR_BYTES = 64


class _Row(Powers):
    """Reading and writing of vectors of numbers of the type of a value."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        number: Any = Float64 if value.type is F64 else Float32
        super().__init__(builder, number.working, VECTOR_BYTES // number.size, avx512=False)
        self.number = number

    def place(self, base: ir.Value, index: ir.Value) -> ir.Value:
        return offset(self.builder, base, self.builder.mul(index, I64(VECTOR_BYTES)))

    def load(self, at: ir.Value) -> ir.Value:
        return load(self.builder, self.kind, at, self.number.size)

    def store(self, value: ir.Value, at: ir.Value) -> None:
        store(self.builder, value, at, self.number.size)

    def everywhere(self, at: ir.Value) -> ir.Value:
        """A vector of the number at an address."""
        return broadcast(self.builder, load(self.builder, self.element, at, self.number.size), self.lanes)


@emitter
def weigh_row(builder, scores: Pointer, vectors, factor: Value, largest: Pointer, total: Pointer) -> None:
    """Scores become weights: exp(scale * score - m) / t, with m and t the numbers at the addresses `largest` and
    `total`."""
    row = _Row(builder, factor)
    factor, shift = broadcast(builder, factor, row.lanes), row.everywhere(largest)
    share = builder.fdiv(row.splat(1.0), row.everywhere(total))
    of_two, lowest = row.splat(math.log2(math.e)), row.splat(row.lowest / math.log2(math.e))

    def weigh(index: ir.Value, _: list) -> list:
        place = row.place(scores, index)
        # In two roundings. Fused, the largest score would not meet its own negative, and beyond 2**30 all weights
        # would vanish.
        difference = builder.fsub(builder.fmul(row.load(place), factor), shift)
        row.store(builder.fmul(row.power(difference, of_two, lowest, row.exact), share), place)
        return []

    loop(builder, vectors, [], weigh)


@emitter
def mask_row(builder, scores: Pointer, count, factor: Value, mask: Pointer) -> None:
    """Scores become scale * score + mask."""
    row = _Row(builder, factor)
    factor = broadcast(builder, factor, row.lanes)
    access = Rows(builder, row.number, row.lanes)

    def add(index: ir.Value, _: list) -> list:
        place, left = row.place(scores, index), builder.sub(count, builder.mul(index, I64(row.lanes)))
        added = access.read(row.place(mask, index), None, first_lanes(builder, left, row.lanes))
        row.store(row.fma(row.load(place), factor, added), place)
        return []

    loop(builder, builder.sdiv(builder.add(count, I64(row.lanes - 1)), I64(row.lanes)), [], add)


@emitter
def slope_row(builder, weights: Pointer, slopes: Pointer, vectors, mean: Pointer, factor: Value) -> None:
    """Slopes become scale * weight * (slope - m), with m the number at the address `mean`."""
    row = _Row(builder, factor)
    factor, mean = broadcast(builder, factor, row.lanes), row.everywhere(mean)

    def step(index: ir.Value, _: list) -> list:
        place = row.place(slopes, index)
        difference = builder.fsub(row.load(place), mean)
        weight = builder.fmul(row.load(row.place(weights, index)), factor)
        row.store(builder.fmul(weight, difference), place)
        return []

    loop(builder, vectors, [], step)


@emitter
def fill_row(builder, at: Pointer, first, last, number: Value) -> None:
    """Set the numbers first to last - 1 of the row at an address."""
    size, count = _Row(builder, number).number.size, builder.sub(last, first)

    def fill(index: ir.Value, _: list) -> list:
        place = offset(builder, at, builder.mul(builder.add(first, index), I64(size)))
        store(builder, number, place, size)
        return []

    with builder.if_then(builder.icmp_signed(">", count, I64(0))):
        loop(builder, count, [], fill)
