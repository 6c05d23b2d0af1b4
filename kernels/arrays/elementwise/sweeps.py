"""Passes along rows of numbers, in vectors: emitted code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...block.emit import F64, I32, I64, broadcast, call, loop, loop_of_any, offset, splat
from ...block.microkernels import Rows
from ...block.sources import Float32, Float64
from ...runtime.jit import ir
from .vectors import Vectors

_CHAINS, _WIDE_CHAINS = 4, 2
"""Chains that are joined side by side, so that none waits for the one before; fewer of float64 beside float32, whose
vectors take twice the registers."""

_BLOCK = 256
"""Numbers that a lane of a strip joins before it joins them with others, so that sums of many lose no digits."""

_STRIP = 2
"""Vectors side by side in a strip: a CPU fetches cache lines in pairs."""


class OfSegment(NamedTuple):
    """One number for each segment of a row, side by side at an address, in float32 or float64."""

    at: ir.Value


class OfColumn(NamedTuple):
    """One number for each place in a segment, the same for all segments, at an address, in float32 or float64."""

    at: ir.Value


class Sweeps(Vectors):
    """Emits passes along rows: what one row and a strip of them have in common. Operands are addresses of rows; vectors
    that stand for all of a row; or, for one row, `OfSegment` and `OfColumn`. A number that is kept for a row is float32
    or float64.

    Attributes:
        numbers: how many a row has.
    """

    numbers: ir.Value

    def __init__(self, builder: ir.IRBuilder, element: Any, times: int = 1) -> None:
        super().__init__(builder, element, times)
        self.kept = Rows(builder, Float64 if element.working is F64 else Float32, self.lanes)

    def _reader(self, operand: Any, segment: ir.Value) -> Callable[..., ir.Value]:
        """What reads an operand's vectors in a segment."""
        raise NotImplementedError

    def reduce(
        self, start: ir.Value, join: Callable, parts: int, make: Callable[..., list[ir.Value]], *operands: Any,
        **of: Any,
    ) -> list[ir.Value]:  # fmt: skip
        """What `make` makes of the vectors of the operands, so many parts, each joined; `start` is nothing to join.
        The order depends on the count of numbers alone."""
        raise NotImplementedError

    def totals(
        self, parts: int, make: Callable[..., list[ir.Value]], *operands: Any,
        of_segment: Callable[..., list[ir.Value]] | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        """The sums of what `make` makes, added in float64 and rounded once."""
        return [self.narrow(each) for each in self.wide_totals(parts, make, *operands, of_segment=of_segment)]

    def wide_totals(
        self, parts: int, make: Callable[..., list[ir.Value]], *operands: Any,
        of_segment: Callable[..., list[ir.Value]] | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        """The same in float64."""

        def make_totals(*values: ir.Value) -> list[ir.Value]:
            return [self.widen(each) for each in make(*values)]

        def of_rounded(segment: ir.Value, *found: ir.Value) -> list[ir.Value]:
            return [self.widen(each) for each in of_segment(segment, *map(self.narrow, found))]

        nothing, of = splat(F64, -0.0, self.lanes), {} if of_segment is None else {"of_segment": of_rounded}
        return self.reduce(nothing, self.plus, parts, make_totals, *operands, **of)

    def total(self, make: Callable[..., ir.Value], *operands: Any) -> ir.Value:
        return self.totals(1, lambda *values: [make(*values)], *operands)[0]

    def mean(self, total: ir.Value) -> ir.Value:
        numbers = self.builder.sitofp(self.numbers, self.element.working)
        return self.over(total, broadcast(self.builder, numbers, self.lanes))

    def once(self, make: Callable[..., list[ir.Value]], *wide: ir.Value) -> list[ir.Value]:
        """Apply `make` to one lane of float64 numbers that are equal in all lanes of a row. It gets a function
        that gives a scalar the type of its operands first."""
        raise NotImplementedError

    def exact_mean(self, array: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The mean of a row, rounded, and what rounding left of it. A difference from both has the digits of a spread
        that is small beside the mean."""
        if self.element.working is F64:
            mean = self.mean(self.total(lambda x: x, array))
            return mean, self.mean(self.total(lambda x: self.minus(x, mean), array))
        builder, numbers = self.builder, self.builder.sitofp(self.numbers, F64)
        [total] = self.wide_totals(1, lambda x: [x], array)
        [mean] = self.once(lambda like, sum: [builder.fdiv(sum, like(numbers))], total)
        rounded = self.narrow(mean)
        return rounded, self.narrow(builder.fsub(mean, self.widen(rounded)))

    def largest(self, array: ir.Value) -> ir.Value:
        """The largest number, NaN aside; -inf of nothing."""
        return self.reduce(self.number(float("-inf")), self._larger, 1, lambda x: [x], array)[0]

    def write_running(
        self, out: ir.Value, array: ir.Value, start: float, join: Callable, in_pairs: bool = True
    ) -> None:
        """Write what the numbers up to each one are joined to, in float64; `start` is nothing to join. A row is one
        segment, whose numbers may be joined with one another first if `in_pairs`."""
        raise NotImplementedError

    def widen(self, value: ir.Value) -> ir.Value:
        wide = ir.VectorType(F64, self.lanes)
        return value if value.type == wide else self.builder.fpext(value, wide)

    def narrow(self, value: ir.Value) -> ir.Value:
        return value if self.element.working is F64 else self.builder.fptrunc(value, self.kind)

    def _larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(self.builder.fcmp_ordered("<", a, b), b, a)

    def extreme(self, array: ir.Value, better: str) -> ir.Value:
        """The number that is ">" or "<" all others, or NaN where there is one."""
        builder = self.builder

        def join(a: ir.Value, b: ir.Value) -> ir.Value:
            kept = builder.or_(builder.fcmp_ordered(better + "=", a, b), builder.fcmp_unordered("uno", a, a))
            return builder.select(kept, a, b)

        start = self.number(float("-inf" if better == ">" else "inf"))
        return self.reduce(start, join, 1, lambda x: [x], array)[0]


class Row(Sweeps):
    """A row: `segments` times `count` numbers that lie side by side in one or several arrays, each segment `stride`
    bytes behind the one before. What stands for the row is a vector of equal numbers."""

    def __init__(
        self, builder: ir.IRBuilder, element: Any, count: ir.Value, segments: ir.Value, stride: ir.Value
    ) -> None:
        super().__init__(builder, element)
        self.segments, self.stride, self.numbers = segments, stride, builder.mul(count, segments)
        self.whole = builder.sdiv(count, I64(self.lanes))
        self.left = builder.sub(count, builder.mul(self.whole, I64(self.lanes)))

    def _place(self, start: ir.Value, index: ir.Value, size: int) -> ir.Value:
        """Where a vector lies."""
        return offset(self.builder, start, self.builder.mul(index, I64(self.lanes * size)))

    def _start(self, array: ir.Value, segment: ir.Value) -> ir.Value:
        return offset(self.builder, array, self.builder.mul(segment, self.stride))

    def of_segment(self, at: ir.Value, segment: ir.Value) -> ir.Value:
        """The address of the number for a segment."""
        return offset(self.builder, at, self.builder.mul(segment, I64(self.kept.element.size)))

    def _reader(self, operand: Any, segment: ir.Value) -> Callable[..., ir.Value]:
        if isinstance(operand, OfColumn):
            size = self.kept.element.size
            return lambda index, mask: self.kept.read(self._place(operand.at, index, size), None, mask)
        if isinstance(operand, OfSegment):
            operand = self.every(self.of_segment(operand.at, segment))
        if isinstance(operand.type, ir.VectorType):
            return lambda index, mask: operand
        start = self._start(operand, segment)
        return lambda index, mask: self.read(self._place(start, index, self.element.size), mask)

    def write_each(self, out: ir.Value, make: Callable[..., ir.Value], *operands: Any) -> None:
        """Write what `make` makes of the vectors of the operands."""
        builder = self.builder

        def one(segment: ir.Value, _: list) -> list:
            readers = [self._reader(operand, segment) for operand in operands]
            target = self._start(out, segment)

            def some(index: ir.Value, mask: ir.Value) -> list:
                value = make(*[read(index, mask) for read in readers])
                self.write(value, self._place(target, index, self.element.size), mask)
                return []

            loop_of_any(builder, self.whole, [], lambda index, _: some(index, self.all))
            with builder.if_then(builder.icmp_signed(">", self.left, I64(0))):
                some(self.whole, self.first(self.left))
            return []

        loop(builder, self.segments, [], one)

    def add_to_columns(self, sums: ir.Value, make: Callable[..., ir.Value], *operands: Any) -> None:
        """Add what `make` makes of the vectors of the operands, of one segment, to float64 numbers at an address."""
        builder, wide = self.builder, Rows(self.builder, Float64, self.lanes)
        readers = [self._reader(operand, I64(0)) for operand in operands]

        def some(index: ir.Value, mask: ir.Value) -> list:
            value, place = self.widen(make(*[read(index, mask) for read in readers])), self._place(sums, index, 8)
            wide.write(builder.fadd(wide.read(place, None, mask), value), place, mask)
            return []

        loop_of_any(builder, self.whole, [], lambda index, _: some(index, self.all))
        with builder.if_then(builder.icmp_signed(">", self.left, I64(0))):
            some(self.whole, self.first(self.left))

    def reduce(
        self, start: ir.Value, join: Callable, parts: int, make: Callable[..., list[ir.Value]], *operands: Any,
        of_segment: Callable[..., list[ir.Value]] | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        """The numbers of a segment are joined before others. `of_segment` makes of the number of a segment, and of what
        was joined in it, what is joined with others."""
        nothing = [start] * parts

        def one(segment: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            readers = [self._reader(operand, segment) for operand in operands]
            found = self._of_segment(nothing, join, make, readers)
            if of_segment is not None:
                found = of_segment(segment, *[self._across(each, join) for each in found])
            return [join(*each) for each in zip(before, found, strict=True)]

        found = loop(self.builder, self.segments, nothing, one)
        return found if of_segment is not None else [self._across(each, join) for each in found]

    def _of_segment(
        self, nothing: list[ir.Value], join: Callable, make: Callable[..., list[ir.Value]], readers: list[Callable]
    ) -> list[ir.Value]:
        """A segment's, each part in one vector whose lanes are not joined yet."""
        builder, parts = self.builder, len(nothing)
        count = _CHAINS if nothing[0].type == self.kind else _WIDE_CHAINS

        def join_segment(index: ir.Value, before: list[ir.Value], mask: ir.Value | None = None) -> list[ir.Value]:
            made = make(*[read(index, self.all if mask is None else mask) for read in readers])
            if mask is not None:
                made = [builder.select(mask, *each) for each in zip(made, nothing, strict=True)]
            return [join(*each) for each in zip(before, made, strict=True)]

        def some(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            first, after = builder.mul(index, I64(count)), list[ir.Value]()
            for chain in range(count):
                after += join_segment(builder.add(first, I64(chain)), before[chain * parts : (chain + 1) * parts])
            return after

        groups = builder.sdiv(self.whole, I64(count))
        found = loop_of_any(builder, groups, nothing * count, some)
        chains = [found[chain * parts : (chain + 1) * parts] for chain in range(count)]
        done = builder.mul(groups, I64(count))
        rest = builder.sub(self.whole, done)
        chains[0] = loop_of_any(builder, rest, chains[0], lambda i, before: join_segment(builder.add(done, i), before))
        chains[1] = join_segment(self.whole, chains[1], self.first(self.left))
        while len(chains) > 1:
            pairs = zip(chains[::2], chains[1::2], strict=True)
            chains = [[join(*each) for each in zip(*pair, strict=True)] for pair in pairs]
        return chains[0]

    def write_running(
        self, out: ir.Value, array: ir.Value, start: float, join: Callable, in_pairs: bool = True
    ) -> None:
        builder, nothing, size = self.builder, splat(F64, start, self.lanes), self.element.size
        last = ir.Constant(ir.VectorType(I32, self.lanes), [self.lanes - 1] * self.lanes)

        def one_by_one(value: ir.Value, before: ir.Value) -> ir.Value:
            number, found = builder.extract_element(before, I32(0)), value
            for lane in range(self.lanes):
                number = join(number, builder.extract_element(value, I32(lane)))
                found = builder.insert_element(found, number, I32(lane))
            return found

        def pairwise(value: ir.Value, before: ir.Value) -> ir.Value:
            distance = 1
            while distance < self.lanes:
                order = [lane if lane < distance else self.lanes + lane - distance for lane in range(self.lanes)]
                order = ir.Constant(ir.VectorType(I32, self.lanes), order)
                value = join(value, builder.shuffle_vector(nothing, value, order))
                distance *= 2
            return join(value, before)

        def some(index: ir.Value, before: ir.Value, mask: ir.Value) -> list[ir.Value]:
            value = self.widen(self.read(self._place(array, index, size), mask))
            found = pairwise(value, before) if in_pairs else one_by_one(value, before)
            self.write(self.narrow(found), self._place(out, index, size), mask)
            return [builder.shuffle_vector(found, found, last)]

        [before] = loop_of_any(builder, self.whole, [nothing], lambda index, found: some(index, found[0], self.all))
        with builder.if_then(builder.icmp_signed(">", self.left, I64(0))):
            some(self.whole, before, self.first(self.left))

    def _across(self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """The lanes of a vector, joined, in all lanes."""
        distance = self.lanes // 2
        while distance:
            order = ir.Constant(ir.VectorType(I32, self.lanes), [lane ^ distance for lane in range(self.lanes)])
            value = join(value, self.builder.shuffle_vector(value, value, order))
            distance //= 2
        return value

    def every(self, at: ir.Value) -> ir.Value:
        """A number that is kept, in all lanes."""
        at = self.builder.bitcast(at, self.element.working.as_pointer())
        return broadcast(self.builder, self.builder.load(at, align=self.kept.element.size), self.lanes)

    def keep(self, value: ir.Value, at: ir.Value) -> None:
        number = self.builder.extract_element(value, I32(0))
        self.builder.store(number, self.builder.bitcast(at, number.type.as_pointer()), align=self.kept.element.size)

    def once(self, make: Callable[..., list[ir.Value]], *wide: ir.Value) -> list[ir.Value]:
        made = make(lambda scalar: scalar, *[self.builder.extract_element(each, I32(0)) for each in wide])
        return [broadcast(self.builder, each, self.lanes) for each in made]

    def by_float64(self, name: str, value: ir.Value) -> ir.Value:
        """LLVM's function of float64 of that name, of the number in all lanes."""
        builder, working = self.builder, self.element.working
        number = builder.extract_element(value, I32(0))
        if name == "log" and not self.element.fused:  # the C library's has fused operations
            wide = self.wide()
            number = number if working is F64 else builder.fpext(number, F64)
            found = builder.extract_element(wide.logarithm(broadcast(builder, number, wide.lanes)), I32(0))
            return broadcast(builder, found if working is F64 else builder.fptrunc(found, working), self.lanes)
        number = call(builder, f"llvm.{name}.f64", F64, number if working is F64 else builder.fpext(number, F64))
        return broadcast(builder, number if working is F64 else builder.fptrunc(number, working), self.lanes)


class Strip(Sweeps):
    """Rows side by side, a lane for each: neighbouring numbers of a row lie `stride` bytes apart."""

    def __init__(self, builder: ir.IRBuilder, element: Any, numbers: ir.Value, stride: ir.Value) -> None:
        super().__init__(builder, element, _STRIP)
        self.numbers, self.stride = numbers, stride

    def _reader(self, operand: Any, segment: ir.Value) -> Callable[..., ir.Value]:
        """`segment` is the index of a number."""
        if isinstance(operand.type, ir.VectorType):
            return lambda: operand
        return lambda: self.read(offset(self.builder, operand, self.builder.mul(segment, self.stride)))

    def write_each(self, out: ir.Value, make: Callable[..., ir.Value], *operands: Any) -> None:
        def one(index: ir.Value, _: list) -> list:
            value = make(*[self._reader(operand, index)() for operand in operands])
            self.write(value, offset(self.builder, out, self.builder.mul(index, self.stride)))
            return []

        loop(self.builder, self.numbers, [], one)

    def reduce(
        self, start: ir.Value, join: Callable, parts: int, make: Callable[..., list[ir.Value]], *operands: Any,
        **of: Any,
    ) -> list[ir.Value]:  # fmt: skip
        """Numbers are joined in blocks of `_BLOCK`, and these with one another."""
        builder, nothing = self.builder, [start] * parts

        def join_block(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            made = make(*[self._reader(operand, index)() for operand in operands])
            return [join(*each) for each in zip(before, made, strict=True)]

        def block(number: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            first = builder.mul(number, I64(_BLOCK))
            left = builder.sub(self.numbers, first)
            count = builder.select(builder.icmp_signed("<", left, I64(_BLOCK)), left, I64(_BLOCK))
            found = loop(builder, count, nothing, lambda index, values: join_block(builder.add(first, index), values))
            return [join(*each) for each in zip(before, found, strict=True)]

        blocks = builder.sdiv(builder.add(self.numbers, I64(_BLOCK - 1)), I64(_BLOCK))
        return loop(builder, blocks, nothing, block)

    def write_running(
        self, out: ir.Value, array: ir.Value, start: float, join: Callable, in_pairs: bool = True
    ) -> None:
        def one(index: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            found = join(before[0], self.widen(self._reader(array, index)()))
            self.write(self.narrow(found), offset(self.builder, out, self.builder.mul(index, self.stride)))
            return [found]

        loop(self.builder, self.numbers, [splat(F64, start, self.lanes)], one)

    def every(self, at: ir.Value) -> ir.Value:
        """A number that is kept for each row."""
        return self.kept.read(at, None, self.all)

    def keep(self, value: ir.Value, at: ir.Value) -> None:
        self.kept.write(value, at, self.all)

    def once(self, make: Callable[..., list[ir.Value]], *wide: ir.Value) -> list[ir.Value]:
        return make(lambda scalar: broadcast(self.builder, scalar, self.lanes), *wide)

    def by_float64(self, name: str, value: ir.Value) -> ir.Value:
        """LLVM's function of float64 of that name, of the number in each lane."""
        wide = ir.VectorType(F64, self.lanes)
        return self.narrow(call(self.builder, f"llvm.{name}.v{self.lanes}f64", wide, self.widen(value)))
