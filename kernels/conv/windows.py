"""Depthwise 3 x 3 convolutions of channels-last arrays: windows in registers.

A cell is 2 x 4 positions of the result. Its nine weights and its results stay in registers. Each input value is read
once, rounded if the precision requires it, and added to all results that use it. Masks exclude values outside the
image.

A task is a strip of rows of one image, as in `depthwise_last`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..gemm.emit import F32, I64, broadcast, loop, offset
from ..gemm.packing import convert_lanes
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, subroutine, types
from .depthwise_last import LANES, Lanes, StripArguments
from .descriptor import field
from .memory import read64
from .positions import pointer

__all__ = ["COLUMNS", "ROWS", "TAPS", "Cell", "Every", "EveryOther", "Places", "Spread", "Windows"]

ROWS, COLUMNS = 2, 4
"""Positions of a cell."""

TAPS = 3
"""Along either dimension."""


class Every(NamedTuple):
    """A stride of one. A cell at place p begins with the value at p * advance // apart, less the padding, and reads a
    fixed number of rows and columns of values.
    """

    advance, apart = 1, 1
    rows, columns = ROWS - 1 + TAPS, COLUMNS - 1 + TAPS

    @staticmethod
    def source_of(place: int, tap: int) -> int | None:
        """Which value the result at a place of a cell meets with a tap, if any."""
        return place + tap


class EveryOther(NamedTuple):
    """A stride of two."""

    advance, apart = 2, 1
    rows, columns = 2 * (ROWS - 1) + TAPS, 2 * (COLUMNS - 1) + TAPS

    @staticmethod
    def source_of(place: int, tap: int) -> int | None:
        return 2 * place + tap


class Spread(NamedTuple):
    """The gradient of a stride of two, and a padding of one, with respect to the input."""

    advance, apart = 1, 2
    rows, columns = ROWS // 2 + 1, COLUMNS // 2 + 1

    @staticmethod
    def source_of(place: int, tap: int) -> int | None:
        return (place + 1 - tap) // 2 if (place + 1 - tap) % 2 == 0 else None


class Cell:
    """Which values the results of a cell meet: for each its results and their taps."""

    def __init__(self, window: type[Every | EveryOther | Spread]) -> None:
        self.rows, self.columns = window.rows, window.columns
        self.met: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for result in range(ROWS * COLUMNS):
            for tap in range(TAPS * TAPS):
                pairs = zip(divmod(result, COLUMNS), divmod(tap, TAPS), strict=True)
                row, column = (window.source_of(*pair) for pair in pairs)
                if row is not None and column is not None:
                    self.met.setdefault((row, column), []).append((result, tap))


class Places:
    """Emits the addresses of the rows and columns that a cell meets, and which of these exist: the first is `first`
    (0 for None) in an array of `sizes`. With `masked`, the mask of `lanes` is set to leave out what does not exist."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        lanes: Lanes,
        masked: bool,
        steps: ir.Value,
        first: ir.Value | None,
        sizes: ir.Value,
        counts: tuple[int, int],
    ) -> None:
        self.builder, self.lanes, self.masked, self.some = builder, lanes, masked, lanes.mask
        self.steps, self.there = [], []
        for which, count in enumerate(counts):
            start = I64(0) if first is None else builder.extract_value(first, which)
            size = builder.extract_value(sizes, which)
            self.steps.append(builder.extract_value(steps, which))
            self.there.append(
                [builder.icmp_unsigned("<", builder.add(start, I64(place)), size) for place in range(count)]
            )

    def exists(self, row: int, column: int) -> ir.Value:
        return self.builder.and_(self.there[0][row], self.there[1][column])

    def at(self, base: ir.Value, row: int, column: int) -> ir.Value:
        """The address of a place."""
        builder = self.builder
        if self.masked:
            self.lanes.mask = builder.and_(self.some, broadcast(builder, self.exists(row, column), LANES))
        for step, count in zip(self.steps, (row, column), strict=True):
            base = offset(builder, base, builder.mul(step, I64(count)))
        return base


@intrinsic(prefer_literal=True)
def _convolve_cell(
    typingctx, leaf, checked, x, steps, first, sizes, out, out_steps, left, weights, bias, vectors, channels, relu
):  # fmt: skip
    """One cell, for at least one vector of channels; with `checked`, each vector has `channels` valid lanes.

    `x` and `out` are the addresses of the first value and the first result; `steps` and `out_steps` are the bytes per
    row and per column. With `checked`, `first` is the row and column of the first value in an image of `sizes`, and
    `left` the remaining rows and columns of results.
    """
    masked, cell = bool(checked.literal_value), Cell(field_class(leaf, "window"))

    def codegen(context, builder, signature, arguments):
        _, _, x, steps, first, sizes, out, out_steps, left, weights, bias, vectors, channels, relu = arguments
        x, out, weights, bias = (pointer(builder, a) for a in (x, out, weights, bias))
        lanes = Lanes(builder, leaf, channels if masked else None)
        read = Places(builder, lanes, masked, steps, first, sizes, (cell.rows, cell.columns))
        written = Places(builder, lanes, masked, out_steps, None, left, (ROWS, COLUMNS))
        least = ir.Constant(F32, -math.inf)
        least = builder.select(builder.icmp_signed("!=", relu, I64(0)), ir.Constant(F32, 0.0), least)
        floor = broadcast(builder, least, LANES)

        def body(_: ir.Value, pointers: list[ir.Value]) -> list[ir.Value]:
            x, out, weights, bias = pointers
            totals = [lanes.working(bias)] * (ROWS * COLUMNS)
            factors = [lanes.working(offset(builder, weights, LANES * lanes.size * tap)) for tap in range(TAPS**2)]
            for place, meets in sorted(cell.met.items()):
                value = convert_lanes(builder, lanes.load_stored(read.at(x, *place)), lanes.conversion)
                for result, tap in meets:
                    totals[result] = lanes.add(value, factors[tap], totals[result])
            for result, total in enumerate(totals):
                to = written.at(out, *divmod(result, COLUMNS))
                # NaN stays, as do zeros with a sign.
                lanes.write(builder.select(builder.fcmp_ordered(">", floor, total), floor, total), to)
            element, size = lanes.element.size, lanes.size
            moves = LANES * element, LANES * element, LANES * size * TAPS**2, LANES * size
            return [offset(builder, at, move) for at, move in zip(pointers, moves, strict=True)]

        loop(builder, vectors, [x, out, weights, bias], body)
        return context.get_dummy_value()

    integer, two = types.int64, types.UniTuple(types.int64, 2)
    return types.void(
        leaf, checked, integer, two, two, two, integer, two, two, integer, integer, integer, integer, integer
    ), codegen


@subroutine
def _convolve(leaf, job):
    """The results of one strip."""
    plan, advance, apart = job.plan, constant(leaf.window, "advance"), constant(leaf.window, "apart")
    strip = field("channels", plan, "strip_table") + 32 * job.strip
    unit, channels = field("channels", plan, "working"), field("channels", plan, "channels")
    size = constant(leaf.element, "size")
    steps = field("channels", plan, "row_step"), field("channels", plan, "read_step")
    out_steps = field("channels", plan, "out_row"), field("channels", plan, "write_step")
    sizes = field("channels", plan, "rows"), field("channels", plan, "columns")
    columns, relu = field("channels", plan, "out_columns"), field("channels", plan, "relu")
    rows_met, columns_met = constant(leaf.window, "rows"), constant(leaf.window, "columns")
    vectors, last_row = channels // LANES, read64(strip + 8)
    rest = channels - vectors * LANES
    for row in range(read64(strip), last_row, ROWS):
        up = row * advance // apart - field("channels", plan, "up")
        inside = up >= 0 and up + rows_met <= sizes[0] and row + ROWS <= last_row
        for column in range(0, columns, COLUMNS):
            first = up, column * advance // apart - field("channels", plan, "left")
            left = last_row - row, columns - column
            here = job.x + first[0] * steps[0] + first[1] * steps[1]
            to = job.out + row * out_steps[0] + column * out_steps[1]
            if vectors > 0:
                if inside and first[1] >= 0 and first[1] + columns_met <= sizes[1] and left[1] >= COLUMNS:
                    _convolve_cell(
                        leaf, 0, here, steps, first, sizes, to, out_steps, left, job.weights, job.bias, vectors, LANES,
                        relu,
                    )  # fmt: skip
                else:
                    _convolve_cell(
                        leaf, 1, here, steps, first, sizes, to, out_steps, left, job.weights, job.bias, vectors, LANES,
                        relu,
                    )  # fmt: skip
            if rest > 0:
                _convolve_cell(
                    leaf, 1, here + vectors * LANES * size, steps, first, sizes, to + vectors * LANES * size,
                    out_steps, left, job.weights + vectors * 9 * LANES * unit, job.bias + vectors * LANES * unit, 1,
                    rest, relu,
                )  # fmt: skip


class Windows(NamedTuple):
    """Leaf: a strip. Fields: an element type, a conversion of operands, and a kind of window."""

    element: NamedTuple
    conversion: NamedTuple
    window: NamedTuple
    run = _convolve
    arguments = StripArguments
