"""Scheduling of a blocked factorisation: strips of columns that pass its blocks, without barriers between blocks.

Strip j of the matrix is updated by the blocks 0 to j - 1 one after another, and is then factored, which makes block j.
A worker that is free factors the next strip if that is up to date, else it takes the next step of the first strip that
waits for one. So the chain of factored strips, which bounds small matrices, waits for nothing that others could have
done before (J. Kurzak, P. Luszczek, J. Dongarra, "LU factorization with partial pivoting for a multicore system with
accelerators", IEEE Trans. Parallel Distrib. Syst. 24, 2013, section 3: dynamic scheduling of block columns). Each strip
sees its blocks in order, so that bits do not depend on the threads.
"""

from __future__ import annotations

from ..runtime.jit import subroutine
from ..runtime.launch import acquire, announce, await_change, release
from ..runtime.raw_memory import allocate

_LOCK, _FINISHED, _FACTORED, _STRIPS = 0, 8, 9, 16  # a line for the lock, one for the counters, then two for each strip


@subroutine
def progress(strips):
    """The state of the strips, to be freed; the first one is factored."""
    state = allocate(_STRIPS + 2 * strips, 0)
    state[:] = 0
    state[_FACTORED] = state[_STRIPS] = 1
    return state


@subroutine
def _next_strip(state, strips, blocks, kept, passing, worker, level):
    """A strip that is ready for work, -1 if none is ready, or -2 if everything is done."""
    factored, least, complete = state[_FACTORED], blocks, True
    for j in range(strips):
        done = state[_STRIPS + 2 * j]
        complete = complete and done == (blocks if passing else min(j + 1, blocks))
        if j >= factored:
            least = min(least, done)
    if complete:
        return -2
    waits = factored - least >= kept  # for the memory of block `least`
    chain = _STRIPS + 2 * factored
    if factored < blocks and state[chain] == factored and state[chain + 1] <= 0 and not waits:
        return factored
    best, rank = -1, strips + 2 * blocks
    for j in range(factored, strips):
        done, last = state[_STRIPS + 2 * j], state[_STRIPS + 2 * j + 1]
        if last <= 0 and done < factored and (done == least or not waits):
            own = last == 0 or last == -1 - worker
            mine = j if not level else done if own else blocks + done
            if j == factored:
                return j
            if mine < rank:
                best, rank = j, mine
    if best >= 0:
        return best
    for j in range(factored if passing else 0):
        if state[_STRIPS + 2 * j + 1] <= 0 and state[_STRIPS + 2 * j] < factored:
            return j
    return -1


@subroutine
def take(state, strips, blocks, kept, passing, worker, level):
    """What a worker does next: (strip, first, last). Where first is the strip it is to be factored, else the blocks
    first to last are to be applied to it. Strip -1: everything is done. Waits for other workers if it must.

    blocks: how many strips are factored. kept: how many blocks there is memory for. passing: whether the later blocks
    are to be applied to a strip that is factored, as exchanges of rows are. level: whether all strips are kept level,
    each with its own worker, so that no worker waits at the end. It is for matrices that the caches hold; else each
    strip takes all the steps that it can while it is in a cache.
    """
    at = state.ctypes.data
    while True:
        acquire(at)
        seen, strip = state[_FINISHED], _next_strip(state, strips, blocks, kept, passing, worker, level)
        if strip >= 0:
            first, factored = state[_STRIPS + 2 * strip], state[_FACTORED]
            state[_STRIPS + 2 * strip + 1] = 1 + worker
            release(at)
            return strip, first, factored if first > strip else first + 1
        release(at)
        if strip == -2:
            return -1, 0, 0
        await_change(at + 8 * _FINISHED, seen)


@subroutine
def finish(state, strip, first, last):
    """Tell the others that what `take` gave is done."""
    at = state.ctypes.data
    acquire(at)
    state[_STRIPS + 2 * strip], state[_STRIPS + 2 * strip + 1] = last, -state[_STRIPS + 2 * strip + 1]
    if first == strip:
        state[_FACTORED] += 1
    announce(at + 8 * _FINISHED)
    release(at)
