"""The loops of `sums`: numbers of any strides, joined in vectors of float64.

A *unit* is what is joined at a time. Along a row it is one result: a vector has neighbouring numbers of it. Across rows
it is a tile of results: a vector has numbers of neighbouring ones, and rows are added to the totals of the tile. The
steps of a unit, rows or pieces of a row, may be divided into chunks, whose totals are kept in float64 and joined in the
end. Units, steps and chunks depend on the array alone, never on the threads.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from ...block.sources import Float64
from ...block.tags import constant, field_class
from ...runtime.jit import carray, njit, subroutine
from ...runtime.launch import call_at, launch, task
from ...runtime.raw_memory import get, pointer
from .vectors import TILE, buffers, clear, join, join_lanes, join_row, join_rows, load_float64, store_as

_LANES = 8
"""Numbers of a vector of float64."""


class Table(NamedTuple):
    """The words that say how an array lies. Three words for each dimension follow: kept ones first, innermost first.

    Attributes:
        kept, reduced: dimensions that follow, beside those that vectors pass along.
        across: whether vectors pass across rows.
        count, stride: numbers of a row, or columns of all tiles, and the bytes between two.
        steps, row: pieces of a row, and the numbers of one; or rows, and the bytes between two.
        period, tail: columns of one row, where several are passed as one; those of the last one, 0 if it is whole.
        out_step, out_size: bytes between the results of columns, and of a result.
        repeats, divisor: bits of the float64 numbers that a total is multiplied by and divided by.
        units, group: units, and those of a task.
        chunks, chunk_steps, total_steps: into which the steps of a unit are divided, and how many these are.
        width: totals of a unit.
        block: steps of float64 that are joined before they are joined with others, so that long sums lose few digits.
    """

    kept: int
    reduced: int
    across: bool
    count: int
    stride: int
    steps: int
    row: int
    period: int
    tail: int
    out_step: int
    out_size: int
    repeats: int
    divisor: int
    units: int
    group: int
    chunks: int
    chunk_steps: int
    total_steps: int
    width: int
    block: int


# fmt: off
(
    _KEPT, _REDUCED, _ACROSS, _COUNT, _STRIDE, _STEPS, _ROW, _PERIOD, _TAIL, _OUT_STEP, _OUT_SIZE, _REPEATS, _DIVISOR,
    _UNITS, _GROUP, _CHUNKS, _CHUNK_STEPS, _TOTAL_STEPS, _WIDTH, _BLOCK,
) = range(len(Table._fields))
# fmt: on
_DIMS, _DIM = len(Table._fields), 3
"""Where the dimensions begin, and the words of one: its size, its stride, and that of the results."""


# Where numbers lie


@subroutine
def _split(index, size):
    """The quotient and the remainder; most sizes are 1, and a division takes as long as many additions."""
    if size == 1:
        return index, 0
    quotient = index // size
    return quotient, index - quotient * size


@subroutine
def _offset(table, first, dims, index, word):
    """What an index, counted over some of the dimensions, is in bytes: of the numbers (1), or of the results (2)."""
    total = 0
    for dim in range(first, first + dims):
        place = _DIMS + _DIM * dim
        inside = index
        if dim < first + dims - 1:
            index, inside = _split(index, get(table, place))
        total += inside * get(table, place + word)
    return total


@subroutine
def _reduced_offset(table, index):
    return _offset(table, get(table, _KEPT), get(table, _REDUCED), index, 1)


@subroutine
def _finish(table, out, value):
    """Write a result."""
    repeats, divisor = load_float64(table + 8 * _REPEATS), load_float64(table + 8 * _DIVISOR)
    store_as(out, value * repeats / divisor, get(table, _OUT_SIZE))


class _Unit(NamedTuple):
    """Where the numbers and the results of a unit lie, and how many columns it has."""

    x: int
    out: int
    columns: int


@subroutine
def _unit(table, x, out, index):
    if not get(table, _ACROSS):
        kept = get(table, _KEPT)
        return _Unit(x + _offset(table, 0, kept, index, 1), out + _offset(table, 0, kept, index, 2), 1)
    tiles = (get(table, _COUNT) + TILE - 1) // TILE
    outer, tile = _split(index, tiles)
    first = tile * TILE
    x += _offset(table, 0, get(table, _KEPT), outer, 1) + first * get(table, _STRIDE)
    out += _offset(table, 0, get(table, _KEPT), outer, 2) + first * get(table, _OUT_STEP)
    return _Unit(x, out, min(TILE, get(table, _COUNT) - first))


# The units of a task


_Arguments = namedtuple("_Arguments", "table x out about totals first last first_step last_step")
"""Addresses: of the table, the numbers, the results, the float64 numbers to subtract (laid out like the results),
and the totals of this chunk (0 if it is the only one).

The ranges `first` to `last` of units, and of steps; the step -1 alone joins the chunks.
"""


@subroutine
def _add_block(leaf, totals, block, columns):
    into, values = carray(pointer(totals, 0.0), TILE), carray(pointer(block, 0.0), TILE)
    for column in range(columns):
        into[column] = join(leaf, into[column], values[column])


@subroutine
def _along_row(leaf, at, unit, total):
    """Join the numbers of one result."""
    table, stride, count = at.table, get(at.table, _STRIDE), get(at.table, _COUNT)
    pieces, length = get(table, _STEPS), get(table, _ROW)
    most = get(table, _BLOCK)
    blocked = constant(leaf, "uses_blocks") and at.last_step - at.first_step > most
    block, about = total + (8 * TILE if blocked else 0), total + 16 * TILE
    clear(leaf, total, 1)
    clear(leaf, block, 1)
    store_as(about, load_float64(at.about + (unit.out - at.out)) if at.about else 0.0, 8)
    for step in range(at.first_step, at.last_step):
        outer, piece = _split(step, pieces)
        first = piece * length
        x = unit.x + _reduced_offset(table, outer) + first * stride
        join_row(leaf, x, stride, min(length, count - first), about, block)
        if blocked and (step - at.first_step) % most == most - 1:
            _add_block(leaf, total, block, _LANES)
            clear(leaf, block, 1)
    if blocked:
        _add_block(leaf, total, block, _LANES)
    store_as(total, join_lanes(leaf, total), 8)


@subroutine
def _across_rows(leaf, at, unit, totals):
    """Join the rows of a tile of results."""
    table, stride, row_stride, rows = at.table, get(at.table, _STRIDE), get(at.table, _ROW), get(at.table, _STEPS)
    period, tail, columns = get(table, _PERIOD), get(table, _TAIL), unit.columns
    most = get(table, _BLOCK)
    blocked = constant(leaf, "uses_blocks") and at.last_step - at.first_step > most
    block, abouts = totals + (8 * TILE if blocked else 0), totals + 16 * TILE
    if at.about:
        for column in range(columns):
            place = at.about + (unit.out - at.out) + column % period * get(table, _OUT_STEP)
            store_as(abouts + 8 * column, load_float64(place), 8)
    clear(leaf, totals, columns)
    clear(leaf, block, columns)
    step, inside = at.first_step, 0
    while step < at.last_step:
        outer, first = _split(step, rows)
        some = min(rows - first, at.last_step - step, most - inside if blocked else at.last_step)
        last = tail > 0 and first + some == rows
        x = unit.x + _reduced_offset(table, outer) + first * row_stride
        join_rows(leaf, x, row_stride, some - last, stride, columns, abouts, block)
        if last:
            join_rows(leaf, x + (some - 1) * row_stride, row_stride, 1, stride, tail, abouts, block)
        step, inside = step + some, inside + some
        if blocked and inside == most:
            _add_block(leaf, totals, block, columns)
            clear(leaf, block, columns)
            inside = 0
    if blocked:
        _add_block(leaf, totals, block, columns)
    for first in range(period, columns, period):
        _add_block(leaf, totals, totals + 8 * first, min(period, columns - first))


@subroutine
def _join_chunks(leaf, at, unit, index, totals):
    """Join the totals of a unit in all chunks."""
    table = at.table
    width, chunks = get(table, _WIDTH), get(table, _CHUNKS)
    clear(leaf, totals, width)
    for chunk in range(chunks):
        _add_block(leaf, totals, at.totals + 8 * width * (chunk * get(table, _UNITS) + index), width)


@subroutine
def _reduce(leaf, at):
    table, totals = at.table, buffers()
    period, width = get(table, _PERIOD), get(table, _WIDTH)
    for index in range(at.first, at.last):
        unit = _unit(table, at.x, at.out, index)
        if at.first_step < 0:
            _join_chunks(leaf, at, unit, index, totals)
        elif get(table, _ACROSS):
            _across_rows(leaf, at, unit, totals)
        else:
            _along_row(leaf, at, unit, totals)
        found = carray(pointer(totals, 0.0), TILE)
        for column in range(min(period, unit.columns)):
            if at.totals and at.first_step >= 0:
                store_as(at.totals + 8 * (width * index + column), found[column], 8)
            else:
                _finish(table, unit.out + column * get(table, _OUT_STEP), found[column])


class Reduction(NamedTuple):
    """Leaf: units of a reduction by one of `FUNCTIONS`, of elements of a type of `block.sources`."""

    function: NamedTuple
    element: NamedTuple
    run = _reduce
    arguments = _Arguments

    @staticmethod
    def uses_blocks(tag: Any) -> bool:
        """Whether steps are joined in blocks: sums of other numbers lose no digit of theirs in float64."""
        return field_class(tag, "element") is Float64


@task("leaf table x out about totals")
def _task(task, worker, job):
    table = job.table
    chunks, steps, group = get(table, _CHUNKS), get(table, _CHUNK_STEPS), get(table, _GROUP)
    chunk, first = task % chunks, task // chunks * group
    totals = job.totals + 8 * get(table, _WIDTH) * get(table, _UNITS) * chunk if job.totals else 0
    last_step = min((chunk + 1) * steps, get(table, _TOTAL_STEPS))
    last = min(first + group, get(table, _UNITS))
    call_at(job.leaf, _Arguments(table, job.x, job.out, job.about, totals, first, last, chunk * steps, last_step))


@njit
def run(pool, threads, leaf, table, x, out, about, totals):
    """Reduce numbers at an address by a leaf, known by its own; `totals` are those of the chunks, where several are."""
    chunks, group, units = get(table, _CHUNKS), get(table, _GROUP), get(table, _UNITS)
    launch(pool, threads, (units + group - 1) // group * chunks, _task(leaf, table, x, out, about, totals))
    if chunks > 1:
        call_at(leaf, _Arguments(table, x, out, about, totals, 0, units, -1, -1))
