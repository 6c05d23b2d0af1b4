"""Small products by `small.py`: which they are, and the jobs that describe them, remembered by shapes and strides."""

from __future__ import annotations

import functools
import threading as python_threads
from collections.abc import Callable

import numpy as np

from .. import threading
from . import loops, plans, small
from .few import DEPTH, SIDE
from .packing import AsIs, OfB, VectorPanel
from .product import addresses
from .sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from .workspace import (
    DATA_FOLLOWS_HEADER,
    HEADER,
    address_of,
    aligned_bytes,
    empty,
    return_workspace,
    take_workspace,
)

__all__ = ["Job", "job_for", "product", "specialised"]

_WORKSPACE_BYTES = 16 * DEPTH * SIDE + 4096
"""For both operands, converted: at most float64 of B, and lines of A with room for whole vectors."""

_SPREAD_MICROSECONDS = 70.0
"""Work below this stays on the caller's thread: waking another one takes longer."""


class Job:
    """What `small.FIELDS` says of one product, at an address that compiled code reads."""

    __slots__ = ("address", "dtype", "microseconds", "shape", "values")

    def __init__(self, fields: dict[str, int], shape: tuple[int, int], dtype: np.dtype, microseconds: float) -> None:
        self.values = np.array([fields[name] for name in small.FIELDS], np.int64)
        self.address = address_of(self.values)
        self.shape, self.dtype, self.microseconds = shape, dtype, microseconds


@functools.cache
def _leaf(plan: plans.Plan, dtype: np.dtype) -> int:
    return loops.leaf_address(small.MultiplySmall(plan.scheme.kernel, ELEMENTS[dtype.name]))


@functools.cache
def _convert_leaf(plan: plans.Plan, dtype: np.dtype, unit: bool) -> int:
    source = Source(AlongK(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    return loops.leaf_address(small.ConvertLines(source, plan.a_panel.conversion))


@functools.cache
def _pack_leaf(plan: plans.Plan, dtype: np.dtype, along_k: bool, unit: bool) -> int:
    order, spacing = AlongK() if along_k else Across(), Contiguous() if unit else Strided()
    panel = VectorPanel(OfB(), plan.b_panel.conversion, plan.scheme.kernel)
    return loops.leaf_address(loops.PackRange(Source(order, spacing, ELEMENTS[dtype.name]), panel))


@functools.lru_cache(4096)
def job_for(isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int, *strides: int) -> Job:
    """The job of the product of two matrices, of sizes that `few.refuses` admits, with these strides (of a, of b)."""
    size = 8 if dtype.itemsize == 8 else 4
    plan = plans.plan_for(isa, precision, rounding, size)
    as_is = dtype.itemsize == size and type(plan.a_panel.conversion) is AsIs
    kernel, (a_row, a_k, b_k, b_column) = plan.scheme.kernel, strides
    fields = dict.fromkeys(small.FIELDS, 0)
    fields.update(leaf=_leaf(plan, dtype), m=m, n=n, k=k, c_row=n * dtype.itemsize, a_row=a_row, a_k=a_k)
    if not as_is:
        by_rows = abs(a_k) <= abs(a_row) or m == 1
        lines, length, line, stride = (m, k, a_row, a_k) if by_rows else (k, m, a_k, a_row)
        target_line = plans.up(length * size, 64)
        fields.update(
            convert_a=_convert_leaf(plan, dtype, stride == dtype.itemsize),
            lines_a=lines, length_a=length, line_a=line, stride_a=stride, target_line_a=target_line,
            a_row=target_line if by_rows else size, a_k=size if by_rows else target_line, a_bytes=lines * target_line,
        )  # fmt: skip
    if as_is and (b_column == size or n == 1):
        fields.update(b_k=b_k, b_panel=2 * kernel.lanes * size)
    else:
        along_k = abs(b_k) <= abs(b_column) and n > 1
        leaf = _pack_leaf(plan, dtype, along_k, (b_k if along_k else b_column) == dtype.itemsize)
        fields.update(pack_b=leaf, line_b=b_column, along_b=b_k, b_k=kernel.b_bytes, b_panel=k * kernel.b_bytes)
    microseconds = (m * plans.up(n, kernel.lanes) * k) / (plan.products_per_microsecond * 10) + 0.05
    return Job(fields, (m, n), dtype, microseconds)


class _Mine(python_threads.local):
    """Memory of a thread for converted operands."""

    def __init__(self) -> None:
        self.memory = aligned_bytes(_WORKSPACE_BYTES)
        self.address = address_of(self.memory)


_mine = _Mine()


def multiply(job: Job, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One product, on the caller's thread."""
    c = np.empty(job.shape, job.dtype)
    if DATA_FOLLOWS_HEADER:
        small.multiply_objects(job.address, id(a) + HEADER, id(b) + HEADER, id(c) + HEADER, _mine.address)
    else:
        small.multiply_one(job.address, address_of(a), address_of(b), address_of(c), _mine.address)
    return c


def specialised(
    isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int
) -> Callable[..., np.ndarray]:
    """A function that multiplies two matrices of these shapes."""
    size = dtype.itemsize
    of_a, of_b = (k * size, size), (n * size, size)
    usual = None  # until a first call, whose time the compilation is part of

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        nonlocal usual
        if usual is None:
            usual = job_for(isa, precision, rounding, dtype, m, k, n, *of_a, *of_b)
        if a.strides == of_a and b.strides == of_b:
            return multiply(usual, a, b)
        return multiply(job_for(isa, precision, rounding, dtype, m, k, n, *a.strides, *b.strides), a, b)

    return product


def product(a: np.ndarray, b: np.ndarray, isa: str, precision: str, rounding: str) -> np.ndarray:
    """The product of a (..., m, k) and b (..., k, n), whose leading dimensions broadcast, for sizes that `few.refuses`
    admits."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    if b.ndim == 2 and a.ndim > 2:
        rows = product(a.reshape(-1, k), b, isa, precision, rounding)
        return rows.reshape(*a.shape[:-1], n)
    job = job_for(isa, precision, rounding, a.dtype, m, k, n, *a.strides[-2:], *b.strides[-2:])
    if a.ndim == b.ndim == 2:
        return multiply(job, a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = empty((*batch, m, n), a.dtype)
    outer = np.array([addresses(x, batch, 1) for x in (a, b, c)])
    _multiply_batch(job, outer, batch[-1], (_step(a), _step(b), _step(c)))
    return c


def _step(x: np.ndarray) -> int:
    """Bytes from one matrix of x to the next along the last dimension of a batch."""
    return x.strides[-3] if x.ndim > 2 and x.shape[-3] > 1 else 0


def _multiply_batch(job: Job, outer: np.ndarray, inner: int, steps: tuple[int, int, int]) -> None:
    """Many products of one shape: `inner` ones in these steps (in bytes, of a, b and the result) from each of the
    addresses `outer` (3, count)."""
    count = outer.shape[1] * inner
    pool, threads = threading.pool() if count > 1 and count * job.microseconds > _SPREAD_MICROSECONDS else (0, 1)
    memory = take_workspace(threads * _WORKSPACE_BYTES)
    try:
        place, chunk = address_of(memory), max(1, count // (8 * threads))
        small.multiply_many(pool, threads, job.address, outer, inner, *steps, chunk, place, _WORKSPACE_BYTES)
    finally:
        return_workspace(memory)
