"""Solutions of groups of small systems whose factors are given (see `lanes.py`), by substitution."""

from __future__ import annotations

from ..block.tags import constant
from ..runtime.jit import subroutine
from ..runtime.launch import job_class
from .groups import Group, details
from .lanes import VECTOR_BYTES, load_lanes, pack, read_int32, select, splat, store_lanes, unpack, write
from .small_factors import lu_substitute, substitute_any

_V = VECTOR_BYTES


@subroutine
def _pack_pivots(tag, base, first, last, n, pivots):
    """Row numbers from 1 to vectors of row numbers from 0; those beyond the matrix, which no factorisation gives, count
    as its last row."""
    for lane in range(constant(tag, "lanes")):
        for j in range(n):
            row = read_int32(base + 4 * ((first + min(lane, last)) * n + j)) - 1
            write(tag, pivots + j * _V + lane * constant(tag, "size"), float(min(max(row, 0), n - 1)))


@subroutine
def _lu_solve_task(task, worker, group):
    job = details(group)
    tag, n, k, lanes, size = job.tag, job.n, job.k, constant(job.tag, "lanes"), constant(job.tag, "size")
    a = job.workspace + worker * job.workspace_bytes
    b, pivots = a + n * n * _V, a + n * (n + k) * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * n * n * size, last, n * n, a)
        pack(tag, job.b + first * n * k * size, last, n * k, b)
        _pack_pivots(tag, job.y, first, last, n, pivots)
        lu_substitute(tag, n, k, a, pivots, b, job.options == 1)
        unpack(tag, b, n * k, job.x + first * n * k * size, last)


LUSolve = job_class("LUSolve", Group._fields, _lu_solve_task)
"""Factors a, pivots y and b (n x k) to x; of the transposed equation if options is 1; workspace n * (n + k + 1)."""


@subroutine
def _cholesky_solve_task(task, worker, group):
    job = details(group)
    tag, n, k, lanes, size = job.tag, job.n, job.k, constant(job.tag, "lanes"), constant(job.tag, "size")
    a, row = job.workspace + worker * job.workspace_bytes, job.n * _V
    b = a + n * n * _V
    for first in range(task * job.groups * lanes, min((task + 1) * job.groups * lanes, job.count), lanes):
        last = min(lanes, job.count - first) - 1
        pack(tag, job.a + first * n * n * size, last, n * n, a)
        if job.b != 0:
            pack(tag, job.b + first * n * k * size, last, n * k, b)
        else:
            for i in range(n):
                for j in range(n):
                    store_lanes(b + (i * n + j) * _V, splat(tag, 1.0 if i == j else 0.0))
        for step in range(2):
            a_row, a_column = row, _V
            if step == 1:
                a_row, a_column = a_column, a_row
            substitute_any(tag, n, k, a, a_row, a_column, b, k * _V, _V, False, step == 1)
        if job.b == 0:
            _mirror(tag, n, a, b)
        unpack(tag, b, n * k, job.x + first * n * k * size, last)


@subroutine
def _mirror(tag, n, a, b):
    """The lower triangle of an inverse to the upper one; infinity where the factor has a zero on its diagonal."""
    zero = splat(tag, 0.0)
    singular = zero > zero
    for i in range(n):
        singular = singular | (load_lanes(tag, a + i * (n + 1) * _V) == zero)
    for i in range(n):
        for j in range(i + 1):
            x = select(singular, splat(tag, 1.0) / zero, load_lanes(tag, b + (i * n + j) * _V))
            store_lanes(b + (i * n + j) * _V, x)
            store_lanes(b + (j * n + i) * _V, x)


CholeskySolve = job_class("CholeskySolve", Group._fields, _cholesky_solve_task)
"""The lower factor a and b (n x k) to x, or, where b is 0, the inverse (k = n) to x; workspace n * (n + k)."""
