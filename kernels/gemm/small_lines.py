"""Operands of small products that have to be rounded, widened or split: converted line by line, in their own order.

For bf16x3 each place along K becomes two, whose products are all three: a0 and a1 of A, b0 + b1 and b0 of B. Of lines
that run along K they lie side by side, of others in a line each.
"""

from __future__ import annotations

from collections import namedtuple

from ..block.conversions import convert_lanes
from ..block.emit import F64, I32, I64, loop_of_any, offset, store, vector
from ..block.packing import factors_in_two, updated_limits, widened_range
from ..block.sources import Reader
from ..block.tags import field_class, tag_class
from ..runtime.emitter import Pointer, Type, emitter
from ..runtime.jit import ir, subroutine, types
from ..runtime.launch import leaf_class

InTurn = tag_class("InTurn", __name__, apart=False, operand="a")
"""The parts of each place along K of A are neighbours."""

ApartOfA = tag_class("ApartOfA", __name__, apart=True, operand="a")
"""Each part of the places along K of A has a line of its own, one after the other."""

ApartOfB = tag_class("ApartOfB", __name__, apart=True, operand="b")
"""The same of B."""


_AT_ONCE = 4
"""Vectors of a line that are converted in one turn of the loop."""


class _Line:
    """Emits the conversion of vectors of one line."""

    def __init__(self, builder: ir.IRBuilder, leaf: types.Type, at, stride, target, apart) -> None:
        self.builder, self.at, self.stride = builder, at, stride
        self.target, self.apart, self.way = target, apart, field_class(leaf, "way")
        self.tag, self.conversion = leaf.types[leaf.fields.index("source")], field_class(leaf, "conversion")
        element = field_class(self.tag, "element")
        self.lanes, self.size = (8, 8) if element.working is F64 else (16, 4)
        self.in_two = self.conversion.vector_parts == 2

    def some(self, first: ir.Value, count: int, left: ir.Value | None, limits: list[ir.Value]) -> list[ir.Value]:
        """`count` vectors from one on; where so many values are `left`, those of them. Returns the limits with them
        taken in."""
        builder, lanes = self.builder, self.lanes
        here = offset(builder, self.at, builder.mul(builder.mul(first, I64(lanes)), self.stride))
        reader = Reader(builder, self.tag, here, (I64(0), self.stride), I64(1), left)
        values = [reader.whole(index) if left is None else reader.along(I64(0)) for index in range(count)]
        for index, value in enumerate(values):
            self._put(builder.add(first, I64(index)), value)
        return widened_range(builder, values, limits) if self.in_two else []

    def _put(self, index: ir.Value, value: ir.Value) -> None:
        builder, line = self.builder, self.lanes * self.size
        if not self.in_two:
            self._store(convert_lanes(builder, value, self.conversion), self.target, index, 0)
            return
        factors = factors_in_two(builder, self.way.operand, value)
        if self.way.apart:
            self._store(factors[0], self.target, index, 0)
            self._store(factors[1], offset(builder, self.target, self.apart), index, 0)
            return
        for half in (0, 1):
            order = [lane // 2 + half * self.lanes // 2 + lane % 2 * self.lanes for lane in range(self.lanes)]
            both = builder.shuffle_vector(*factors, ir.Constant(vector(I32, self.lanes), order))
            self._store(both, self.target, builder.shl(index, I64(1)), half * line)

    def _store(self, value: ir.Value, target: ir.Value, index: ir.Value, further: int) -> None:
        at = offset(self.builder, target, self.builder.mul(index, I64(self.lanes * self.size)))
        store(self.builder, value, offset(self.builder, at, further), self.size)


@emitter
def _convert_line(builder, leaf: Type, at: Pointer, stride, length, target: Pointer, apart, limits_at: Pointer) -> None:
    """Convert `length` values along one line. Whole vectors of neighbours are read without a mask."""
    source, conversion = leaf.types[leaf.fields.index("source")], field_class(leaf, "conversion")
    unit, in_two = field_class(source, "spacing").unit, conversion.vector_parts == 2
    line = _Line(builder, leaf, at, stride, target, apart)
    lanes = line.lanes

    def several(count: int, first: ir.Value, turns: ir.Value, limits: list) -> tuple[ir.Value, list]:
        """So many turns of `count` vectors: the next vector, and the limits."""

        def one(index: ir.Value, limits: list) -> list:
            return line.some(builder.add(first, builder.mul(index, I64(count))), count, None, limits)

        limits = loop_of_any(builder, turns, limits, one)
        return builder.add(first, builder.mul(turns, I64(count))), limits

    def all_of_it(limits: list) -> list:
        done, whole = I64(0), builder.sdiv(length, I64(lanes))
        if unit:
            done, limits = several(_AT_ONCE, done, builder.sdiv(whole, I64(_AT_ONCE)), limits)
            done, limits = several(1, done, builder.sub(whole, done), limits)

        def convert_masked(index: ir.Value, limits: list) -> list:
            first = builder.add(done, index)
            return line.some(first, 1, builder.sub(length, builder.mul(first, I64(lanes))), limits)

        rest = builder.sub(builder.sdiv(builder.add(length, I64(lanes - 1)), I64(lanes)), done)
        return loop_of_any(builder, rest, limits, convert_masked)

    if in_two:
        updated_limits(builder, limits_at, all_of_it)
    else:
        all_of_it([])


@subroutine
def _convert_lines(leaf, job):
    for line in range(job.lines):
        _convert_line(
            leaf, job.at + line * job.line_stride, job.stride, job.length, job.target + line * job.target_stride,
            job.apart, job.limits,
        )  # fmt: skip


ConvertArguments = namedtuple(
    "ConvertArguments", "lines length at line_stride stride target target_stride apart limits"
)
"""`target_stride` bytes lie between converted lines, or pairs of them `apart`. `limits` is the address of the
magnitudes found so far, of conversions in two parts."""


ConvertLines = leaf_class("ConvertLines", "source conversion way", _convert_lines, ConvertArguments)
"""Leaf: lines of an operand, converted, one after the other. Lines have room for whole vectors of 64 bytes."""
