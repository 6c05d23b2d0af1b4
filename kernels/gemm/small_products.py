"""Small products by the jobs of `jobs.py`: alone with as little around them as there can be, and in batches."""

from __future__ import annotations

import math
import threading as python_threads
from collections.abc import Callable

import numpy as np

from ..block import ranges
from ..runtime import threading
from ..runtime.addresses import addresses
from ..runtime.shapes import broadcast_shapes
from ..runtime.workspace import (
    DATA_FOLLOWS_HEADER,
    HEADER,
    address_of,
    aligned_bytes,
    maker_of,
    result,
    return_workspace,
    take_workspace,
)
from . import small_batch
from .jobs import Job, Steps, job_for
from .small_sizes import LINES, SIDE, is_in_lines

_KEPT_BYTES = 1 << 19
"""Workspace that a thread keeps for products on its own."""

_STRIDES_KEPT = 16
"""Layouts of operands that are remembered for two shapes."""


class _Mine(python_threads.local):
    """Memory of a thread."""

    def __init__(self) -> None:
        self.memory = aligned_bytes(64 + _KEPT_BYTES)[64:]
        self.address = address_of(self.memory)


_mine = _Mine()


def _certain_from(job: Job, depth: int, memory: np.ndarray, threads: int) -> float | None:
    """The magnitude from which results are certain (`ranges.py`), by the magnitudes that the workers left; None where
    these are not exact. Raises `Refused` where something may overflow."""
    if job.exactly is not None:
        return None
    found = np.stack([memory[at : at + 256] for at in range(0, threads * job.workspace_bytes, job.workspace_bytes)])
    lines = found.view(np.uint32).reshape(threads, 4, 16)
    least, greatest = lines[:, ::2].min((0, 2)), lines[:, 1::2].max((0, 2))
    pairs = [int(high) << 32 | (int(low) + 1) & 0xFFFFFFFF for high, low in zip(greatest, least, strict=True)]
    return ranges.certain_from(job.checks or "ieee", depth, *pairs)


def run_job(
    job: Job, a: np.ndarray, b: np.ndarray, c: np.ndarray, depth: int, outer: np.ndarray | None = None
) -> float:
    """The products of a job into c: from the first addresses of the arrays, or from those of `outer` (3, across); again
    where magnitudes ask for a closer look. Return the magnitude from which the results are certain (`ranges.py`)."""
    certain = _multiply(job, a, b, c, depth, outer)
    if certain is None:
        assert job.exactly is not None
        certain = _multiply(job.exactly(), a, b, c, depth, outer)
    return certain or 0.0


def _multiply(
    job: Job, a: np.ndarray, b: np.ndarray, c: np.ndarray, depth: int, outer: np.ndarray | None = None
) -> float | None:
    """Do that; the magnitude from which results are certain, or None where magnitudes have to be found exactly."""
    across = 1 if outer is None else outer.shape[1]
    pool, threads = threading.pool() if job.microseconds * across >= job.spread else (0, 1)
    if outer is None and DATA_FOLLOWS_HEADER and threads * job.workspace_bytes <= _KEPT_BYTES:
        mine = _mine
        objects = id(a) + HEADER, id(b) + HEADER, id(c) + HEADER
        unusual = small_batch.multiply_objects(pool, threads, job.address, *objects, mine.address)
        return _certain_from(job, depth, mine.memory, threads) if unusual else 0.0
    if outer is None:
        outer = np.array(((address_of(a),), (address_of(b),), (address_of(c),)))
    memory = take_workspace(threads * job.workspace_bytes)
    try:
        unusual = small_batch.multiply_many(pool, threads, job.address, address_of(outer), across, address_of(memory))
        return _certain_from(job, depth, memory, threads) if unusual else 0.0
    finally:
        return_workspace(memory)


def specialise(
    isa: str, precision: str, rounding: str, dtype: np.dtype, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
) -> Callable[..., np.ndarray]:
    """A function that multiplies arrays of these shapes, two matrices or two batches of equal sizes."""
    (m, k), n, size = shape_a[-2:], shape_b[-1], dtype.itemsize
    shape, of_matrices = (*shape_a[:-1], n), (isa, precision, rounding, dtype, (m, k, n))
    contiguous = _contiguous(shape_a, size), _contiguous(shape_b, size)
    whole = Steps(math.prod(shape[:-2]), m * k * size, k * n * size, m * n * size)
    make = maker_of(math.prod(shape) * size)
    jobs: dict[tuple, tuple[Job | None, int]] = {}

    def job_of(strides_a: tuple[int, ...], strides_b: tuple[int, ...]) -> Job | None:
        """The job of arrays with these strides; None where the matrices of a batch lie at no regular steps."""
        if is_in_lines(isa, m, n):
            strides = (*strides_a, *strides_b)
            sizes, steps = _in_lines((m, k, n), strides, size, LINES, max(m, n) // LINES)
            return job_for(isa, precision, rounding, dtype, sizes, strides, steps)
        if len(shape) == 2:
            return _job_of_one(*of_matrices, (*strides_a, *strides_b))
        if (strides_a, strides_b) == contiguous:
            steps = whole
        elif len(shape) > 3:
            return None
        else:
            several = shape[0] > 1
            steps = Steps(shape[0], several * strides_a[0], several * strides_b[0], several * m * n * size)
        return job_for(*of_matrices, (*strides_a[-2:], *strides_b[-2:]), steps)

    def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        strides = a.strides, b.strides
        try:
            job, brief = jobs[strides]
        except KeyError:
            if len(jobs) == _STRIDES_KEPT:
                jobs.clear()
            job, brief = jobs[strides] = _with_address(job_of(*strides))
        if job is None:
            return product(a, b, isa, precision, rounding)
        c = make(shape, dtype)
        if not brief or small_batch.multiply_objects(
            0, 1, brief, id(a) + HEADER, id(b) + HEADER, id(c) + HEADER, _mine.address
        ):
            ranges.refuse_uncertain(run_job(job, a, b, c, k), c, a, b)
        return c

    return multiply


def _with_address(job: Job | None) -> tuple[Job | None, int]:
    """A job and, where it is brief, the address with which it runs on the caller's thread without a look at its needs;
    else 0."""
    fits = job is not None and job.microseconds < job.spread and job.workspace_bytes <= _KEPT_BYTES
    return job, job.address if job is not None and fits and DATA_FOLLOWS_HEADER else 0


def _job_of_one(
    isa: str, precision: str, rounding: str, dtype: np.dtype, sizes: tuple[int, int, int], strides: tuple
) -> Job:
    """The job of a single product; of a long one by vectors, that of as many of its rows as each thread takes."""
    job = job_for(isa, precision, rounding, dtype, sizes, strides)
    if isa == "amx" or job.microseconds < job.spread:
        return job
    (m, k, n), threads = sizes, threading.get_num_threads()
    parts = min(
        (parts for parts in range(1, min(m, 4 * threads) + 1) if m % parts == 0),
        key=lambda parts: -(-parts // threads) * (m // parts),  # rows of the thread that has most
    )
    steps = Steps(parts, m // parts * strides[0], 0, m // parts * n * dtype.itemsize)
    return job_for(isa, precision, rounding, dtype, (m // parts, k, n), strides, steps)


def _contiguous(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides of a contiguous array."""
    return tuple(size * math.prod(shape[place + 1 :]) for place in range(len(shape)))


def product(a: np.ndarray, b: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """The product of a (..., m, k) and b (..., k, n), leading dimensions broadcast, of sizes that `small.refuses`
    admits. Raises `Refused` where tiles cannot read the operands, or may not multiply the values."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    if b.ndim == 2 and a.ndim > 2:
        rows = product(a.reshape(-1, k), b, isa, precision, rounding)
        return rows.reshape(*a.shape[:-1], n)
    of_matrices = (isa, precision, rounding, a.dtype, (m, k, n), (*a.strides[-2:], *b.strides[-2:]))
    if is_in_lines(isa, m, n):
        return _long_product(a, b, isa, precision, rounding)
    if a.ndim == b.ndim == 2:
        c = maker_of(m * n * a.itemsize)((m, n), a.dtype)
        ranges.refuse_uncertain(run_job(_job_of_one(*of_matrices), a, b, c, k), c, a, b)
        return c
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = result((*batch, m, n), a.dtype)
    job = job_for(*of_matrices, Steps(batch[-1], _step(a), _step(b), _step(c)))
    certain = run_job(job, a, b, c, k, np.array([addresses(x, batch, 1) for x in (a, b, c)]))
    ranges.refuse_uncertain(certain, c, a, b)
    return c


def _long_product(a: np.ndarray, b: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """`product` of many rows or columns, which are products of some of them that follow one another."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = result((*batch, m, n), a.dtype)
    count, rest = divmod(max(m, n), LINES)
    strides, certain = (*a.strides[-2:], *b.strides[-2:]), 0.0
    for first, lines, times in ((0, LINES, count), (count * LINES, rest, 1)):
        if lines:
            sizes, steps = _in_lines((m, k, n), strides, a.itemsize, lines, times)
            parts = (a[..., first:, :], b, c[..., first:, :]) if m > SIDE else (a, b[..., first:], c[..., first:])
            job = job_for(isa, precision, rounding, a.dtype, sizes, strides, steps)
            places = np.array([addresses(x, batch) for x in parts]) if batch else None
            certain = max(certain, run_job(job, *parts, k, places))
    ranges.refuse_uncertain(certain, c, a, b)
    return c


def _in_lines(
    sizes: tuple[int, int, int], strides: tuple[int, ...], itemsize: int, lines: int, count: int
) -> tuple[tuple[int, int, int], Steps]:
    """The sizes and the steps of `count` products of so many rows, or columns, each."""
    m, k, n = sizes
    if m > SIDE:
        return (lines, k, n), Steps(count, lines * strides[0], 0, lines * n * itemsize, n * itemsize)
    return (m, k, lines), Steps(count, 0, lines * strides[3], lines * itemsize, n * itemsize)


def _step(x: np.ndarray) -> int:
    """Bytes from one matrix of x to the next along the last dimension of a batch."""
    return x.strides[-3] if x.ndim > 2 and x.shape[-3] > 1 else 0
