"""Depthwise convolutions channel by channel: what is done once for a shape."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from .. import threading
from ..gemm.compiled import vector_isa, working_dtype
from ..gemm.loops import leaf_address
from ..gemm.packing import CONVERSIONS
from ..gemm.sources import ELEMENTS
from ..gemm.workspace import address_of, empty, return_workspace, take_workspace
from ..registry import Refused
from . import channelwise_last, depthwise, geometry
from .depthwise import LANES
from .descriptor import DEPTHWISE, PASS, describe
from .geometry import GROUP, Geometry
from .kept import Kept, form_of
from .reading import contiguous_strides, is_channels_last, result_array, three_strides
from .setting import Setting

__all__ = ["convolve", "weight_gradient"]

_AHEAD = 8 * LANES
"""Positions that are convolved at a time."""


@functools.cache
def _leaf(weight: bool, dtype: str, precision: str, rounding: str | None) -> int:
    tags = ELEMENTS[dtype], CONVERSIONS[precision, rounding]
    return leaf_address((depthwise.DepthwiseWeight if weight else depthwise.Depthwise)(*tags))


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _Plan:
    """All that does not depend on addresses and values."""

    channels: int
    multiplier: int
    working: np.dtype
    conversion: tuple[str, str | None]
    order: tuple[tuple[tuple[int, int], ...], ...]
    """For each pass the weights of one result, in order: (among the outputs of a channel, index in the kernel)."""
    out_shape: tuple[int, ...]
    last: bool
    clears: bool
    strides: tuple[int, int]
    """Bytes from channel to channel of what is read and of what is written (or, for the weight, of g)."""
    images: int
    form_key: tuple
    address: int
    worker_bytes: int
    kept: tuple[Any, ...]


def _spots(where: Geometry, tables: Any, strides: tuple[int, ...], item: int) -> geometry.Spots:
    found = geometry.spots(where, tables, (strides[0], *strides[2:]), item)
    if found is None:
        raise Refused("an array reaches too far for offsets of 32 bits")
    return found


def _reading(places: geometry.Spots, where: Geometry, planes: int, lines: int, front: int) -> dict[str, int]:
    return {
        "groups": places.groups, "runs": address_of(places.runs), "offsets": address_of(places.offsets),
        "planes": planes, "lines": lines, "front": front,
    }  # fmt: skip


@functools.lru_cache(512)
def _plan(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, w_shape: tuple[int, ...]
) -> _Plan:
    """The plan of a convolution, or of the gradient with respect to its input."""
    working, conversion = working_dtype(dtype), setting.conversion(vector_isa(), dtype)
    gradient, channels, multiplier = setting.gradient, setting.groups, w_shape[0] // setting.groups
    task = setting.task(shape, w_shape)._replace(images=1)
    where = geometry.gradient_geometry(task, _AHEAD) if gradient else geometry.forward_geometry(task, 0, _AHEAD)
    last, item = is_channels_last(shape, strides, dtype.itemsize), dtype.itemsize
    reads, results = (multiplier, 1) if gradient else (1, multiplier)
    wide = three_strides(shape, strides)
    places = _spots(where, where.sources, wide, item)
    unit = working.itemsize
    lines = where.front + GROUP * places.groups + where.back
    out_shape = (shape[0], channels * results, *(task.size if gradient else task.output))
    out_strides = contiguous_strides(out_shape, item, last)
    passes, kept, order = [], [], []
    for one in where.passes:
        written = _spots(where, (geometry.result_indices(where, one),), out_strides, item)
        taps = [(read, *tap) for read in range(reads) for tap in one.taps]
        table = [((read * where.planes + plane) * lines + shift) * unit for read, plane, shift, _ in taps]
        distances = np.array(table, np.int64)
        order.append(tuple((read, index) for read, _, _, index in taps))
        passes.append({
            "steps": len(taps), "table": address_of(distances), "end": where.end(one), "groups": written.groups,
            "period_stride": 0, "runs": address_of(written.runs), "offsets": address_of(written.offsets),
            "block_chunk": 0, "panel_chunk": 0, "blocks": 0,
        })  # fmt: skip
        kept.append((written, distances))
    pass_table = np.array([[one.get(name, 0) for name in PASS] for one in passes], np.int64)
    memory = -(-reads * where.planes * lines * unit // 64) * 64 + depthwise.SUMS_BYTES
    values = describe(DEPTHWISE, _reading(places, where, where.planes, lines, where.front) | {
        "leaf": _leaf(False, dtype.name, *conversion), "reads": reads, "results": results,
        "read_stride": wide[1], "write_stride": out_strides[1], "image_stride": wide[0], "result_image": out_strides[0],
        "images": shape[0], "channels": channels, "passes": len(passes),
        "pass_table": address_of(pass_table), "relu": int(setting.relu), "memory": memory, "other": 0,
    })  # fmt: skip
    rank = len(shape) - 2
    return _Plan(
        channels, multiplier, working, conversion, tuple(order),
        (*out_shape[:2], *out_shape[5 - rank :]), last, any(not one.taps for one in where.passes),
        (reads * wide[1], results * out_strides[1]), shape[0],
        ("depthwise", conversion, gradient, tuple(order)), address_of(values), memory,
        (values, pass_table, places, kept),
    )  # fmt: skip


def _weights(w: np.ndarray, plan: _Plan, gradient: bool) -> np.ndarray:
    """The weights in the order of the results, cast."""
    from ..rounding import round_to_parts

    flat = w.astype(plan.working).reshape(plan.channels, plan.multiplier, -1)
    flat = round_to_parts(flat, *plan.conversion)
    if gradient:
        which, index = np.array([pair for taps in plan.order for pair in taps], np.int64).reshape(-1, 2).T
        return np.ascontiguousarray(flat[:, which, index])
    taken = flat[:, :, [index for _, index in plan.order[0]]]
    return np.ascontiguousarray(taken).reshape(plan.channels, -1)


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (O, 1, *K), groups = C, plus bias (O,), with an optional ReLU; or its
    input gradient, from the gradient (N, O, *S') of its result.

    The result is contiguous, or has its channels last in memory if x has.
    """
    gradient = setting.gradient
    if channelwise_last.takes(setting, w.shape[0] // setting.groups, x):
        return channelwise_last.convolve(setting, x, w, bias)
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape)
    out = result_array(plan.out_shape, x.dtype, plan.last)
    if out.size == 0:
        return out
    if plan.clears:
        out[...] = 0
    pool, threads = threading.pool()
    weights, item = form_of(w, plan.form_key, lambda array: _weights(array, plan, gradient)), plan.working.itemsize
    results = 1 if gradient else plan.multiplier
    added = np.zeros(plan.channels * results, plan.working) if bias is None else bias.astype(plan.working)
    total = weights.size // plan.channels
    memory = take_workspace(threads * plan.worker_bytes)
    try:
        depthwise.convolve(
            pool, threads, plan.address, plan.images, address_of(x), plan.strides[0], address_of(out), plan.strides[1],
            address_of(weights), total * item, address_of(added), results * item, address_of(memory), plan.worker_bytes,
        )  # fmt: skip
    finally:
        return_workspace(memory)
    return out


@functools.lru_cache(512)
def _weight_plan(
    setting: Setting,
    x_shape: tuple[int, ...],
    x_strides: tuple[int, ...],
    g_shape: tuple[int, ...],
    g_strides: tuple[int, ...],
    dtype: np.dtype,
) -> _Plan:
    working, conversion = working_dtype(dtype), setting.conversion(vector_isa(), dtype)
    channels, multiplier, item = x_shape[1], g_shape[1] // x_shape[1], dtype.itemsize
    where = geometry.forward_geometry(setting.task(x_shape, g_shape)._replace(images=1), 0, _AHEAD)
    (one,) = where.passes
    unit = working.itemsize
    of_x, of_g = three_strides(x_shape, x_strides), three_strides(g_shape, g_strides)
    places = _spots(where, where.sources, of_x, item)
    of_gradient = _spots(where, (geometry.result_indices(where, one),), of_g, item)
    lines = where.front + GROUP * places.groups + where.back
    table = np.array([(plane * lines + shift) * unit for plane, shift, _ in one.taps], np.int64)
    pass_table = np.zeros((1, len(PASS)), np.int64)
    pass_table[0, :2] = len(one.taps), address_of(table)
    leaf = _leaf(True, dtype.name, *conversion)
    g_lines = -(-GROUP * of_gradient.groups // (4 * LANES)) * 4 * LANES
    common = {
        "leaf": leaf, "images": x_shape[0], "channels": channels, "results": 1, "write_stride": 0, "result_image": 0,
        "relu": 0,
    }  # fmt: skip
    g_values = describe(DEPTHWISE, common | _reading(of_gradient, where, 1, g_lines, 0) | {
        "reads": multiplier, "read_stride": of_g[1], "image_stride": of_g[0], "passes": 0, "pass_table": 0, "memory": 0,
        "other": 0,
    })  # fmt: skip
    memory = -(-where.planes * lines * unit // 64) * 64
    values = describe(DEPTHWISE, common | _reading(places, where, where.planes, lines, where.front) | {
        "reads": 1, "read_stride": of_x[1], "image_stride": of_x[0], "passes": 1, "pass_table": address_of(pass_table),
        "memory": memory, "other": address_of(g_values),
    })  # fmt: skip
    worker_bytes = memory + -(-multiplier * g_lines * unit // 64) * 64
    return _Plan(
        channels, multiplier, working, conversion, (), (g_shape[1], 1, *setting.size), False, False,
        (of_x[1], multiplier * of_g[1]), 1, (), address_of(values), worker_bytes,
        (values, g_values, places, of_gradient, table, pass_table),
    )  # fmt: skip


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weight gradient (O, 1, *K) of such a convolution of x (N, C, *S), from the gradient g (N, O, *S') of its
    result.

    Raises `Refused` if the result is not finite: padding positions would multiply an Inf by zero.
    """
    if channelwise_last.takes(setting, g.shape[1] // setting.groups, x, g):
        return channelwise_last.weight_gradient(setting, x, g)
    plan = _weight_plan(setting, x.shape, x.strides, g.shape, g.strides, x.dtype)
    pool, threads = threading.pool()
    taps, item = math.prod(setting.size), plan.working.itemsize
    sums = empty((plan.channels, plan.multiplier, taps, 4, LANES), plan.working)
    memory = take_workspace(threads * plan.worker_bytes)
    try:
        depthwise.convolve(
            pool, threads, plan.address, 1, address_of(x), plan.strides[0], address_of(sums),
            plan.multiplier * taps * 4 * LANES * item, 0, 0, address_of(g), plan.strides[1],
            address_of(memory), plan.worker_bytes,
        )  # fmt: skip
    finally:
        return_workspace(memory)
    found = sums.reshape(*sums.shape[:3], -1).sum(axis=3)
    if not np.isfinite(found).all():
        raise Refused("the result is not finite, and padding positions would multiply Inf or NaN by zero")
    return found.astype(x.dtype).reshape(plan.out_shape)
