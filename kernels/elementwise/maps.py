"""Functions of one or two arrays, element by element, in vectors and by all threads."""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I64, POINTER, loop_of_any, offset
from ..gemm.tags import instance
from ..jit import intrinsic, njit, subroutine, types
from ..launch import call_at, launch
from .vectors import Vectors

__all__ = ["Map", "run"]

_CHUNK = 1 << 13
"""Elements that a thread takes at a time."""


@intrinsic
def _map(typingctx, function, element, first, second, out, count):
    """out = function(first[, second]) for so many elements at addresses."""
    operands = instance(function).operands

    def codegen(context, builder, signature, arguments):
        *places, count = arguments[2:]
        places = [builder.inttoptr(place, POINTER) for place in places]
        v = Vectors(builder, instance(element))
        whole = builder.sdiv(count, I64(v.lanes))

        def some(index, mask=None):
            at = builder.mul(index, I64(v.lanes * v.element.size))
            *sources, target = (offset(builder, place, at) for place in places)
            read = [v.read(source, mask) for source in sources[:operands]]
            v.write(instance(function).emit(v, *read), target, mask)

        loop_of_any(builder, whole, [], lambda index, _: some(index) or [])
        left = builder.sub(count, builder.mul(whole, I64(v.lanes)))
        with builder.if_then(builder.icmp_signed(">", left, I64(0))):
            some(whole, v.first(left))
        return context.get_dummy_value()

    return types.void(function, element, *[types.int64] * 4), codegen


class _Arrays(NamedTuple):
    """Addresses, and how many elements there are."""

    first: int
    second: int
    out: int
    count: int


@subroutine
def _map_leaf(leaf, arrays):
    _map(leaf.function, leaf.element, arrays.first, arrays.second, arrays.out, arrays.count)


class Map(NamedTuple):
    """Leaf: a function of `functions` over arrays of an element type of `gemm.sources`."""

    function: NamedTuple
    element: NamedTuple
    run = _map_leaf
    arguments = _Arrays


@subroutine
def _task(task, worker, job):
    begin = task * _CHUNK
    at = begin * job.size
    count = min(_CHUNK, job.count - begin)
    call_at(job.leaf, _Arrays(job.first + at, job.second + at, job.out + at, count))


class _Chunks(NamedTuple):
    leaf: int
    first: int
    second: int
    out: int
    count: int
    size: int
    run = _task


@njit
def run(pool, threads, leaf, first, second, out, count, size):
    """Map a leaf, known by its address, over `count` elements of `size` bytes at addresses."""
    launch(pool, threads, (count + _CHUNK - 1) // _CHUNK, _Chunks(leaf, first, second, out, count, size))
