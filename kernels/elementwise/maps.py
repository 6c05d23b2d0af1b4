"""Functions of one or two arrays, element by element, in vectors and by all threads."""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I64, POINTER, loop_of_any, offset
from ..gemm.tags import instance
from ..jit import intrinsic, njit, subroutine, types
from ..launch import call_at, launch
from .arrays import LENGTH
from .vectors import Vectors

__all__ = ["Map", "run"]


@intrinsic
def _map(typingctx, function, element, first, second, out, count):
    """out = function(first[, second]) for so many elements at addresses."""

    def codegen(context, builder, signature, arguments):
        *places, count = arguments[2:]
        first, second, out = (builder.inttoptr(place, POINTER) for place in places)
        v = Vectors(builder, instance(element))
        whole = builder.sdiv(count, I64(v.lanes))
        operands = [first, second][: instance(function).operands]

        def some(index, mask=None):
            at = builder.mul(index, I64(v.lanes * v.element.size))
            read = [v.read(offset(builder, place, at), mask) for place in operands]
            v.write(instance(function).emit(v, *read), offset(builder, out, at), mask)

        loop_of_any(builder, whole, [], lambda index, _: some(index) or [])
        left = builder.sub(count, builder.mul(whole, I64(v.lanes)))
        with builder.if_then(builder.icmp_signed(">", left, I64(0))):
            some(whole, v.first(left))
        return context.get_dummy_value()

    return types.void(function, element, *[types.int64] * 4), codegen


class _Part(NamedTuple):
    """Addresses, and how many elements there are."""

    first: int
    second: int
    out: int
    count: int


@subroutine
def _map_leaf(leaf, part):
    _map(leaf.function, leaf.element, part.first, part.second, part.out, part.count)


class Map(NamedTuple):
    """Leaf: a function of `functions` over elements of a type of `gemm.sources`."""

    function: NamedTuple
    element: NamedTuple
    run = _map_leaf
    arguments = _Part


@subroutine
def _task(task, worker, job):
    at = task * LENGTH * job.size
    call_at(job.leaf, _Part(job.first + at, job.second + at, job.out + at, min(LENGTH, job.total - task * LENGTH)))


class _Arrays(NamedTuple):
    leaf: int
    first: int
    second: int
    out: int
    total: int
    size: int
    run = _task


@njit
def run(pool, threads, leaf, first, second, out, total, size):
    """Map a leaf, known by its address, over `total` elements of `size` bytes at addresses."""
    launch(pool, threads, (total + LENGTH - 1) // LENGTH, _Arrays(leaf, first, second, out, total, size))
