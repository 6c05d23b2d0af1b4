"""The loops of a transform: which vectors of transforms are computed when, by whom, through which memory.

Every transform is made of *columns*: transforms of one length, as many side by side as a vector has lanes,
whose passes
go from the source through two buffers in the L1 or L2 cache to the target.

* A long transform of length n = a * b is a matrix of a rows and b columns: its columns are transformed, multiplied by
  exp(-2 pi i j k / n) and transposed within the cache, then the rows are transformed, as columns again. Both times the
  vectors lie side by side in the user's memory (D. Bailey, "FFTs in external or hierarchical memory", 1990).
* A short one is the lane of a vector: squares are transposed on the way in and out.
* Along an axis other than the last, the vectors lie side by side already.

Where the columns are no multiple of the lanes, the last vector begins earlier and computes some of them again.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import intrinsic, ir, njit, types
from ..launch import call_at, launch
from .codelets import PassArguments, SquareArguments

__all__ = ["along", "long", "long_in_steps", "short"]

_ONE = 0x3FF0000000000000  # the bits of 1.0

_LEAF, _M, _S, _TWIDDLES = 0, 1, 2, 3


@intrinsic
def _number(typingctx, address):
    """The int64 at an address. Tables travel as addresses: an array in a job would be counted by all threads at once,
    which took longer than the transforms."""

    def codegen(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _column(
    passes, count, source, source_step, swap_in, target, target_step, swap_out, scale, buffer, length, row, lanes, phase
):
    """One vector of transforms, whose rows are `row` bytes in the two buffers."""
    at, step = source, source_step
    for i in range(count):
        last = i == count - 1
        to = target if last else buffer + i % 2 * length * row
        to_step = target_step if last else row
        call_at(
            _number(passes + 32 * i + 8 * _LEAF),
            PassArguments(
                at, step, to, to_step, _number(passes + 32 * i + 8 * _TWIDDLES), _number(passes + 32 * i + 8 * _M),
                _number(passes + 32 * i + 8 * _S),
                swap_in if i == 0 else 0, swap_out if last else 0, scale, lanes, phase,
            ),
        )  # fmt: skip
        at, step = to, to_step


@njit(cache=False, no_cpython_wrapper=True)
def _start(group, lanes, count):
    return min(group * lanes, count - lanes)


@njit(cache=False, no_cpython_wrapper=True)
def _first_step(job, source, work, group, buffer):
    """A vector of columns of the matrix, to its place in `work`: [vector of rows][column][split row]."""
    lanes, size, row = job.lanes, job.size, job.row
    j0 = _start(group, lanes, job.b)
    turned = buffer + 2 * job.a * row
    phase = job.phases + group * job.a * 2 * size
    _column(
        job.down, job.down_count, source + j0 * 2 * size, job.b * 2 * size, job.swap, turned, row, 0, 0, buffer,
        job.a, row,
        job.roots, phase,
    )  # fmt: skip
    for part in range(2):
        at = part * row // 2
        for block in range((job.a + lanes - 1) // lanes):
            k0 = _start(block, lanes, job.a)
            to = work + (block * job.b + j0) * row + at
            call_at(job.square, SquareArguments(turned + k0 * row + at, row, to, row, _ONE, 1, 0, 0))


@njit(cache=False, no_cpython_wrapper=True)
def _second_step(job, work, target, block, buffer):
    """A vector of rows of the matrix, to the user's memory."""
    size, k0 = job.size, _start(block, job.lanes, job.a)
    _column(
        job.across, job.across_count, work + block * job.b * job.row, job.row, 0, target + k0 * 2 * size,
        job.a * 2 * size, job.swap,
        job.scale, buffer, job.b, job.row, 0, 0,
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def _long_task(task, worker, job):
    """Some whole transforms, each in the worker's own memory."""
    buffer = job.memory + worker * job.worker_bytes
    work = buffer + job.buffer_bytes
    for item in range(task * job.chunk, min((task + 1) * job.chunk, job.batch)):
        source, target = job.source + item * job.source_step, job.target + item * job.target_step
        for group in range((job.b + job.lanes - 1) // job.lanes):
            _first_step(job, source, work, group, buffer)
        for block in range((job.a + job.lanes - 1) // job.lanes):
            _second_step(job, work, target, block, buffer)


@njit(cache=False, no_cpython_wrapper=True)
def _down_task(task, worker, job):
    """Some vectors of columns of one transform."""
    buffer = job.memory + worker * job.worker_bytes
    for group in range(task * job.chunk, min((task + 1) * job.chunk, (job.b + job.lanes - 1) // job.lanes)):
        _first_step(job, job.source, job.target, group, buffer)


@njit(cache=False, no_cpython_wrapper=True)
def _across_task(task, worker, job):
    """Some vectors of rows of one transform."""
    buffer = job.memory + worker * job.worker_bytes
    for block in range(task * job.chunk, min((task + 1) * job.chunk, (job.a + job.lanes - 1) // job.lanes)):
        _second_step(job, job.source, job.target, block, buffer)


class _Long(NamedTuple):
    down: int
    down_count: int
    across: int
    across_count: int
    square: int
    a: int
    b: int
    lanes: int
    size: int
    row: int
    swap: int
    scale: int
    roots: int
    phases: int
    source: int
    source_step: int
    target: int
    target_step: int
    batch: int
    chunk: int
    memory: int
    worker_bytes: int
    buffer_bytes: int
    run = _long_task


class _Down(_Long):
    run = _down_task


class _Across(_Long):
    run = _across_task


@njit
def long(
    pool, threads, down, down_count, across, across_count, square, a, b, lanes, size, row, swap, scale, roots,
    phases, source, source_step,
    target, target_step, batch, chunk, memory, worker_bytes, buffer_bytes,
):  # fmt: skip
    """Transforms of length a * b,
    in tasks of `chunk` of them. `down` and `across` are the passes of lengths a and b; a
    worker has worker_bytes of memory, of which buffer_bytes for columns."""
    job = _Long(
        down, down_count, across, across_count, square, a, b, lanes, size, row, swap, scale, roots, phases, source,
        source_step,
        target, target_step, batch, chunk, memory, worker_bytes, buffer_bytes,
    )  # fmt: skip
    launch(pool, threads, (batch + chunk - 1) // chunk, job)


@njit
def long_in_steps(
    pool, threads, down, down_count, across, across_count, square, a, b, lanes, size, row, swap, scale, roots,
    phases, source, source_step,
    target, target_step, batch, chunk, memory, worker_bytes, work,
):  # fmt: skip
    """The same, one transform after the other, whose steps the threads share in tasks of `chunk` vectors."""
    for item in range(batch):
        job = _Down(
            down, down_count, across, across_count, square, a, b, lanes, size, row, swap, scale, roots, phases,
            source + item * source_step, 0,
            work, 0, 1, chunk, memory, worker_bytes, 0,
        )  # fmt: skip
        launch(pool, threads, ((b + lanes - 1) // lanes + chunk - 1) // chunk, job)
        other = _Across(
            down, down_count, across, across_count, square, a, b, lanes, size, row, swap, scale, roots, phases,
            work, 0,
            target + item * target_step, 0, 1, chunk, memory, worker_bytes, 0,
        )  # fmt: skip
        launch(pool, threads, ((a + lanes - 1) // lanes + chunk - 1) // chunk, other)


@njit(cache=False, no_cpython_wrapper=True)
def _short_task(task, worker, job):
    """Some vectors of short transforms. Squares are lanes x lanes elements, half as many complex numbers."""
    n, lanes, size, row = job.n, job.lanes, job.size, job.row
    buffer = job.memory + worker * job.worker_bytes
    turned = buffer + 2 * n * row
    width, whole = lanes // 2, n // (lanes // 2)
    for group in range(task * job.chunk, min((task + 1) * job.chunk, (job.batch + lanes - 1) // lanes)):
        first = _start(group, lanes, job.batch)
        source, target = job.source + first * job.source_step, job.target + first * job.target_step
        next_in, next_out = width * 2 * size, width * row
        call_at(
            job.square,
            SquareArguments(source, job.source_step, turned, row // 2, _ONE, whole, next_in, next_out),
        )
        rest = (n - width) * 2 * size
        if whole * width < n:
            to = turned + (n - width) * row
            call_at(job.square, SquareArguments(source + rest, job.source_step, to, row // 2, _ONE, 1, 0, 0))
        _column(job.passes, job.count, turned, row, job.swap, turned, row, job.swap, 0, buffer, n, row, 0, 0)
        call_at(
            job.square,
            SquareArguments(turned, row // 2, target, job.target_step, job.scale, whole, next_out, next_in),
        )
        if whole * width < n:
            at = turned + (n - width) * row
            call_at(job.square, SquareArguments(at, row // 2, target + rest, job.target_step, job.scale, 1, 0, 0))


class _Short(NamedTuple):
    passes: int
    count: int
    square: int
    n: int
    lanes: int
    size: int
    row: int
    swap: int
    scale: int
    source: int
    source_step: int
    target: int
    target_step: int
    batch: int
    chunk: int
    memory: int
    worker_bytes: int
    run = _short_task


@njit
def short(
    pool, threads, passes, count, square, n, lanes, size, row, swap, scale, source, source_step, target, target_step,
    batch, chunk, memory, worker_bytes,
):  # fmt: skip
    """Transforms of length n >= lanes / 2, at least as many as lanes, in tasks of `chunk` vectors of them."""
    job = _Short(
        passes, count, square, n, lanes, size, row, swap, scale, source, source_step, target, target_step,
        batch, chunk, memory, worker_bytes,
    )  # fmt: skip
    launch(pool, threads, ((batch + lanes - 1) // lanes + chunk - 1) // chunk, job)


@njit(cache=False, no_cpython_wrapper=True)
def _along_task(task, worker, job):
    """Some vectors of transforms along an axis that is not the last."""
    lanes, size = job.lanes, job.size
    buffer = job.memory + worker * job.worker_bytes
    groups = (job.inner + lanes - 1) // lanes
    for index in range(task * job.chunk, min((task + 1) * job.chunk, job.outer * groups)):
        item, at = index // groups, _start(index % groups, lanes, job.inner) * 2 * size
        _column(
            job.passes, job.count, job.source + item * job.source_step + at, job.source_row, job.swap,
            job.target + item * job.target_step + at, job.target_row, job.swap, job.scale, buffer, job.n, job.row,
            0, 0,
        )  # fmt: skip


class _Along(NamedTuple):
    passes: int
    count: int
    n: int
    lanes: int
    size: int
    row: int
    swap: int
    scale: int
    source: int
    source_step: int
    source_row: int
    target: int
    target_step: int
    target_row: int
    outer: int
    inner: int
    chunk: int
    memory: int
    worker_bytes: int
    run = _along_task


@njit
def along(
    pool, threads, passes, count, n, lanes, size, row, swap, scale, source, source_step, source_row, target,
    target_step,
    target_row, outer, inner, chunk, memory, worker_bytes,
):  # fmt: skip
    """Transforms along the middle axis of (outer, n, inner) arrays, inner >= lanes, in tasks of `chunk` vectors."""
    job = _Along(
        passes, count, n, lanes, size, row, swap, scale, source, source_step, source_row, target, target_step,
        target_row,
        outer, inner, chunk, memory, worker_bytes,
    )  # fmt: skip
    launch(pool, threads, (outer * ((inner + lanes - 1) // lanes) + chunk - 1) // chunk, job)
