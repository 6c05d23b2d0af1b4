"""How a batch is transformed (`kind_of`), and what all transforms share: plans, results, factors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np

from ..runtime import workspace
from ..runtime.plan_cache import fft_plans
from .crossovers import crossovers
from .lengths import POWERS, factors, lanes_in_registers, lanes_of, matrix, narrow_lanes, rows_of_wide, sharing_rows

if TYPE_CHECKING:
    from .plan import Plan

WALKS = np.zeros(3, np.int64)  # of the last transform, see `tasks._starts_at_end`

RECYCLED_BYTES = 1 << 19
"""Results of this size or more are made of memory of former ones, since the C library, which keeps that of smaller
results too, gives it back to the system at times: to touch it again takes as long as a transform."""


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory for numbers, aligned to cache lines."""
    return workspace.empty(shape, dtype, RECYCLED_BYTES)


def result(shape: tuple[int, ...], dtype: np.dtype, aligned: bool = False) -> np.ndarray:
    """The same for results, in memory that the caller offered if there is any. `aligned` requires that to be aligned
    too, as stores that bypass the caches need."""
    return workspace.result(shape, dtype, RECYCLED_BYTES, aligned)


def kind_of(n: int, batch: int, size: int, real: str = "") -> str | None:
    """The class of a batch of transforms of n numbers along the last axis: "whole", "wide", "long", "short", "narrow",
    or None. Few transforms that are too short for whole vectors of columns take shorter vectors ("narrow"). A few long
    ones are "long", since threads can share their steps. `real`: the numbers stand for 2n real ones ("real" or
    "halved")."""
    lanes, row = lanes_of(size), crossovers.row
    if factors(n) is None or n < 2:
        return None
    spilled = lanes * size == 32 and n >= row.spilled and batch >= 4 * lanes
    if spilled and real and n < row.lanes_most:
        return "short"
    if lanes_in_registers(n, size, real) is not None and not (spilled and n in POWERS):
        return "whole"
    rows = rows_of_wide(n, size)
    few = batch < 4 and n * 2 * size >= row.shared_steps_bytes
    if rows is not None and row.wide <= n <= row.wide_most and batch >= sharing_rows(rows, lanes) and not few:
        return "wide"
    long = n >= lanes * lanes and matrix(n, lanes) is not None
    short = batch >= lanes and lanes // 2 <= n <= row.along_most
    if long and not (short and n <= row.lanes_most and batch >= 4 * lanes):
        return "long"
    return "short" if short else "narrow" if narrow_lanes(n, size) else None


def search(n: int, dtype: np.dtype, kind: str, real: str) -> tuple[Hashable, Callable[[], Plan]]:
    """The key of a plan in the cache, and the function that makes the plan."""

    def make() -> Plan:
        from . import plan as planning

        return planning.make_plan(n, dtype, kind, real)

    return (n, kind, dtype.char, real), make


def plan_of(n: int, dtype: np.dtype, kind: str, kept: int, real: str = "") -> Plan:
    """The plan of n complex numbers with parts of this dtype, from the cache or new. With `real` they stand for 2n real
    numbers."""
    return fft_plans.get(*search(n, dtype, kind, real), kept)


def factor_of(scale: float, real: str = "") -> int:
    """The bits of the float64 that the loops multiply by. It includes the factor 1/2 of transforms of real numbers."""
    return struct.unpack("<q", struct.pack("<d", 0.5 * scale if real == "real" else scale))[0]
