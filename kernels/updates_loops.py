"""The formulas of `updates`, over arrays, by all threads."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import carray

from . import updates
from .jit import njit, subroutine
from .launch import launch
from .words import pointer

__all__ = ["adam", "sgd"]

_PIECE = 1 << 14
"""Numbers of each array that a thread takes at a time."""

_sgd, _adam = subroutine(updates.sgd), subroutine(updates.adam)


@subroutine
def _piece(address, task, job):
    """What a task sees of an array, or None of none."""
    if address is None:
        return None
    begin = task * _PIECE
    return carray(pointer(address + begin * job.size, job.constants.sign), min(_PIECE, job.total - begin))


@subroutine
def _sgd_of_piece(p, g, b, constants):
    if b is None:
        for i in range(len(p)):
            p[i], _ = _sgd(p[i], g[i], None, constants)
    else:
        for i in range(len(p)):
            p[i], b[i] = _sgd(p[i], g[i], b[i], constants)


@subroutine
def _sgd_task(task, worker, job):
    p, g, b = _piece(job.p, task, job), _piece(job.g, task, job), _piece(job.b, task, job)
    _sgd_of_piece(p, g, b, job.constants)


class _SgdJob(NamedTuple):
    p: int
    g: int
    b: Any
    total: int
    size: int
    constants: updates.SgdConstants
    run = _sgd_task


@njit
def sgd(pool, threads, p, g, b, total, size, constants):
    """A step of `updates.sgd` for arrays of `total` numbers of `size` bytes at addresses; b may be None."""
    launch(pool, threads, (total + _PIECE - 1) // _PIECE, _SgdJob(p, g, b, total, size, constants))


@subroutine
def _adam_of_piece(p, g, m, v, largest, constants):
    if largest is None:
        for i in range(len(p)):
            p[i], m[i], v[i], _ = _adam(p[i], g[i], m[i], v[i], None, constants)
    else:
        for i in range(len(p)):
            p[i], m[i], v[i], largest[i] = _adam(p[i], g[i], m[i], v[i], largest[i], constants)


@subroutine
def _adam_task(task, worker, job):
    p, g = _piece(job.p, task, job), _piece(job.g, task, job)
    m, v, largest = _piece(job.m, task, job), _piece(job.v, task, job), _piece(job.largest, task, job)
    _adam_of_piece(p, g, m, v, largest, job.constants)


class _AdamJob(NamedTuple):
    p: int
    g: int
    m: int
    v: int
    largest: Any
    total: int
    size: int
    constants: updates.AdamConstants
    run = _adam_task


@njit
def adam(pool, threads, p, g, m, v, largest, total, size, constants):
    """A step of `updates.adam` for arrays of `total` numbers of `size` bytes at addresses; `largest` may be None."""
    launch(pool, threads, (total + _PIECE - 1) // _PIECE, _AdamJob(p, g, m, v, largest, total, size, constants))
