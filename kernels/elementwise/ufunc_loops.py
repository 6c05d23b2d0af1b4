"""NumPy's loops, called by all threads: over lines of two operands, and over the parts of a sum.

A loop is a C function of the addresses of its operands and of the result, of a count, and of the bytes from one element
to the next of each.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I64, POINTER
from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import launch
from ..words import get
from .arrays import LENGTH

__all__ = ["run", "run_sums"]

_OPERANDS = 3
_LOOP = ir.FunctionType(ir.VoidType(), [POINTER] * 4)


@intrinsic
def _call(typingctx, function, data, first, second, out, count, first_step, second_step, out_step):
    """Call a loop of two operands. One of one operand takes the second address and step for the result's."""

    def codegen(context, builder, signature, arguments):
        function, data, *operands = arguments
        with builder.goto_entry_block():
            addresses, steps = (builder.alloca(I64, _OPERANDS) for _ in range(2))
            length = builder.alloca(I64)
        for index in range(_OPERANDS):
            for target, values in ((addresses, operands[:3]), (steps, operands[4:])):
                builder.store(values[index], builder.gep(target, [I64(index)]))
        builder.store(operands[3], length)
        places = [builder.bitcast(each, POINTER) for each in (addresses, length, steps)]
        called = builder.inttoptr(function, _LOOP.as_pointer())
        builder.call(called, [*places, builder.inttoptr(data, POINTER)])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9), codegen


@subroutine
def _task(task, worker, job):
    for line in range(task * job.block, min((task + 1) * job.block, job.lines)):
        begin = line * job.length
        _call(
            job.function, job.data, job.first + begin * job.size, job.second + line % job.period * job.step,
            job.out + begin * job.out_size, min(job.length, job.total - begin), job.size, job.second_size, job.out_size,
        )  # fmt: skip


class _Lines(NamedTuple):
    function: int
    data: int
    first: int
    second: int
    out: int
    size: int
    second_size: int
    out_size: int
    total: int
    length: int
    period: int
    step: int
    lines: int
    block: int
    run = _task


@njit
def run(
    pool, threads, function, data, first, second, out, size, second_size, out_size, total, length, period, step
):  # fmt: skip
    """Call a loop, known by its address, for `total` elements of arrays at addresses, in lines of `length`.

    The second operand of line i begins `step` bytes times i % `period` behind its address; sizes are the bytes from one
    element to the next, 0 for a second operand that has one for a line.
    """
    lines, block = (total + length - 1) // length, max(1, LENGTH // length)
    job = _Lines(
        function, data, first, second, out, size, second_size, out_size, total, length, period, step, lines, block
    )  # fmt: skip
    launch(pool, threads, (lines + block - 1) // block, job)


@subroutine
def _sum_task(task, worker, job):
    out, begin, end = job.out + task * job.size, get(job.bounds, task), get(job.bounds, task + 1)
    _call(job.function, job.data, out, job.x + begin * job.size, out, end - begin, 0, job.size, 0)


class _Sums(NamedTuple):
    function: int
    data: int
    x: int
    bounds: int
    out: int
    size: int
    run = _sum_task


@njit
def run_sums(pool, threads, function, data, x, bounds, out, size, parts):
    """Add each part of an array to the element of `out` that is the part's, where int64 `bounds` say where they end."""
    launch(pool, threads, parts, _Sums(function, data, x, bounds, out, size))
