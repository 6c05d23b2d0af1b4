"""The loops of `selection`: the first few numbers of rows, and running extrema."""

from __future__ import annotations

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import pointer

_PIECE = 1 << 13
"""Numbers that a task looks at, at least."""


@subroutine
def _before(one, other, largest):
    """Whether a number comes before another one; NaN is the largest."""
    if largest:
        return one > other or (one != one and other == other)
    return one < other or (one == one and other != other)


@task("x values places lead length wanted rows largest zero size")
def _lead_of_rows(task, worker, job):
    for row in range(task * job.rows, min((task + 1) * job.rows, job.lead)):
        x = carray(pointer(job.x + row * job.length * job.size, job.zero), job.length)
        values = carray(pointer(job.values + row * job.wanted * job.size, job.zero), job.wanted)
        places = carray(pointer(job.places + row * job.wanted * 8, 0), job.wanted)
        found = 0
        for i in range(job.length):
            value = x[i]
            if found == job.wanted:
                if not _before(value, values[found - 1], job.largest):
                    continue
                at = found - 1
            else:
                at = found
                found += 1
            while at > 0 and _before(value, values[at - 1], job.largest):
                values[at], places[at] = values[at - 1], places[at - 1]
                at -= 1
            values[at], places[at] = value, i


@njit
def lead(pool, threads, x, values, places, lead, length, wanted, largest, zero, size):
    """Select from rows (lead, length) at an address into results (lead, wanted); `zero` has the type of the numbers,
    and `size` their bytes."""
    rows = max(1, _PIECE // length)
    job = _lead_of_rows(x, values, places, lead, length, wanted, rows, largest, zero, size)
    launch(pool, threads, (lead + rows - 1) // rows, job)


_COLUMNS = 1 << 8
"""Numbers side by side that a task takes."""


@task("x values places outer length inner largest zero size units")
def _run_columns(task, worker, job):
    size, inner, pieces = job.length, job.inner, (job.inner + _COLUMNS - 1) // _COLUMNS
    for unit in range(task * job.units, min((task + 1) * job.units, job.outer * pieces)):
        begin = unit // pieces * size * inner + unit % pieces * _COLUMNS
        width = min(_COLUMNS, inner - unit % pieces * _COLUMNS)
        x = carray(pointer(job.x + begin * job.size, job.zero), (size - 1) * inner + width)
        values = carray(pointer(job.values + begin * job.size, job.zero), (size - 1) * inner + width)
        places = carray(pointer(job.places + begin * 8, 0), (size - 1) * inner + width)
        for i in range(width):
            values[i], places[i] = x[i], 0
        for k in range(1, size):
            at, before = k * inner, (k - 1) * inner
            for i in range(width):
                value, best = x[at + i], values[before + i]
                better = value >= best if job.largest else value <= best
                if better or value != value:
                    values[at + i], places[at + i] = value, k
                else:
                    values[at + i], places[at + i] = best, places[before + i]


@njit
def run_extrema(pool, threads, x, values, places, outer, length, inner, largest, zero, size):
    """Of at least one number."""
    units = max(1, _PIECE // (length * min(inner, _COLUMNS)))
    job = _run_columns(x, values, places, outer, length, inner, largest, zero, size, units)
    launch(pool, threads, (outer * ((inner + _COLUMNS - 1) // _COLUMNS) + units - 1) // units, job)
