"""Passes along rows of numbers, in vectors: emitted code."""

from __future__ import annotations

from collections.abc import Callable

from ..gemm.emit import F64, I32, I64, broadcast, call, load, loop, loop_of_any, offset, store
from ..jit import ir
from .vectors import Vectors

__all__ = ["Row"]

_CHAINS = 4
"""Sums and maxima that are made side by side, so that none waits for the one before."""


class Row(Vectors):
    """Emits passes along a row: `segments` times `count` numbers that lie side by side in one or several arrays, each
    segment `stride` bytes behind the one before."""

    def __init__(
        self, builder: ir.IRBuilder, element: type, count: ir.Value, segments: ir.Value, stride: ir.Value
    ) -> None:
        super().__init__(builder, element)
        self.count, self.segments, self.stride = count, segments, stride
        self.whole = builder.sdiv(count, I64(self.lanes))
        self.left = builder.sub(count, builder.mul(self.whole, I64(self.lanes)))

    def _starts(self, segment: ir.Value, *arrays: ir.Value) -> list[ir.Value]:
        """Where a segment of each array begins."""
        return [offset(self.builder, array, self.builder.mul(segment, self.stride)) for array in arrays]

    def _place(self, start: ir.Value, index: ir.Value) -> ir.Value:
        """Where a vector lies."""
        return offset(self.builder, start, self.builder.mul(index, I64(self.lanes * self.element.size)))

    def write_each(self, out: ir.Value, make: Callable[..., ir.Value], *arrays: ir.Value) -> None:
        """Write what `make` makes of the vectors of the arrays."""

        def one(segment: ir.Value, _: list) -> list:
            target, *sources = self._starts(segment, out, *arrays)

            def some(index: ir.Value, mask: ir.Value | None = None) -> list:
                read = [self.read(self._place(source, index), mask) for source in sources]
                self.write(make(*read), self._place(target, index), mask)
                return []

            loop_of_any(self.builder, self.whole, [], lambda index, _: some(index))
            with self.builder.if_then(self.builder.icmp_signed(">", self.left, I64(0))):
                some(self.whole, self.first(self.left))
            return []

        loop(self.builder, self.segments, [], one)

    def reduced(
        self,
        start: float,
        join: Callable[[ir.Value, ir.Value], ir.Value],
        make: Callable[..., ir.Value],
        *arrays: ir.Value,
    ) -> ir.Value:
        """What `make` makes of the vectors of the arrays, joined, as a vector of equal values; `start` is nothing to
        join. Numbers are joined in an order that depends on their count alone: those of a segment before others."""

        def one(segment: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            return [join(before[0], self._joined(start, join, make, self._starts(segment, *arrays)))]

        return self._across(loop(self.builder, self.segments, [self.number(start)], one)[0], join)

    def _joined(self, start: float, join: Callable, make: Callable[..., ir.Value], arrays: list[ir.Value]) -> ir.Value:
        """One segment's, as one vector."""
        builder, nothing = self.builder, self.number(start)

        def joined(index: ir.Value, before: ir.Value) -> ir.Value:
            return join(before, make(*[self.read(self._place(array, index)) for array in arrays]))

        def four(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            first = builder.mul(index, I64(_CHAINS))
            return [joined(builder.add(first, I64(chain)), each) for chain, each in enumerate(before)]

        groups = builder.sdiv(self.whole, I64(_CHAINS))
        found = loop_of_any(builder, groups, [nothing] * _CHAINS, four)
        done = builder.mul(groups, I64(_CHAINS))
        rest = builder.sub(self.whole, done)
        [found[0]] = loop_of_any(
            builder, rest, found[:1], lambda index, before: [joined(builder.add(done, index), before[0])]
        )
        mask = self.first(self.left)
        tail = make(*[self.read(self._place(array, self.whole), mask) for array in arrays])
        found[1] = join(found[1], builder.select(mask, tail, nothing))
        while len(found) > 1:
            found = [join(a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
        return found[0]

    def _across(self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """The lanes of a vector, joined, in all lanes."""
        distance = self.lanes // 2
        while distance:
            order = ir.Constant(ir.VectorType(I32, self.lanes), [lane ^ distance for lane in range(self.lanes)])
            value = join(value, self.builder.shuffle_vector(value, value, order))
            distance //= 2
        return value

    def _larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(self.builder.fcmp_ordered("<", a, b), b, a)

    def total(self, make: Callable[..., ir.Value], *arrays: ir.Value) -> ir.Value:
        return self.reduced(-0.0, self.plus, make, *arrays)

    def largest(self, array: ir.Value) -> ir.Value:
        """The largest number, NaN aside; -inf of nothing."""
        return self.reduced(float("-inf"), self._larger, lambda x: x, array)

    # One number for a row

    def every(self, at: ir.Value) -> ir.Value:
        """The number at an address, in all lanes."""
        return broadcast(self.builder, load(self.builder, self.element.stored, at, self.element.size), self.lanes)

    def keep(self, value: ir.Value, at: ir.Value) -> None:
        """Write the first lane, as float32 or float64, to an address."""
        store(self.builder, self.builder.extract_element(value, I32(0)), at, 8 if self.element.working is F64 else 4)

    def by_float64(self, name: str, value: ir.Value) -> ir.Value:
        """LLVM's function of float64 of that name, of the number in all lanes."""
        builder, working = self.builder, self.element.working
        number = builder.extract_element(value, I32(0))
        number = call(builder, f"llvm.{name}.f64", F64, number if working is F64 else builder.fpext(number, F64))
        return broadcast(builder, number if working is F64 else builder.fptrunc(number, working), self.lanes)
