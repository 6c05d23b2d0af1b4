"""The loops of `gathering`, over words of the size of elements: a sign is the highest bit."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import job_class, launch
from ..runtime.raw_memory import get, pointer, put

_Arrays = namedtuple("_Arrays", "source index out wrong lines wanted count inner block skip flip")
"""Addresses; `lines` are what tasks share, `block` of them at a time; `flip` is the bit that negates, or 0."""


@subroutine
def _arrays(of, lines_of_source, lines_of_out):
    """The source and the result, to be read at unsigned places: Numba counts negative ones from the end."""
    source = carray(pointer(of.source, of.flip), lines_of_source * of.inner)
    return source, carray(pointer(of.out, of.flip), lines_of_out * of.inner)


@subroutine
def _gather_task(task, worker, of):
    source, out = _arrays(of, of.lines // of.wanted * of.count, of.lines)
    wanted, count, inner, skip, flip, wrong = of.wanted, of.count, of.inner, of.skip, of.flip, 0
    begin = task * of.block
    first, left = begin // wanted * count * inner, wanted - begin % wanted
    for line in range(begin, min(begin + of.block, of.lines)):
        for i in range(inner):
            at = line * inner + i
            place = get(of.index, at)
            if 0 <= place < count and place != skip:
                out[np.uint64(at)] = source[np.uint64(first + place * inner + i)] ^ flip
            else:
                out[np.uint64(at)] = 0
                wrong |= place != skip
        left -= 1
        if not left:
            first, left = first + count * inner, wanted
    if wrong:
        put(of.wrong, 0, 1)


Gather = job_class("Gather", _Arrays._fields, _gather_task)
"""A line is a part (inner) of the result."""


@subroutine
def _scatter_task(task, worker, of):
    source, out = _arrays(of, of.lines * of.wanted, of.lines * of.count)
    wanted, count, inner, skip, flip, wrong = of.wanted, of.count, of.inner, of.skip, of.flip, 0
    for line in range(task * of.block, min((task + 1) * of.block, of.lines)):
        first = line * count * inner
        out[first : first + count * inner] = 0
        for at in range(line * wanted * inner, (line + 1) * wanted * inner):
            place = get(of.index, at)
            if 0 <= place < count and place != skip:
                out[first + place * inner + (at % inner if inner > 1 else 0)] = source[at] ^ flip
            else:
                wrong |= place != skip
    if wrong:
        put(of.wrong, 0, 1)


Scatter = job_class("Scatter", _Arrays._fields, _scatter_task)
"""A line is a part (count, inner) of the result."""


@njit
def run(pool, threads, job):
    launch(pool, threads, (job.lines + job.block - 1) // job.block, job)
