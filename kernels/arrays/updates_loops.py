"""The formulas of `updates`, over the arrays of many parameters, on all threads.

A table has a row for each parameter: the addresses of its arrays, their length, the index of its constants, and the
number of tasks up to its last one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..runtime import threading
from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import get, pointer
from ..runtime.workspace import address_of
from .update_formulas import AdamConstants, SgdConstants, adam, sgd

_PIECE = 1 << 14
"""Numbers of each array that a task takes."""

_SGD, _ADAM = 3 + 3, 5 + 3
"""Numbers of a row: one for each array, the size, the constants' number, and the end of the tasks."""

_sgd, _adam = subroutine(sgd), subroutine(adam)


@subroutine
def _row_of(task, job, width):
    """The address of the table's row that contains a task."""
    first, last = 0, job.rows - 1
    while first < last:
        middle = (first + last) // 2
        if get(job.table, (middle + 1) * width - 1) > task:
            last = middle
        else:
            first = middle + 1
    return job.table + 8 * width * first


@subroutine
def _bounds(task, row, job, width):
    """Where a task begins in the arrays of its row, and how many numbers it has."""
    before = 0 if row == job.table else get(row, -1)
    begin = (task - before) * _PIECE
    return begin, min(_PIECE, get(row, width - 3) - begin)


@subroutine
def _piece(row, place, begin, count, job):
    return carray(pointer(get(row, place) + begin * job.size, job.like), count)


@subroutine
def _constants(row, count, width, job):
    return carray(pointer(job.constants + get(row, width - 2) * count * job.size, job.like), count)


@task("table rows constants optional like size")
def _sgd_task(task, worker, job):
    """`optional` is None where the last array is, else 0; `like` is a number of the arrays' type, `size` its bytes."""
    row = _row_of(task, job, _SGD)
    begin, count = _bounds(task, row, job, _SGD)
    p, g = _piece(row, 0, begin, count, job), _piece(row, 1, begin, count, job)
    lr, sign, weight_decay, momentum, kept, nesterov = _constants(row, 6, _SGD, job)
    constants = SgdConstants(lr, sign, weight_decay, momentum, kept, nesterov)
    if job.optional is None:
        for i in range(count):
            p[i], _ = _sgd(p[i], g[i], None, constants)
    else:
        b = _piece(row, 2, begin, count, job)
        for i in range(count):
            p[i], b[i] = _sgd(p[i], g[i], b[i], constants)


@njit
def _sgd_of_all(pool, threads, tasks, table, rows, constants, optional, like, size):
    launch(pool, threads, tasks, _sgd_task(table, rows, constants, optional, like, size))


@task("table rows constants optional like size")
def _adam_task(task, worker, job):
    """The fields are those of `_sgd_task`."""
    row = _row_of(task, job, _ADAM)
    begin, count = _bounds(task, row, job, _ADAM)
    p, g = _piece(row, 0, begin, count, job), _piece(row, 1, begin, count, job)
    m, v = _piece(row, 2, begin, count, job), _piece(row, 3, begin, count, job)
    c = _constants(row, 9, _ADAM, job)
    constants = AdamConstants(c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8])
    if job.optional is None:
        for i in range(count):
            p[i], m[i], v[i], _ = _adam(p[i], g[i], m[i], v[i], None, constants)
    else:
        largest = _piece(row, 4, begin, count, job)
        for i in range(count):
            p[i], m[i], v[i], largest[i] = _adam(p[i], g[i], m[i], v[i], largest[i], constants)


@njit
def _adam_of_all(pool, threads, tasks, table, rows, constants, optional, like, size):
    launch(pool, threads, tasks, _adam_task(table, rows, constants, optional, like, size))


def run(formula: Callable[..., tuple], table: np.ndarray, constants: np.ndarray, without: bool) -> None:
    """A step of all parameters of a table (`updates._Launch`), whose memory lies apart."""
    table = np.column_stack([table, np.cumsum(-(-table[:, -2] // _PIECE))])
    loops = {sgd: _sgd_of_all, adam: _adam_of_all}[formula]
    places = address_of(table), len(table), address_of(constants)
    number = constants.dtype.type(0), constants.itemsize
    loops(*threading.pool(), int(table[-1, -1]), *places, None if without else 0, *number)
