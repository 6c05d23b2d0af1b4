"""The loops of `resampling`."""

from __future__ import annotations

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import job_class, launch
from ..runtime.raw_memory import allocate, free, pointer


@subroutine
def _resample(x, out, places, shares, job):
    """Each result is a sum of values, or a row of results of rows."""
    if job.rest == 1:
        for i in range(job.count):
            total = x[places[i]] * shares[i]
            for part in range(1, job.parts):
                total += x[places[part * job.count + i]] * shares[part * job.count + i]
            out[i] = total
        return
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
def _add_back(x, out, places, shares, job):
    """Each row of values is added to rows of float64 results, which are rounded once."""
    sums = allocate(job.count * job.rest, 0.0)
    sums[:] = 0.0
    for i in range(job.length):
        row = i * job.rest
        for part in range(job.parts):
            place, share = places[part * job.length + i] * job.rest, shares[part * job.length + i]
            for j in range(job.rest):
                sums[place + j] += x[row + j] * share
    for place in range(job.count * job.rest):
        out[place] = sums[place]
    free(sums)


@subroutine
def _piece(task, worker, job):
    weights = job.parts * (job.length if job.back else job.count)
    places, shares = carray(pointer(job.places, 0), weights), carray(pointer(job.shares, job.zero), weights)
    for lead in range(task * job.leads, min((task + 1) * job.leads, job.lead)):
        x = carray(pointer(job.x + lead * job.length * job.rest * job.size, job.zero), job.length * job.rest)
        out = carray(pointer(job.out + lead * job.count * job.rest * job.size, job.zero), job.count * job.rest)
        if job.back:
            _add_back(x, out, places, shares, job)
        else:
            _resample(x, out, places, shares, job)


Job = job_class("Job", "back x out places shares lead length count rest parts leads zero size", _piece)
"""Resample an array (lead, length, rest) to (lead, count, rest), given by addresses, with places and shares (parts,
count), `leads` of the first dimension at a time.

The transpose (`back`) uses places and shares (parts, length). `zero` has the type of the numbers, and `size` their
bytes.
"""


@njit
def run(pool, threads, job):
    launch(pool, threads, (job.lead + job.leads - 1) // job.leads, job)
