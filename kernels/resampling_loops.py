"""The loops of `resampling`."""

from __future__ import annotations

from typing import NamedTuple

from numba import carray

from .jit import njit, subroutine
from .launch import launch
from .words import pointer

__all__ = ["add_back", "resample"]

_PIECE = 1 << 13
"""Numbers of the result that a task makes, at least."""


@subroutine
def _resample_piece(task, worker, job):
    places = carray(pointer(job.places, 0), job.parts * job.count)
    shares = carray(pointer(job.shares, job.zero), job.parts * job.count)
    for lead in range(task * job.leads, min((task + 1) * job.leads, job.lead)):
        x = carray(pointer(job.x + lead * job.length * job.rest * job.size, job.zero), job.length * job.rest)
        out = carray(pointer(job.out + lead * job.count * job.rest * job.size, job.zero), job.count * job.rest)
        if job.rest == 1:
            for i in range(job.count):
                total = x[places[i]] * shares[i]
                for part in range(1, job.parts):
                    total += x[places[part * job.count + i]] * shares[part * job.count + i]
                out[i] = total
            continue
        for i in range(job.count):
            row = i * job.rest
            for part in range(job.parts):
                place, share = places[part * job.count + i] * job.rest, shares[part * job.count + i]
                if part == 0:
                    for j in range(job.rest):
                        out[row + j] = x[place + j] * share
                else:
                    for j in range(job.rest):
                        out[row + j] += x[place + j] * share


@subroutine
def _add_back_piece(task, worker, job):
    places = carray(pointer(job.places, 0), job.parts * job.length)
    shares = carray(pointer(job.shares, job.zero), job.parts * job.length)
    for lead in range(task * job.leads, min((task + 1) * job.leads, job.lead)):
        x = carray(pointer(job.x + lead * job.length * job.rest * job.size, job.zero), job.length * job.rest)
        out = carray(pointer(job.out + lead * job.count * job.rest * job.size, job.zero), job.count * job.rest)
        for place in range(job.count * job.rest):
            out[place] = job.zero
        for i in range(job.length):
            row = i * job.rest
            for part in range(job.parts):
                place, share = places[part * job.length + i] * job.rest, shares[part * job.length + i]
                for j in range(job.rest):
                    out[place + j] += x[row + j] * share


class _ResampleJob(NamedTuple):
    x: int
    out: int
    places: int
    shares: int
    lead: int
    length: int
    count: int
    rest: int
    parts: int
    leads: int
    zero: float
    size: int
    run = _resample_piece


class _BackJob(NamedTuple):
    x: int
    out: int
    places: int
    shares: int
    lead: int
    length: int
    count: int
    rest: int
    parts: int
    leads: int
    zero: float
    size: int
    run = _add_back_piece


@subroutine
def _leads(count, rest):
    """Of how many matrices a task makes the result."""
    return max(1, _PIECE // max(count * rest, 1))


@njit
def resample(pool, threads, x, out, places, shares, lead, length, count, rest, parts, zero, size):
    """From arrays (lead, length, rest) to (lead, count, rest), at addresses; `zero` is of the type of the numbers."""
    leads = _leads(count, rest)
    job = _ResampleJob(x, out, places, shares, lead, length, count, rest, parts, leads, zero, size)
    launch(pool, threads, (lead + leads - 1) // leads, job)


@njit
def add_back(pool, threads, x, out, places, shares, lead, length, count, rest, parts, zero, size):
    """The transpose: places and shares are (parts, length)."""
    leads = _leads(count, rest)
    job = _BackJob(x, out, places, shares, lead, length, count, rest, parts, leads, zero, size)
    launch(pool, threads, (lead + leads - 1) // leads, job)
