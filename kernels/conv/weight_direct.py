"""The gradient of a convolution with respect to its weight on tiles: what is done once for a shape."""

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
from ..gemm.product import product
from ..registry import Refused
from ..runtime import threading
from ..runtime.workspace import Workspace, address_of, empty
from . import geometry, weight_tiles
from .descriptor import Plan, WeightPlan, plan_with
from .geometry import GROUP
from .input_layout import CHANNELS, Folding, folding, reading, three_strides
from .params import Setting, three
from .round_bf16 import rounded_sums
from .shapes import is_weight_last, lay_out_weight

_STEP = 32
"""Positions of a step."""

_STEPS = {1: 8, 2: 24, 3: 24}
"""By the number of parts: steps after which the sums of the next block are worked on. (ieee, 256-1024 1 x 1 at 14 x 14,
batch 8, microseconds for 3, 6, 12 and 24: 4574, 4035, 3842, 3782; bf16 for 8, 12, 24: 1261, 1386, 1365.)"""

_SUMS = 72
"""Blocks of sums of a task: 288 KiB."""

_PARTITION_BYTES = 1 << 20
"""Of what is packed for a part of the positions."""

_PARTITIONED_SUMS = 512
"""Blocks of sums that each part of the positions may have of its own: 2 MiB."""

_LEAST_STEPS = 2
"""Of a part of the positions. (ieee, 128-512 1 x 1 at 28 x 28, batch 8: 6039, 3070, 3020 microseconds for 8, 4, 2.)"""

_LEAST_PRODUCT = 1 << 16
"""Values of a weight of one tap from which its gradient over several images is a plain product. (Batch 8, channels
last, ieee, microseconds by pairs of lines and as a product: 64-256 at 56 x 56 4379, 7815; 128-512 at 28 x 28 3673, 3837
(bf16 1223, 967); 256-1024 at 14 x 14 3839, 2598; 512-2048 at 7 x 7 4303, 2483. One image is always faster: 653, 483 at
28 x 28, 713, 454 at 14 x 14, 1098, 427 at 7 x 7.)"""

_INFINITY = 0x7F800000


@functools.cache
def _leaf(precision: str) -> int:
    return leaf_address(weight_tiles.MultiplyPairs(kernel_of_parts("amx", precision)))


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _Plan:
    """All that does not depend on addresses and values."""

    precision: str
    folded: Folding
    depth: int
    of: tuple[WeightPlan, Plan, Plan]
    """The plans of the product, of reading x, and of reading g."""
    partitioned: bool
    spaces: tuple[int, ...]
    """Bytes of the lines of x and of g, of both operands of the product, and of a thread's sums; with partitions those
    of a thread, and those of all sums."""
    kept: tuple[Any, ...]
    """What they point to."""


def _chunks(panels: int, blocks: int, taps: int, groups: int, threads: int) -> tuple[int, int]:
    """Panels of output channels and taps of a task."""
    some_taps = min(taps, _SUMS)
    some_panels = max(1, min(panels, 4, _SUMS // some_taps))
    while threads > 1 and groups * blocks * -(-panels // some_panels) * -(-taps // some_taps) < 4 * threads:
        if some_panels > 1:
            some_panels = -(-some_panels // 2)
        elif some_taps > 2:
            some_taps = -(-some_taps // 2)
        else:
            break
    return some_panels, some_taps


@functools.lru_cache(512)
def _plan(
    setting: Setting, x_shape: tuple[int, ...], x_strides: tuple[int, ...], g_shape: tuple[int, ...],
    g_strides: tuple[int, ...], dtype: np.dtype, last: bool, threads: int,
) -> _Plan | None:  # fmt: skip
    conversion, groups, task = setting.conversion("amx", dtype), setting.groups, setting.task(x_shape, g_shape)
    channels, outputs = x_shape[1] // groups, g_shape[1] // groups
    wide = three_strides(x_shape, x_strides)
    folded = folding(task, wide, channels, groups, dtype.itemsize)
    where = geometry.forward_geometry(task, folded.dimensions, _STEP)
    (one,) = where.passes
    front, back = -(-where.front // GROUP), -(-(where.back - _STEP) // GROUP)
    parts, count = CONVERSIONS[conversion].tile_parts, len(one.taps)
    blocks, panels = -(-channels * (len(where.sources) // where.planes) // CHANNELS), -(-outputs // CHANNELS)
    odd = {(offset + GROUP * front) % 2 for _, offset, _ in one.taps}
    step_bytes = _STEP * 2 * parts * (blocks * where.planes * (1 + len(odd)) + 2 * panels) * CHANNELS
    all_steps = -(-where.end(one) // _STEP)
    partitions, steps = _partitions(all_steps, step_bytes, (front + back + 1) // 2, blocks * panels * count * groups)
    of_x = reading(
        where, where.sources, where.planes, wide, channels, groups, dtype, conversion,
        (front, front + 2 * steps + back), threads, folded.taps_first,
    )  # fmt: skip
    of_g = reading(
        where, (geometry.result_indices(where, one),), 1, three_strides(g_shape, g_strides), outputs, groups, dtype,
        conversion, (0, 2 * steps), threads, False,
    )  # fmt: skip
    if of_x is None or of_g is None:
        return None
    x_fields, g_fields, part_bytes = of_x[0], of_g[0], of_x[0]["part_bytes"]
    table = []
    for plane, offset, _ in one.taps:
        line = offset + GROUP * front - min(odd)
        table.append((len(odd) * plane * parts + line % 2) * part_bytes + line // 2 * 128)
    distances = np.array(table, np.int64)
    panel_chunk, tap_chunk = _chunks(panels, blocks, count, groups, threads)
    a_panel, b_block = steps * parts * 2048, len(odd) * where.planes * parts * part_bytes
    sums = panel_chunk * tap_chunk * weight_tiles.SUMS_BYTES
    sizes = (x_fields["region_bytes"], g_fields["region_bytes"], panels * a_panel, blocks * b_block)
    sizes = tuple(-(-size // 64) * 64 for size in sizes)
    product = WeightPlan(
        leaf=_leaf(conversion[0]), steps=steps, chunk=_STEPS[parts], panels=panels, blocks=blocks, taps=count,
        panel_chunk=panel_chunk, tap_chunk=tap_chunk, table=address_of(distances), a_panel=a_panel,
        b_part=len(odd) * part_bytes, b_block=b_block, outputs=outputs, channels=x_fields["count"],
        row_stride=4 * x_fields["count"] * count, channel_stride=4 * (1 if last else count),
        tap_stride=4 * (x_fields["count"] if last else 1), sums_bytes=sums, parities=len(odd), odd=min(odd),
        partitions=partitions, front_groups=front, lines_x=sizes[0], lines_g=sizes[1], panels_bytes=sizes[2],
    )  # fmt: skip
    all_sums = groups * partitions * blocks * panels * count * weight_tiles.SUMS_BYTES
    spaces = (sum(sizes), all_sums) if partitions else (*(groups * size for size in sizes), sums)
    plans = product, plan_with(x_fields), plan_with(g_fields)
    depth = task.images * math.prod(task.output)
    return _Plan(conversion[0], folded, depth, plans, partitions > 0, spaces, (distances, of_x, of_g))


def _partitions(steps: int, step_bytes: int, around: int, sums: int) -> tuple[int, int]:
    """In how many parts the positions are packed and summed (0: as a whole), and the steps of a part. It depends on
    shapes only, so that the bits do not depend on the number of threads."""
    if sums > _PARTITIONED_SUMS or steps * step_bytes < 2 * _PARTITION_BYTES:
        return 0, steps
    count = min(max(8, -(-steps * step_bytes // _PARTITION_BYTES)), 64)
    each = -(-steps // count)
    if each < max(_LEAST_STEPS, 2 * around):
        return 0, steps
    return -(-steps // each), each


def _matrices(x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """For a kernel of one tap the matrices (O, positions) and (positions, C) whose product is the gradient, where that
    is faster; None elsewhere. They are views: of one image, or of all where channels are neighbours in memory."""
    if len(x) == 1:
        return g.reshape(g.shape[1], -1), x.reshape(x.shape[1], -1).T
    if x.shape[1] * g.shape[1] < _LEAST_PRODUCT:
        return None
    last = [np.moveaxis(each, 1, -1) for each in (g, x)]
    if not all(each.flags.c_contiguous for each in last):
        return None
    rows = [each.reshape(-1, each.shape[-1]) for each in last]
    return rows[0].T, rows[1]


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weight gradient (O, C / groups, *K) of a convolution of x (N, C, *S), from the gradient g (N, O, *S') of its
    result.

    Raises `Refused` if the values exceed the range of the precision's parts.
    """
    kernel, groups, at = setting.size, setting.groups, setting.at
    if groups == 1 and all(each == 1 for each in (*kernel, *at.stride)) and not any(at.padding):
        matrices = _matrices(x, g)
        if matrices is not None:
            inner, _ = setting.conversion("amx", x.dtype)
            found = product(*matrices, isa="amx", precision=inner, rounding=setting.rounding)
            return lay_out_weight(found.reshape(*found.shape, *kernel), x)
    pool, threads = threading.pool()
    last = is_weight_last(x)
    plan = _plan(setting, x.shape, x.strides, g.shape, g.strides, x.dtype, last, threads)
    if plan is None:
        raise Refused(f"arrays of shapes {list(x.shape)} and {list(g.shape)} reach too far for offsets of 32 bits")
    channels, outputs = x.shape[1] // groups, g.shape[1]
    out = empty((outputs, *((*kernel, channels) if last else (channels, *kernel))), np.dtype(np.float32))
    arrays = (address_of(x), address_of(g), address_of(out))
    space = sum(plan.spaces[:-1])
    limits_bytes = 2 * threads * LIMITS_BYTES
    workers = (threads, 1) if plan.partitioned else (1, threads)
    with Workspace(workers[0] * space + workers[1] * plan.spaces[-1] + limits_bytes) as base:
        if plan.partitioned:
            sums = base + threads * space
            found = weight_tiles.weight_gradient_in_partitions(
                pool, threads, *plan.of, *arrays, base, space, sums, sums + plan.spaces[-1]
            )  # fmt: skip
        else:
            starts = [base + sum(plan.spaces[:index]) for index in range(4)]
            scratch = base + space
            limits = scratch + threads * plan.spaces[-1]
            found = weight_tiles.weight_gradient(pool, threads, *plan.of, *arrays, *starts, scratch, limits)
    if found[0] >> 32 >= _INFINITY:
        raise Refused("x is not finite, and positions of padding would multiply that by zero")
    ranges.refuse_uncertain(ranges.certain_from(plan.precision, plan.depth, *found), out)
    found = rounded_sums(out, x.dtype)
    return lay_out_weight(_unfold(found, plan.folded, (outputs, channels, *kernel), last), x)


def _unfold(packed: np.ndarray, how: Folding, shape: tuple[int, ...], last: bool) -> np.ndarray:
    """A view of this shape, the weight's, of a gradient whose trailing dimensions are folded into channels, which come
    last or before the taps."""
    (outputs, channels), whole = shape[:2], three(shape[2:], 1)
    kept, inside = whole[: 3 - how.dimensions], whole[3 - how.dimensions :]
    folded = (*inside, channels) if how.taps_first else (channels, *inside)
    rank, taps = len(inside), math.prod(kept)
    packed = packed.reshape(outputs, taps, -1).mT if last else packed.reshape(outputs, -1, taps)
    packed = packed.reshape(outputs, *folded, *kept)
    if how.taps_first:
        packed = np.moveaxis(packed, 1 + rank, 1)
    return packed.transpose(0, 1, *range(2 + rank, 5), *range(2, 2 + rank)).reshape(shape)
