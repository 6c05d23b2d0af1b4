"""The software pipeline of `pointwise_nhwc`: between tile products, later lines are read and earlier results written.

Lines are looked through for magnitudes that tiles flush, which brings them into the cache; those of float32, and those
that do not follow one another in memory, are packed on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..block import emit as e
from ..block.packing import joined_limits, parts_of, to_bf16, widened_range
from ..block.tags import field_class, tag_class
from ..runtime.jit import ir
from .descriptor import NhwcPlan, read_field
from .pack_tiles import no_range_of_halves, range_of_halves

BLOCK = 32
"""Positions, channels of a step, and columns of a panel."""

SUMS_ROW = 128
SUMS_BYTES = 32 * SUMS_ROW
"""Of the sums of a block and a panel."""

_AHEAD = 4096
"""Bytes in front of what is read that are asked for."""

TOGETHER = 4
"""Lines that are read or written one after the other, without a branch."""

InOrder = tag_class("InOrder", __name__, picked=False)
"""An order of reading: the rows of the positions follow one another."""

Picked = tag_class("Picked", __name__, picked=True)
"""A table says where the row of each position begins."""


def packs(leaf: Any) -> bool:
    """Whether lines are packed: those of bfloat16 that follow one another are multiplied where they lie."""
    return field_class(leaf, "element").size == 4 or field_class(leaf, "order").picked


class Reading(NamedTuple):
    """What is read next: its address (for rows of a table, that of an entry, and what is added to it), where it is
    packed, how many turns are left, and the magnitudes found."""

    at: ir.Value
    inside: ir.Value
    to: ir.Value
    left: ir.Value
    least: ir.Value
    greatest: ir.Value


class Rows(NamedTuple):
    """Of a table: what is added to an entry for the beginning of a row and for its end, and how many bytes further on
    in the table the row is that is asked for. Of what is packed: the bytes from part to part."""

    begin: ir.Value
    end: ir.Value
    ahead: ir.Value
    part: ir.Value


class Results(NamedTuple):
    """Bytes from a position's results to the next one's, and to those that are asked for; what none is less than."""

    row: ir.Value
    ahead: ir.Value
    floor: ir.Value


class Writing(NamedTuple):
    """Where results are written: sums of a position, where they go, and how many turns are left."""

    sums: ir.Value
    to: ir.Value
    left: ir.Value


def nothing_found(leaf: Any) -> list[ir.Value]:
    """The magnitudes of no values."""
    if field_class(leaf, "element").size == 2:
        return no_range_of_halves()
    return [e.splat(e.I32, -1), e.splat(e.I32, 0)]


def keep(builder: ir.IRBuilder, leaf: Any, limits: ir.Value, reading: Reading) -> None:
    """Take the magnitudes that were found into those at `limits`."""
    slots = [e.offset(builder, limits, e.LINE * slot) for slot in (0, 1)]
    known = [e.load(builder, e.vector(e.I32), slot, 4) for slot in slots]
    if field_class(leaf, "element").size == 2:
        found = joined_limits(builder, [reading.least, reading.greatest], known)
    else:
        least = e.call(builder, "llvm.umin.v16i32", e.vector(e.I32), reading.least, known[0])
        found = [least, e.call(builder, "llvm.umax.v16i32", e.vector(e.I32), reading.greatest, known[1])]
    for slot, value in zip(slots, found, strict=True):
        e.store(builder, value, slot, 4)


def _some(builder: ir.IRBuilder, left: ir.Value, most: ir.Value | None, state: list, body: Callable) -> list[ir.Value]:
    """`body` for as many of the turns that are `left` as `most` says, perhaps none."""
    count = left
    if most is not None:
        count = builder.select(builder.icmp_signed("<", left, most), left, most)

    def turns() -> list[ir.Value]:
        return e.loop(builder, count, state, lambda _, now: body(*now))

    return [
        *e.either(builder, builder.icmp_signed(">", count, e.I64(0)), turns, lambda: state),
        builder.sub(left, count),
    ]


def read(builder: ir.IRBuilder, leaf: Any, reading: Reading, most: ir.Value | None, rows: Rows) -> Reading:
    """Read some turns, all that are left without `most`."""
    element, picked = field_class(leaf, "element"), field_class(leaf, "order").picked
    turn_bytes = TOGETHER * 32 * element.size

    def lines(at: ir.Value, inside: ir.Value, to: ir.Value, *found: ir.Value) -> list[ir.Value]:
        if picked:
            row, soon = (e.load(builder, e.I64, each, 8) for each in (at, e.offset(builder, at, rows.ahead)))
            source, soon = (builder.inttoptr(builder.add(each, inside), at.type) for each in (row, soon))
        else:
            source, soon = at, e.offset(builder, at, _AHEAD)
        e.prefetch_to_l2(builder, soon, turn_bytes // e.LINE)
        found = list(found)
        for line in range(TOGETHER):
            here, target = e.offset(builder, source, 32 * element.size * line), e.offset(builder, to, e.LINE * line)
            found = _line(builder, leaf, here, target if packs(leaf) else None, found, rows.part)
        if packs(leaf):
            to = e.offset(builder, to, TOGETHER * e.LINE)
        if not picked:
            return [e.offset(builder, at, turn_bytes), inside, to, *found]
        inside = builder.add(inside, e.I64(turn_bytes))
        ends = builder.icmp_unsigned(">=", inside, rows.end)
        at = e.offset(builder, at, builder.select(ends, e.I64(8), e.I64(0)))
        return [at, builder.select(ends, rows.begin, inside), to, *found]

    state = [reading.at, reading.inside, reading.to, reading.least, reading.greatest]
    *places, least, greatest, left = _some(builder, reading.left, most, state, lines)
    return Reading(*places, left, least, greatest)


def _line(
    builder: ir.IRBuilder, leaf: Any, at: ir.Value, to: ir.Value | None, found: list[ir.Value], part_bytes: ir.Value
) -> list[ir.Value]:
    """Read 32 values, and pack them where that is asked for; what was found with their magnitudes."""
    element = field_class(leaf, "element")
    if element.size == 2:
        value = e.load(builder, e.vector(e.I16, 32), at, 2)
        if to is not None:
            e.store(builder, value, to, e.LINE)
        return range_of_halves(builder, [value], found)
    values = [e.load(builder, e.vector(e.F32), e.offset(builder, at, e.LINE * half), 4) for half in (0, 1)]
    for part, line in enumerate(parts_of(builder, field_class(leaf, "conversion"), values)):
        e.store(builder, line, e.offset(builder, to, builder.mul(part_bytes, e.I64(part))), e.LINE)
    return widened_range(builder, values, found)


def write(builder: ir.IRBuilder, leaf: Any, writing: Writing, most: ir.Value | None, results: Results) -> Writing:
    """Write some turns of results, 32 for each position."""
    element, floor = field_class(leaf, "element"), results.floor

    def lines(sums: ir.Value, to: ir.Value) -> list[ir.Value]:
        for line in range(TOGETHER):
            e.prefetch_to_l2(builder, e.offset(builder, to, results.ahead), element.size // 2)
            here = e.offset(builder, sums, SUMS_ROW * line)
            values = [
                e.load(builder, e.vector(e.F32), e.offset(builder, here, e.LINE * half), e.LINE) for half in (0, 1)
            ]
            # NaN stays, as do zeros with a sign.
            values = [builder.select(builder.fcmp_ordered(">", floor, value), floor, value) for value in values]
            if element.size == 2:
                values = [to_bf16(builder, *values)]
            for half, value in enumerate(values):
                e.store(builder, value, e.offset(builder, to, e.LINE * half), e.LINE)
            to = e.offset(builder, to, results.row)
        return [e.offset(builder, sums, SUMS_ROW * TOGETHER), to]

    return Writing(*_some(builder, writing.left, most, [writing.sums, writing.to], lines))


def results_of(builder: ir.IRBuilder, plan: ir.Value) -> Results:
    row, ahead, relu = (read_field(builder, NhwcPlan, plan, name) for name in ("out_row", "out_ahead", "relu"))
    least = builder.select(
        builder.icmp_signed("!=", relu, e.I64(0)), ir.Constant(e.F32, 0.0), ir.Constant(e.F32, -math.inf)
    )
    return Results(row, ahead, e.broadcast(builder, least))
