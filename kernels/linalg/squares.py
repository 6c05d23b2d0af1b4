"""Moving parts of row-major matrices: vectors at any address, rows copied and exchanged."""

from __future__ import annotations

from ..block.emit import POINTER, load, store, vector
from ..block.tags import constant, instance
from ..runtime.jit import intrinsic, njit, subroutine, types
from ..runtime.launch import launch, task
from ..runtime.raw_memory import allocate
from .lanes import lanes_of, read, splat, write


@intrinsic
def load_any(typingctx, tag, address):
    """The vector at an address that need not be that of a cache line."""
    kind = instance(tag)

    def codegen(context, builder, signature, arguments):
        at = builder.inttoptr(arguments[1], POINTER)
        return load(builder, vector(kind.element, kind.lanes), at, kind.size)

    return lanes_of(kind)(tag, types.int64), codegen


@intrinsic
def store_any(typingctx, address, value):
    def codegen(context, builder, signature, arguments):
        store(builder, arguments[1], builder.inttoptr(arguments[0], POINTER), value.tag.size)
        return context.get_dummy_value()

    return types.void(types.int64, value), codegen


@subroutine
def copy(tag, count, source, target):
    """Copy `count` neighbouring numbers."""
    lanes, size = constant(tag, "lanes"), constant(tag, "size")
    whole = count - count % lanes
    for i in range(0, whole, lanes):
        store_any(target + i * size, load_any(tag, source + i * size))
    for i in range(whole, count):
        write(tag, target + i * size, read(tag, source + i * size))


@subroutine
def _exchange(tag, count, one, other):
    lanes, size = constant(tag, "lanes"), constant(tag, "size")
    whole = count - count % lanes
    for i in range(0, whole, lanes):
        x, y = load_any(tag, one + i * size), load_any(tag, other + i * size)
        store_any(one + i * size, y)
        store_any(other + i * size, x)
    for i in range(whole, count):
        x, y = read(tag, one + i * size), read(tag, other + i * size)
        write(tag, one + i * size, y)
        write(tag, other + i * size, x)


_STRIP = 256
"""Columns of rows that are exchanged at a time by one thread."""


@task("tag pivots first last columns a row")
def _exchange_task(task, worker, job):
    size, first = constant(job.tag, "size"), task * _STRIP
    count = min(_STRIP, job.columns - first)
    for i in range(job.first, job.last):
        other = job.pivots[i] - 1
        if other != i:
            at = job.a + first * size
            _exchange(job.tag, count, at + i * job.row, at + other * job.row)


@subroutine
def exchange_rows(tag, pool, threads, pivots, first, last, columns, a, row):
    """Exchange row i of so many columns at `a` with row pivots[i] - 1, for i from first to last."""
    if columns > 0 and last > first:
        tasks = (columns + _STRIP - 1) // _STRIP
        launch(pool, threads, tasks, _exchange_task(tag, pivots, first, last, columns, a, row))


_ROWS = 64


@task("tag rows columns source source_row target target_row part")
def _copy_task(task, worker, job):
    size, zero = constant(job.tag, "size"), splat(job.tag, 0.0)
    for i in range(task * _ROWS, min((task + 1) * _ROWS, job.rows)):
        count, start, at = job.columns, 0, job.target + i * job.target_row
        if job.part == 2:
            start = min(i, job.columns)
            for j in range(start):
                write(job.tag, at + j * size, 0.0)
        if job.part == 1:
            count = min(i + 1, job.columns)
            last = job.columns - constant(job.tag, "lanes")
            j = count
            while j <= last:
                store_any(at + j * size, zero)
                j += constant(job.tag, "lanes")
            for k in range(j, job.columns):
                write(job.tag, at + k * size, 0.0)
        copy(job.tag, count - start, job.source + i * job.source_row + start * size, at + start * size)


@njit
def copy_rows(tag, pool, threads, rows, columns, source, source_row, target, target_row, part):
    """Copy rows of neighbouring numbers; with part 1 only their lower triangle, with 2 their upper one, and
    zeros. In place, too."""
    job = _copy_task(tag, rows, columns, source, source_row, target, target_row, part)
    launch(pool, threads, (rows + _ROWS - 1) // _ROWS, job)


@subroutine
def permutation(pivots):
    """Where each row comes from after the exchanges of row i with row pivots[i] - 1: an array to be freed."""
    order = allocate(pivots.shape[0], 0)
    for i in range(pivots.shape[0]):
        order[i] = i
    for i in range(pivots.shape[0]):
        other = pivots[i] - 1
        order[i], order[other] = order[other], order[i]
    return order
