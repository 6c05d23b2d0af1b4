"""Fourier transforms by compiled passes of Stockham's algorithm, for lengths without prime factors above 13.

`kind_of` chooses how a batch is transformed. `plan.py` makes the plan of a length, which `fft_plans` keeps; `tasks.py`
has the loops. A call is prepared once for a signature (`_specialise`); arrays that are not contiguous take the general
path, one axis after the other (`fft_stockham`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..registry import ArraySpec
from ..runtime import threading, workspace
from ..runtime.plan_cache import fft_plans
from ..runtime.workspace import DATA_FOLLOWS_HEADER, HEADER, address_of
from .choice import WALKS, empty, factor_of, kind_of, plan_of, result, search
from .contract import complex_of, divisor, fft, lengths_of, real_of
from .crossovers import crossovers
from .lengths import factors, lanes_of

if TYPE_CHECKING:
    from .plan import Plan

NUMBERS = (
    "swap", "factor", "source_step", "target_step", "batch", "source_row", "target_row", "inner", "in_steps", "walks",
)  # fmt: skip
"""What the loops are told of a call, in int64: whether it is the inverse, the bits of the factor, bytes between the
transforms, how many there are; bytes between the numbers of one along an axis that is not the last, how many lie side
by side there; whether the threads share the steps of a transform; the address of `WALKS`. A call on one thread needs
the first eight."""


def run(
    plan: Plan, source: tuple[int, int, int], target: tuple[int, int, int], batch: int, inner: int, inverse: bool,
    factor: int,
) -> None:  # fmt: skip
    """Run a plan on `batch` rows, or on an array (batch, n, inner). Source and target: address, bytes between
    transforms, and bytes between the numbers of one, which only an axis other than the last needs."""
    from .tasks import transform

    bytes_of_one, pool, threads, in_steps = plan.n * 2 * plan.size, 0, 1, False
    if batch * inner * bytes_of_one >= crossovers.row.threads_bytes:
        pool, threads = threading.pool()
        in_steps = plan.kind == "long" and batch < threads and bytes_of_one >= crossovers.row.shared_steps_bytes
    needed = threads * plan.column_bytes + plan.work_bytes if in_steps else threads * plan.worker_bytes
    memory = workspace.take_workspace(needed) if needed else None
    (at, step, row), (to, to_step, to_row) = source, target
    walks = address_of(WALKS)
    numbers = np.array([inverse, factor, step, to_step, batch, row, to_row, inner, in_steps, walks], np.int64)
    places = np.array([at, to, 0 if memory is None else address_of(memory)], np.int64)
    place = address_of(places)
    try:
        transform(pool, threads, plan.place, address_of(numbers), place, place + 8, place + 16)
    finally:
        if memory is not None:
            workspace.return_workspace(memory)


# One axis


def axis_kind(shape: tuple[int, ...], axis: int, n: int, size: int) -> tuple[str | None, bool]:
    """How n numbers along an axis are transformed, and whether the axis moves to the end first."""
    inner, last = math.prod(shape[axis + 1 :]), axis == len(shape) - 1
    if not last and inner >= lanes_of(size) and factors(n) is not None and 2 <= n <= crossovers.row.along_most:
        return "along", False
    return kind_of(n, math.prod(shape) // shape[axis], size), not last


def rows_of(x: np.ndarray) -> np.ndarray:
    """(batch, length), with contiguous rows."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.strides[1] == rows.itemsize else np.ascontiguousarray(rows)


def along_axis(
    x: np.ndarray, axis: int, inverse: bool, scale: float, kept: int, overwrites: bool = False
) -> np.ndarray:
    """Transform complex numbers along one axis. With `overwrites` the result may use the memory of x."""
    real = np.dtype(f"f{x.itemsize // 2}")
    n = x.shape[axis]
    kind, moved = axis_kind(x.shape, axis, n, real.itemsize)
    assert kind is not None
    if kind != "along":
        return _along_last(np.moveaxis(x, axis, -1) if moved else x, n, kind, "", inverse, scale, kept, axis)
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    source = np.ascontiguousarray(x.reshape(outer, n, inner))
    whole = inner % lanes_of(real.itemsize) == 0  # else the last vector of columns takes some again that are done
    out = source if overwrites and whole else empty(source.shape, x.dtype)
    plan = plan_of(n, real, kind, kept)
    of_source, of_target = ((address_of(each), each.strides[0], each.strides[1]) for each in (source, out))
    run(plan, of_source, of_target, outer, inner, inverse, factor_of(scale))
    return out.reshape(x.shape)


def _along_last(
    x: np.ndarray, n: int, kind: str, real: str, inverse: bool, scale: float, kept: int, axis: int
) -> np.ndarray:
    """Transform n complex numbers along the last axis, and move that axis to `axis`."""
    length = {"": n, "real": n + 1, "halved": 2 * n}[real]
    dtype = {"": x.dtype, "real": complex_of(x.dtype), "halved": real_of(x.dtype)}[real]
    rows = rows_of(x)
    out = empty((len(rows), length), dtype)
    plan = plan_of(n, real_of(x.dtype), kind, kept, real)
    source, target = (address_of(rows), rows.strides[0], 0), (address_of(out), out.strides[0], 0)
    run(plan, source, target, len(rows), 1, inverse, factor_of(scale, real))
    out = out.reshape(*x.shape[:-1], length)
    return out if axis in (-1, out.ndim - 1) else np.moveaxis(out, -1, axis)


# The kernel's implementation


def real_kind(shape: tuple[int, ...], axis: int, n: int, size: int, real: str) -> str | None:
    """How n real numbers along an axis are transformed: as half as many complex numbers."""
    return kind_of(n // 2, math.prod(shape) // shape[axis], size, real) if n % 2 == 0 else None


def mirror_spectrum(spectrum: np.ndarray, n: int) -> np.ndarray:
    """The whole spectrum, n numbers along the last axis, from the first n // 2 + 1 in `spectrum`."""
    out = empty((*spectrum.shape[:-1], n), spectrum.dtype)
    out[..., : n // 2 + 1] = spectrum[..., : n // 2 + 1]
    out[..., 0].imag = 0
    if n % 2 == 0:
        out[..., n // 2].imag = 0
    np.conj(out[..., (n - 1) // 2 : 0 : -1], out=out[..., n // 2 + 1 :])
    return out


def _refuses(x: ArraySpec, *, kind: str, axes: tuple[int, ...], last: int = 0, **_: Any) -> str | None:
    size, numbers = real_of(x.dtype).itemsize, math.prod(x.shape)
    if not axes or numbers == 0:
        return "starts later than SciPy, which is as good for no numbers"
    shape, order = list(x.shape), list(zip(axes, lengths_of(x.shape, kind, axes, last), strict=True))
    if kind in ("real", "halved"):
        axis, n = order.pop()
        if real_kind(x.shape, axis, n, size, kind) is None:
            return f"has no passes for {n} real numbers of {list(x.shape)}"
        shape[axis] = n // 2 + 1
    for axis, n in order:
        if axis_kind(tuple(shape), axis, n, size)[0] is None:
            return f"has no passes for length {n} of {shape}"
    if numbers < crossovers.row.numbers and _specialise(x, kind=kind, axes=axes, last=last) is None:
        return f"starts later than SciPy, and {numbers} numbers are few; faster from {crossovers.row.numbers}"
    return None


def real_axis(x: np.ndarray, axis: int, n: int, real: str, scale: float, kept: int) -> np.ndarray:
    found = real_kind(x.shape, axis, n, real_of(x.dtype).itemsize, real)
    assert found is not None
    return _along_last(np.moveaxis(x, axis, -1), n // 2, found, real, real == "halved", scale, kept, axis)


def _specialise(
    x: ArraySpec, *, kind: str, axes: tuple[int, ...], scaling: str = "none", last: int = 0, plans: int = 0
) -> Callable[[np.ndarray], np.ndarray] | None:
    """A function for one signature: contiguous arrays, one axis or the last two. Others take the general path."""

    def general(x: np.ndarray) -> np.ndarray:
        return fft_stockham(x, kind=kind, axes=axes, scaling=scaling, last=last, plans=plans)

    if len(axes) > 1:
        from .matrices import by_matrices

        return by_matrices(x, general, kind=kind, axes=axes, scaling=scaling, last=last, plans=plans)
    (axis,), (n,) = axes, lengths_of(x.shape, kind, axes, last)
    real, inverse = kind if kind in ("real", "halved") else "", kind in ("inverse", "halved")
    part, count, factor = real_of(x.dtype), n // 2 if real else n, factor_of(1 / divisor((n,), scaling), real)
    batch, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    shape = (*x.shape[:axis], {"": n, "real": count + 1, "halved": n}[real], *x.shape[axis + 1 :])
    dtype = {"": x.dtype, "real": complex_of(x.dtype), "halved": part}[real]
    along = axis != x.ndim - 1
    found = axis_kind(x.shape, axis, n, part.itemsize)[0] if along else kind_of(count, batch, part.itemsize, real)
    if along and (found != "along" or real):
        return None
    assert found is not None
    source_row, target_row = inner * x.dtype.itemsize, inner * dtype.itemsize
    source_step, target_step = x.shape[axis] * source_row, shape[axis] * target_row
    plan_for = functools.partial(fft_plans.get, *search(count, part, found, real), plans)

    def call(x: np.ndarray) -> np.ndarray:
        if not x.flags.c_contiguous:
            return general(x)
        out, plan = result(shape, dtype, aligned=True), plan_for()
        source, target = (address_of(x), source_step, source_row), (address_of(out), target_step, target_row)
        run(plan, source, target, batch, inner, inverse, factor)
        return out

    bytes_of_one = count * 2 * part.itemsize
    if (bytes_of_one >= crossovers.row.shared_steps_bytes and inner == 1) or not DATA_FOLLOWS_HEADER:
        return call
    numbers = [inverse, factor, source_step, target_step, batch, source_row, target_row, inner, 0, address_of(WALKS)]
    shared = batch * inner * bytes_of_one >= crossovers.row.threads_bytes
    return (_transform_shared if shared else _few)(shape, dtype, np.array(numbers, np.int64), plan_for, general)


def _few(
    shape: tuple[int, ...], dtype: np.dtype, numbers: np.ndarray, plan: Callable[[], Plan], general: Callable[..., Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """`_specialise` for few numbers, by a compiled function of five arguments, on one thread."""
    from .tasks import transform_few

    template, empty, nothing = address_of(numbers), np.empty, np.empty(1, np.uint8)

    def call(x: np.ndarray, numbers: np.ndarray = numbers) -> np.ndarray:
        if not x.flags.c_contiguous:
            return general(x)
        out, used = empty(shape, dtype), plan()  # a plan that is not kept lives as long as it is named here
        memory = workspace.take_workspace(used.worker_bytes) if used.worker_bytes else nothing
        try:
            transform_few(used.place, template, id(x) + HEADER, id(out) + HEADER, id(memory) + HEADER)
        finally:
            if memory is not nothing:
                workspace.return_workspace(memory)
        return out

    return call


def _transform_shared(
    shape: tuple[int, ...], dtype: np.dtype, numbers: np.ndarray, plan: Callable[[], Plan], general: Callable[..., Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """`_specialise` for whole transforms on several threads."""
    from .tasks import transform

    template, nothing = address_of(numbers), np.empty(1, np.uint8)

    def call(x: np.ndarray, numbers: np.ndarray = numbers) -> np.ndarray:
        if not x.flags.c_contiguous:
            return general(x)
        (pool, threads), out, used = threading.pool(), result(shape, dtype), plan()
        memory = workspace.take_workspace(threads * used.worker_bytes) if used.worker_bytes else nothing
        try:
            transform(pool, threads, used.place, template, id(x) + HEADER, id(out) + HEADER, id(memory) + HEADER)
        finally:
            if memory is not nothing:
                workspace.return_workspace(memory)
        return out

    return call


@fft.impl("stockham", refuses=_refuses, specialise=_specialise)
def fft_stockham(
    x: np.ndarray, *, kind: str, axes: tuple[int, ...], scaling: str = "none", last: int = 0, plans: int = 0
) -> np.ndarray:
    """One axis after the other. Real numbers begin with the last axis, half spectra end with it."""
    lengths = lengths_of(x.shape, kind, axes, last)
    scale, inverse = 1 / divisor(lengths, scaling), kind in ("inverse", "halved")
    order, own = list(zip(axes, lengths, strict=True)), False
    if kind == "real":
        x, own = real_axis(x, *order.pop(), "real", scale, plans), True
        scale = 1.0
    ends = order.pop() if kind == "halved" else None
    for axis, _ in reversed(order):
        x, own = along_axis(x, axis, inverse, scale, plans, own), True
        scale = 1.0
    return x if ends is None else real_axis(x, *ends, "halved", scale, plans)
