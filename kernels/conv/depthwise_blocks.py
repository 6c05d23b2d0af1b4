"""Blocks of results of depthwise convolutions, and of what a gradient with respect to the weight is the sum of.

Results that follow one another, along the columns or along the rows, are a block, whose sums stay in registers: each
value is read once for each line of taps, and meets all the taps of the line and all the results that it has to do with.
At the edges of an image a block leaves out what does not exist.

Usual windows have code of their own, in which each value is read once. The code of any window reads the taps of each
result from a table; inside an image, results that follow one another share the weights. Sums have the same order.

A gradient with respect to the weight has the same blocks, with g in registers and sums in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ..block.emit import I64, broadcast, either, load, loop, loop_of_any, offset, store, zero
from ..block.tags import field_class
from ..runtime.emitter import Constant, Fields, Type, emitter
from ..runtime.jit import ir
from .depthwise_lanes import lanes_of
from .gather_scatter import pointer

AXIS_BYTES, UNIT_BYTES = 24, 32
"""Of a row of the tables of a dimension and of vectors of lanes."""

_INSIDE, _AT_EDGE, _LAST, _WHOLE = 0, 1, 2, 3
"""Of a block: all values and results exist; all results; some; or those of several vectors of columns, which all
exist."""


def _axis(lanes: Any, table: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A row of a dimension's table: how many taps, the place that the first of them meets, and which it is."""
    builder, at = lanes.builder, pointer(lanes.builder, table)
    count, place, tap = (load(builder, I64, offset(builder, at, 8 * which), 8) for which in range(3))
    return count, place, tap


def _for_each_line(
    block: _Block, xs: list, weights: list, phase: int, carried: list, body: Callable[[list, list, list], list]
) -> list:
    """`body(values, weights, carried)` for each line of taps: of all results of a channel, all planes, all lines."""
    lanes, planes, lines = block.lanes, block.planes, block.lines[phase]
    builder, of = lanes.builder, lanes.field
    shift = builder.mul(block.row, of("row_source"))

    def along(axis: tuple, kind: str, index: ir.Value, more: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        place = builder.add(builder.add(axis[1], more), builder.mul(index, of(f"{kind}_source")))
        tap = builder.add(axis[2], builder.mul(index, of(f"{kind}_tap")))
        return place, builder.mul(place, of(f"{kind}_step")), builder.mul(tap, of(f"{kind}_weight"))

    def group(index: ir.Value, before: list) -> list:
        x_group, w_group = builder.mul(index, of("group_step")), builder.mul(index, of("group_weight"))

        def plane(index: ir.Value, before: list) -> list:
            _, to_x, to_w = along(planes, "plane", index, I64(0))
            x_plane, w_plane = builder.add(x_group, to_x), builder.add(w_group, to_w)

            def line(index: ir.Value, before: list) -> list:
                place, to_x, to_w = along(lines, "line", index, shift)
                lanes.begin_line(place)
                to_x, to_w = builder.add(x_plane, to_x), builder.add(w_plane, to_w)
                at_x, at_w = [offset(builder, x, to_x) for x in xs], [offset(builder, w, to_w) for w in weights]
                return body(at_x, at_w, before)

            return loop_of_any(builder, lines[0], before, line)

        return loop_of_any(builder, planes[0], before, plane) if block.window.nested else plane(I64(0), before)

    return loop(builder, of("reads"), carried, group) if block.window.nested else group(I64(0), carried)


class _Block:
    """Emits a block, with the arguments of `emit_block`."""

    def __init__(self, lanes: Any, window: Any, edge: int, across: list[ir.Value], along: list[ir.Value]) -> None:
        self.lanes, self.window, self.edge, builder = lanes, window, edge, lanes.builder
        (planes, lines, row), (first, left) = across, along
        self.builder, self.row, self.left = builder, row, left
        self.planes = _axis(lanes, planes)
        self.lines = [_axis(lanes, builder.add(lines, I64(AXIS_BYTES * phase))) for phase in range(lanes.phases)]
        self.read_step, self.write_step, self.tap = (lanes.field(name) for name in ("read_step", "write_step", "tap"))
        self.there = {}
        for place in window.met if edge in (_AT_EDGE, _LAST) else ():
            at = builder.add(first, I64(place))
            self.there[place] = builder.icmp_unsigned("<", at, lanes.field("positions"))
        # The code of any window has no masks: at an edge it finds one result after the other.
        self.masked, self.outputs = edge == _LAST, window.outputs
        if window.any:
            self.first, self.number = first, builder.sub(lanes.field("results"), left)
            self.masked, self.outputs = False, 1 if edge == _LAST else window.outputs

    def exists(self, output: int) -> ir.Value:
        return self.builder.icmp_signed("<", I64(output), self.left)

    def result(self, out: ir.Value, output: int) -> ir.Value:
        return offset(self.builder, out, self.builder.mul(self.write_step, I64(output)))

    def slots(self, weights: ir.Value) -> list[ir.Value]:
        """Where the weights, or the sums, of a line's taps are."""
        return [offset(self.builder, weights, self.builder.mul(self.tap, I64(tap))) for tap in range(self.window.taps)]

    def each_tap(self, totals: list, meet: Callable[[ir.Value, ir.Value, list], list]) -> list:
        """The totals after `meet(to_value, to_weight, totals)` for each tap that the table gives the block's first
        result; places are bytes from the first of the block's values and of the line's weights."""
        builder, of = self.builder, self.lanes.field
        row = builder.add(of("inner_table"), builder.mul(self.number, I64(AXIS_BYTES)))
        count, place, tap = _axis(self.lanes, row)
        to_value = builder.mul(builder.sub(place, self.first), self.read_step)
        to_weight = builder.mul(tap, self.tap)

        def one(index: ir.Value, totals: list) -> list:
            steps = [builder.mul(index, of(name)) for name in ("inner_source", "inner_weight")]
            return meet(builder.add(to_value, steps[0]), builder.add(to_weight, steps[1]), totals)

        return loop_of_any(builder, count, totals, one)

    def neighbours(self, x: ir.Value) -> list[ir.Value]:
        """Where the block's results read what a tap meets."""
        step = self.lanes.field("output_source")
        return [offset(self.builder, x, self.builder.mul(step, I64(output))) for output in range(self.outputs)]

    def each_value(self, x: ir.Value, totals: list, meet: Callable[[ir.Value, list, list], list]) -> list:
        """What `meet(value, pairs, totals)` makes of the totals for each value that exists, with the results and taps
        that it belongs to."""
        for place, pairs in self.window.met.items():
            at = offset(self.builder, x, self.builder.mul(self.read_step, I64(place)))

            def one(at=at, pairs=pairs, totals=totals) -> list:
                return meet(self.lanes.read(at), pairs, list(totals))

            totals = either(self.builder, self.there[place], one, lambda t=totals: t) if self.there else one()
        return totals


@emitter
def emit_block(
    builder, leaf: Type, kind: Constant, plan, starts: Fields, across: Fields, along: Fields, units: Fields
) -> None:
    """Convolve or weigh one block, for the vectors of lanes from the first to the second of `units`, whose table says
    where after each of `starts` (values, results, weights, bias) they begin. `across` are rows of the tables of two
    dimensions, and the number of the row; `along` is the place of the first value, and how many results are left."""
    window = field_class(leaf, "window")
    beside = window.beside if kind == _WHOLE else 1
    never = (_AT_EDGE, _INSIDE) if window.outputs == 1 else (_AT_EDGE,)
    if (kind == _WHOLE and beside == 1) or (window.any and kind in never):
        return
    starts, (unit, end) = [pointer(builder, address) for address in starts], units
    lanes = lanes_of(builder, leaf, plan, across[2])
    block = _Block(lanes, window, kind, across, along)
    table = pointer(builder, lanes.field("unit_table"))
    if kind == _WHOLE:
        lanes.whole = True
    steps = builder.mul(lanes.field("row_source"), lanes.field("line_step")), lanes.field("out_row")

    def some(first: ir.Value, count: int) -> list:
        vectors = []
        for which in range(count):
            at = builder.add(first, I64(which))
            at = offset(builder, table, builder.mul(at, I64(UNIT_BYTES)))
            x, out, *others = [
                offset(builder, start, load(builder, I64, offset(builder, at, 8 * field), 8))
                for field, start in enumerate(starts)
            ]
            for row in range(beside):
                shifts = [builder.mul(step, I64(row)) for step in steps]
                here = [offset(builder, each, shift) for each, shift in zip((x, out), shifts, strict=True)]
                vectors.append([*here, *others])
        _results(block, *zip(*vectors, strict=True))
        return []

    count, together = builder.sub(end, unit), 1 if kind == _WHOLE else window.together
    if together > 1:
        sets = builder.sdiv(count, I64(together))
        done = builder.mul(sets, I64(together))
        first = unit
        loop_of_any(builder, sets, [], lambda i, _: some(builder.add(first, builder.mul(i, I64(together))), together))
        unit, count = builder.add(unit, done), builder.sub(count, done)
    loop_of_any(builder, count, [], lambda index, _: some(builder.add(unit, index), 1))


def _results(block: _Block, xs: tuple, outs: tuple, *others: tuple) -> None:
    """Emit a block for some vectors of lanes: in any window, at an edge, one result after the other."""
    builder, window = block.builder, block.window
    emit = (_weigh_any if window.any else _weigh_block) if window.weighs else _convolve_block
    if not (window.any and block.edge == _LAST):
        emit(block, xs, outs, *others)
        return
    number, limit = block.number, I64(window.outputs)
    left = builder.select(builder.icmp_signed("<", block.left, limit), block.left, limit)

    def single(output: ir.Value, _: list) -> list:
        block.number = builder.add(number, output)
        shift = builder.mul(block.write_step, output)
        emit(block, xs, tuple(offset(builder, out, shift) for out in outs), *others)
        return []

    loop(builder, left, [], single)
    block.number = number


def _convolve_block(block: _Block, xs: tuple, outs: tuple, weights: tuple, biases: tuple) -> None:
    """Convolve for some vectors of lanes."""
    builder, window, lanes, each = block.builder, block.window, block.lanes, block.outputs

    def any_line(xs: list, weights: list, totals: list) -> list:
        def meet(to_value: ir.Value, to_weight: ir.Value, totals: list) -> list:
            found = []
            for which, (x, weight) in enumerate(zip(xs, weights, strict=True)):
                factor = lanes.weight(offset(builder, weight, to_weight))
                for output, at in enumerate(block.neighbours(offset(builder, x, to_value))):
                    found.append(lanes.add(lanes.read(at), factor, totals[which * each + output]))
            return found

        return block.each_tap(totals, meet)

    def line(xs: list, weights: list, totals: list) -> list:
        found = []
        for which, (x, weight) in enumerate(zip(xs, weights, strict=True)):
            factors = [lanes.weight(slot) for slot in block.slots(weight)]

            def meet(value: ir.Value, pairs: list, totals: list, factors=factors) -> list:
                for output, tap in pairs:
                    totals[output] = lanes.add(value, factors[tap], totals[output])
                return totals

            found += block.each_value(x, totals[which * each : (which + 1) * each], meet)
        return found

    start = [total for bias in biases for total in [lanes.bias(bias)] * each]
    body = any_line if window.any else line
    sums = [_for_each_line(block, list(xs), list(weights), phase, start, body) for phase in range(lanes.phases)]
    least = ir.Constant(lanes.element.working, -math.inf)
    least = builder.select(
        builder.icmp_signed("!=", lanes.field("relu"), I64(0)), ir.Constant(lanes.element.working, 0.0), least
    )
    floor = broadcast(builder, least, lanes.count)
    for index in range(len(outs) * each):
        which, output = divmod(index, each)
        # NaN stays, as do zeros with a sign.
        values = [builder.select(builder.fcmp_ordered(">", floor, of[index]), floor, of[index]) for of in sums]
        if block.masked:
            with builder.if_then(block.exists(output)):
                lanes.write(values, block.result(outs[which], output))
        else:
            lanes.write(values, block.result(outs[which], output))


def _weigh_block(block: _Block, xs: tuple, gs: tuple, sums: tuple, _: tuple) -> None:
    """Weigh for some vectors of lanes of one channel."""
    builder, lanes, last, given, exist = block.builder, block.lanes, block.masked, [], []
    each = block.window.outputs
    for g, output in itertools.product(gs, range(each)):
        at = block.result(g, output)
        if last:
            there = block.exists(output)
            exist.append(broadcast(builder, there, lanes.count))
            given += either(builder, there, lambda at=at: [lanes.read_result(at)], lambda: [zero(lanes.kind)])
        else:
            given.append(lanes.read_result(at))

    def line(xs: list, sums: list, _: list) -> list:
        slots = block.slots(*sums)
        found = [lanes.working(slot) for slot in slots]
        for which, x in enumerate(xs):

            def meet(value: ir.Value, pairs: list, totals: list, first: int = which * each) -> list:
                for output, tap in pairs:
                    total = lanes.add(value, given[first + output], totals[tap])
                    totals[tap] = builder.select(exist[output], total, totals[tap]) if last else total
                return totals

            found = block.each_value(x, found, meet)
        for slot, total in zip(slots, found, strict=True):
            store(builder, total, slot, lanes.size)
        return []

    _for_each_line(block, list(xs), [sums[0]], 0, [], line)


def _weigh_any(block: _Block, xs: tuple, gs: tuple, sums: tuple, _: tuple) -> None:
    """Weigh for a vector of lanes, in any window."""
    builder, lanes = block.builder, block.lanes
    given = [lanes.read_result(block.result(gs[0], output)) for output in range(block.outputs)]

    def line(xs: list, sums: list, _: list) -> list:
        def meet(to_value: ir.Value, to_weight: ir.Value, _: list) -> list:
            slot = offset(builder, sums[0], to_weight)
            total = lanes.working(slot)
            for g, at in zip(given, block.neighbours(offset(builder, xs[0], to_value)), strict=True):
                total = lanes.add(lanes.read(at), g, total)
            store(builder, total, slot, lanes.size)
            return []

        return block.each_tap([], meet)

    _for_each_line(block, list(xs), [sums[0]], 0, [], line)
