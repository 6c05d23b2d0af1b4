"""Sums of float32 as bfloat16, by all threads: NumPy's conversion takes a nanosecond for each on one."""

from __future__ import annotations

import numpy as np

from ..block.emit import F32, I64, load, loop, offset, store, vector
from ..block.microkernels import convert
from ..block.sources import BFloat16
from ..runtime import threading
from ..runtime.emitter import Pointer, emitter
from ..runtime.jit import ir, njit
from ..runtime.launch import launch, task
from ..runtime.workspace import address_of, empty

_LANES, _CHUNK = 16, 1024


@emitter
def _narrow(builder, source: Pointer, target: Pointer, count) -> None:
    """Round `count` vectors of 16 values."""

    def one(index: ir.Value, _: list) -> list:
        value = load(builder, vector(F32), offset(builder, source, builder.shl(index, I64(6))), 4)
        store(builder, convert(builder, value, BFloat16), offset(builder, target, builder.shl(index, I64(5))), 2)
        return []

    loop(builder, count, [], one)


@task("source target count")
def _chunk(task, worker, job):
    first = task * _CHUNK
    _narrow(job.source + 64 * first, job.target + 32 * first, min(_CHUNK, job.count - first))


@njit
def _round(pool, threads, source, target, count):
    launch(pool, threads, (count + _CHUNK - 1) // _CHUNK, _chunk(source, target, count))


def rounded_sums(sums: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A contiguous array of sums in the dtype of what was summed, to nearest even; what is too large is infinite."""
    if dtype.name != "bfloat16":
        with np.errstate(over="ignore"):
            return sums.astype(dtype, copy=False)
    found, whole = empty(sums.shape, dtype), sums.size // _LANES
    if whole:
        _round(*threading.pool(), address_of(sums), address_of(found), whole)
    rest = slice(_LANES * whole, None)
    found.reshape(-1)[rest] = sums.reshape(-1)[rest].astype(dtype)
    return found
