"""Functions of one or two arrays, element by element, in vectors and by all threads.

Arrays are seen as lines of equal lengths, the last one perhaps shorter. The second operand may begin again after some
lines, and may be one number for each line: so channels and rows meet their weights.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I64, POINTER, broadcast, load, loop_of_any, offset
from ..gemm.tags import instance
from ..jit import intrinsic, njit, subroutine, types
from ..launch import call_at, launch
from .arrays import LENGTH
from .vectors import Vectors

__all__ = ["Each", "Map", "One", "run"]


class Each(NamedTuple):
    """The second operand has a number for each of the first's."""

    alone = False


class One(NamedTuple):
    """The second operand has one number for a line."""

    alone = True


@intrinsic
def _map(typingctx, function, second_is, element, first, second, out, count):
    """out = function(first[, second]) for so many elements at addresses."""
    operands, alone = instance(function).operands, instance(second_is).alone

    def codegen(context, builder, signature, arguments):
        *places, count = arguments[3:]
        first, second, out = (builder.inttoptr(place, POINTER) for place in places)
        v = Vectors(builder, instance(element))
        whole = builder.sdiv(count, I64(v.lanes))
        fixed = []
        if alone:
            fixed.append(broadcast(builder, load(builder, v.element.stored, second, v.element.size), v.lanes))
        varying = [first, second][: operands - alone]

        def some(index, mask=None):
            at = builder.mul(index, I64(v.lanes * v.element.size))
            read = [v.read(offset(builder, place, at), mask) for place in varying]
            v.write(instance(function).emit(v, *read, *fixed), offset(builder, out, at), mask)

        loop_of_any(builder, whole, [], lambda index, _: some(index) or [])
        left = builder.sub(count, builder.mul(whole, I64(v.lanes)))
        with builder.if_then(builder.icmp_signed(">", left, I64(0))):
            some(whole, v.first(left))
        return context.get_dummy_value()

    return types.void(function, second_is, element, *[types.int64] * 4), codegen


class _Line(NamedTuple):
    """Addresses, and how many elements there are."""

    first: int
    second: int
    out: int
    count: int


@subroutine
def _map_leaf(leaf, line):
    _map(leaf.function, leaf.second_is, leaf.element, line.first, line.second, line.out, line.count)


class Map(NamedTuple):
    """Leaf: a function of `functions` over a line of elements of a type of `gemm.sources`."""

    function: NamedTuple
    second_is: NamedTuple
    element: NamedTuple
    run = _map_leaf
    arguments = _Line


@subroutine
def _task(task, worker, job):
    for line in range(task * job.block, min((task + 1) * job.block, job.lines)):
        begin = line * job.length
        second = job.second + line % job.period * job.step
        count = min(job.length, job.total - begin)
        call_at(job.leaf, _Line(job.first + begin * job.size, second, job.out + begin * job.size, count))


class _Lines(NamedTuple):
    leaf: int
    first: int
    second: int
    out: int
    total: int
    length: int
    size: int
    period: int
    step: int
    lines: int
    block: int
    run = _task


@njit
def run(pool, threads, leaf, first, second, out, total, length, size, period, step):
    """Map a leaf, known by its address, over `total` elements of `size` bytes at addresses, in lines of `length`. The
    second operand of line i begins `step` bytes times i % `period` behind the address."""
    lines, block = (total + length - 1) // length, max(1, LENGTH // length)
    job = _Lines(leaf, first, second, out, total, length, size, period, step, lines, block)
    launch(pool, threads, (lines + block - 1) // block, job)
