"""The online softmax of flash attention with one query in each lane: emitted code.

Scores are the product of the keys and the queries, in this order: a row holds the scores of all queries of a panel with
one key. Maxima and sums then go down the rows, lane by lane, with no reduction across lanes; and two neighbouring rows
rounded and interleaved are a row of a tile of the product with the values. All are of float32, or of float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..block import emit as e
from ..block.conversions import ToBf16, convert_lanes
from ..block.emit import broadcast, load, store
from ..block.microkernels import Rows, convert
from ..block.packing import TilePanel, VectorPanel, factors_in_two, interleaved_parts
from ..block.sources import Float32, Float64
from ..block.tags import field_class, instance
from ..runtime.emitter import Class, Pointer, Type, emitter
from ..runtime.jit import ir
from .powers import Powers

_DEGREES = {"bf16": 3, "tf32": 4, "fp16": 4}
"""Of powers, by what weights are rounded to, so that they add at most 4 % to that rounding; 5 for two parts of bf16."""


class Weights(NamedTuple):
    """How weights are left for the product with the values: a panel format of the right operand, and the microkernel
    that will take it."""

    panel: Any
    kernel: Any


class Form(Powers):
    """What the emitting functions need of the tag: lanes, vectors of a row, powers."""

    def __init__(self, builder: ir.IRBuilder, tag: Any) -> None:
        kernel = field_class(tag, "kernel")
        self.size, self.row_bytes, self.height = kernel.size, kernel.size * kernel.nr, kernel.mr
        self.number: Any = Float64 if self.size == 8 else Float32
        super().__init__(builder, self.number.working, min(64 // self.size, kernel.nr), self.row_bytes == 128)
        self.count, self.vector_bytes = kernel.nr // self.lanes, self.size * self.lanes
        self.panel = instance(tag.types[0])
        self.conversion = field_class(tag.types[0], "conversion")
        self.degree = _DEGREES.get(self.conversion.target) or (5 if self.conversion.tile_parts == 2 else self.exact)

    def row(self, at: ir.Value, index: ir.Value) -> ir.Value:
        return e.offset(self.builder, at, self.builder.mul(index, e.I64(self.row_bytes)))

    def load(self, at: ir.Value, number: int) -> ir.Value:
        return load(self.builder, self.kind, e.offset(self.builder, at, number * self.vector_bytes), 4)

    def store(self, value: ir.Value, at: ir.Value, number: int) -> None:
        store(self.builder, value, e.offset(self.builder, at, number * self.vector_bytes), 4)

    def broadcast(self, bits: ir.Value) -> ir.Value:
        """A vector of the number that these bits, an int64, are."""
        own = bits if self.size == 8 else self.builder.trunc(bits, e.I32)
        return broadcast(self.builder, self.builder.bitcast(own, self.element), self.lanes)

    def larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)


def _pointers(builder: ir.IRBuilder, *addresses: ir.Value) -> list[ir.Value]:
    return [builder.inttoptr(address, e.POINTER) for address in addresses]


def _any(builder: ir.IRBuilder, flags: list[ir.Value]) -> ir.Value:
    """Whether any lane of any of these vectors of booleans is true."""
    joined = flags[0]
    for more in flags[1:]:
        joined = builder.or_(joined, more)
    bits = ir.IntType(joined.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(joined, bits), bits(0))


@emitter
def start_panel(builder, tag: Type, state) -> None:
    """Set the maxima of a panel at the address `state` to -inf and its sums, which follow them, to zero."""
    form, [state] = Form(builder, tag), _pointers(builder, state)
    for number in range(form.count):
        form.store(form.splat(float("-inf")), state, number)
        form.store(form.splat(0.0), state, form.count + number)


@emitter
def hide_lanes(builder, tag: Type, row, first) -> None:
    """Set lanes 0 to `first` - 1 of the row at an address to -inf."""
    form, [row] = Form(builder, tag), _pointers(builder, row)
    for number in range(form.count):
        hidden = e.first_lanes(builder, first, form.lanes, number * form.lanes)
        form.store(builder.select(hidden, form.splat(float("-inf")), form.load(row, number)), row, number)


def _maxima(form: Form, scores: ir.Value, keys: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
    """The largest score of each lane, in four chains where the rows come in fours."""
    builder, chains = form.builder, 4 if form.height % 4 == 0 else 1

    def step(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        at = form.row(scores, builder.mul(index, e.I64(chains)))
        after = []
        for chain in range(chains):
            row = e.offset(builder, at, chain * form.row_bytes)
            before = found[chain * form.count :]
            after += [form.larger(form.load(row, number), before[number]) for number in range(form.count)]
        return after

    found = e.loop_of_any(builder, builder.sdiv(keys, e.I64(chains)), before * chains, step)
    while len(found) > form.count:
        half = len(found) // 2
        found = [form.larger(a, b) for a, b in zip(found[:half], found[half:], strict=True)]
    if chains == 1:
        return found

    def rest(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        at = form.row(scores, builder.sub(keys, builder.add(index, e.I64(1))))
        return [form.larger(form.load(at, number), value) for number, value in enumerate(found)]

    return e.loop(builder, builder.srem(keys, e.I64(chains)), found, rest) if form.panel is VectorPanel else found


def _weights_of_vectors(form: Form, scores: ir.Value, weights: ir.Value, keys: ir.Value, weigh: Any) -> list[ir.Value]:
    """Weights as panels of vectors (`VectorPanel`), rounded or in two parts; the sums of the unrounded ones."""
    builder, parts = form.builder, form.conversion.vector_parts

    def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        row, after = form.row(scores, index), []
        target = form.row(weights, builder.mul(index, e.I64(parts)))
        for number, total in enumerate(sums):
            weight = weigh(form.load(row, number), number)
            rows = (
                factors_in_two(builder, "b", weight)
                if parts == 2
                else [convert_lanes(builder, weight, form.conversion)]
            )
            for part, value in enumerate(rows):
                form.store(value, e.offset(builder, target, part * form.row_bytes), number)
            after.append(builder.fadd(total, weight))
        return after

    return e.loop(form.builder, keys, [form.splat(0.0)] * form.count, step)


def _weights_of_tiles(form: Form, scores: ir.Value, weights: ir.Value, keys: ir.Value, weigh: Any) -> list[ir.Value]:
    """Weights as panels of tiles (`TilePanel`); the sums of the unrounded ones."""
    builder, parts = form.builder, form.conversion.tile_parts

    def pair(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        above = form.row(scores, builder.shl(index, e.I64(1)))
        below = e.offset(builder, above, form.row_bytes)
        step, line = builder.lshr(index, e.I64(4)), builder.and_(index, e.I64(15))
        begin = builder.add(builder.mul(step, e.I64(2048 * parts)), builder.mul(line, e.I64(64)))
        at, after = e.offset(builder, weights, begin), []
        for number, total in enumerate(sums):
            both = [weigh(form.load(row, number), number) for row in (above, below)]
            for part, value in enumerate(interleaved_parts(builder, form.conversion, both)):
                store(builder, value, e.offset(builder, at, 2048 * part + 1024 * number), 64)
            after.append(builder.fadd(total, builder.fadd(*both)))
        return after

    return e.loop(builder, builder.ashr(keys, e.I64(1)), [form.splat(0.0)] * form.count, pair)


@emitter
def soften_panel(
    builder, tag: Type, scores: Pointer, weights: Pointer, keys, scale, state: Pointer, sums: Pointer, sum_rows
) -> None:
    """Take the scores of some more keys into the softmax of a panel of queries, and leave their weights.

    All are int64: addresses, counts, and the bits of `scale`, which is positive and includes log2(e).
    Where the maximum of a lane grows, its sum in `state` and its lane of the `sum_rows` rows at `sums` shrink. For
    tiles `keys` is a multiple of 32; those of vector units may be in the place of the scores, unless in two parts.
    """
    form = Form(builder, tag)
    scale, count = form.broadcast(scale), form.count
    lowest = builder.fdiv(form.splat(form.lowest), scale)
    before = [form.load(state, number) for number in range(count)]
    after = _maxima(form, scores, keys, before)
    seen = [builder.fcmp_ordered(">", value, form.splat(float("-inf"))) for value in after]
    shifts = [builder.select(flag, value, form.splat(0.0)) for flag, value in zip(seen, after, strict=True)]

    def weigh(score: ir.Value, number: int, degree: int = form.degree) -> ir.Value:
        return form.power(builder.fsub(score, shifts[number]), scale, lowest, degree)

    if form.panel is VectorPanel:
        totals = _weights_of_vectors(form, scores, weights, keys, weigh)
    else:
        totals = _weights_of_tiles(form, scores, weights, keys, weigh)
    # Exactly 1 where the maximum stays, which the shorter polynomials are not.
    shrinks = [weigh(value, number, form.exact) for number, value in enumerate(before)]
    for number in range(count):
        form.store(after[number], state, number)
        total = builder.fmul(form.load(state, count + number), shrinks[number])
        form.store(builder.fadd(total, totals[number]), state, count + number)
    changed = _any(builder, [builder.fcmp_unordered("!=", value, form.splat(1.0)) for value in shrinks])
    with builder.if_then(builder.and_(changed, builder.icmp_signed(">", sum_rows, e.I64(0)))):

        def shrink(index: ir.Value, _: list) -> list:
            row = form.row(sums, index)
            for number, factor in enumerate(shrinks):
                form.store(builder.fmul(form.load(row, number), factor), row, number)
            return []

        e.loop(builder, sum_rows, [], shrink)


def _store_turned(
    form: Form, access: Rows, sums: ir.Value, factor: ir.Value, rows: ir.Value, columns: ir.Value, out: ir.Value,
    out_stride: ir.Value,
) -> None:  # fmt: skip
    """Store the first `rows` lanes of `columns` sums, times the factor, as rows of `out`: a square at a time, of
    neighbouring pairs in bf16 where `access` takes twice the lanes."""
    builder, lanes, width = form.builder, form.lanes, access.lanes

    def square(index: ir.Value, _: list) -> list:
        first = builder.mul(index, e.I64(width))
        at = form.row(sums, first)
        read = [load(builder, form.kind, e.offset(builder, at, k * form.row_bytes), 4) for k in range(width)]
        scaled = [builder.fmul(each, factor) for each in read]
        if width > lanes:
            pairs = [interleaved_parts(builder, ToBf16, scaled[k : k + 2])[0] for k in range(0, width, 2)]
            lines = e.transpose(builder, [builder.bitcast(pair, e.vector(e.I32, lanes)) for pair in pairs])
            turned = [builder.bitcast(line, e.vector(e.I16, width)) for line in lines]
        else:
            turned = [convert(builder, value, access.element) for value in e.transpose(builder, scaled)]
        mask = e.first_lanes(builder, builder.sub(columns, first), width)
        begin = e.offset(builder, out, builder.mul(first, e.I64(access.element.size)))
        for line, value in enumerate(turned):
            here = builder.icmp_signed("<", e.I64(line), rows)
            chosen = builder.select(here, mask, ir.Constant(e.vector(e.I1, width), [0] * width))
            access.write(value, e.offset(builder, begin, builder.mul(e.I64(line), out_stride)), chosen)
        return []

    e.loop(builder, builder.sdiv(builder.add(columns, e.I64(width - 1)), e.I64(width)), [], square)


@emitter
def finish_panel(
    builder, tag: Type, target: Class, state: Pointer, unit, sums: Pointer, rows, columns, out: Pointer, out_stride,
    largest_at: Pointer, total_at: Pointer,
) -> None:  # fmt: skip
    """Divide a panel's sums (columns x lanes) by its totals, and store them turned, as rows of `out`; and of its first
    `rows` lanes the largest scores, times the number with the bits `unit`, and the totals. A lane that has seen nothing
    gives zeros, inf and 1."""
    form = Form(builder, tag)
    unit = form.broadcast(unit)
    lanes, paired = form.lanes, form.panel is TilePanel and target.stored is e.I16
    access = Rows(builder, target, 2 * lanes if paired else lanes)
    whole = Rows(builder, form.number, lanes)
    for number in range(form.count):
        total, largest = form.load(state, form.count + number), form.load(state, number)
        empty = builder.fcmp_ordered("==", total, form.splat(0.0))
        total = builder.select(empty, form.splat(1.0), total)
        factor = builder.fdiv(form.splat(1.0), total)
        largest = builder.select(empty, form.splat(float("inf")), builder.fmul(largest, unit))
        mask = e.first_lanes(builder, rows, lanes, number * lanes)
        for value, at in ((largest, largest_at), (total, total_at)):
            whole.write(value, e.offset(builder, at, number * form.vector_bytes), mask)
        begin = e.offset(builder, sums, number * form.vector_bytes)
        left = builder.sub(rows, e.I64(number * lanes))
        here = e.offset(builder, out, builder.mul(e.I64(number * lanes), out_stride))
        _store_turned(form, access, begin, factor, left, columns, here, out_stride)
