"""Sums of everything, by all threads: of each part of an array, in what vectors work in."""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import I64, POINTER
from ..gemm.tags import instance
from ..jit import intrinsic, njit, subroutine, types
from ..launch import call_at, launch
from .arrays import LENGTH, PART
from .maps import Part
from .sweeps import Row

__all__ = ["Sum", "run"]


@intrinsic
def _sum(typingctx, element, at, out, count):
    """The sum of so many elements at an address, written as float32 or float64."""

    def codegen(context, builder, signature, arguments):
        at, out = (builder.inttoptr(place, POINTER) for place in arguments[1:3])
        row = Row(builder, instance(element), arguments[3], I64(1), I64(0))
        row.keep(row.total(lambda x: x, at), out)
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 3), codegen


@subroutine
def _sum_leaf(leaf, part):
    _sum(leaf.element, part.first, part.out, part.count)


class Sum(NamedTuple):
    """Leaf: the sum of elements of a type of `gemm.sources`."""

    element: NamedTuple
    run = _sum_leaf
    arguments = Part


@subroutine
def _task(task, worker, job):
    for first in range(task * LENGTH, min((task + 1) * LENGTH, job.total), PART):
        out = job.sums + first // PART * job.sum_size
        call_at(job.leaf, Part(job.x + first * job.size, 0, out, min(PART, job.total - first)))


class _Parts(NamedTuple):
    leaf: int
    x: int
    sums: int
    total: int
    size: int
    sum_size: int
    run = _task


@njit
def run(pool, threads, leaf, x, sums, total, size, sum_size):
    """Sum parts of `PART` of the `total` elements at an address, by a leaf known by its own."""
    launch(pool, threads, (total + LENGTH - 1) // LENGTH, _Parts(leaf, x, sums, total, size, sum_size))
