"""Split-K: products by parts of K; each part is a small product.

Threads that divide a result of few rows and columns read the same operands, and do little with each number. Here they
divide K: a part is a product by the loops of `small_vectors.py`, which read operands where they lie, and the sums of
the parts are added in their order. A part is as deep as a step of `loops.py` is, so that the bits are those of packed
panels, for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..block import ranges
from ..block.plans import plan_for
from ..block.tuning import memoise, tuning
from ..runtime.errstate import restore, silence
from ..runtime.workspace import empty
from .compiled import working_dtype
from .jobs import Job, Steps, job_for
from .small_products import run_job


class _Round(NamedTuple):
    """Jobs, each with the places along K and in the memory for sums where it begins, and the sums to be added then."""

    jobs: list[tuple[Job, int, int]]
    sums: slice


class _Division(NamedTuple):
    """How K is split, the dtype of the sums, and how many there are at a time."""

    rounds: list[_Round]
    working: np.dtype
    held: int


@memoise
def _division(
    isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int, *strides: int
) -> _Division:
    """As many parts in a round as there is memory for; the last one may be less deep than the others. The first of the
    sums held is that of all rounds before."""
    working = working_dtype(dtype)
    step, size = plan_for(isa, precision, rounding, working.itemsize).scheme.kc, m * n * working.itemsize
    parts, row = -(-k // step), tuning(isa)
    at_once = min(parts, max(1, int(row.split_caches * row.cache_bytes) // size))

    def jobs(first: int, last: int) -> Iterator[tuple[Job, int, int]]:
        whole = min(last, k // step)
        for begin, count, depth in ((first, whole - first, step), (whole, last - whole, k % step)):
            if count:
                steps = Steps(count, step * strides[1], step * strides[2], size)
                job = job_for(isa, precision, rounding, dtype, (m, depth, n), strides, steps, working)
                yield job, begin * step, 1 + begin - first

    rounds = []
    for first in range(0, parts, at_once):
        last = min(first + at_once, parts)
        rounds.append(_Round(list(jobs(first, last)), slice(0 if first else 1, 1 + last - first)))
    return _Division(rounds, working, 1 + at_once)


def product(
    a: np.ndarray, b: np.ndarray, *, isa: str, precision: str, rounding: str, alpha: float = 1.0, beta: float = 1.0,
    addend: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """alpha * (a @ b) + beta * addend, with a (..., m, k) and b (k, n); rounded once where the sums are wider than the
    operands. With beta = 0 the addend is not looked at."""
    rows = a if a.ndim == 2 else a.reshape(-1, a.shape[-1])
    (m, k), n = rows.shape, b.shape[1]
    division = _division(isa, precision, rounding, a.dtype, m, k, n, *rows.strides, *b.strides)
    sums, total, certain = empty((division.held, m, n), division.working), None, 0.0
    token = silence()
    try:
        for jobs, places in division.rounds:
            if total is not None:
                sums[0] = total
            for job, from_k, to in jobs:
                certain = max(certain, run_job(job, rows[:, from_k:], b[from_k:], sums[to], k))
            total = np.add.reduce(sums[places], axis=0)
        ranges.refuse_uncertain(certain, total, rows, b)
        total = total if a.ndim == 2 else total.reshape(*a.shape[:-1], n)
        if alpha != 1:
            total *= alpha
        if addend is not None and beta:
            total += addend.astype(total.dtype, copy=False) if beta == 1 else addend.astype(total.dtype) * beta
        return total.astype(a.dtype, copy=False)
    finally:
        restore(token)
