"""Fourier transforms by compiled passes of Stockham's algorithm, for lengths without prime factors above 13."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import threading
from ..gemm import workspace
from ..gemm.workspace import address_of
from ..plans import fft_plans
from ..registry import ArraySpec
from .contract import divisor, fft
from .lengths import factors, lanes_of, matrix

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["LEAST", "LONGEST_ALONG", "fft_stockham", "kind_of", "plan_of", "transform_along", "transform_last"]

LONGEST_ALONG = 2048
"""Rows of a column along an axis that is not the last, whose two buffers have to stay in the L2 cache."""

LONGEST_WHOLE = 1 << 17
"""Bytes of a transform from which the threads share its steps, rather than each taking one, if there are few."""


def _bits(scale: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", scale))[0])


def kind_of(n: int, batch: int, size: int) -> str | None:
    """The class of a batch of transforms of n numbers along the last axis: "long", "short", or None for neither."""
    lanes = lanes_of(size)
    if factors(n) is None or n < 2:
        return None
    if n >= lanes * lanes and matrix(n, lanes) is not None:
        return "long"
    return "short" if batch >= lanes and lanes // 2 <= n <= LONGEST_ALONG else None


def plan_of(n: int, dtype: np.dtype, kind: str, kept: int) -> Plan:
    """The plan from the cache, or a new one. `dtype` is that of the parts."""

    def make() -> Plan:
        from . import plan as planning

        return planning.plan_long(n, dtype) if kind == "long" else planning.plan_short(n, dtype, kind)

    return fft_plans.get((n, kind, dtype.char), make, kept)


def _chunk(tasks: int, threads: int) -> int:
    """Several tasks at once, so that each thread gets some four times."""
    return max(1, tasks // (4 * threads))


def transform_last(x: np.ndarray, out: np.ndarray, plan: Plan, inverse: bool, scale: float) -> None:
    """Transform the rows of x (batch, n), whose last axis is contiguous, into those of out."""
    batch, n = x.shape
    address, threads = threading.pool()
    source, target = address_of(x), address_of(out)
    source_step, target_step = x.strides[0], out.strides[0]
    common = (plan.lanes, plan.size, plan.row, int(inverse), _bits(scale))
    in_steps = plan.kind == "long" and batch < 2 * threads and n * 2 * plan.size >= LONGEST_WHOLE
    each = plan.buffer_bytes + (0 if in_steps else plan.work_bytes)
    memory = workspace.take_workspace(threads * each + (plan.work_bytes if in_steps else 0))
    at = address_of(memory)
    try:
        if plan.kind == "short":
            from .loops import short

            chunk = _chunk(-(-batch // plan.lanes), threads)
            short(
                address, threads, *plan.down.place, plan.square, n, *common, source, source_step, target, target_step,
                batch, chunk, at, each,
            )  # fmt: skip
            return
        from .loops import long, long_in_steps

        a, b = plan.down.length, plan.across.length
        tables = (*plan.down.place, *plan.across.place, plan.square, a, b)
        places = (address_of(plan.roots), address_of(plan.phases), source, source_step, target, target_step, batch)
        if in_steps:
            long_in_steps(address, threads, *tables, *common, *places, 1, at, each, at + threads * each)
        else:
            long(address, threads, *tables, *common, *places, _chunk(batch, threads), at, each, plan.buffer_bytes)
    finally:
        workspace.return_workspace(memory)


def transform_along(x: np.ndarray, out: np.ndarray, plan: Plan, inverse: bool, scale: float) -> None:
    """Transform the middle axis of x (outer, n, inner), whose last axis is contiguous, into out."""
    from .loops import along

    address, threads = threading.pool()
    outer, n, inner = x.shape
    memory = workspace.take_workspace(threads * plan.buffer_bytes)
    chunk = _chunk(outer * -(-inner // plan.lanes), threads)
    try:
        along(
            address, threads, *plan.down.place, n, plan.lanes, plan.size, plan.row, int(inverse), _bits(scale),
            address_of(x), x.strides[0], x.strides[1], address_of(out), out.strides[0], out.strides[1], outer, inner,
            chunk, address_of(memory), plan.buffer_bytes,
        )  # fmt: skip
    finally:
        workspace.return_workspace(memory)


# The kernel's implementation

LEAST = 1 << 13
"""Complex numbers in an array from which compiled passes are faster than SciPy's, which start in less time."""


def _axis_kind(shape: tuple[int, ...], axis: int, size: int) -> tuple[str | None, bool]:
    """How an axis is transformed, and whether it is moved to the end for that."""
    n, inner = shape[axis], math.prod(shape[axis + 1 :])
    if axis != len(shape) - 1 and inner >= lanes_of(size) and factors(n) is not None and 2 <= n <= LONGEST_ALONG:
        return "along", False
    return kind_of(n, math.prod(shape) // n, size), axis != len(shape) - 1


def _refuses(x: ArraySpec, *, kind: str, axes: tuple[int, ...], **_: Any) -> str | None:
    if x.dtype.kind != "c":
        return f"transforms complex64 and complex128, and got {x.dtype.name}"
    if kind not in ("forward", "inverse"):
        return f"has no passes for the kind {kind!r}"
    if not axes or math.prod(x.shape) < LEAST:
        return f"starts later than SciPy, and {math.prod(x.shape)} numbers are few; faster from {LEAST}"
    for axis in axes:
        if _axis_kind(x.shape, axis, x.dtype.itemsize // 2)[0] is None:
            return f"has no passes for length {x.shape[axis]} of {list(x.shape)}"
    return None


def _transform_axis(x: np.ndarray, axis: int, inverse: bool, scale: float, kept: int) -> np.ndarray:
    real = np.dtype(f"f{x.itemsize // 2}")
    kind, moved = _axis_kind(x.shape, axis, real.itemsize)
    assert kind is not None
    if kind == "along":
        outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
        source = np.ascontiguousarray(x.reshape(outer, x.shape[axis], inner))
        out = workspace.empty(source.shape, x.dtype)
        transform_along(source, out, plan_of(x.shape[axis], real, kind, kept), inverse, scale)
        return out.reshape(x.shape)
    if moved:
        x = np.moveaxis(x, axis, -1)
    rows = x.reshape(-1, x.shape[-1])
    if rows.strides[1] != rows.itemsize or rows.strides[0] % rows.itemsize:
        rows = np.ascontiguousarray(rows)
    out = workspace.empty(rows.shape, x.dtype)
    transform_last(rows, out, plan_of(rows.shape[1], real, kind, kept), inverse, scale)
    out = out.reshape(x.shape)
    return np.moveaxis(out, -1, axis) if moved else out


@fft.impl("stockham", refuses=_refuses)
def fft_stockham(
    x: np.ndarray, *, kind: str, axes: tuple[int, ...], scaling: str = "none", last: int = 0, plans: int = 0
) -> np.ndarray:
    """One axis after the other, the last first."""
    scale = 1 / divisor([x.shape[axis] for axis in axes], scaling)
    for position, axis in enumerate(reversed(axes)):
        x = _transform_axis(x, axis, kind == "inverse", 1.0 if position else scale, plans)
    return x
