"""Functions of one or two arrays, element by element, and conversions, in vectors and by all threads."""

from __future__ import annotations

from collections import namedtuple

from ...block.emit import I64, POINTER, loop_of_any, offset
from ...runtime.emitter import Class, Pointer, emitter
from ...runtime.jit import njit, subroutine
from ...runtime.launch import call_at, launch, leaf_class, task
from .ufuncs import LENGTH
from .vectors import Vectors


@emitter
def _map(builder, function: Class, element: Class, first, second, out, count) -> None:
    """out = function(first[, second]) for so many elements at addresses."""
    *places, count = (first, second, out, count)
    first, second, out = (builder.inttoptr(place, POINTER) for place in places)
    v = Vectors(builder, element)
    whole = builder.sdiv(count, I64(v.lanes))
    operands = [first, second][: function.operands]

    def some(index, mask=None):
        at = builder.mul(index, I64(v.lanes * v.element.size))
        read = [v.read(offset(builder, place, at), mask) for place in operands]
        v.write(function.emit(v, *read), offset(builder, out, at), mask)

    loop_of_any(builder, whole, [], lambda index, _: some(index) or [])
    left = builder.sub(count, builder.mul(whole, I64(v.lanes)))
    with builder.if_then(builder.icmp_signed(">", left, I64(0))):
        some(whole, v.first(left))


@emitter
def _cast(builder, source: Class, target: Class, at: Pointer, out: Pointer, count) -> None:
    """Convert so many elements at an address; what vectors of both types work in is the same."""
    reader, writer = Vectors(builder, source), Vectors(builder, target)
    whole = builder.sdiv(count, I64(reader.lanes))

    def some(index, mask=None):
        first = builder.mul(index, I64(reader.lanes))
        places = (
            offset(builder, base, builder.mul(first, I64(v.element.size))) for base, v in ((at, reader), (out, writer))
        )
        writer.write(reader.read(next(places), mask), next(places), mask)

    loop_of_any(builder, whole, [], lambda index, _: some(index) or [])
    left = builder.sub(count, builder.mul(whole, I64(reader.lanes)))
    with builder.if_then(builder.icmp_signed(">", left, I64(0))):
        some(whole, reader.first(left))


Part = namedtuple("Part", "first second out count")
"""Addresses, and how many elements there are."""


@subroutine
def _map_leaf(leaf, part):
    _map(leaf.function, leaf.element, part.first, part.second, part.out, part.count)


Map = leaf_class("Map", "function element", _map_leaf, Part)
"""Leaf: a function of `functions` over elements of a type of `block.sources`."""


@subroutine
def _cast_leaf(leaf, part):
    _cast(leaf.source, leaf.target, part.first, part.out, part.count)


Cast = leaf_class("Cast", "source target", _cast_leaf, Part)
"""Leaf: elements of one type of `block.sources` cast to another; vectors of float32 read both."""


@task("leaf first second out total size out_size")
def _task(task, worker, job):
    first = task * LENGTH
    at, out = first * job.size, job.out + first * job.out_size
    call_at(job.leaf, Part(job.first + at, job.second + at, out, min(LENGTH, job.total - first)))


@njit
def run(pool, threads, leaf, first, second, out, total, size, out_size):
    """Map a leaf, known by its address, over `total` elements of `size` bytes at addresses; results have `out_size`."""
    launch(pool, threads, (total + LENGTH - 1) // LENGTH, _task(leaf, first, second, out, total, size, out_size))
