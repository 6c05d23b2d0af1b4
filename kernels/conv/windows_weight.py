"""Gradients of depthwise convolutions of 3 x 3 taps with respect to their weight, of arrays whose channels are
neighbours in memory: windows in registers.

A cell is 2 x 4 positions of g, as those of the result in `windows`. The nine sums of some channels and the values of g
stay in registers, and each value of x that they meet is read once. At the edge of an image what does not exist is left
out, since zero times infinity would be no zero.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import either, loop, offset, store
from ..gemm.packing import convert_lanes
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, subroutine, types
from .depthwise_last import LANES, Lanes, StripArguments
from .descriptor import field
from .memory import clear, read64
from .positions import pointer
from .windows import COLUMNS, ROWS, TAPS, Cell, Places

__all__ = ["WindowsWeight"]


@intrinsic(prefer_literal=True)
def _weigh_cell(typingctx, leaf, checked, x, steps, first, sizes, g, g_steps, left, sums, vectors, channels):
    """Add the products of one cell to the sums, (vectors, taps, LANES); the arguments are those of a cell of `windows`,
    with g in place of the result."""
    masked, cell = bool(checked.literal_value), Cell(field_class(leaf, "window"))

    def codegen(context, builder, signature, arguments):
        _, _, x, steps, first, sizes, g, g_steps, left, sums, vectors, channels = arguments
        x, g, sums = (pointer(builder, a) for a in (x, g, sums))
        lanes = Lanes(builder, leaf, channels if masked else None)
        read = Places(builder, lanes, masked, steps, first, sizes, (cell.rows, cell.columns))
        given = Places(builder, lanes, masked, g_steps, None, left, (ROWS, COLUMNS))

        def body(_: ir.Value, pointers: list[ir.Value]) -> list[ir.Value]:
            x, g, sums = pointers
            slots = [offset(builder, sums, LANES * lanes.size * tap) for tap in range(TAPS**2)]
            totals, factors, exist = [lanes.working(slot) for slot in slots], [], []
            for result in range(ROWS * COLUMNS):
                value = lanes.load_stored(given.at(g, *divmod(result, COLUMNS)))
                factors.append(convert_lanes(builder, value, lanes.conversion))
                exist.append(lanes.mask)
            for place, meets in sorted(cell.met.items()):
                here = read.at(x, *place)

                def add(here=here, meets=meets, totals=totals) -> list[ir.Value]:
                    value, found = convert_lanes(builder, lanes.load_stored(here), lanes.conversion), list(totals)
                    for result, tap in meets:
                        total = lanes.add(value, factors[result], found[tap])
                        found[tap] = builder.select(exist[result], total, found[tap]) if masked else total
                    return found

                totals = either(builder, read.exists(*place), add, lambda totals=totals: totals) if masked else add()
            for slot, total in zip(slots, totals, strict=True):
                store(builder, total, slot, lanes.size)
            moves = LANES * lanes.element.size, LANES * lanes.element.size, LANES * lanes.size * TAPS**2
            return [offset(builder, at, move) for at, move in zip(pointers, moves, strict=True)]

        loop(builder, vectors, [x, g, sums], body)
        return context.get_dummy_value()

    integer, two = types.int64, types.UniTuple(types.int64, 2)
    return types.void(leaf, checked, integer, two, two, two, integer, two, two, integer, integer, integer), codegen


@subroutine
def _weigh(leaf, job):
    """The sums of one strip, (blocks of channels, taps, LANES) at `weights`; g is what `out` is for a convolution."""
    plan, advance = job.plan, constant(leaf.window, "advance")
    strip = field("channels", plan, "strip_table") + 32 * job.strip
    channels, size = field("channels", plan, "channels"), constant(leaf.element, "size")
    steps = field("channels", plan, "row_step"), field("channels", plan, "read_step")
    g_steps = field("channels", plan, "out_row"), field("channels", plan, "write_step")
    sizes, columns = (
        (field("channels", plan, "rows"), field("channels", plan, "columns")),
        field("channels", plan, "out_columns"),
    )
    rows_met, columns_met = constant(leaf.window, "rows"), constant(leaf.window, "columns")
    vectors, last_row = channels // LANES, read64(strip + 8)
    rest, sum_stride = channels - vectors * LANES, field("channels", plan, "weight_stride")
    clear(job.weights, (channels + LANES - 1) // LANES * sum_stride)
    for row in range(read64(strip), last_row, ROWS):
        up = row * advance - field("channels", plan, "up")
        inside = up >= 0 and up + rows_met <= sizes[0] and row + ROWS <= last_row
        for column in range(0, columns, COLUMNS):
            first = up, column * advance - field("channels", plan, "left")
            left = last_row - row, columns - column
            here = job.x + first[0] * steps[0] + first[1] * steps[1]
            g = job.out + row * g_steps[0] + column * g_steps[1]
            if vectors > 0:
                if inside and first[1] >= 0 and first[1] + columns_met <= sizes[1] and left[1] >= COLUMNS:
                    _weigh_cell(leaf, 0, here, steps, first, sizes, g, g_steps, left, job.weights, vectors, LANES)
                else:
                    _weigh_cell(leaf, 1, here, steps, first, sizes, g, g_steps, left, job.weights, vectors, LANES)
            if rest > 0:
                _weigh_cell(
                    leaf, 1, here + vectors * LANES * size, steps, first, sizes, g + vectors * LANES * size, g_steps,
                    left, job.weights + vectors * sum_stride, 1, rest,
                )  # fmt: skip


class WindowsWeight(NamedTuple):
    """Leaf: the sums of a strip. Fields: an element type, a conversion of operands, and a kind of window."""

    element: NamedTuple
    conversion: NamedTuple
    window: NamedTuple
    run = _weigh
    arguments = StripArguments
