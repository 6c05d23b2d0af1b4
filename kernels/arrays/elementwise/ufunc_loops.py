"""NumPy's loops, called by all threads: over lines of two operands, of half types too.

A loop is a C function of the addresses of its operands and of the result, of a count, and of the bytes from one element
to the next of each.
"""

from __future__ import annotations

from ...block.emit import I64, POINTER
from ...runtime.emitter import emitter
from ...runtime.jit import ir, njit, subroutine
from ...runtime.launch import call_at, job_class, launch
from .maps import Part

_OPERANDS = 3
_LOOP = ir.FunctionType(ir.VoidType(), [POINTER] * 4)


@emitter
def _call(builder, function, data, first, second, out, count, first_step, second_step, out_step) -> None:
    """Call a loop of two operands. One of one operand takes the second address and step for the result's."""
    with builder.goto_entry_block():
        addresses, steps = (builder.alloca(I64, _OPERANDS) for _ in range(2))
        length = builder.alloca(I64)
    for index in range(_OPERANDS):
        for target, values in ((addresses, (first, second, out)), (steps, (first_step, second_step, out_step))):
            builder.store(values[index], builder.gep(target, [I64(index)]))
    builder.store(count, length)
    places = [builder.bitcast(each, POINTER) for each in (addresses, length, steps)]
    called = builder.inttoptr(function, _LOOP.as_pointer())
    builder.call(called, [*places, builder.inttoptr(data, POINTER)])


@subroutine
def _task(task, worker, job):
    for line in range(task * job.block, min((task + 1) * job.block, job.lines)):
        begin = line * job.length
        _call(
            job.function, job.data, job.first + begin * job.size, job.second + line % job.period * job.step,
            job.out + begin * job.out_size, min(job.length, job.total - begin), job.size, job.second_size, job.out_size,
        )  # fmt: skip


Lines = job_class(
    "Lines", "function data first second out size second_size out_size total length period step lines block", _task
)
"""Calls of a loop, known by its address, for `total` elements of arrays at addresses, in lines of `length`.

The second operand of line i begins `step` bytes times i % `period` behind its address; sizes are the bytes from one
element to the next, 0 for a second operand that has one for a line. A task is `block` of the `lines`.
"""


@subroutine
def _halves_task(task, worker, job):
    begin = task * job.block * job.length
    count = min(job.block * job.length, job.total - begin)
    wide = job.memory + worker * job.memory_bytes
    other, results = wide + job.memory_bytes // 3, wide + 2 * (job.memory_bytes // 3)
    call_at(job.widen, Part(job.first + 2 * begin, 0, wide, count))
    if job.second_size == 2:
        call_at(job.widen, Part(job.second + 2 * begin, 0, other, count))
    size = 4
    if job.narrow == 0:
        results, size = job.out + begin * job.out_size, job.out_size
    for line in range((count + job.length - 1) // job.length):
        at = line * job.length
        target = results + at * size
        second, second_size = target, size
        if job.second_size == 2:
            second, second_size = other + 4 * at, 4
        elif job.second_size >= 0:
            second = job.second + (task * job.block + line) % job.period * job.step
            second_size = job.second_size
        _call(
            job.function, job.data, wide + 4 * at, second, target, min(job.length, count - at), 4, second_size, size
        )  # fmt: skip
    if job.narrow != 0:
        call_at(job.narrow, Part(results, 0, job.out + 2 * begin, count))


Halves = job_class(
    "Halves",
    "function data widen narrow first second out second_size out_size total length period step lines "
    "block memory memory_bytes",
    _halves_task,
)
"""The same for arrays of a half type, by a loop over float32 in pieces that fit the cache.

`widen` and `narrow` are the addresses of the leaves that convert to float32 and back; `narrow` is 0 for results of
another type. A second operand with `second_size` 2 is of the half type too, any other one is float32; -1 stands for
no second operand. Each worker has memory for three lines, or as many as make up `LENGTH` numbers.
"""


@njit
def run(pool, threads, job):
    launch(pool, threads, (job.lines + job.block - 1) // job.block, job)
