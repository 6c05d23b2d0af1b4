"""Transforms over the last two axes, matrix by matrix: rows and columns of one that fits the L2 cache are transformed
by the same thread while it is there, and the matrices are what the threads share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..registry import ArraySpec
from ..runtime import threading, workspace
from ..runtime.plan_cache import fft_plans
from ..runtime.workspace import DATA_FOLLOWS_HEADER, HEADER, address_of
from .choice import WALKS, factor_of, kind_of, result, search
from .contract import complex_of, divisor, lengths_of, real_of
from .crossovers import crossovers
from .lengths import factors, lanes_of

_MOST_BYTES = 1 << 20
"""Bytes of a matrix, half of what the L2 cache of a core has on the CPUs that this was measured on."""

_GAP = 4096  # bytes between the memory of two threads, as in plans


class _Shape(NamedTuple):
    """The rows of a matrix; numbers of the transform of each, which stand for twice as many real ones in the transforms
    that `real` names; complex numbers in a row of the spectrum."""

    rows: int
    numbers: int
    width: int
    real: str


def _shape_of(shape: tuple[int, ...], kind: str, axes: tuple[int, ...], last: int) -> _Shape | None:
    """None where the axes are others than the last two, in order, or an odd length of real numbers is asked for."""
    if len(axes) != 2 or axes != (len(shape) - 2, len(shape) - 1):
        return None
    rows, length = lengths_of(shape, kind, axes, last)
    if kind not in ("real", "halved"):
        return _Shape(rows, length, length, "")
    return None if length % 2 else _Shape(rows, length // 2, length // 2 + 1, kind)


def _shared_well(batch: int, threads: int) -> bool:
    """Whether no thread has much less to do than others."""
    return -(-batch // threads) * threads <= 1.25 * batch


class _Job(NamedTuple):
    """How matrices are transformed: the batch, the kind of plan of their rows, bytes from one row to the next between
    the two transforms, and whether threads share the matrices."""

    shape: _Shape
    batch: int
    how: str
    row_bytes: int
    shared: bool


def _job_of(x: ArraySpec, kind: str, axes: tuple[int, ...], last: int) -> _Job | None:
    """None where matrices are too large, have too few rows, or are too few for the threads."""
    found = _shape_of(x.shape, kind, axes, last)
    if found is None or not DATA_FOLLOWS_HEADER:
        return None
    rows, numbers, width, real = found
    batch, size = math.prod(x.shape[:-2]), real_of(x.dtype).itemsize
    how = kind_of(numbers, rows, size, real)
    if how is None or how != kind_of(numbers, batch * rows, size, real):
        return None  # too few rows of one matrix for what many take
    if width < lanes_of(size) or factors(rows) is None or not 2 <= rows <= crossovers.row.along_most:
        return None
    row = (-(-width * 2 * size // 64) | 1) * 64  # an odd number of cache lines: columns lie in all sets of a cache
    shared = batch * rows * numbers * 2 * size >= crossovers.row.threads_bytes
    if rows * row > _MOST_BYTES or (shared and not _shared_well(batch, threading.get_num_threads())):
        return None
    return _Job(found, batch, how, row, shared)


def by_matrices(
    x: ArraySpec, general: Callable[[np.ndarray], np.ndarray], *, kind: str, axes: tuple[int, ...],
    scaling: str = "none", last: int = 0, plans: int = 0,
) -> Callable[[np.ndarray], np.ndarray] | None:  # fmt: skip
    """The function that transforms arrays like x; None where others are faster. Its results are those of one axis after
    the other, to the bit."""
    job = _job_of(x, kind, axes, last)
    if job is None:
        return None
    (rows, numbers, width, real), batch, how, row, shared = job
    part, inverse = real_of(x.dtype), kind in ("inverse", "halved")
    shape = (*x.shape[:-1], {"": width, "real": width, "halved": last}[real])
    dtype = {"": x.dtype, "real": complex_of(x.dtype), "halved": part}[real]
    source_row, target_row = x.shape[-1] * x.dtype.itemsize, shape[-1] * dtype.itemsize
    scale, columns_first = 1 / divisor((rows, 2 * numbers if real else numbers), scaling), real == "halved"
    of_rows, of_columns = factor_of(1.0 if columns_first else scale, real), factor_of(scale if columns_first else 1.0)
    # as the first eight of `stockham.NUMBERS` say
    if columns_first:
        first = [inverse, of_columns, 0, 0, 1, source_row, row, width]
        second = [inverse, of_rows, row, target_row, rows, 0, 0, 1]
    else:
        first = [inverse, of_rows, source_row, row, rows, 0, 0, 1]
        second = [inverse, of_columns, 0, 0, 1, row, target_row, width]
    searches = [search(numbers, part, how, real), search(rows, part, "along", "")][:: -1 if columns_first else 1]
    first_plan, second_plan = (functools.partial(fft_plans.get, *each, plans) for each in searches)
    between = rows * row
    steps = rows * source_row, rows * target_row
    told = np.array([*steps, batch, between, address_of(WALKS), *first, *second], np.int64)
    place = address_of(told)
    made = result if shared else np.empty
    from .tasks import transform_matrices

    def call(x: np.ndarray, told: np.ndarray = told) -> np.ndarray:
        if not x.flags.c_contiguous:
            return general(x)
        pool, threads = threading.pool() if shared else (0, 1)
        out, first, second = made(shape, dtype), first_plan(), second_plan()
        needed = between + max(first.worker_bytes, second.worker_bytes) + _GAP
        memory = workspace.take_workspace(threads * needed)
        arrays = id(x) + HEADER, id(out) + HEADER, id(memory) + HEADER
        try:
            transform_matrices(pool, threads, place, first.place, second.place, needed, *arrays)
        finally:
            workspace.return_workspace(memory)
        return out

    return call
