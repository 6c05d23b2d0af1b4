"""The loops of `accumulate`."""

from __future__ import annotations

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import get, pointer

_COLUMNS = 64
"""Columns that a task takes: whole cache lines, so that threads do not write to the same ones."""


@task("rows indices values count width zero size value_zero value_size")
def _add_columns(task, worker, job):
    first = task * _COLUMNS
    count = min(_COLUMNS, job.width - first)
    for k in range(job.count):
        row = get(job.indices, k)
        if row < 0:
            continue
        target = carray(pointer(job.rows + (row * job.width + first) * job.size, job.zero), count)
        value = carray(pointer(job.values + (k * job.width + first) * job.value_size, job.value_zero), count)
        for column in range(count):
            target[column] += value[column]


@subroutine
def _add_numbers(job):
    """The same of rows of one number."""
    for k in range(job.count):
        row = get(job.indices, k)
        if row >= 0:
            target = carray(pointer(job.rows + row * job.size, job.zero), 1)
            target[0] += carray(pointer(job.values + k * job.value_size, job.value_zero), 1)[0]


@njit
def add_rows(pool, threads, rows, index, values, count, width, zero, size, value_zero, value_size):
    """Of arrays at addresses; the zeros are of the types of the numbers, which have so many bytes. Nothing is added at
    negative indices."""
    job = _add_columns(rows, index, values, count, width, zero, size, value_zero, value_size)
    if width == 1:
        _add_numbers(job)
    else:
        launch(pool, threads, (width + _COLUMNS - 1) // _COLUMNS, job)
