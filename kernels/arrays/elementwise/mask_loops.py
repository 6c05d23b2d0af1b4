"""The loops of `masks`."""

from __future__ import annotations

import numpy as np

from ...runtime.jit import carray, njit
from ...runtime.launch import launch, task
from ...runtime.raw_memory import pointer

_PIECE = 1 << 13
"""Elements that a task takes."""

_BYTE = np.uint8(0)


@task("mask x y out x_varies y_varies count word size")
def _choose_piece(task, worker, job):
    first = task * _PIECE
    count, begin = min(_PIECE, job.count - first), first * job.size
    mask = carray(pointer(job.mask + first, _BYTE), count)
    x = carray(pointer(job.x + (begin if job.x_varies else 0), job.word), count)
    y = carray(pointer(job.y + (begin if job.y_varies else 0), job.word), count)
    out = carray(pointer(job.out + begin, job.word), count)
    if job.x_varies and job.y_varies:
        for i in range(count):
            this, other = x[i], y[i]  # both are read, so that nothing depends on the mask but the choice
            out[i] = this if mask[i] else other
    elif job.x_varies:
        other = y[0]
        for i in range(count):
            this = x[i]
            out[i] = this if mask[i] else other
    else:
        this = x[0]
        for i in range(count):
            other = y[i]
            out[i] = this if mask[i] else other


@njit
def choose(pool, threads, mask, x, y, out, x_varies, y_varies, count, word, size):
    """out = x or y for each of `count` bytes of a mask, given by addresses.

    x and y are words of the type of `word`, with `size` bytes; one of the two may be a single word for all.
    """
    job = _choose_piece(mask, x, y, out, x_varies, y_varies, count, word, size)
    launch(pool, threads, (count + _PIECE - 1) // _PIECE, job)
