"""The loops of a transform: which vectors of transforms are computed when, by whom, through which memory.

Every transform is made of *columns*: transforms of one length, as many side by side as a vector has lanes, whose passes
go from the source through two buffers in the L1 or L2 cache to the target.

* A long transform of length n = a * b is a matrix of a rows and b columns: its columns are transformed, multiplied by
  exp(-2 pi i j k / n) and transposed within the cache, then the rows are transformed, as columns again. Both times the
  vectors lie side by side in the user's memory (D. Bailey, "FFTs in external or hierarchical memory", 1990).
* One of few powers of two is transformed in registers (`registers.py`), and is no column.
* A short one is the lane of a vector: squares are transposed on the way in and out.
* Along an axis other than the last, the vectors lie side by side already.

Where the columns are no multiple of the lanes, the last vector begins earlier and computes some of them again.

Each thread takes one run of neighbouring tasks, the same ones for every array of one shape: what it wrote for the last
transform is in its own L2 cache (16 transforms of 16384 complex64: 200 us, and 540 when tasks are dealt as they come).
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import intrinsic, ir, njit, types
from ..launch import call_at, launch
from .codelets import PassArguments, SquareArguments
from .registers import WholeArguments
from .tangle import TangleArguments

__all__ = ["FIELDS", "KINDS", "REALS", "Job", "get", "transform", "transform_few", "whole"]

FIELDS = (
    "kind", "real", "n", "lanes", "size", "row", "square", "down", "down_count", "across", "across_count", "a", "b",
    "roots", "phases", "tangle", "tangle_roots", "column_bytes", "worker_bytes", "whole",
)  # fmt: skip
"""What the int64 of a plan's table mean: `Plan` says it."""

KINDS = ("short", "long", "along", "whole")
REALS = ("", "real", "halved")

_KIND, _REAL, _N, _LANES, _SIZE, _ROW, _SQUARE, _DOWN, _DOWN_COUNT, _ACROSS, _ACROSS_COUNT, _A, _B = range(13)
_ROOTS, _PHASES, _TANGLE, _TANGLE_ROOTS, _COLUMN_BYTES, _WORKER_BYTES, _WHOLE = range(13, 20)
_SHORT, _LONG, _ALONG, _IN_REGISTERS = range(4)
_FORWARD, _HALVED = 1, 2

_SOME = 8  # transforms of real numbers that are in the L1 cache at once
_ONE = 0x3FF0000000000000  # the bits of 1.0

_LEAF, _M, _S, _TWIDDLES = 0, 1, 2, 3


@intrinsic
def get(typingctx, address, index):
    """The int64 at an index from an address on. Tables travel as addresses: an array in a job would be counted by all
    threads at once, which took longer than the transforms."""

    def codegen(context, builder, signature, arguments):
        table = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(table, [arguments[1]]))

    return types.int64(types.int64, types.int64), codegen


class Job(NamedTuple):
    """What every task is given.

    Attributes:
        table: the address of the plan's numbers.
        swap: whether real and imaginary parts change places, which makes the inverse transform.
        source_step, source_row: bytes between transforms, and along an axis that is not the last between its numbers.
        chunk: units of work (groups of transforms, transforms, vectors of columns) in a task.
    """

    table: int
    swap: int
    scale: int
    source: int
    source_step: int
    source_row: int
    target: int
    target_step: int
    target_row: int
    batch: int
    inner: int
    chunk: int
    memory: int
    work: int


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
        pass_ = passes + 32 * i
        call_at(
            get(pass_, _LEAF),
            PassArguments(
                at, step, to, to_step, get(pass_, _TWIDDLES), get(pass_, _M), get(pass_, _S),
                swap_in if i == 0 else 0, swap_out if last else 0, scale, lanes, phase,
            ),
        )  # fmt: skip
        at, step = to, to_step


@njit(cache=False, no_cpython_wrapper=True)
def _start(group, lanes, count):
    return min(group * lanes, count - lanes)


@njit(cache=False, no_cpython_wrapper=True)
def _groups(count, lanes):
    return (count + lanes - 1) // lanes


@njit(cache=False, no_cpython_wrapper=True)
def _tangle(table, source, source_step, target, target_step, count, first, blocks, rest):
    """Between the spectrum of m complex numbers and half of that of 2m real ones, of `count` transforms: for `blocks`
    vectors of frequencies and their mirrors, and with `rest` those in the middle and at both ends."""
    call_at(
        get(table, _TANGLE),
        TangleArguments(
            source, source_step, target, target_step, count, get(table, _TANGLE_ROOTS), get(table, _N), first, blocks,
            rest, int(get(table, _REAL) == _HALVED),
        ),
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def _tangle_blocks(table):
    """Whole vectors of frequencies that do not meet their mirrors."""
    return (get(table, _N) - 1) // (2 * get(table, _LANES))


@njit(cache=False, no_cpython_wrapper=True)
def _tangle_all(table, source, source_step, target, target_step, count):
    _tangle(table, source, source_step, target, target_step, count, 1, _tangle_blocks(table), 1)


@njit(cache=False, no_cpython_wrapper=True)
def _first_step(job, source, work, group, buffer):
    """A vector of columns of the matrix, to its place in `work`: [vector of rows][column][split row]."""
    table = job.table
    lanes, size, row, a, b = (
        get(table, _LANES), get(table, _SIZE), get(table, _ROW), get(table, _A), get(table, _B),
    )  # fmt: skip
    square = get(table, _SQUARE)
    j0 = _start(group, lanes, b)
    turned = buffer + 2 * a * row
    _column(
        get(table, _DOWN), get(table, _DOWN_COUNT), source + j0 * 2 * size, b * 2 * size, job.swap, turned, row, 0, 0,
        buffer, a, row, get(table, _ROOTS), get(table, _PHASES) + group * a * 2 * size,
    )  # fmt: skip
    blocks, height = a // lanes, lanes * row
    for part in range(2):
        at = part * row // 2
        to = work + j0 * row + at
        call_at(square, SquareArguments(turned + at, row, to, row, _ONE, blocks, height, b * row))
        if blocks * lanes < a:
            to += blocks * b * row
            call_at(square, SquareArguments(turned + (a - lanes) * row + at, row, to, row, _ONE, 1, 0, 0))


@njit(cache=False, no_cpython_wrapper=True)
def _second_step(job, work, target, block, buffer):
    """A vector of rows of the matrix, to the user's memory."""
    table = job.table
    size, row, a, b = get(table, _SIZE), get(table, _ROW), get(table, _A), get(table, _B)
    k0 = _start(block, get(table, _LANES), a)
    _column(
        get(table, _ACROSS), get(table, _ACROSS_COUNT), work + block * b * row, row, 0, target + k0 * 2 * size,
        a * 2 * size, job.swap, job.scale, buffer, b, row, 0, 0,
    )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def whole(job, source, target, buffer):
    """One long transform on one thread, in the worker's own memory."""
    table = job.table
    lanes, real = get(table, _LANES), get(table, _REAL)
    work = buffer + get(table, _COLUMN_BYTES)
    if real == _HALVED:
        _tangle_all(table, source, 0, target, 0, 1)
        source = target
    for group in range(_groups(get(table, _B), lanes)):
        _first_step(job, source, work, group, buffer)
    for block in range(_groups(get(table, _A), lanes)):
        _second_step(job, work, target, block, buffer)
    if real == _FORWARD:
        _tangle_all(table, target, 0, target, 0, 1)


@njit(cache=False, no_cpython_wrapper=True)
def _long_task(task, worker, job):
    """Some whole transforms."""
    buffer = job.memory + worker * get(job.table, _WORKER_BYTES)
    for item in range(task * job.chunk, min((task + 1) * job.chunk, job.batch)):
        whole(job, job.source + item * job.source_step, job.target + item * job.target_step, buffer)


@njit(cache=False, no_cpython_wrapper=True)
def _down_task(task, worker, job):
    """Some vectors of columns of one transform."""
    buffer = job.memory + worker * get(job.table, _COLUMN_BYTES)
    groups = _groups(get(job.table, _B), get(job.table, _LANES))
    for group in range(task * job.chunk, min((task + 1) * job.chunk, groups)):
        _first_step(job, job.source, job.work, group, buffer)


@njit(cache=False, no_cpython_wrapper=True)
def _across_task(task, worker, job):
    """Some vectors of rows of one transform."""
    buffer = job.memory + worker * get(job.table, _COLUMN_BYTES)
    groups = _groups(get(job.table, _A), get(job.table, _LANES))
    for block in range(task * job.chunk, min((task + 1) * job.chunk, groups)):
        _second_step(job, job.work, job.target, block, buffer)


@njit(cache=False, no_cpython_wrapper=True)
def _tangle_task(task, worker, job):
    """Some vectors of frequencies of one transform; the first task has the middle and the ends as well."""
    table, first = job.table, task * job.chunk
    lanes, blocks = get(table, _LANES), _tangle_blocks(table)
    here = max(min(job.chunk, blocks - first), 0)
    _tangle(table, job.source, 0, job.target, 0, 1, 1 + first * lanes, here, int(task == 0))


@njit(cache=False, no_cpython_wrapper=True)
def _turn(table, at, step, split, scale, inwards):
    """Between the rows of `lanes` transforms and split rows. Squares are lanes x lanes elements, half as many complex
    numbers; the last one begins earlier where that is no divisor of n."""
    n, lanes, size, row, square = (
        get(table, _N), get(table, _LANES), get(table, _SIZE), get(table, _ROW), get(table, _SQUARE),
    )  # fmt: skip
    width = lanes // 2
    whole, next_plain, next_split = n // width, width * 2 * size, width * row
    for rest in range(2):
        count = whole if rest == 0 else 1
        plain, rows = at + rest * (n - width) * 2 * size, split + rest * (n - width) * row
        if rest == 1 and whole * width == n:
            return
        if inwards:
            call_at(square, SquareArguments(plain, step, rows, row // 2, scale, count, next_plain, next_split))
        else:
            call_at(square, SquareArguments(rows, row // 2, plain, step, scale, count, next_split, next_plain))


@njit(cache=False, no_cpython_wrapper=True)
def _short_task(task, worker, job):
    """Some vectors of short transforms. Those of real numbers pass through rows of the worker's own, because two tasks
    may compute one transform."""
    table = job.table
    n, lanes, size, row, real = (
        get(table, _N), get(table, _LANES), get(table, _SIZE), get(table, _ROW), get(table, _REAL),
    )  # fmt: skip
    buffer = job.memory + worker * get(table, _WORKER_BYTES)
    turned, own, own_step = buffer + 2 * n * row, buffer + 3 * n * row, n * 2 * size
    for group in range(task * job.chunk, min((task + 1) * job.chunk, _groups(job.batch, lanes))):
        first = _start(group, lanes, job.batch)
        source, target = job.source + first * job.source_step, job.target + first * job.target_step
        if real == _HALVED:
            _tangle_all(table, source, job.source_step, own, own_step, lanes)
            _turn(table, own, own_step, turned, _ONE, True)
        else:
            _turn(table, source, job.source_step, turned, _ONE, True)
        _column(
            get(table, _DOWN), get(table, _DOWN_COUNT), turned, row, job.swap, turned, row, job.swap, 0, buffer, n,
            row, 0, 0,
        )  # fmt: skip
        if real == _FORWARD:
            _turn(table, own, own_step, turned, job.scale, False)
            _tangle_all(table, own, own_step, target, job.target_step, lanes)
        else:
            _turn(table, target, job.target_step, turned, job.scale, False)


@njit(cache=False, no_cpython_wrapper=True)
def _along_task(task, worker, job):
    """Some vectors of transforms along an axis that is not the last."""
    table = job.table
    lanes, size = get(table, _LANES), get(table, _SIZE)
    buffer = job.memory + worker * get(table, _WORKER_BYTES)
    groups = _groups(job.inner, lanes)
    for index in range(task * job.chunk, min((task + 1) * job.chunk, job.batch * groups)):
        item, at = index // groups, _start(index % groups, lanes, job.inner) * 2 * size
        _column(
            get(table, _DOWN), get(table, _DOWN_COUNT), job.source + item * job.source_step + at, job.source_row,
            job.swap, job.target + item * job.target_step + at, job.target_row, job.swap, job.scale, buffer,
            get(table, _N), get(table, _ROW), 0, 0,
        )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def _whole_task(task, worker, job):
    """Some transforms in registers, those of real numbers a few at a time."""
    table = job.table
    real, sign = get(table, _REAL), job.swap << 63
    last, step = min((task + 1) * job.chunk, job.batch), job.chunk if real == 0 else _SOME
    for first in range(task * job.chunk, last, step):
        end = min(first + step, last)
        source, source_step = job.source, job.source_step
        if real == _HALVED:
            at, to = source + first * source_step, job.target + first * job.target_step
            _tangle_all(table, at, source_step, to, job.target_step, end - first)
            source, source_step = job.target, job.target_step
        call_at(
            get(table, _WHOLE),
            WholeArguments(
                source, source_step, job.target, job.target_step, first, end, _ONE ^ sign, job.scale,
                job.scale ^ sign, get(table, _ROOTS),
            ),
        )  # fmt: skip
        if real == _FORWARD:
            to = job.target + first * job.target_step
            _tangle_all(table, to, job.target_step, to, job.target_step, end - first)


class _Long(Job):
    run = _long_task


class _Down(Job):
    run = _down_task


class _Across(Job):
    run = _across_task


class _Tangle(Job):
    run = _tangle_task


class _Short(Job):
    run = _short_task


class _Along(Job):
    run = _along_task


class _Whole(Job):
    run = _whole_task


@njit(cache=False, no_cpython_wrapper=True)
def _share(units, threads):
    """Units of each task, and tasks."""
    chunk = max((units + threads - 1) // threads, 1)
    return chunk, (units + chunk - 1) // chunk


@njit(cache=False, no_cpython_wrapper=True)
def _in_steps(pool, threads, table, swap, scale, source, target, memory):
    """One long transform, whose steps the threads share."""
    lanes, real = get(table, _LANES), get(table, _REAL)
    work = memory + threads * get(table, _COLUMN_BYTES)
    if real == _HALVED:
        chunk, tasks = _share(max(_tangle_blocks(table), 1), threads)
        launch(pool, threads, tasks, _Tangle(table, 0, 0, source, 0, 0, target, 0, 0, 1, 0, chunk, memory, work))
        source = target
    chunk, tasks = _share(_groups(get(table, _B), lanes), threads)
    launch(pool, threads, tasks, _Down(table, swap, scale, source, 0, 0, target, 0, 0, 1, 0, chunk, memory, work))
    chunk, tasks = _share(_groups(get(table, _A), lanes), threads)
    launch(pool, threads, tasks, _Across(table, swap, scale, source, 0, 0, target, 0, 0, 1, 0, chunk, memory, work))
    if real == _FORWARD:
        chunk, tasks = _share(max(_tangle_blocks(table), 1), threads)
        launch(pool, threads, tasks, _Tangle(table, 0, 0, target, 0, 0, target, 0, 0, 1, 0, chunk, memory, work))


@njit
def transform(
    pool, threads, table, swap, scale, source, source_step, source_row, target, target_step, target_row, batch, inner,
    in_steps, memory,
):  # fmt: skip
    """Transform `batch` rows, or (batch, n, inner) along the middle axis, by the plan whose table is at an address.
    `memory` is the plan's bytes for each thread; where the threads share the steps of a transform (in_steps), its
    column bytes for each thread and then its work bytes."""
    kind, lanes = get(table, _KIND), get(table, _LANES)
    if in_steps:
        for item in range(batch):
            at, to = source + item * source_step, target + item * target_step
            _in_steps(pool, threads, table, swap, scale, at, to, memory)
        return
    if kind in (_LONG, _IN_REGISTERS):
        units = batch
    elif kind == _SHORT:
        units = _groups(batch, lanes)
    else:
        units = batch * _groups(inner, lanes)
    chunk, tasks = _share(units, threads)
    rest = (
        table, swap, scale, source, source_step, source_row, target, target_step, target_row, batch, inner, chunk,
        memory, 0,
    )  # fmt: skip
    if kind == _LONG:
        launch(pool, threads, tasks, _Long(*rest))
    elif kind == _SHORT:
        launch(pool, threads, tasks, _Short(*rest))
    elif kind == _IN_REGISTERS:
        launch(pool, threads, tasks, _Whole(*rest))
    else:
        launch(pool, threads, tasks, _Along(*rest))


@njit
def transform_few(table, numbers, source, target, memory):
    """Transform rows on this thread. `numbers` is the address of: swap, factor, bytes between transforms of the source
    and of the target, and how many there are; source, target and memory are where their addresses are read."""
    swap, factor, source_step, target_step, batch = (
        get(numbers, 0), get(numbers, 1), get(numbers, 2), get(numbers, 3), get(numbers, 4),
    )  # fmt: skip
    job = Job(
        table, swap, factor, get(source, 0), source_step, 0, get(target, 0), target_step, 0, batch, 1, batch,
        get(memory, 0), 0,
    )  # fmt: skip
    if get(table, _KIND) == _IN_REGISTERS:
        _whole_task(0, 0, job)
    elif get(table, _KIND) == _LONG:
        _long_task(0, 0, job)
    else:
        _short_task(0, 0, job)
