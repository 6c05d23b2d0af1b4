"""Vectors of the complex numbers that lie in the user's memory, as two vectors of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..block import emit as e
from ..block.emit import load
from ..runtime.jit import ir
from ..runtime.locks import cached_property
from .butterflies import Arithmetic, Complex
from .lengths import members_of_lanes


def lane_order(values: list[int]) -> ir.Constant:
    """The mask of a shuffle."""
    return ir.Constant(e.vector(e.I32, len(values)), values)


class Address(NamedTuple):
    """An address, and the same again, which LLVM does not know to be the same."""

    at: ir.Value
    again: ir.Value


class Vectors:
    """Emits what vectors of the user's complex numbers need."""

    def __init__(self, builder: ir.IRBuilder, tag: Any) -> None:
        self.builder, self.tag, self.lanes, self.size = builder, tag, tag.lanes, tag.size
        self.arithmetic = Arithmetic(builder, tag.element, tag.lanes)
        self.kind = e.vector(tag.element, tag.lanes)
        e.align_stack(builder)

    def number(self, bits: ir.Value) -> ir.Value:
        """A vector of the float64 that an int64 holds the bits of."""
        value = self.builder.bitcast(bits, e.F64)
        value = value if self.tag.element is e.F64 else self.builder.fptrunc(value, e.F32)
        return e.broadcast(self.builder, value, self.lanes)

    def load(self, base: ir.Value, elements: ir.Value | int, align: int | None = None) -> ir.Value:
        at = elements * self.size if isinstance(elements, int) else self.builder.mul(elements, e.I64(self.size))
        return load(self.builder, self.kind, e.offset(self.builder, base, at), align or self.size)

    def masks(self, numbers: ir.Value) -> list[ir.Value]:
        """Of both halves of a row of so many complex numbers, int64."""
        parts = e.broadcast(self.builder, self.builder.trunc(self.builder.add(numbers, numbers), e.I32), self.lanes)
        first = (e.lane_numbers(self.lanes, half * self.lanes) for half in range(2))
        return [self.builder.icmp_signed("<", each, parts) for each in first]

    def _load_some(self, at: ir.Value, mask: ir.Value) -> ir.Value:
        return e.masked_load(self.builder, self.kind, at, self.size, mask)

    def _load(self, low: ir.Value, high: ir.Value, masks: list[ir.Value] | None) -> list[ir.Value]:
        if masks is None:
            return [self.load(each, 0) for each in (low, high)]
        return [self._load_some(*each) for each in zip((low, high), masks, strict=True)]

    def read(self, low: ir.Value, high: ir.Value, masks: list[ir.Value] | None = None) -> Complex:
        """The complex numbers that lie at two addresses, or those of them that the masks say."""
        halves = self._load(low, high, masks)
        orders = [lane_order(list(range(part, 2 * self.lanes, 2))) for part in range(2)]
        return Complex(*[self.builder.shuffle_vector(*halves, order) for order in orders])

    def read_members(
        self, low: Address, high: Address, masks: list[ir.Value] | None = None, backwards: bool = False
    ) -> Complex:
        """The complex numbers that lie at two addresses, in the lanes that `members_of_lanes` says."""
        if masks is None and not backwards and self.lanes * self.size == 64:
            return self._loaded_in_turn(low, high)
        members, numbers = self._load(low.at, high.at, masks), range(self.lanes // 2)[:: -1 if backwards else 1]
        first = [
            member * self.lanes + 2 * numbers[number] for member, number in members_of_lanes(self.lanes, self.size)
        ]
        orders = [lane_order([place + part for place in first]) for part in range(2)]
        return Complex(*[self.builder.shuffle_vector(*members, order) for order in orders])

    def _loaded_in_turn(self, low: Address, high: Address) -> Complex:
        """The same by loads that double every other number, into every other lane of what another one loaded: the ports
        of arithmetic share that, where shuffles are for one of them."""

        def load_doubled(at: Address, part: int) -> ir.Value:
            value, order = self.load(at.again, 0), lane_order([lane & ~1 | part for lane in range(self.lanes)])
            return self.builder.shuffle_vector(value, value, order)

        first, second = (self.load(each.at, 0) for each in (low, high))
        re = self.builder.select(self.odd, load_doubled(high, 0), first)
        if self.size == 4:
            return Complex(re, self.builder.select(self.odd, second, load_doubled(low, 1)))
        order = [lane + self.lanes if lane % 2 else lane + 1 for lane in range(self.lanes)]
        return Complex(re, self.builder.shuffle_vector(first, second, lane_order(order)))

    @cached_property
    def odd(self) -> ir.Value:
        """The mask of every other lane, opaque to LLVM, which would replace it by shuffles. It is made once, before all
        loops. Within a loop it would wait for the shuffle port, and loads would wait for it: a third more time."""
        with self.builder.goto_entry_block():
            bits = e.opaque(self.builder, ir.Constant(ir.IntType(16), 0xAAAA))
            bits = bits if self.lanes == 16 else self.builder.trunc(bits, ir.IntType(self.lanes))
            return self.builder.bitcast(bits, e.vector(ir.IntType(1), self.lanes))

    def address(self, number: ir.Value) -> Address:
        """That in an int64."""
        return Address(*[self.builder.inttoptr(each, e.POINTER) for each in (number, e.opaque(self.builder, number))])

    def plain_address(self, base: Address, number: ir.Value) -> Address:
        """Where a complex number lies."""
        return Address(*[self.plain(at, number)[0] for at in base])

    def ask_for(self, ask: Callable[..., None], base: ir.Value, numbers: list[ir.Value], lines: int) -> None:
        """Ask for so many lines from each of some complex numbers on."""
        for each in numbers:
            ask(self.builder, self.plain(base, each)[0], lines)

    def plain(self, base: ir.Value, number: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """The addresses of a vector of the complex numbers from one on."""
        step = 2 * self.size
        at = number * step if isinstance(number, int) else self.builder.mul(number, e.I64(step))
        low = e.offset(self.builder, base, at)
        return low, e.offset(self.builder, low, self.lanes * self.size)

    def turn(self, rows: list[Complex], members: int) -> list[Complex]:
        """The columns of a square whose elements are the lanes of so many members."""
        parts = [e.transpose(self.builder, [row[part] for row in rows], members) for part in range(2)]
        return [Complex(*each) for each in zip(*parts, strict=True)]
