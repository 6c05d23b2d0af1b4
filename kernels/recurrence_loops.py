"""Steps of recurrences in vectors: tags whose `emit` makes what a step writes of what it reads, and loops over rows.

A table has three words for each array of a step: the address of its first number, and the bytes between steps and
between rows. What a row has are one or several parts of as many numbers as a state, side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .elementwise.mathematics import HyperbolicTangent
from .elementwise.vectors import Vectors
from .gemm.emit import I64, POINTER, loop, loop_of_any, offset
from .gemm.tags import instance
from .jit import intrinsic, ir, njit, subroutine, types
from .launch import call_at, launch

__all__ = ["TAGS", "WORDS", "Step", "run"]

WORDS = 3
"""Of the table, for each array."""


def _sigmoid(v: Vectors, x: ir.Value) -> ir.Value:
    """1 / (1 + e**-x); where the power is infinite, 0."""
    one = v.number(1.0)
    return v.over(one, v.plus(one, v.exponential(v.negative(x))))


def _tanh(v: Vectors, x: ir.Value) -> ir.Value:
    return HyperbolicTangent.emit(v, x)


def _less(v: Vectors, x: ir.Value) -> ir.Value:
    """1 - x."""
    return v.minus(v.number(1.0), x)


def _bend(v: Vectors, y: ir.Value) -> ir.Value:
    """The derivative of tanh where it is y."""
    return _less(v, v.times(y, y))


def _slope(v: Vectors, y: ir.Value) -> ir.Value:
    """The derivative of the logistic function where it is y."""
    return v.times(y, _less(v, y))


# `reads` and `writes` are how many parts each array has. What is read first is what the product gave: of the state
# before, or, for gradients, of those of the next step, which then are that of this state, from there.


class Tanh(NamedTuple):
    """h = tanh(x + product)."""

    reads, writes = (1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, x: ir.Value) -> list[ir.Value]:
        return [_tanh(v, v.plus(x, product))]


class Relu(NamedTuple):
    """h = max(x + product, 0); NaN stays."""

    reads, writes = (1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, x: ir.Value) -> list[ir.Value]:
        total, zero = v.plus(x, product), v.number(0.0)
        return [v.builder.select(v.builder.fcmp_ordered("<", total, zero), zero, total)]


class TanhGradient(NamedTuple):
    """Of the sum, given that of h."""

    reads, writes = (1, 1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, g: ir.Value, h: ir.Value) -> list[ir.Value]:
        return [v.times(v.plus(g, product), _bend(v, h))]


class ReluGradient(NamedTuple):
    """Of the sum, given that of h."""

    reads, writes = (1, 1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, g: ir.Value, h: ir.Value) -> list[ir.Value]:
        zero = v.number(0.0)
        return [v.builder.select(v.builder.fcmp_ordered(">", h, zero), v.plus(g, product), zero)]


class LongShortTerm(NamedTuple):
    """Reads x and the cell before, and writes the gates i, f, g, o, the cell and the state."""

    reads, writes = (4, 4, 1), (4, 1, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        sums, before = [v.plus(x, product) for product, x in zip(read[:4], read[4:8], strict=True)], read[8]
        entered, kept, shown = (_sigmoid(v, sums[each]) for each in (0, 1, 3))
        candidate = _tanh(v, sums[2])
        cell = v.fused(kept, before, v.times(entered, candidate))
        return [entered, kept, candidate, shown, cell, v.times(shown, _tanh(v, cell))]


class LongShortTermGradient(NamedTuple):
    """Reads the gradients of the state and of the cell, from here and from the next step, the gates, the cell and the
    one before; writes the gradients of the sums and of the cell before."""

    reads, writes = (1, 1, 1, 1, 4, 1, 1), (4, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        product, g, of_this, carried, entered, kept, candidate, shown, cell, before = read
        of_hidden, bent = v.plus(g, product), _tanh(v, cell)
        of_cell = v.fused(v.times(of_hidden, shown), _bend(v, bent), v.plus(of_this, carried))
        return [
            v.times(v.times(of_cell, candidate), _slope(v, entered)),
            v.times(v.times(of_cell, before), _slope(v, kept)),
            v.times(v.times(of_cell, entered), _bend(v, candidate)),
            v.times(v.times(of_hidden, bent), _slope(v, shown)),
            v.times(of_cell, kept),
        ]


class Gated(NamedTuple):
    """Reads x, the bias of the product and the state before; writes r, z, n and what the product gave for n, and the
    state."""

    reads, writes = (3, 3, 3, 1), (4, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        x, before = read[3:6], read[9]
        reset, kept, given = (v.plus(product, bias) for product, bias in zip(read[:3], read[6:9], strict=True))
        reset, kept = _sigmoid(v, v.plus(x[0], reset)), _sigmoid(v, v.plus(x[1], kept))
        new = _tanh(v, v.fused(reset, given, x[2]))
        return [reset, kept, new, given, v.fused(kept, v.minus(before, new), new)]


class GatedGradient(NamedTuple):
    """Reads the gradients of the state, from here and from the next step beside the product, the gates and the state
    before; writes the gradients of the sums, of the product, and of the state before beside the product."""

    reads, writes = (1, 1, 1, 4, 1), (3, 3, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        product, g, carried, reset, kept, new, given, before = read
        of_hidden = v.plus(v.plus(g, carried), product)
        of_new = v.times(v.times(of_hidden, _less(v, kept)), _bend(v, new))
        of_kept = v.times(v.times(of_hidden, v.minus(before, new)), _slope(v, kept))
        of_reset = v.times(v.times(of_new, given), _slope(v, reset))
        return [of_reset, of_kept, of_new, of_reset, of_kept, v.times(of_new, reset), v.times(of_hidden, kept)]


TAGS: dict[str, Any] = {
    tag.__name__: tag
    for tag in (
        Tanh, Relu, LongShortTerm, Gated, TanhGradient, ReluGradient, LongShortTermGradient, GatedGradient,
    )
}  # fmt: skip


# Loops


def _starts(builder: ir.IRBuilder, tag: Any, product: ir.Value, table: ir.Value, step: ir.Value) -> list[tuple]:
    """Where each array of a step begins, and the bytes between its rows; the first one lies at `product`."""
    words, starts = builder.inttoptr(table, I64.as_pointer()), []
    for each in range(len(tag.reads + tag.writes)):
        base, of_step, of_row = (builder.load(builder.gep(words, [I64(WORDS * each + word)])) for word in range(WORDS))
        first = product if each == 0 else builder.add(base, builder.mul(step, of_step))
        starts.append((builder.inttoptr(first, POINTER), of_row))
    return starts


@intrinsic
def _step(typingctx, function, element, product, table, step, begin, end, columns):
    """A step for rows from `begin` to `end`."""

    def codegen(context, builder, signature, arguments):
        product, table, step, begin, end, columns = arguments[2:]
        v, tag = Vectors(builder, instance(element)), instance(function)
        starts = _starts(builder, tag, product, table, step)
        whole = builder.sdiv(columns, I64(v.lanes))
        left = builder.sub(columns, builder.mul(whole, I64(v.lanes)))
        part_bytes = builder.mul(columns, I64(v.element.size))

        def row(index, _):
            rows = [offset(builder, at, builder.mul(builder.add(begin, index), of_row)) for at, of_row in starts]

            def some(number, mask=None):
                at = builder.mul(number, I64(v.lanes * v.element.size))
                places = [
                    offset(builder, start, builder.add(at, builder.mul(part_bytes, I64(part))))
                    for start, parts in zip(rows, tag.reads + tag.writes, strict=True)
                    for part in range(parts)
                ]
                count = sum(tag.reads)
                made = tag.emit(v, *[v.read(place, mask) for place in places[:count]])
                for value, place in zip(made, places[count:], strict=True):
                    v.write(value, place, mask)
                return []

            loop_of_any(builder, whole, [], lambda number, _: some(number))
            with builder.if_then(builder.icmp_signed(">", left, I64(0))):
                some(whole, v.first(left))
            return []

        loop(builder, builder.sub(end, begin), [], row)
        return context.get_dummy_value()

    return types.void(function, element, *[types.int64] * 6), codegen


class _Rows(NamedTuple):
    product: int
    table: int
    step: int
    begin: int
    end: int
    columns: int


@subroutine
def _leaf(leaf, of):
    _step(leaf.function, leaf.element, of.product, of.table, of.step, of.begin, of.end, of.columns)


class Step(NamedTuple):
    """Leaf: a function of `TAGS`, for arrays of a type of `gemm.sources`."""

    function: NamedTuple
    element: NamedTuple
    run = _leaf
    arguments = _Rows


@subroutine
def _task(task, worker, job):
    begin = task * job.block
    end = min(begin + job.block, job.rows)
    call_at(job.leaf, _Rows(job.product, job.table, job.step, begin, end, job.columns))


class _Job(NamedTuple):
    leaf: int
    product: int
    table: int
    step: int
    rows: int
    columns: int
    block: int
    run = _task


@njit
def run(pool, threads, leaf, product, table, step, rows, columns, block):
    """A step by a leaf, known by its address: a thread takes `block` rows, of at least one, at a time."""
    launch(pool, threads, (rows + block - 1) // block, _Job(leaf, product, table, step, rows, columns, block))
