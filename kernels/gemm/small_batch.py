"""Small products of one shape at regular steps in memory: what divides them among threads, however one is multiplied.

A *job* is a row of int64 in memory: `HEADER`, and then what the code at the address `run` reads. That code multiplies
a segment, some products one after the other, and is compiled apart; what is here is compiled once.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block.emit import I32, I64, POINTER, call, load, offset, splat, store, vector
from ..runtime.emitter import emitter, int64
from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, launch, task
from ..runtime.raw_memory import get

HEADER = ("run", "checked", "count", "step_a", "step_b", "step_c", "workspace_bytes")
"""The first int64 of a job. `count` products lie `step_a`, `step_b`, `step_c` bytes apart; each worker has so many
bytes of workspace, which begin, where `checked` is 1, with the magnitudes found (`LIMITS_BYTES`)."""

LIMITS_BYTES = 256
"""The least non-zero magnitudes less one of A in 16 lanes, its greatest ones, and both of B: bits of float32."""

_LEAST, _GREATEST = (127 - 51) << 23, (127 + 15) << 23
"""Magnitudes (bits of 2**-51 and of 2**15) within which no precision refuses a product of at most 2**12 terms."""


class Alone(NamedTuple):
    """Nothing is known of what comes after a product."""

    fetches = False


class InARow(NamedTuple):
    """While a product is computed, the operands of the next one are fetched into the L1 cache, and the place of its
    result. 1024 products of 32 x 32 x 32 take two threads 234 us with it, 250 without the result, 265 with nothing and
    213 to 232 where all of them read and write the same memory."""

    fetches = True


SegmentArguments = namedtuple("SegmentArguments", "job a b c count workspace")


@emitter
def _write(builder, address, first, second, third) -> None:
    """Three int64 in a row."""
    at = builder.inttoptr(address, I64.as_pointer())
    for index, value in enumerate((first, second, third)):
        builder.store(value, builder.gep(at, [I64(index)]))


def _limits_at(builder, address) -> list:
    return [offset(builder, builder.inttoptr(address, POINTER), 64 * line) for line in range(4)]


@emitter
def reset(builder, limits) -> None:
    """Nothing was found so far."""
    for line, at in enumerate(_limits_at(builder, limits)):
        store(builder, splat(I32, 0 if line % 2 else 0xFFFFFFFF), at, 64)


@emitter
def extraordinary(builder, limits) -> int64:
    """1 if magnitudes were found that need a check, else 0."""
    least_a, greatest_a, least_b, greatest_b = (
        load(builder, vector(I32), at, 64) for at in _limits_at(builder, limits)
    )
    least = call(builder, "llvm.umin.v16i32", vector(I32), least_a, least_b)
    greatest = call(builder, "llvm.umax.v16i32", vector(I32), greatest_a, greatest_b)
    low = builder.icmp_unsigned("<", call(builder, "llvm.vector.reduce.umin.v16i32", I32, least), I32(_LEAST - 1))
    top = call(builder, "llvm.vector.reduce.umax.v16i32", I32, greatest)
    return builder.zext(builder.or_(low, builder.icmp_unsigned(">", top, I32(_GREATEST))), I64)


@task("job outer across chunk chunks workspace")
def _segment_task(task, worker, job):
    outer, first = task // job.chunks, task % job.chunks * job.chunk
    count, step_a, step_b, step_c = get(job.job, 2), get(job.job, 3), get(job.job, 4), get(job.job, 5)
    call_at(
        get(job.job, 0),
        SegmentArguments(
            job.job, get(job.outer, outer) + first * step_a, get(job.outer, job.across + outer) + first * step_b,
            get(job.outer, 2 * job.across + outer) + first * step_c, min(job.chunk, count - first),
            job.workspace + worker * get(job.job, 6),
        ),
    )  # fmt: skip


@subroutine
def _multiply(pool, threads, job, outer, across, workspace):
    count, checked, each = get(job, 2), get(job, 1) != 0, get(job, 6)
    tasks = (2 if get(job, 3) == 0 or get(job, 4) == 0 else 8) * threads  # each thread converts the shared operands
    chunk = min(count, max(1, (count * across + tasks - 1) // tasks))
    chunks = (count + chunk - 1) // chunk
    for worker in range(threads if checked else 0):
        reset(workspace + worker * each)
    launch(pool, threads, across * chunks, _segment_task(job, outer, across, chunk, chunks, workspace))
    found = 0
    for worker in range(threads if checked else 0):
        found |= extraordinary(workspace + worker * each)
    return found


@njit
def multiply_many(pool, threads, job, outer, across, workspace):
    """`across` times the products of a job, from each of the addresses (3, across) at `outer` of A, B and the result.

    Returns 1 if magnitudes were found that need a check.
    """
    return _multiply(pool, threads, job, outer, across, workspace)


@njit
def multiply_objects(pool, threads, job, a, b, c, workspace):
    """The products of a job, where a, b and c are the addresses of the addresses; 64 bytes before the workspace are
    used too."""
    first_a, first_b, first_c = get(a, 0), get(b, 0), get(c, 0)
    if threads > 1:
        _write(workspace - 64, first_a, first_b, first_c)
        return _multiply(pool, threads, job, workspace - 64, 1, workspace)
    if get(job, 1) != 0:
        reset(workspace)
    call_at(get(job, 0), SegmentArguments(job, first_a, first_b, first_c, get(job, 2), workspace))
    return extraordinary(workspace) if get(job, 1) != 0 else 0
