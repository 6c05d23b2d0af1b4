"""The loops of recurrences: a step whose product is given, and whole sequences with a product of their own.

A table has three words for each array of a step: the address of its first number, and the bytes between steps and
between rows. What a row has are one or several parts of as many numbers as a state, side by side. Behind the arrays
that the function of a step reads, the product first, and those that it writes, the table has the states that products
are of.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ..arrays.elementwise.vectors import Vectors
from ..block.emit import I64, POINTER, broadcast, load, loop, loop_of_any, offset
from ..block.tags import field_class, tag_class
from ..runtime.emitter import Class, Pointer, Type, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, job_class, launch, leaf_class, task

WORDS = 3
"""Of the table, for each array."""

ROWS = 8
"""Of a sequence that a thread takes at a time, at most."""

PANEL, _LINES = 64, 4
"""Columns per panel of a matrix, and rows per block of products; a single row uses whole panels."""

OneVector = tag_class("OneVector", __name__, vectors=1)
"""Tag: blocks of products one vector wide, for 16 registers of 32 bytes."""

FourVectors = tag_class("FourVectors", __name__, vectors=4)
"""Tag: blocks four vectors wide, whose sums hide the latency of additions, for 32 registers of 64 bytes."""


def _start(builder: ir.IRBuilder, table: ir.Value, array: int, step: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where an array begins in a step, and the bytes between its rows."""
    words = builder.inttoptr(table, I64.as_pointer())
    base, of_step, of_row = (builder.load(builder.gep(words, [I64(WORDS * array + word)])) for word in range(WORDS))
    return builder.inttoptr(builder.add(base, builder.mul(step, of_step)), POINTER), of_row


class _Columns:
    """The vectors of a row of so many numbers."""

    def __init__(self, v: Vectors, count: ir.Value) -> None:
        self.v = v
        self.whole = v.builder.sdiv(count, I64(v.lanes))
        self.left = v.builder.sub(count, v.builder.mul(self.whole, I64(v.lanes)))

    def place(self, row: ir.Value, number: ir.Value) -> ir.Value:
        return offset(self.v.builder, row, self.v.builder.mul(number, I64(self.v.lanes * self.v.element.size)))

    def each(self, do: Callable[[ir.Value, Any], None]) -> None:
        """Call `do` with the number of each vector, and with a mask for the last one."""
        builder = self.v.builder
        loop_of_any(builder, self.whole, [], lambda number, _: do(number, None) or [])
        with builder.if_then(builder.icmp_signed(">", self.left, I64(0))):
            do(self.whole, self.v.first(self.left))


# A step


def _emit_step(
    v: Vectors, tag: Any, starts: list[tuple[ir.Value, ir.Value]], begin: ir.Value, end: ir.Value, columns: ir.Value
) -> None:
    """Of rows from `begin` to `end`, at least one; `starts` are those of the arrays, the product first."""
    builder, count = v.builder, sum(tag.reads)
    vectors, part_bytes = _Columns(v, columns), builder.mul(columns, I64(v.element.size))

    def row(index: ir.Value, _: list) -> list:
        rows = [offset(builder, at, builder.mul(builder.add(begin, index), of_row)) for at, of_row in starts]

        def some(number: ir.Value, mask: Any) -> None:
            places = [
                vectors.place(offset(builder, start, builder.mul(part_bytes, I64(part))), number)
                for start, parts in zip(rows, tag.reads + tag.writes, strict=True)
                for part in range(parts)
            ]
            made = tag.emit(v, *[v.read(place, mask) for place in places[:count]])
            for value, place in zip(made, places[count:], strict=True):
                v.write(value, place, mask)

        vectors.each(some)
        return []

    loop(builder, builder.sub(end, begin), [], row)


@emitter
def _step(builder, function: Class, element: Class, product, table, step, begin, end, columns) -> None:
    """A step for rows from `begin` to `end`, whose products are at an address."""
    v, tag = Vectors(builder, element), function
    starts = [_start(builder, table, array, step) for array in range(len(tag.reads + tag.writes))]
    starts[0] = builder.inttoptr(product, POINTER), starts[0][1]
    _emit_step(v, tag, starts, begin, end, columns)


_StepRows = namedtuple("_StepRows", "product table step begin end columns")


@subroutine
def _step_leaf(leaf, of):
    _step(leaf.function, leaf.element, of.product, of.table, of.step, of.begin, of.end, of.columns)


StepLeaf = leaf_class("StepLeaf", "function element", _step_leaf, _StepRows)
"""Leaf: a function of `cells`, for arrays of a type of `block.sources`."""


@task("leaf product table step rows columns block")
def _step_task(task, worker, job):
    begin = task * job.block
    call_at(job.leaf, _StepRows(job.product, job.table, job.step, begin, min(begin + job.block, job.rows), job.columns))


@njit
def run_step(pool, threads, leaf, product, table, step, rows, columns, block):
    """A step by a leaf, known by its address: a thread takes `block` rows, of at least one, at a time."""
    launch(pool, threads, (rows + block - 1) // block, _step_task(leaf, product, table, step, rows, columns, block))


# Sequences


class _Product:
    """Emits products of rows of states with a matrix (depth, width) in panels: `PANEL` of its columns after the other,
    and those that are left."""

    def __init__(self, v: Vectors, block: Any, matrix: ir.Value, depth: ir.Value, width: ir.Value) -> None:
        builder = v.builder
        self.v, self.vectors, self.matrix, self.depth, self.width = v, block.vectors, matrix, depth, width
        self.row_bytes = builder.mul(width, I64(v.element.size))
        self.panel_bytes = I64(PANEL * v.element.size)
        self.panels = builder.sdiv(width, I64(PANEL))
        self.left = builder.sub(width, builder.mul(self.panels, I64(PANEL)))
        self.left_bytes = builder.mul(self.left, I64(v.element.size))

    def _block(
        self, states: list[ir.Value], results: list[ir.Value], panel: ir.Value, line_bytes: ir.Value, vectors: int,
        mask: Any,
    ) -> None:  # fmt: skip
        """A block of vectors for some rows, from a place in a panel with a given line size in bytes."""
        v, builder, parts = self.v, self.v.builder, range(vectors)
        step = v.lanes * v.element.size

        def one(k: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            line, after = offset(builder, panel, builder.mul(k, line_bytes)), []
            values = [v.read(offset(builder, line, step * part), mask) for part in parts]
            for row, state in enumerate(states):
                at = offset(builder, state, builder.mul(k, I64(v.element.size)))
                factor = broadcast(builder, load(builder, v.element.working, at, v.element.size), v.lanes)
                after += [v.fma(factor, values[part], sums[row * vectors + part]) for part in parts]
            return after

        sums = loop(builder, self.depth, [v.number(0.0)] * (len(states) * vectors), one)
        for row, result in enumerate(results):
            for part in parts:
                v.write(sums[row * vectors + part], offset(builder, result, step * part), mask)

    def _lines(self, states: list[ir.Value], results: list[ir.Value]) -> None:
        v, builder = self.v, self.v.builder
        together = PANEL // v.lanes if len(states) == 1 else self.vectors

        def panel(number: ir.Value, _: list) -> list:
            start = builder.mul(number, self.panel_bytes)
            at = offset(builder, self.matrix, builder.mul(start, self.depth))
            outs = [offset(builder, result, start) for result in results]
            for first in range(0, PANEL // v.lanes, together):
                byte = first * v.lanes * v.element.size
                places = [offset(builder, out, byte) for out in outs]
                self._block(states, places, offset(builder, at, byte), self.panel_bytes, together, None)
            return []

        loop_of_any(builder, self.panels, [], panel)
        start = builder.mul(self.panels, self.panel_bytes)
        rest = offset(builder, self.matrix, builder.mul(start, self.depth))
        outs = [offset(builder, result, start) for result in results]
        columns = _Columns(v, self.left)

        def vector(number: ir.Value, mask: Any) -> None:
            places = [columns.place(out, number) for out in outs]
            self._block(states, places, columns.place(rest, number), self.left_bytes, 1, mask)

        columns.each(vector)

    def clear(self, results: ir.Value, rows: ir.Value) -> None:
        """Zeros for some rows without states; an infinite weight times zeros would be NaN."""
        numbers = _Columns(self.v, self.v.builder.mul(self.width, rows))
        numbers.each(lambda number, mask: self.v.write(self.v.number(0.0), numbers.place(results, number), mask))

    def rows(self, states: ir.Value, of_state: ir.Value, results: ir.Value, begin: ir.Value, end: ir.Value) -> None:
        """Of rows from `begin` to `end`; results begin with that of the first of them."""
        builder, count = self.v.builder, self.v.builder.sub(end, begin)
        groups = builder.sdiv(count, I64(_LINES))
        done = builder.mul(groups, I64(_LINES))

        def lines(first: ir.Value, how_many: int) -> list:
            numbers = [builder.add(first, I64(line)) for line in range(how_many)]
            rows = [offset(builder, states, builder.mul(builder.add(begin, each), of_state)) for each in numbers]
            self._lines(rows, [offset(builder, results, builder.mul(each, self.row_bytes)) for each in numbers])
            return []

        loop_of_any(builder, groups, [], lambda group, _: lines(builder.mul(group, I64(_LINES)), _LINES))
        rest = builder.sub(count, done)
        loop_of_any(builder, rest, [], lambda number, _: lines(builder.add(done, number), 1))


@emitter
def _sequence(
    builder, leaf: Type, matrix, depth, table, results: Pointer, length, direction, begin, end, columns
) -> None:
    """All steps for rows from `begin` to `end`: from the first on, or, where `direction` is -1, from the last one back,
    whose product is 0."""
    tag, element, block = (field_class(leaf, name) for name in ("function", "element", "block"))
    v, count = Vectors(builder, element), len(tag.reads + tag.writes)
    width = builder.mul(columns, I64(tag.reads[0]))
    product = _Product(v, block, builder.inttoptr(matrix, POINTER), depth, width)
    back = builder.icmp_signed("<", direction, I64(0))
    first = builder.select(back, builder.sub(length, I64(1)), I64(0))

    def one(turn, _):
        step = builder.add(first, builder.mul(turn, direction))
        last = builder.and_(back, builder.icmp_signed("==", turn, I64(0)))
        with builder.if_else(last) as (nothing, something):
            with nothing:
                product.clear(results, builder.sub(end, begin))
            with something:
                product.rows(*_start(builder, table, count, step), results, begin, end)
        starts = [_start(builder, table, array, step) for array in range(count)]
        before = builder.mul(begin, product.row_bytes)
        starts[0] = offset(builder, results, builder.sub(I64(0), before)), product.row_bytes
        _emit_step(v, tag, starts, begin, end, columns)
        return []

    loop(builder, length, [], one)


_SequenceRows = namedtuple("_SequenceRows", "matrix depth table results length direction begin end columns")


@subroutine
def _sequence_leaf(leaf, of):
    _sequence(
        leaf, of.matrix, of.depth, of.table, of.results, of.length, of.direction, of.begin, of.end, of.columns
    )  # fmt: skip


SequenceLeaf = leaf_class("SequenceLeaf", "function element block", _sequence_leaf, _SequenceRows)
"""Leaf: all steps of some rows, by blocks of products as a tag says."""


@subroutine
def _sequence_task(task, worker, job):
    begin = task * job.block
    results = job.memory + worker * job.memory_bytes
    call_at(
        job.leaf,
        _SequenceRows(
            job.matrix, job.depth, job.table, results, job.length, job.direction, begin,
            min(begin + job.block, job.rows), job.columns,
        ),
    )  # fmt: skip


SequenceJob = job_class(
    "SequenceJob", "leaf matrix depth table memory memory_bytes length direction rows columns block", _sequence_task
)
"""At least one step of a sequence by a leaf: a thread takes `block` rows at a time, all steps of them. Each has
memory for their products."""


@njit
def run_sequence(pool, threads, job):
    launch(pool, threads, (job.rows + job.block - 1) // job.block, job)
