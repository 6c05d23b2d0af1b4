"""What the threads do of a batch of transforms, and the compiled functions that are called.

Each thread takes one run of neighbouring tasks, the same ones for every array of one shape: what it wrote for the last
transform is in its own L2 cache (16 transforms of 16384 complex64: 200 us, and 540 when tasks are dealt as they come).
"""

from __future__ import annotations

from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, job_class, launch, task
from ..runtime.raw_memory import get, put
from .loops import (
    End,
    column,
    first_of,
    first_steps,
    groups_of,
    second_steps,
    tangle,
    tangle_all,
    tangle_blocks,
    tangle_lanes,
    turn,
    whole,
)
from .registers import WholeArguments
from .table import AT, FORWARD, HALVED, IN_REGISTERS, LONG, ONE, SHORT, WIDE, Job, ask_to_write
from .wide import WideArguments

_SOME = 8  # transforms of real numbers that are in the L1 cache at once
_SOME_BYTES = 1 << 15  # of complex ones between which the order of a task is turned


@subroutine
def _starts_at_end(walks, source, target):
    """Whether tasks take their last units first: those that were last touched may still be in the cache. Others have
    written arrays from the front on; a transform of the same arrays, or of its result, begins where the last one ended.
    (64 x 4096 complex128 120 us in place of 142, 512 x 512 complex64 79 in place of 84 to 118.) `walks` is the address
    of what is known of the last transform: source, target, and this answer. Threads that write it at once may spoil it,
    which costs time only."""
    backwards = 1 - get(walks, 2) if source == get(walks, 0) or source == get(walks, 1) else 1
    put(walks, 0, source)
    put(walks, 1, target)
    put(walks, 2, backwards)
    return backwards


_ASKED_BYTES = 1 << 14
"""Bytes of results that are asked for together; more would not stay in the L1 cache with what is computed meanwhile."""


@subroutine
def _ask_for_rows(table, target, step, count):
    """Ask for the lines of some results before they are computed."""
    length = 2 * get(table, AT.size) * get(table, AT.n)
    if count * length <= _ASKED_BYTES:
        for row in range(target, target + count * step, step):
            for line in range(row, row + length, 64):
                ask_to_write(line)


@subroutine
def _walk(job, first, end):
    return range(end - 1, first - 1, -1) if job.backwards else range(first, end, 1)


@subroutine
def _long_task(task, worker, job):
    """Some whole transforms."""
    buffer = job.memory + worker * get(job.table, AT.worker_bytes)
    for item in _walk(job, task * job.chunk, min((task + 1) * job.chunk, job.batch)):
        whole(job, job.source + item * job.source_step, job.target + item * job.target_step, buffer)


@subroutine
def _down_task(task, worker, job):
    """Some vectors of columns of one transform."""
    buffer = job.memory + worker * get(job.table, AT.column_bytes)
    groups = groups_of(get(job.table, AT.b), get(job.table, AT.lanes))
    first_steps(job, job.source, job.work, task * job.chunk, min((task + 1) * job.chunk, groups), buffer)


@subroutine
def _across_task(task, worker, job):
    """Some vectors of rows of one transform."""
    buffer = job.memory + worker * get(job.table, AT.column_bytes)
    groups = groups_of(get(job.table, AT.a), get(job.table, AT.lanes))
    second_steps(job, job.work, job.target, task * job.chunk, min((task + 1) * job.chunk, groups), buffer)


@subroutine
def _tangle_task(task, worker, job):
    """Some vectors of frequencies of one transform; the first task has the middle and the ends as well."""
    table, first = job.table, task * job.chunk
    lanes, blocks = get(table, AT.lanes), tangle_blocks(table)
    here = max(min(job.chunk, blocks - first), 0)
    tangle(table, job.source, 0, job.target, 0, 1, 1 + first * lanes, here, int(task == 0))


@subroutine
def _short_task(task, worker, job):
    """Some vectors of short transforms. Two tasks may compute one of them, and then write the same."""
    table = job.table
    n, lanes, row, real = get(table, AT.n), get(table, AT.lanes), get(table, AT.row), get(table, AT.real)
    buffer = job.memory + worker * get(table, AT.worker_bytes)
    turned = buffer + 2 * n * row
    for group in _walk(job, task * job.chunk, min((task + 1) * job.chunk, groups_of(job.batch, lanes))):
        first = first_of(group, lanes, job.batch)
        source, target = job.source + first * job.source_step, job.target + first * job.target_step
        turn(table, n + int(real == HALVED), source, job.source_step, turned, ONE, True)
        if real == HALVED:
            tangle_lanes(table, turned)
        _ask_for_rows(table, target, job.target_step, lanes)
        column(
            get(table, AT.down), get(table, AT.down_count), End(turned, row, job.swap), End(turned, row, job.swap), 0,
            buffer, n, row, 0, 0, 0, 0,
        )  # fmt: skip
        if real == FORWARD:
            tangle_lanes(table, turned)
        turn(table, n + int(real == FORWARD), target, job.target_step, turned, job.scale, False)


@subroutine
def _along_task(task, worker, job):
    """Some vectors of transforms along an axis that is not the last."""
    table = job.table
    lanes, size = get(table, AT.lanes), get(table, AT.size)
    buffer = job.memory + worker * get(table, AT.worker_bytes)
    groups = groups_of(job.inner, lanes)
    for index in _walk(job, task * job.chunk, min((task + 1) * job.chunk, job.batch * groups)):
        item, at = index // groups, first_of(index % groups, lanes, job.inner) * 2 * size
        column(
            get(table, AT.down), get(table, AT.down_count),
            End(job.source + item * job.source_step + at, job.source_row, job.swap),
            End(job.target + item * job.target_step + at, job.target_row, job.swap), job.scale, buffer,
            get(table, AT.n), get(table, AT.row), 0, 0, 0, 0,
        )  # fmt: skip


@subroutine
def _whole_task(task, worker, job):
    """Some transforms in registers, those of real numbers a few at a time where their spectra are not made there."""
    table = job.table
    real = get(table, AT.real) if get(table, AT.tangle) else 0
    start, last = task * job.chunk, min((task + 1) * job.chunk, job.batch)
    some = _SOME if real else max(_SOME_BYTES // (2 * get(table, AT.size) * get(table, AT.n)), 1)
    for block in _walk(job, 0, groups_of(last - start, some)):
        first = start + some * block
        end = min(first + some, last)
        source, source_step = job.source, job.source_step
        if real == HALVED:
            at, to = source + first * source_step, job.target + first * job.target_step
            tangle_all(table, at, source_step, to, job.target_step, end - first)
            source, source_step = job.target, job.target_step
        call_at(
            get(table, AT.inverse) if job.swap else get(table, AT.whole),
            WholeArguments(
                source, source_step, job.target, job.target_step, first, end, job.scale, get(table, AT.roots),
                get(table, AT.tangle_roots),
            ),
        )  # fmt: skip
        if real == FORWARD:
            to = job.target + first * job.target_step
            tangle_all(table, to, job.target_step, to, job.target_step, end - first)


@subroutine
def _wide_task(task, worker, job):
    """Some transforms of wide matrices, as many at a time as share vectors."""
    table = job.table
    real, size, row, a, b = (
        get(table, AT.real), get(table, AT.size), get(table, AT.row), get(table, AT.a), get(table, AT.b),
    )  # fmt: skip
    share, end = get(table, AT.share), min((task + 1) * job.chunk, job.batch)
    buffer = job.memory + worker * get(table, AT.worker_bytes)
    work = buffer + b * row
    start = task * job.chunk
    for group in _walk(job, 0, groups_of(end - start, share)):
        first = start + share * group
        count = min(share, end - first)
        source, source_step = job.source + first * job.source_step, job.source_step
        target, target_step = job.target + first * job.target_step, job.target_step
        if real == HALVED:
            tangle_all(table, source, source_step, target, target_step, count)
            source, source_step = target, target_step
        if real == FORWARD:
            _ask_for_rows(table, target, target_step, count)
        call_at(
            get(table, AT.whole),
            WideArguments(
                source, source_step, count - 1, b, ONE ^ (job.swap << 63), get(table, AT.roots), work, target,
                target_step, (-share if job.backwards else share) * source_step,
            ),
        )  # fmt: skip
        column(
            get(table, AT.across), get(table, AT.across_count), End(work, row, 0), End(target, a * 2 * size, job.swap),
            job.scale, buffer, b, row, 0, 0, target_step, count - 1,
        )  # fmt: skip
        if real == FORWARD:
            tangle_all(table, target, target_step, target, target_step, count)


_Long = job_class("_Long", Job._fields, _long_task)
_Down = job_class("_Down", Job._fields, _down_task)
_Across = job_class("_Across", Job._fields, _across_task)
_Tangle = job_class("_Tangle", Job._fields, _tangle_task)
_Short = job_class("_Short", Job._fields, _short_task)
_Along = job_class("_Along", Job._fields, _along_task)
_Whole = job_class("_Whole", Job._fields, _whole_task)
_Wide = job_class("_Wide", Job._fields, _wide_task)


@subroutine
def _share(units, threads):
    """Units of each task, and tasks."""
    chunk = max((units + threads - 1) // threads, 1)
    return chunk, (units + chunk - 1) // chunk


@subroutine
def _in_steps(pool, threads, table, swap, scale, source, target, memory):
    """One long transform, whose steps the threads share."""
    lanes, real = get(table, AT.lanes), get(table, AT.real)
    work = memory + threads * get(table, AT.column_bytes)
    if real == HALVED:
        chunk, tasks = _share(max(tangle_blocks(table), 1), threads)
        launch(pool, threads, tasks, _Tangle(table, 0, 0, source, 0, 0, target, 0, 0, 1, 0, chunk, memory, work, 0))
        source = target
    chunk, tasks = _share(groups_of(get(table, AT.b), lanes), threads)
    launch(pool, threads, tasks, _Down(table, swap, scale, source, 0, 0, target, 0, 0, 1, 0, chunk, memory, work, 0))
    chunk, tasks = _share(groups_of(get(table, AT.a), lanes), threads)
    launch(pool, threads, tasks, _Across(table, swap, scale, source, 0, 0, target, 0, 0, 1, 0, chunk, memory, work, 0))
    if real == FORWARD:
        chunk, tasks = _share(max(tangle_blocks(table), 1), threads)
        launch(pool, threads, tasks, _Tangle(table, 0, 0, target, 0, 0, target, 0, 0, 1, 0, chunk, memory, work, 0))


@njit
def transform(pool, threads, table, numbers, source, target, memory):
    """Transform `batch` rows, or (batch, n, inner) along the middle axis, by the plan whose table is at an address.

    `numbers` is the address of `stockham.NUMBERS`; source, target and memory are where their addresses are read. Memory
    is the plan's bytes for each thread; where the threads share the steps of a transform (in_steps), its column bytes
    for each thread and then its work bytes."""
    swap, factor, source_step, target_step, batch = (
        get(numbers, 0), get(numbers, 1), get(numbers, 2), get(numbers, 3), get(numbers, 4),
    )  # fmt: skip
    source_row, target_row, inner, in_steps = get(numbers, 5), get(numbers, 6), get(numbers, 7), get(numbers, 8)
    source, target, memory = get(source, 0), get(target, 0), get(memory, 0)
    backwards = _starts_at_end(get(numbers, 9), source, target)
    kind, lanes = get(table, AT.kind), get(table, AT.lanes)
    if in_steps:
        for item in range(batch):
            at, to = source + item * source_step, target + item * target_step
            _in_steps(pool, threads, table, swap, factor, at, to, memory)
        return
    if kind in (LONG, IN_REGISTERS, WIDE):
        units = batch
    elif kind == SHORT:
        units = groups_of(batch, lanes)
    else:
        units = batch * groups_of(inner, lanes)
    chunk, tasks = _share(units, threads)
    rest = (
        table, swap, factor, source, source_step, source_row, target, target_step, target_row, batch, inner, chunk,
        memory, 0, backwards,
    )  # fmt: skip
    if kind == LONG:
        launch(pool, threads, tasks, _Long(*rest))
    elif kind == SHORT:
        launch(pool, threads, tasks, _Short(*rest))
    elif kind == IN_REGISTERS:
        launch(pool, threads, tasks, _Whole(*rest))
    elif kind == WIDE:
        launch(pool, threads, tasks, _Wide(*rest))
    else:
        launch(pool, threads, tasks, _Along(*rest))


@subroutine
def run_alone(job):
    """All units of a job, on this thread."""
    kind = get(job.table, AT.kind)
    if kind == IN_REGISTERS:
        _whole_task(0, 0, job)
    elif kind == WIDE:
        _wide_task(0, 0, job)
    elif kind == LONG:
        _long_task(0, 0, job)
    elif kind == SHORT:
        _short_task(0, 0, job)
    else:
        _along_task(0, 0, job)


@subroutine
def _job(table, numbers, source, target, memory):
    """What `numbers` says, as one task."""
    batch, inner = get(numbers, 4), get(numbers, 7)
    return Job(
        table, get(numbers, 0), get(numbers, 1), source, get(numbers, 2), get(numbers, 5), target, get(numbers, 3),
        get(numbers, 6), batch, inner, batch * inner, memory, 0, 0,
    )  # fmt: skip


@njit
def transform_few(table, numbers, source, target, memory):
    """The same on this thread, in less time."""
    run_alone(_job(table, numbers, get(source, 0), get(target, 0), get(memory, 0)))


@task(
    "first first_numbers second second_numbers source source_step target target_step batch chunk memory worker_bytes "
    "between_bytes backwards"
)
def _matrices_task(task, worker, job):
    """Some matrices. first, second: the addresses of the numbers of two plans; first_numbers, second_numbers: of
    `stockham.NUMBERS`. source_step, target_step: bytes between matrices. chunk: of matrices, in a task. memory,
    worker_bytes: that of the first worker, and bytes to the next one's; between_bytes: of it, what is between both
    transforms. backwards: whether a task takes its matrices from the last to the first."""
    between = job.memory + worker * job.worker_bytes
    memory = between + job.between_bytes
    for item in _walk(job, task * job.chunk, min((task + 1) * job.chunk, job.batch)):
        source, target = job.source + item * job.source_step, job.target + item * job.target_step
        run_alone(_job(job.first, job.first_numbers, source, between, memory))
        run_alone(_job(job.second, job.second_numbers, between, target, memory))


@njit
def transform_matrices(pool, threads, numbers, first, second, worker_bytes, source, target, memory):
    """Transform matrices along both axes, by two plans whose tables are at these addresses. `numbers` is the address
    of: bytes between matrices of the source and of the target, how many there are, bytes of what is between both
    transforms, the address of `choice.WALKS`, and eight of `stockham.NUMBERS` for each transform. source, target and
    memory, so many bytes for each thread, are where their addresses are read."""
    batch, between = get(numbers, 2), get(numbers, 3)
    source, target, memory = get(source, 0), get(target, 0), get(memory, 0)
    chunk, tasks = _share(batch, threads)
    backwards = _starts_at_end(get(numbers, 4), source, target)
    job = _matrices_task(
        first, numbers + 5 * 8, second, numbers + 13 * 8, source, get(numbers, 0), target, get(numbers, 1), batch,
        chunk, memory, worker_bytes, between, backwards,
    )  # fmt: skip
    launch(pool, threads, tasks, job)
