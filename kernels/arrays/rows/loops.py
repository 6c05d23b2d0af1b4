"""Functions of rows, by all threads."""

from __future__ import annotations

from collections import namedtuple

from ...block.emit import I64, POINTER, loop, offset
from ...block.tags import field_class, instance
from ...runtime.emitter import Class, Fields, Type, emitter
from ...runtime.jit import njit, subroutine
from ...runtime.launch import call_at, launch, leaf_class, task
from ..elementwise.sweeps import Row, Strip
from .functions import Places

_Arrays = namedtuple(
    "_Arrays",
    "first second out one other weight bias weight_sums bias_sums eps begin end columns segments stride step period "
    "weight_step sum_step",
)
"""Addresses of `Places` in the order of its fields, but of the first row of all, and where rows lie.

Attributes:
    begin, end: those to do.
    columns, segments, stride: a row is `segments` times `columns` numbers, each segment `stride` bytes behind the
        one before.
    step: bytes between the starts of neighbouring rows.
    period: of the rows' weights and biases.
    weight_step, sum_step: bytes between those of neighbouring rows.
"""


def _emit(function, sweeps, at, index) -> None:
    """Emit a function for the row of this index, or for a strip from there on."""
    fields = {name: field_class(function, name) for name in function.fields}
    instance(function).emit(sweeps, _places(sweeps.builder, at, index, sweeps.kept.element.size), **fields)


def _places(builder, at, index, kept) -> Places:
    """Those of a row; `kept` are the bytes of a number that is kept for each."""
    of_weight = builder.mul(builder.srem(index, at.period), at.weight_step)
    steps = [builder.mul(index, at.step)] * 3 + [builder.mul(index, I64(kept))] * 2
    steps += [of_weight] * 2 + [builder.mul(index, at.sum_step)] * 2
    bases = [builder.inttoptr(address, POINTER) for address in at[: len(steps)]]
    return Places(*[offset(builder, base, step) for base, step in zip(bases, steps, strict=True)], at.eps)


@emitter
def _each_row(builder, function: Type, element: Class, at: Fields) -> None:
    """Emit a function for at least one row."""
    row = Row(builder, element, at.columns, at.segments, at.stride)

    def one(index, _):
        _emit(function, row, at, builder.add(at.begin, index))
        return []

    loop(builder, builder.sub(at.end, at.begin), [], one)


@emitter
def _each_strip(builder, function: Type, element: Class, at: Fields) -> None:
    """Emit a function for rows side by side, enough for a strip; the last strip does some again."""
    strip = Strip(builder, element, at.segments, at.stride)
    lanes, last = I64(strip.lanes), builder.sub(at.end, I64(strip.lanes))

    def one(number, _):
        index = builder.add(at.begin, builder.mul(number, lanes))
        _emit(function, strip, at, builder.select(builder.icmp_signed("<", index, last), index, last))
        return []

    count = builder.add(builder.sub(at.end, at.begin), I64(strip.lanes - 1))
    loop(builder, builder.sdiv(count, lanes), [], one)


@subroutine
def _rows_leaf(leaf, at):
    _each_row(leaf.function, leaf.element, at)


@subroutine
def _strips_leaf(leaf, at):
    _each_strip(leaf.function, leaf.element, at)


Rows = leaf_class("Rows", "function element", _rows_leaf, _Arrays)
"""Leaf: a function of rows, whose elements are a type of `block.sources`."""


Strips = leaf_class("Strips", "function element", _strips_leaf, _Arrays)
"""Leaf: the same for rows with one lane each."""


@task(
    "leaf first second out one other weight bias weight_sums bias_sums eps rows columns segments stride step "
    "period weight_step sum_step sums_of_task block"
)
def _task(task, worker, job):
    begin, sums = task * job.block, task * job.sums_of_task
    end = job.rows if job.rows - begin < 2 * job.block else begin + job.block
    call_at(
        job.leaf,
        _Arrays(
            job.first, job.second, job.out, job.one, job.other, job.weight, job.bias, job.weight_sums + sums,
            job.bias_sums + sums, job.eps, begin, end, job.columns, job.segments, job.stride, job.step, job.period,
            job.weight_step, job.sum_step,
        ),
    )  # fmt: skip


@njit
def run(pool, threads, leaf, fields):
    """A leaf, known by its address, for rows, as the other fields of `_task` say; a thread takes `block` of them at a
    time, and those that are left with the last ones: no two threads may work on the rows that a strip does again."""
    job = _task(leaf, *fields)
    launch(pool, threads, max(job.rows // job.block, 1), job)
