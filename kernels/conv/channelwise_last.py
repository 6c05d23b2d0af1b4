"""Depthwise convolutions of arrays whose channels are neighbours in memory: what is done once for a shape."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from .. import threading
from ..gemm.compiled import vector_isa, working_dtype
from ..gemm.loops import leaf_address
from ..gemm.packing import CONVERSIONS
from ..gemm.sources import ELEMENTS
from ..gemm.workspace import address_of, aligned_bytes, empty, return_workspace, take_workspace
from . import depthwise_last, windows, windows_weight
from .cells import CELL, CELL_FIELDS, cells_of
from .depthwise_last import LANES
from .descriptor import CHANNELS, describe
from .kept import Kept, form_of
from .reading import contiguous_strides, is_channels_last, result_array, three_strides
from .setting import Setting, three

__all__ = ["convolve", "takes", "weight_gradient"]

_STRIP_BYTES = 1 << 18
"""Of what the rows of a strip read."""

_TILE_BYTES = 24 << 10
"""Of the rows that a tile of columns reads for one row of its results: half of the L1 cache. (128 channels of 56 x 56:
115 microseconds, and 140 where whole rows come one after the other.)"""

_PARTITIONS = 16
"""Strips, over all images, that a weight's gradient is summed in; it does not depend on the number of threads, so that
the bits do not either."""


def takes(setting: Setting, multiplier: int, *arrays: np.ndarray) -> bool:
    """Whether all arrays have their channels last, each channel gives one result, and arrays to be rounded are dense
    (strips are rounded with everything in between).
    """
    return multiplier == 1 and all(_takes(setting, x.shape, x.strides, x.dtype) for x in arrays)


@functools.lru_cache(1024)
def _takes(setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> bool:
    if not is_channels_last(shape, strides, dtype.itemsize):
        return False
    rounds = CONVERSIONS[setting.conversion(vector_isa(), dtype)].target is not None
    wide, own = three_strides(shape, strides), (*shape[:2], *three(shape[2:], 1))
    dense = contiguous_strides(own, dtype.itemsize, True)
    return not rounds or all(size == 1 or a == b for size, a, b in zip(own[2:], wide[2:], dense[2:], strict=True))


class _Plan(NamedTuple):
    """All that does not depend on addresses and values."""

    channels: int
    working: np.dtype
    conversion: tuple[str, str | None]
    out_shape: tuple[int, ...]
    turned: bool
    """Whether it takes the taps in reverse order."""
    clears: bool
    no_bias: np.ndarray
    tasks: int
    address: int
    memory_bytes: int
    sums_bytes: int
    kept: tuple[Any, ...]


@functools.cache
def _leaf(weight: bool, dtype: str, precision: str, rounding: str | None) -> int:
    tags = ELEMENTS[dtype], CONVERSIONS[precision, rounding]
    return leaf_address((depthwise_last.ChannelsWeight if weight else depthwise_last.Channels)(*tags))


@functools.cache
def _window_leaf(kind: str, stride: int, dtype: str, precision: str, rounding: str | None) -> int:
    window: Any = windows.Every()
    if stride == 2:
        window = windows.Spread() if kind == "input" else windows.EveryOther()
    tags = ELEMENTS[dtype], CONVERSIONS[precision, rounding], window
    return leaf_address((windows_weight.WindowsWeight if kind == "weight" else windows.Windows)(*tags))


def _has_windows(setting: Setting, dtype: np.dtype, kernel: tuple[int, ...]) -> bool:
    """Whether results are found in windows of 3 x 3 values: with a stride those of a gradient only where it is padded
    by one."""
    stride, padding, dilation = setting.at
    if kernel != (3, 3) or dilation != (1, 1) or stride not in ((1, 1), (2, 2)) or dtype == np.float64:
        return False
    return max(padding) <= 2 and (not setting.gradient or stride == (1, 1) or padding == (1, 1))


def _window_plan(
    setting: Setting,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype,
    written: tuple[int, ...] | None,
    threads: int,
) -> _Plan:
    """As `_plan`, of 3 x 3 taps. At a stride of one, a gradient with respect to the input is a convolution of g with
    the taps in reverse order."""
    kind, conversion, (images, channels, height, width) = setting.kind, setting.conversion(vector_isa(), dtype), shape
    stride, padding = setting.at.stride[0], setting.at.padding
    turned = kind == "input" and stride == 1
    if kind == "input":
        (rows, columns), padding = setting.size, tuple(2 - pad for pad in padding) if turned else (0, 0)
    else:
        rows, columns = ((size + 2 * pad - 3) // stride + 1 for size, pad in zip(shape[2:], padding, strict=True))
    out_shape, item, working = (images, channels, rows, columns), dtype.itemsize, np.dtype(np.float32)
    none = _laid_out(np.zeros((channels, 1), working))
    if math.prod(out_shape) == 0:
        return _Plan(channels, working, conversion, out_shape, turned, False, none, 0, 0, 0, 0, ())
    to = contiguous_strides((images, channels, 1, rows, columns), item, True)
    if written is not None:
        to = three_strides(out_shape, written)
    wide = three_strides(shape, strides)
    cells = -(-rows // windows.ROWS)
    most = max(1, _STRIP_BYTES // max(1, windows.ROWS * stride * abs(wide[3])))
    strips = max(-(-cells // most), min(cells, -(-4 * threads // images)))
    if written is not None:
        strips = min(cells, max(1, _PARTITIONS // images))
    each = windows.ROWS * -(-cells // strips)
    table = [(first, min(first + each, rows), 0, 0) for first in range(0, rows, each)]
    strip_table = np.array(table, np.int64)
    values = describe(CHANNELS, dict.fromkeys(CHANNELS, 0) | {
        "leaf": _window_leaf(kind, stride, dtype.name, *conversion), "strips": len(table),
        "strip_table": address_of(strip_table), "read_step": wide[4], "write_step": to[4], "channels": channels,
        "working": 4, "relu": int(setting.relu), "x_image": wide[0], "out_image": to[0], "rows": height,
        "columns": width, "out_columns": columns, "weight_stride": 9 * LANES * 4, "row_step": wide[3], "out_row": to[3],
        "up": padding[0], "left": padding[1],
    })  # fmt: skip
    return _Plan(
        channels, working, conversion, out_shape, turned, False, none, images * len(table), address_of(values), 0,
        -(-channels // LANES) * 9 * LANES * 4, (values, strip_table),
    )  # fmt: skip


@functools.lru_cache(512)
def _plan(
    setting: Setting,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype,
    other: tuple[int, ...],
    written: tuple[int, ...] | None,
    threads: int,
) -> _Plan:
    """The plan of a convolution, or of a gradient; `other` is the shape of the second array, and `written` are the
    strides of g for the gradient with respect to the weight."""
    if _has_windows(setting, dtype, setting.kernel(other)):
        return _window_plan(setting, shape, strides, dtype, written, threads)
    kind, conversion, item = setting.kind, setting.conversion(vector_isa(), dtype), dtype.itemsize
    working = working_dtype(dtype)
    task = setting.task(shape, other)._replace(images=1)
    whole, wide = task.size if kind == "input" else task.output, three_strides(shape, strides)
    out_shape = (*shape[:2], *whole)
    to = contiguous_strides(out_shape, item, True) if written is None else three_strides(other, written)
    source = working.itemsize if CONVERSIONS[conversion].target is not None else item
    read = tuple(step // item * source for step in wide[2:])
    cells = cells_of(task, kind == "input", read, to[2:])
    rows, per_row = cells.table.shape[:2]
    row_bytes = (cells.reach[:, 1] - cells.reach[:, 0]).max(initial=1)
    if kind == "weight":
        strips = min(rows, max(1, _PARTITIONS // shape[0]))
    else:
        strips = min(rows, max(-(-rows * int(abs(read[1]) or row_bytes) // _STRIP_BYTES), -(-4 * threads // shape[0])))
    cuts = np.linspace(0, rows, strips + 1).astype(int)
    tile = max(1, _TILE_BYTES // (task.kernel[1] * shape[1] * source * CELL))
    ordered = np.concatenate([np.zeros((0, CELL_FIELDS), np.int64)] + [
        cells.table[first:last, column : column + tile].reshape(-1, CELL_FIELDS)
        for first, last in itertools.pairwise(cuts.tolist())
        for column in range(0, per_row, tile)
    ])  # fmt: skip
    cell_bytes = per_row * 8 * CELL_FIELDS
    table = np.array(
        [
            (address_of(ordered) + first * cell_bytes, address_of(ordered) + last * cell_bytes,
             cells.reach[first:last, 0].min() // source * item, cells.reach[first:last, 1].max() // source * item)
            for first, last in itertools.pairwise(cuts.tolist())
        ],
        np.int64,
    ).reshape(-1, 4)  # fmt: skip
    taps, channels, unit = cells.taps * (1, LANES * working.itemsize), shape[1], working.itemsize
    span = int((table[:, 3] - table[:, 2]).max(initial=0)) // item + channels + LANES
    memory = 0 if source == item and CONVERSIONS[conversion].target is None else -(-span * unit // 64) * 64
    count = math.prod(task.kernel)
    values = describe(CHANNELS, dict.fromkeys(CHANNELS, 0) | {
        "leaf": _leaf(kind == "weight", dtype.name, *conversion), "strips": strips, "strip_table": address_of(table),
        "taps": address_of(taps), "read_step": cells.read_step, "write_step": cells.write_step, "channels": channels,
        "working": unit, "weight_stride": count * LANES * unit, "relu": int(setting.relu), "x_image": wide[0],
        "out_image": to[0], "memory": memory,
    })  # fmt: skip
    rank = len(shape) - 2
    return _Plan(
        channels, working, conversion, (*out_shape[:2], *out_shape[5 - rank :]), False, not cells.complete,
        _laid_out(np.zeros((channels, 1), working)), shape[0] * strips, address_of(values), threads * memory,
        -(-channels // LANES) * count * LANES * unit, (values, ordered, table, taps),
    )  # fmt: skip


def _laid_out(values: np.ndarray) -> np.ndarray:
    """Numbers (channels, count) as vectors of channels: (blocks, count, LANES)."""
    blocks = -(-len(values) // LANES)
    found = aligned_bytes(blocks * values.shape[1] * LANES * values.itemsize).view(values.dtype)
    found = found.reshape(blocks, values.shape[1], LANES)
    wide = np.zeros((blocks * LANES, values.shape[1]), values.dtype)
    wide[: len(values)] = values
    found[...] = wide.reshape(blocks, LANES, -1).mT
    return found


def _weights(w: np.ndarray, plan: _Plan) -> np.ndarray:
    from ..rounding import round_to_parts

    ordered = w[..., ::-1, ::-1] if plan.turned else w
    flat = ordered.astype(plan.working).reshape(plan.channels, -1)
    return _laid_out(round_to_parts(flat, *plan.conversion))


def _alone(bias: np.ndarray, relu: bool) -> np.ndarray:
    """The results of positions that meet no tap."""
    return np.maximum(bias, np.zeros((), bias.dtype)) if relu else bias


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (C, 1, *K), or its gradient with respect to the input; arrays have their
    channels last in memory."""
    pool, threads = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape, None, threads)
    out = result_array(plan.out_shape, x.dtype, True)
    if out.size == 0:
        return out
    if plan.clears:
        out[...] = 0 if bias is None else _alone(bias, setting.relu).reshape(-1, *(1,) * (x.ndim - 2))
    weights = form_of(
        w, ("depthwise, channels last", plan.conversion, plan.turned), lambda array: _weights(array, plan)
    )  # fmt: skip
    added = plan.no_bias if bias is None else _laid_out(bias.astype(plan.working)[:, None])
    memory = take_workspace(plan.memory_bytes)
    try:
        depthwise_last.run(
            pool, threads, plan.tasks, plan.address, address_of(x), address_of(out), address_of(weights), 0,
            address_of(added), address_of(memory),
        )  # fmt: skip
    finally:
        return_workspace(memory)
    return out


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The gradient (C, 1, *K) of such a convolution of x (N, C, *S) with respect to its weight, from that of its
    result, g (N, C, *S')."""
    pool, threads = threading.pool()
    plan, count = _plan(setting, x.shape, x.strides, x.dtype, g.shape, g.strides, threads), math.prod(setting.size)
    sums = empty((plan.tasks, -(-plan.channels // LANES), count, LANES), plan.working)
    memory = take_workspace(plan.memory_bytes)
    try:
        depthwise_last.run(
            pool, threads, plan.tasks, plan.address, address_of(x), address_of(g), address_of(sums), plan.sums_bytes, 0,
            address_of(memory),
        )  # fmt: skip
    finally:
        return_workspace(memory)
    found = sums.sum(axis=0).mT.reshape(-1, count)[: plan.channels]
    return found.astype(x.dtype).reshape(plan.channels, 1, *setting.size)
