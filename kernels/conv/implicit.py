"""Convolutions as implicit products on vector units: what is done once for a shape."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .. import threading
from ..gemm import plans, ranges, vectors
from ..gemm.compiled import vector_isa, working_dtype
from ..gemm.loops import LIMITS_BYTES, leaf_address
from ..gemm.packing import CONVERSIONS, OfA, VectorPanel
from ..gemm.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..gemm.tuning import tuning
from ..gemm.workspace import address_of, return_workspace, take_workspace
from ..registry import Refused
from . import geometry, one_tap, planes, strips, weights
from .descriptor import PASS, PLAN, describe
from .geometry import GROUP, Geometry
from .kept import Kept, form_of
from .reading import contiguous_strides, is_channels_last, result_array, spread, three_strides
from .setting import Setting

__all__ = ["convolve"]

_BLOCK = 32
"""Positions of a block."""

_DEPTH = 16
"""Channels whose weights for one tap lie together."""


class _Plan(NamedTuple):
    """All that does not depend on addresses and values.

    Attributes:
        weights: the microkernel in whose panels these are packed.
        depth: products of each sum.
    """

    gradient: bool
    working: np.dtype
    conversion: tuple[str, str | None]
    weights: Any
    depth: int
    geometry: Geometry
    last: bool
    out_shape: tuple[int, ...]
    clears: bool
    groups: int
    address: int
    worker_bytes: int
    whole_bytes: int
    form_key: tuple
    kept: tuple[Any, ...]


def _strip(shape: Geometry, position_bytes: int, threads: int) -> tuple[int, int, int, int]:
    """Blocks of a strip, which fills half of the L2 cache, how many there are (0: all is laid out first), groups in
    front of one, and of all that it reads."""
    front, back = -(-shape.front // GROUP), -(-(shape.back - _BLOCK) // GROUP)
    blocks = -(-max(shape.end(one) for one in shape.passes) // _BLOCK)
    around = GROUP * (front + back)
    fitting = (tuning(vector_isa()).cache_bytes // 2 // position_bytes - around) // _BLOCK
    if fitting * _BLOCK >= max(2 * around, 128) and blocks > 2 * threads:
        strip = min(fitting, -(-blocks // (4 * threads)))
        if strip * _BLOCK >= 2 * around:
            return strip, -(-blocks // strip), front, front + 2 * strip + back
    return 0, 0, front, front + 2 * blocks + back


@functools.lru_cache(512)
def _plan(
    setting: Setting,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype,
    w_shape: tuple[int, ...],
    threads: int,
) -> _Plan:
    gradient, groups, task = setting.gradient, setting.groups, setting.task(shape, w_shape)
    conversion = setting.conversion(vector_isa(), dtype)
    working = working_dtype(dtype)
    parts, kernel = CONVERSIONS[conversion].vector_parts, _kernel(working.itemsize)
    of_outputs, of_channels = w_shape[0] // groups, w_shape[1]
    channels, columns = (of_outputs, of_channels) if gradient else (of_channels, of_outputs)
    where = geometry.gradient_geometry(task, _BLOCK) if gradient else geometry.forward_geometry(task, 0, _BLOCK)
    last, item = is_channels_last(shape, strides, dtype.itemsize), dtype.itemsize
    wide, size = three_strides(shape, strides), working.itemsize
    out_shape = (shape[0], groups * columns, *(task.size if gradient else task.output))
    out_strides = contiguous_strides(out_shape, item, last)
    places = _spots(where, where.sources, wide, item)
    strip, count, front, region = _strip(where, channels * where.planes * parts * size, threads)
    part_bytes = (GROUP * region + GROUP) * size  # a cache line or two more: equal addresses would share a set
    panels = -(-columns // kernel.mr)
    passes, kept = [], []
    for one in where.passes:
        written = _spots(where, (geometry.result_indices(where, one),), out_strides, item)
        table = np.array(
            [
                ((channel * where.planes + plane) * parts + part) * part_bytes + size * shift
                for first in range(0, channels, _DEPTH)
                for plane, shift, _ in one.taps
                for channel in range(first, min(first + _DEPTH, channels))
                for part in range(parts)
            ],
            np.int64,
        )
        end = where.end(one)
        blocks = -(-end // _BLOCK) if table.size else 0
        passes.append({
            "steps": table.size, "table": address_of(table), "end": end, "groups": written.groups,
            "period_stride": written.period_stride, "runs": address_of(written.runs),
            "offsets": address_of(written.offsets), "block_chunk": strip or max(1, min(8, -(-blocks // (4 * threads)))),
            "panel_chunk": panels if strip else max(1, min(panels, 4)), "blocks": blocks,
        })  # fmt: skip
        kept.append((table, written))
    pass_table = np.array([[one[name] for name in PASS] for one in passes], np.int64)
    array_bytes = parts * part_bytes
    region_bytes = channels * where.planes * array_bytes
    sums = -(-kernel.mr * kernel.nr * size // 64) * 64
    values = describe(PLAN, dict.fromkeys(PLAN, 0) | {
        "pack": _pack_leaf(dtype.name, conversion), "groups": places.groups, "period_stride": places.period_stride,
        "runs": address_of(places.runs), "offsets": address_of(places.offsets), "planes": where.planes,
        "channels": wide[1], "blocks": channels, "all_groups": -(-task.images * where.image // GROUP),
        "group_stride": channels * wide[1], "along": int(last), "array_bytes": array_bytes,
        "part_bytes": part_bytes, "region_bytes": region_bytes, "region_groups": region, "front_groups": front,
        "strip_blocks": strip, "strips": count,
        "pack_chunk": max(1, min(64, region // (4 * threads))), "convolve": _block_leaf(dtype.name, working.itemsize),
        "channel_groups": groups, "columns": columns, "channel_stride": out_strides[1], "relu": int(setting.relu),
        "panels": panels, "sums_bytes": sums, "passes": len(passes), "pass_table": address_of(pass_table),
        "group_bytes": GROUP * size, "bias_group": columns * size,
    })  # fmt: skip
    rank = len(shape) - 2
    key = ("vectors", conversion, groups) + ((task.stride, task.padding, task.dilation, task.size) if gradient else ())
    return _Plan(
        gradient, working, conversion, _kernel_of_weights(conversion, working.itemsize),
        channels * math.prod(task.kernel), where, last, (*out_shape[:2], *out_shape[5 - rank :]),
        any(not one.taps for one in where.passes), groups, address_of(values),
        sums + (-(-region_bytes // 64) * 64 if strip else 0), 0 if strip else groups * region_bytes, key,
        (values, pass_table, places, kept),
    )  # fmt: skip


def _kernel(size: int) -> Any:
    """The microkernel for elements of a size: that of products, unless its blocks are narrower than a group."""
    kernel = plans.plan_for(vector_isa(), "ieee", "rna", size).scheme.kernel
    return kernel if kernel.nr >= GROUP else vectors.Avx2Float64Wide()


def _kernel_of_weights(conversion: tuple[str, str | None], size: int) -> Any:
    """The microkernel in whose panels weights are packed: the same, or that of products in two parts."""
    if CONVERSIONS[conversion].vector_parts == 1:
        return _kernel(size)
    return plans.plan_for(vector_isa(), conversion[0], "rna", size).scheme.kernel


def _spots(where: Geometry, tables: Any, strides: tuple[int, ...], item: int) -> geometry.Spots:
    found = geometry.spots(where, tables, (strides[0], *strides[2:]), item)
    if found is None:
        raise Refused("an array reaches too far for offsets of 32 bits")
    return found


@functools.cache
def _pack_leaf(dtype: str, conversion: tuple[str, str | None]) -> int:
    return leaf_address(planes.PackPlanes(ELEMENTS[dtype], CONVERSIONS[conversion]))


@functools.cache
def _block_leaf(dtype: str, size: int) -> int:
    return leaf_address(planes.ConvolveVectors(_kernel(size), ELEMENTS[dtype]))


@functools.cache
def _weights_leaf(dtype: np.dtype, size: int, conversion: tuple[str, str | None], along_k: bool, unit: bool) -> int:
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    panel = VectorPanel(OfA(), CONVERSIONS[conversion], _kernel_of_weights(conversion, size))
    return leaf_address(weights.PackWeights(source, panel))


def _form(w: np.ndarray, plan: _Plan) -> weights.Form:
    wide, kernel = spread(w), plan.weights
    side = weights.side_of(wide.shape, wide.strides, plan.gradient, plan.groups)
    leaf = _weights_leaf(wide.dtype, plan.working.itemsize, plan.conversion, *side.order(wide.itemsize))
    panel = (kernel.mr, _DEPTH, 1, kernel.a_bytes)
    taps = weights.tap_offsets(wide.shape, wide.strides, plan.geometry.passes)
    return weights.Form(weights.packing(leaf, side, plan.groups, panel, taps, threading.pool()[1]), wide)


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (O, C / groups, *K), plus bias (O,), with an optional ReLU; or its input
    gradient, from the gradient (N, O, *S') of its result.

    The result is contiguous, or has its channels last in memory if x has. Raises `Refused` if the values exceed the
    range of the precision's parts.
    """
    if one_tap.takes(setting, x, w):
        return one_tap.convolve(setting, x, w, bias)
    pool, threads = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape, threads)
    out = result_array(plan.out_shape, x.dtype, plan.last)
    if out.size == 0:
        return out
    if plan.clears:
        out[...] = 0
    form = form_of(w, plan.form_key, lambda array: _form(array, plan))
    added = np.zeros(plan.out_shape[1], plan.working) if bias is None else bias.astype(plan.working)
    memory = take_workspace(threads * (plan.worker_bytes + LIMITS_BYTES) + plan.whole_bytes)
    try:
        base = address_of(memory)
        found = strips.convolve(
            pool, threads, plan.address, address_of(x), form.address, address_of(added), address_of(out), base,
            plan.worker_bytes, base + threads * plan.worker_bytes + plan.whole_bytes,
        )  # fmt: skip
    finally:
        return_workspace(memory)
    if plan.conversion[0] == "bf16x3":
        ranges.refuse_uncertain(ranges.certain_from("bf16x3", plan.depth, found, form.found), out)
    return out
