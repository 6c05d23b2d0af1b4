"""Convolutions on tiles: which there are, and what is done once for a shape."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from ..block import ranges
from ..block.conversions import CONVERSIONS
from ..block.loops import LIMITS_BYTES, leaf_address
from ..block.plans import kernel_of_parts
from ..block.sources import ELEMENTS, Across, AlongK
from ..block.tuning import tuning
from ..registry import Refused
from ..runtime import threading
from ..runtime.workspace import Workspace, address_of
from . import epilogue, geometry, pointwise, strips, tiles, weights
from .descriptor import PassPlan, Plan, plan_with, table_of
from .geometry import GROUP, Geometry
from .input_layout import (
    CHANNELS,
    aligned_zeros,
    contiguous_strides,
    folding,
    is_channels_last,
    is_one_row,
    reading,
    result_array,
    spread,
    three_strides,
)
from .packed_weight import Kept, form_of
from .params import Setting
from .pointwise import STEPS

BLOCK = 32
"""Positions and channels of a block of the result."""

_LEAST_BIAS = 2.0**-102
"""Tiles flush subnormal sums: 24 bits above the least normal number that is the rounding of the sum."""


@functools.cache
def _block_leaf(precision: str) -> int:
    return leaf_address(tiles.ConvolveBlock(kernel_of_parts("amx", precision)))


@functools.cache
def _finish_leaf(dtype: str, last: bool) -> int:
    return leaf_address(epilogue.FinishBlock(AlongK() if last else Across(), ELEMENTS[dtype]))


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _Plan:
    """All that does not depend on addresses and values."""

    precision: str
    rounding: str | None
    geometry: Geometry
    depth: int
    """Products of a value of the result, for the check of the magnitudes."""
    last: bool
    out_shape: tuple[int, ...]
    clears: bool
    """Whether some of the result has no taps, and is zero."""
    parts: int
    panels: int
    no_bias: np.ndarray
    taps_first: bool
    """Names of the folding (`input_layout.Folding`)."""
    no_bias_at: int
    of: Plan
    """Of the descriptor."""
    worker_bytes: int
    whole_bytes: int
    """Of memory: for each thread, and for all positions where they are packed as a whole."""
    form_key: tuple
    kept: tuple[Any, ...]
    """Arrays that the descriptor points to."""


def _strips(shape: Geometry, position_bytes: int, threads: int) -> tuple[int, int, int, int]:
    """Blocks of 32 positions of a strip and how many there are (0: all is packed first), and groups of 16 in front of a
    strip and in all of what is packed for it. A strip fills half of the L2 cache, or all of it where half holds too few
    positions."""
    front, back = -(-shape.front // GROUP), -(-(shape.back - BLOCK) // GROUP)
    end = max(shape.end(one) for one in shape.passes)
    blocks, around = -(-end // BLOCK), GROUP * (front + back)
    least = max(2 * around, 256)
    cache = tuning("amx").cache_bytes
    for limit in (cache // 2, cache) if blocks * BLOCK * position_bytes > cache // 2 else ():
        fitting = (limit // position_bytes - around) // BLOCK
        if fitting * BLOCK < least:
            continue
        count = max(-(-blocks // fitting), 2 * threads)
        strip = -(-blocks // (-(-count // threads) * threads))
        if strip * BLOCK >= max(2 * around, 128):
            return strip, -(-blocks // strip), front, front + 2 * strip + back
    return 0, 0, front, front + 2 * blocks + back


def _task_sizes(blocks: int, panels: int, groups: int, threads: int) -> tuple[int, int]:
    """Blocks and panels per task: at most as many as fit the sums, and fewer if tasks would be few."""
    down, across = min(blocks, 8), min(panels, 8)
    while threads > 1 and groups * -(-blocks // down) * -(-panels // across) < 4 * threads:
        if across >= down and across > 1:
            across = -(-across // 2)
        elif down > 1:
            down = -(-down // 2)
        else:
            break
    return down, across


@functools.lru_cache(1024)
def _plan(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, w_shape: tuple[int, ...],
    threads: int,
) -> _Plan | None:  # fmt: skip
    """The plan of a convolution, or of the gradient with respect to its input, of an array with this shape and these
    strides. None where it reaches too far."""
    gradient, groups, task = setting.gradient, setting.groups, setting.task(shape, w_shape)
    inner, way = setting.conversion("amx", dtype)
    of_outputs, of_channels = w_shape[0] // groups, w_shape[1]
    channels, columns = (of_outputs, of_channels) if gradient else (of_channels, of_outputs)
    item, last = dtype.itemsize, is_channels_last(shape, strides, dtype.itemsize)
    wide, spatial = three_strides(shape, strides), (task.size if gradient else task.output)[5 - len(shape) :]
    one_tap = all(each == 1 for each in (*task.kernel, *task.stride)) and not any(task.padding)
    if last and one_tap and is_one_row(shape, strides, item):
        task = task._replace(images=1, size=(1, 1, shape[0] * math.prod(shape[2:])))
        wide = (0, item, 0, 0, shape[1] * item)
    folded, taps_first = (0, False) if gradient else folding(task, wide, channels, groups, item)
    where = geometry.gradient_geometry(task, BLOCK) if gradient else geometry.forward_geometry(task, folded, BLOCK)
    out_shape = (task.images, groups * columns, *(task.size if gradient else task.output))
    key = ("tiles", inner, way, groups, folded, taps_first)
    key += (task.stride, task.padding, task.dilation, task.size) if gradient else ()
    parts, panels = CONVERSIONS[inner, way].tile_parts, -(-columns // BLOCK)
    no_bias, clears = aligned_zeros((groups, panels * BLOCK)), any(not one.taps for one in where.passes)
    common = (inner, way, where, channels * math.prod(task.kernel), last, (shape[0], groups * columns, *spatial),
              clears, parts, panels, no_bias, taps_first)  # fmt: skip
    if math.prod(out_shape) == 0:
        return _Plan(*common, 0, 0, 0, 0, key, ())
    blocks = -(-channels * (len(where.sources) // where.planes) // CHANNELS)
    strip, strip_count, front, region = _strips(where, blocks * where.planes * parts * 64, threads)
    read = reading(
        where, where.sources, where.planes, wide, channels, groups, dtype, (inner, way), (front, region), threads,
        taps_first,
    )  # fmt: skip
    if read is None:
        return None
    out_strides = contiguous_strides(out_shape, item, last)
    passes = _passes(
        where, blocks, read[0]["array_bytes"], out_strides, last, item, panels, groups, 0 if strip else threads
    )  # fmt: skip
    if passes is None:
        return None
    sums = max(one["block_chunk"] * one["panel_chunk"] for one, _ in passes) * tiles.SUMS_BYTES
    pass_table = table_of(PassPlan, [one for one, _ in passes])
    table = strips.even_strips(strip, strip_count, front, [one["blocks"] for one, _ in passes])
    regular = last and dtype == np.float32 and not gradient and not setting.relu
    fields = read[0] | {
        "strip_table": address_of(table), "strips": strip_count, "convolve": _block_leaf(inner),
        "finish": _finish_leaf(dtype.name, last), "columns": columns, "channel_stride": out_strides[1],
        "relu": int(setting.relu), "direct": out_strides[4] if regular else 0, "panels": panels,
        "chunk": STEPS[parts], "sums_bytes": sums, "passes": len(passes), "pass_table": address_of(pass_table),
        "group_bytes": 64 * GROUP, "bias_group": 4 * BLOCK * panels,
    }  # fmt: skip
    values, region_bytes = plan_with(fields), fields["region_bytes"]
    return _Plan(
        *common, address_of(no_bias), values,
        sums + (region_bytes if strip else 0), 0 if strip else groups * region_bytes, key,
        (read, pass_table, passes, table),
    )  # fmt: skip


def _passes(
    where: Geometry, blocks: int, array_bytes: int, out_strides: tuple[int, ...], last: bool, item: int, panels: int,
    groups: int, threads: int,
) -> list[tuple[dict[str, int], tuple[Any, ...]]] | None:  # fmt: skip
    """The fields of each pass, and the arrays that they point to. `threads` is 0 where strips are divided instead."""
    found = []
    for one in where.passes:
        strides = (out_strides[0], *out_strides[2:])
        spots = geometry.spots(where, (geometry.result_indices(where, one),), strides, out_strides[4] if last else item)
        if spots is None:
            return None
        distances = [
            (block * where.planes + plane) * array_bytes + 64 * offset
            for block in range(blocks)
            for plane, offset, _ in one.taps
        ]
        table, end = np.array(distances, np.int64), where.end(one)
        count = -(-end // BLOCK) if distances else 0
        down, across = _task_sizes(max(count, 1), panels, groups, threads) if threads else (8, min(panels, 8))
        values = {
            "steps": len(distances), "table": address_of(table), "end": end, "groups": spots.groups,
            "period_stride": spots.period_stride, "runs": address_of(spots.runs), "offsets": address_of(spots.offsets),
            "block_chunk": down, "panel_chunk": across, "blocks": count, "starts": 0, "period": 0,
        }  # fmt: skip
        found.append((values, (table, spots)))
    return found


def _bias_rows(bias: np.ndarray, groups: int) -> np.ndarray:
    """A bias as rows of whole blocks for each group; refused where tiles would change its values."""
    wide = np.asarray(bias, np.float32).reshape(groups, -1)
    magnitude = np.abs(wide)
    if not ((magnitude < 1 / _LEAST_BIAS) & ((magnitude >= _LEAST_BIAS) | (wide == 0))).all():
        raise Refused("a bias for tiles is 0 or lies between 2**-102 and 2**102 in magnitude, and one does not")
    rows = aligned_zeros((groups, -(-wide.shape[1] // BLOCK) * BLOCK))
    rows[:, : wide.shape[1]] = wide
    return rows


def _form(w: np.ndarray, plan: _Plan, gradient: bool) -> weights.Form:
    """The weights packed for a plan."""
    wide = weights.fold_weight(spread(w), plan.geometry.folded, plan.taps_first)
    taps = weights.tap_offsets(wide.shape, wide.strides, plan.geometry.passes)
    return weights.tile_form(wide, gradient, len(plan.no_bias), plan.precision, plan.rounding, taps)


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (O, C / groups, *K), plus bias (O,), with an optional ReLU; or its input
    gradient, from the gradient (N, O, *S') of its result.

    The result is contiguous, or has its channels last in memory if x has. Raises `Refused` if the values exceed the
    range of the precision's parts.
    """
    if pointwise.takes(setting, x.shape, x.strides, x.itemsize, w.shape[2:]):
        rows = None if bias is None else _bias_rows(bias, setting.groups)
        return pointwise.convolve(setting, x, w, rows)
    if (x.dtype.itemsize == 4 or address_of(x) % 64 == 0) and pointwise.takes_lines(
        setting, x.shape, x.strides, x.dtype, w.shape
    ):
        rows = None if bias is None else _bias_rows(bias, setting.groups)
        return pointwise.convolve_lines(setting, x, w, rows)
    pool, threads = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape, threads)
    if plan is None:
        raise Refused(f"an array of shape {list(x.shape)} reaches too far for offsets of 32 bits")
    out = result_array(plan.out_shape, x.dtype, plan.last)
    if out.size == 0:
        return out
    form = form_of(w, plan.form_key, lambda array: _form(array, plan, setting.gradient))
    rows = None if bias is None else _bias_rows(bias, setting.groups)
    if plan.clears:
        out[...] = 0
    with Workspace(threads * (plan.worker_bytes + LIMITS_BYTES) + plan.whole_bytes) as base:
        bias_at = plan.no_bias_at if rows is None else address_of(rows)
        found = strips.convolve(
            pool, threads, plan.of, address_of(x), form.address, bias_at, address_of(out), base,
            plan.worker_bytes, base + threads * plan.worker_bytes + plan.whole_bytes,
        )  # fmt: skip
    ranges.refuse_uncertain(ranges.certain_from(plan.precision, plan.depth, found, form.found), out)
    return out
