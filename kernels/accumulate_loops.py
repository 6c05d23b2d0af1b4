"""The loops of `accumulate`."""

from __future__ import annotations

from typing import NamedTuple

from .jit import carray, njit, subroutine
from .launch import launch
from .words import get, pointer

__all__ = ["add_rows"]

_COLUMNS = 64
"""Columns that a task takes: whole cache lines, so that threads do not write to the same ones."""


@subroutine
def _add_columns(task, worker, job):
    first = task * _COLUMNS
    count, size = min(_COLUMNS, job.width - first), job.size
    for k in range(job.count):
        row = get(job.indices, k) * job.width + first
        target = carray(pointer(job.rows + row * size, job.zero), count)
        value = carray(pointer(job.values + (k * job.width + first) * size, job.zero), count)
        for column in range(count):
            target[column] += value[column]


@subroutine
def _add_numbers(job):
    """The same of rows of one number."""
    for k in range(job.count):
        target = carray(pointer(job.rows + get(job.indices, k) * job.size, job.zero), 1)
        target[0] += carray(pointer(job.values + k * job.size, job.zero), 1)[0]


class _Job(NamedTuple):
    rows: int
    indices: int
    values: int
    count: int
    width: int
    size: int
    zero: float
    run = _add_columns


@njit
def add_rows(pool, threads, rows, index, values, count, width, zero, size):
    """Of arrays at addresses; `zero` is of the type of the numbers, which have so many bytes."""
    job = _Job(rows, index, values, count, width, size, zero)
    if width == 1:
        _add_numbers(job)
    else:
        launch(pool, threads, (width + _COLUMNS - 1) // _COLUMNS, job)
