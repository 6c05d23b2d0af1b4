"""Pointwise convolutions on tiles: what is done once for a shape (see `pointwise_nchw` and `pointwise_nhwc`)."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..block import ranges
from ..block.conversions import CONVERSIONS
from ..block.loops import LIMITS_BYTES, leaf_address
from ..block.plans import kernel_of_parts
from ..block.sources import ELEMENTS
from ..block.tuning import tuning
from ..registry import Refused
from ..runtime import threading
from ..runtime.workspace import Workspace, address_of, aligned_bytes
from . import pipeline, pointwise_nhwc, weights
from . import pointwise_nchw as rows
from .descriptor import NchwPlan, NhwcPlan
from .geometry import forward_geometry, spots
from .input_layout import are_neighbours, is_channels_last, is_one_row, result_array, three_strides
from .packed_weight import Kept, form_of
from .params import Setting

_BLOCK = 32
"""Positions of a block, and channels of a step."""

STEPS = {1: 18, 2: 1 << 20, 3: 1 << 20}
"""By the number of parts of an operand: so many steps along K are added before sums return to memory. Their weights
stay in the L1 cache. (3 x 3, 128 channels of 28 x 28, batch 8, microseconds for 3, 6, 9, 18 and all: bf16 918, 847,
819, 744, 831; tf32 2085, 2077, 2492, 2098, 1897; ieee 3670, 4067, 3858, 3681, 3494.)"""

_LEAST_BLOCKS = 16
"""Of positions, over all images."""


@functools.lru_cache(1024)
def takes(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], item: int, kernel: tuple[int, ...]
) -> bool:
    """Whether there are tiles, columns of a channel are neighbours in memory, and positions meet one tap each and are
    many enough."""
    stride, padding, _ = setting.at
    if any(each != 1 for each in kernel) or any(padding):
        return False
    if strides[-1] != item or 0 in shape:
        return False
    if any(each != 1 for each in stride) and (setting.gradient or strides[1] == item):
        return False
    positions = math.prod(_sizes(shape, stride))
    blocks = -(-positions // _BLOCK)
    return shape[0] * blocks >= _LEAST_BLOCKS and blocks * _BLOCK <= positions + positions // 6


def _sizes(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """The spatial sizes of the result."""
    return tuple((size - 1) // step + 1 for size, step in zip(shape[2:], stride, strict=True))


class _Plan(NamedTuple):
    """All that does not depend on addresses and values."""

    precision: str
    rounding: str | None
    channels: int
    groups: int
    panels: int
    out_shape: tuple[int, ...]
    tasks: int
    address: int
    worker_bytes: int
    kept: tuple[Any, ...]


@functools.cache
def _leaf(precision: str, rounding: str | None, dtype: str) -> int:
    conversion = CONVERSIONS[precision, rounding]
    return leaf_address(rows.MultiplyRows(kernel_of_parts("amx", precision), ELEMENTS[dtype], conversion))


def _strip(blocks: int, block_bytes: int, copies: int, threads: int) -> int:
    """Blocks of a strip, where each image has so many and there are so many images and groups."""
    count = -(-blocks // max(1, _cache_bytes() // 2 // block_bytes))
    while copies * count < 4 * threads and blocks >= 8 * (count + 1):
        count += 1
    return -(-blocks // count)


@functools.lru_cache(1024)
def _plan(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, w_shape: tuple[int, ...],
    threads: int,
) -> _Plan | None:  # fmt: skip
    (inner, way), groups, stride = setting.conversion("amx", dtype), setting.groups, setting.at.stride
    channels, columns = w_shape[0] // groups, w_shape[1]
    if not setting.gradient:
        channels, columns = columns, channels
    sizes, parts, item = _sizes(shape, stride), CONVERSIONS[inner, way].tile_parts, dtype.itemsize
    positions, places = math.prod(sizes), None
    if any(each != 1 for each in stride) or not are_neighbours(shape, strides, item):
        task, wide = setting.task(shape, w_shape)._replace(images=1), three_strides(shape, strides)
        where = forward_geometry(task, 0, _BLOCK)
        places = spots(where, where.sources, (0, *wide[2:]), item)
        if places is None:
            return None
    blocks, steps, panels = (-(-count // _BLOCK) for count in (positions, channels, columns))
    block_bytes = steps * parts * 2048
    strip = _strip(blocks, block_bytes, shape[0] * groups, threads)
    strips, chunk = -(-blocks // strip), STEPS[parts]
    together = panels if steps <= chunk else max(1, min(panels, _cache_bytes() // 2 // (strip * rows.SUMS_BYTES)))
    sums = rows.SUMS_BYTES * strip * (1 if steps <= chunk else together)
    packed = strip * block_bytes
    values = NchwPlan(
        leaf=_leaf(inner, way, dtype.name), channels=channels, columns=columns, steps=steps, chunk=chunk,
        panels=panels, panel_chunk=together, block_bytes=block_bytes, strip=strip, strips=strips, groups=groups,
        positions=positions, size=item, x_image=strides[0], x_group=channels * strides[1], x_channel=strides[1],
        out_image=groups * columns * positions * item, out_group=columns * positions * item,
        out_channel=positions * item, a_panel=steps * parts * 2048, relu=int(setting.relu),
        direct=int(dtype == np.float32 and not setting.relu), packed_bytes=packed,
        runs=0 if places is None else address_of(places.runs), spots=0 if places is None else places.groups,
        offsets=0 if places is None else address_of(places.offsets),
    )  # fmt: skip
    out_shape = (shape[0], groups * columns, *sizes)
    tasks = shape[0] * groups * strips
    return _Plan(
        inner, way, channels, groups, panels, out_shape, tasks, values, packed + sums, (values, places)
    )  # fmt: skip


def _bias_blocks(values: np.ndarray) -> np.ndarray:
    """Rows of a bias, those of whole panels, as what tiles begin with: 32 equal values for each."""
    found = aligned_bytes(values.size * 128).view(np.float32).reshape(-1, 32)
    found[...] = values.reshape(-1, 1)
    return found


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None) -> np.ndarray:
    """The convolution of supported arrays (N, C, *S) with w (O, C / groups, 1 ...), or its input gradient. `bias` has a
    value for each output of whole panels of every group. Raises `Refused` if the values exceed the range of the
    precision on tiles."""
    pool, threads = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape, threads)
    if plan is None:
        raise Refused(f"an array of shape {list(x.shape)} reaches too far for offsets of 32 bits")
    out = result_array(plan.out_shape, x.dtype, False)
    if out.size == 0:
        return out
    groups, gradient = setting.groups, setting.gradient
    key = ("rows", plan.precision, plan.rounding, groups, gradient)

    def pack(array: np.ndarray) -> weights.Form:
        return weights.tile_form(array, gradient, groups, plan.precision, plan.rounding, ((0,),), as_a=True)

    form = form_of(w, key, pack)
    blocks = None if bias is None else _bias_blocks(bias)
    with Workspace(threads * (plan.worker_bytes + LIMITS_BYTES)) as base:
        found = rows.multiply(
            pool, threads, plan.tasks, plan.address, address_of(x), address_of(out), form.first,
            0 if blocks is None else address_of(blocks), base, plan.worker_bytes, base + threads * plan.worker_bytes,
        )  # fmt: skip
    ranges.refuse_uncertain(ranges.certain_from(plan.precision, plan.channels, found, form.found), out)
    return out


_STRIP_BLOCKS = 32
"""Blocks of 32 positions in a task of `pointwise_nhwc`. (Batch 8, microseconds for 4, 8, 16, 32, 64: 64-64 at 56 x 56
280, 263, 249, 223, 222; 256-64 609, 567, 574, 540, 543; 128-128 612, 537, 550, 510, 549.)"""

_LEAST_STRIP_BLOCKS = 2
"""Where there are few tasks. (Batch 1, float32, microseconds for 1, 2, 4: 128-512 at 28 x 28 70, 75, 84; 512-256 103,
104, 138; 1024-512 at 14 x 14 155, 124, 160; 1024-2048 at a stride of 2 252, 178, 170.)"""

_LEAST_SPLIT_BLOCKS = 4
"""Of positions that are split into parts, which every task does anew for its panels. (Batch 1, microseconds in strips
of `pack_tiles` and in `pointwise_nhwc`: 512-2048 at 7 x 7 tf32 214, 253, exact 333, 472; 256-1024 at 14 x 14 198,
158, 307, 271.)"""

_FAR_CACHES = 4
"""L2 caches that a result fills whose next block is asked for, since it may be in no cache."""


def _cache_bytes() -> int:
    """Of the L2 cache: a strip fills half of it, and so do the sums that wait for the next steps; the weights of a task
    of `pointwise_nhwc` fill it."""
    return tuning("amx").cache_bytes


@functools.lru_cache(1024)
def takes_lines(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, w_shape: tuple[int, ...]
) -> bool:
    """Whether there are tiles, positions meet one tap each, and their channels are whole lines, before and after, in
    one group."""
    stride, padding, _ = setting.at
    if setting.groups != 1 or dtype.name not in ("float32", "bfloat16"):
        return False
    if any(each != 1 for each in w_shape[2:]) or any(padding) or 0 in shape or 0 in w_shape:
        return False
    strided = any(each != 1 for each in stride)
    if strided and (setting.gradient or shape[1] % (_BLOCK * pipeline.TOGETHER)):
        return False
    lines = is_channels_last(shape, strides, dtype.itemsize) and is_one_row(shape, strides, dtype.itemsize)
    whole = all(channels % _BLOCK == 0 for channels in w_shape[:2])
    least = 1 if setting.conversion("amx", dtype)[0] == "bf16" else _LEAST_SPLIT_BLOCKS
    return lines and whole and shape[0] * math.prod(_sizes(shape, stride)) >= least * _BLOCK


class _LinesPlan(NamedTuple):
    """All that does not depend on addresses and values."""

    precision: str
    rounding: str | None
    out_shape: tuple[int, ...]
    channels: int
    tasks: int
    address: int
    worker_bytes: int
    kept: tuple[Any, ...]


@functools.cache
def _lines_leaf(precision: str, rounding: str | None, dtype: str, picked: bool) -> int:
    order = pipeline.Picked() if picked else pipeline.InOrder()
    conversion = CONVERSIONS[precision, rounding]
    return leaf_address(
        pointwise_nhwc.MultiplyFlat(kernel_of_parts("amx", precision), ELEMENTS[dtype], conversion, order)
    )


def _row_table(shape: tuple[int, ...], stride: tuple[int, ...], row_bytes: int, ahead: int) -> np.ndarray:
    """The address of the row of each position, with some more rows for prefetching."""
    places = np.arange(shape[0] * math.prod(shape[2:])).reshape(shape[0], *shape[2:])
    rows = places[(slice(None), *(slice(None, None, step) for step in stride))].reshape(-1) * row_bytes
    return np.concatenate([rows, np.repeat(rows[-1:], ahead)])


@functools.lru_cache(1024)
def _lines_plan(setting: Setting, shape: tuple[int, ...], dtype: np.dtype, columns: int, threads: int) -> _LinesPlan:
    (inner, way), stride = setting.conversion("amx", dtype), setting.at.stride
    parts = CONVERSIONS[inner, way].tile_parts
    channels, sizes, item = shape[1], _sizes(shape, stride), dtype.itemsize
    positions, picked = shape[0] * math.prod(sizes), any(each != 1 for each in stride)
    blocks, steps, panels = -(-positions // _BLOCK), channels // _BLOCK, columns // _BLOCK
    together = max(1, min(panels, _cache_bytes() // (steps * parts * 2048)))
    strip = min(blocks, _STRIP_BLOCKS)
    while -(-blocks // strip) * -(-panels // together) < 4 * threads and (strip > _LEAST_STRIP_BLOCKS or together > 4):
        if strip > _LEAST_STRIP_BLOCKS:
            strip = -(-strip // 2)
        else:
            together = -(-together // 2)
    strips, across, packs = -(-blocks // strip), -(-panels // together), picked or item == 4
    ahead = -(-4096 // (item * channels))
    table = _row_table(shape, stride, item * channels, ahead) if picked else None
    far = item * columns * positions >= _FAR_CACHES * _cache_bytes()
    worker_bytes = pointwise_nhwc.SLOTS_BYTES + (2 * 2048 * parts * steps if packs else 0)
    values = NhwcPlan(
        leaf=_lines_leaf(inner, way, dtype.name, picked), steps=steps, panels=panels, panel_chunk=together,
        x_row=item * channels, a_row=2 * channels, out_row=item * columns, relu=int(setting.relu), positions=positions,
        strip=_BLOCK * strip, strips=strips, write_each=-(-8 // steps),
        table=0 if table is None else address_of(table), ahead=8 * ahead,
        out_ahead=_BLOCK * item * columns if far else 0, worker_bytes=worker_bytes,
    )  # fmt: skip
    out_shape = (shape[0], columns, *sizes)
    return _LinesPlan(inner, way, out_shape, channels, strips * across, values, worker_bytes, (values, table))


def convolve_lines(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None) -> np.ndarray:
    """As `convolve`, of what `takes_lines` takes, and begins on a cache line if it is bfloat16; the result has its
    channels last."""
    pool, threads = threading.pool()
    gradient = setting.gradient
    plan = _lines_plan(setting, x.shape, x.dtype, w.shape[1] if gradient else w.shape[0], threads)
    out = result_array(plan.out_shape, x.dtype, True)

    def pack(array: np.ndarray) -> weights.Form:
        return weights.tile_form(array, gradient, 1, plan.precision, plan.rounding, ((0,),))

    form = form_of(w, ("lines", gradient, plan.precision, plan.rounding), pack)
    with Workspace(threads * (plan.worker_bytes + LIMITS_BYTES)) as base:
        found = pointwise_nhwc.multiply(
            pool, threads, plan.tasks, plan.address, address_of(x), address_of(out), form.first,
            0 if bias is None else address_of(bias), base, base + threads * plan.worker_bytes,
        )  # fmt: skip
    ranges.refuse_uncertain(ranges.certain_from(plan.precision, plan.channels, found, form.found), out)
    return out
