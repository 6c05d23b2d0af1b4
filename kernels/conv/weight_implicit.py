"""The gradient of a convolution with respect to its weight on vector units: what is done once for a shape."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..block import ranges
from ..block.loops import LIMITS_BYTES, leaf_address
from ..block.tuning import Thresholds, tuning
from ..gemm.compiled import vector_isa, working_dtype
from ..registry import Refused
from ..runtime import threading
from ..runtime.record import Address, Bytes, Count
from ..runtime.workspace import Workspace, address_of
from . import geometry, implicit, pointwise_vector, weight_rows
from .descriptor import plan_with
from .fast import CHUNK_BYTES
from .geometry import GROUP, Geometry
from .input_layout import is_channels_last, three_strides
from .params import Setting
from .round_bf16 import rounded_sums
from .shapes import is_weight_last
from .weights import PAIRED_DEPTH


class _Row(NamedTuple):
    packed_bytes: int = CHUNK_BYTES
    """Of what is laid out at a time, unless the sums take more."""
    places: int = 1024
    """Positions that a block is multiplied with at once."""


thresholds = Thresholds(_Row())

_LEAST_TASKS = 64
"""Into how many the products are divided where there are few sums, whatever the number of threads."""


class _Plan(NamedTuple):
    """All that does not depend on addresses and values.

    Attributes:
        of: what compiled code is given.
        precision: that is computed, in sums of `depth` products; `has_limits` if only of some magnitudes.
        sums_bytes, packed_bytes: of the memory for sums, and for what is packed.
    """

    of: weight_rows.WeightGradient
    precision: str
    has_limits: bool
    depth: int
    sums_bytes: int
    packed_bytes: int
    kept: tuple[Any, ...]


def _in_one_run(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the positions of an image follow one another at one distance."""
    return all(
        size == 1 or outer == inner * count
        for size, outer, inner, count in zip(shape[2:], strides[2:], strides[3:], shape[3:], strict=False)
    )


def _batch(images: int, image_bytes: int, sums_bytes: int) -> int:
    """Images that are laid out at a time, as many at each: they fit caches, or are as much as the sums."""
    most = max(1, max(thresholds.row.packed_bytes, sums_bytes) // image_bytes)
    return max(count for count in range(1, min(images, most) + 1) if images % count == 0)


def _tables(
    where: Geometry, channels: int, first: int, array_bytes: int, size: int, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each of so many rows, taps of channels in order, the bytes from the planes to its value at position 0, which
    lies `first` bytes behind the beginning of a plane; and for each row of the images the bytes from there to it."""
    taps = [plane * array_bytes + offset * size + first for plane, offset, _ in where.passes[0].taps]
    table = np.zeros(rows, np.int64)
    places = np.add.outer(np.arange(channels) * where.planes * array_bytes, taps)
    table[: places.size] = places.ravel()
    images = np.arange(where.task.images) * where.image
    along = [np.arange(count) * step for count, step in zip(where.task.output[:2], where.steps[:2], strict=True)]
    starts = np.add.outer(images, np.add.outer(*along)) * size
    return table, np.ascontiguousarray(starts.ravel(), np.int64)


@functools.lru_cache(512)
def _plan(
    setting: Setting, x_shape: tuple[int, ...], x_strides: tuple[int, ...], g_shape: tuple[int, ...],
    g_strides: tuple[int, ...], dtype: np.dtype, last: bool, threads: int,
) -> _Plan:  # fmt: skip
    task, channels, columns = setting.task(x_shape, g_shape), x_shape[1] // setting.groups, g_shape[1] // setting.groups
    unit = implicit.unit_of(setting, dtype, columns)
    kernel, size, parts, b_bytes = unit.kernel, unit.size, unit.how.vector_parts, unit.b_bytes
    positions, pair = math.prod(task.output), 2 if unit.how.paired else 1
    width = -(-task.output[2] // pair)
    # Pairs end with a row of the image, in even rows anyway.
    piece = task.output[2] if task.output[2] % pair else -(-positions // -(-positions // 1024) // pair) * pair
    image_places = positions // task.output[2] * width
    rows, panels = channels * math.prod(task.kernel), -(-columns // kernel.nr)
    blocks, block_bytes = -(-rows // kernel.mr), kernel.mr * kernel.nr * kernel.size
    image = geometry.forward_geometry(task._replace(images=1), 0, 0)
    position_bytes = channels * image.planes * parts * size
    image_bytes = image.image * position_bytes + panels * image_places * b_bytes
    batch = _batch(task.images, image_bytes, blocks * panels * block_bytes)
    where = geometry.forward_geometry(task._replace(images=batch), 0, 0)
    of_x, of_g = three_strides(x_shape, x_strides), three_strides(g_shape, g_strides)
    front = -(-where.front // GROUP)
    region = front, front + -(-(where.end(where.passes[0]) + where.back + pair - 1) // GROUP)
    channels_last = is_channels_last(x_shape, x_strides, dtype.itemsize)
    taps = math.prod(task.kernel) if last else 1
    fields, of_planes = implicit.describe_planes(where, of_x, channels, dtype, unit, region, channels_last, threads)
    plan = plan_with(fields)
    table, starts = _tables(where, channels, GROUP * front * size, fields["array_bytes"], size, blocks * kernel.mr)
    k_stride = next((stride for size, stride in zip(task.output[::-1], of_g[:1:-1], strict=True) if size > 1), 0)
    along_k = abs(k_stride) <= abs(of_g[1])
    adjacent = (k_stride if along_k else of_g[1]) == dtype.itemsize
    fitting = max(256, tuning(vector_isa()).cache_bytes // 2 // position_bytes)
    splits = max(1, min(-(-_LEAST_TASKS // (blocks * panels)), len(starts) * width // 256, len(starts)))
    chunk = max(1, min(thresholds.row.places, fitting) // width)
    pack = implicit.weights_leaf(dtype.name, type(unit.how), type(unit.panel.kernel), along_k, adjacent)
    zero = np.zeros(1, np.int64)
    of = weight_rows.WeightGradient(
        multiply=Address(leaf_address(weight_rows.MultiplyRows(kernel, unit.how))),
        order=Address(leaf_address(weight_rows.OrderRows(kernel))),
        planes=Address(plan), part_bytes=Bytes(fields["part_bytes"]), pack=Address(pack),
        line_stride=Bytes(of_g[1]), k_stride=Bytes(k_stride), image_stride=Bytes(of_g[0]), batch=Count(batch),
        batches=Count(task.images // batch), x_batch=Bytes(batch * of_x[0]), positions=Count(positions),
        piece=Count(piece), piece_places=Count(-(-piece // pair)), image_places=Count(image_places),
        depth=Count(PAIRED_DEPTH if unit.how.paired else piece), zero=Address(address_of(zero)), columns=Count(columns),
        panels=Count(panels), b_bytes=Bytes(b_bytes), rows=Count(rows // taps), taps=Count(taps),
        table=Address(address_of(table)), starts=Address(address_of(starts)), lines=Count(len(starts)),
        width=Count(width), chunk=Count(chunk), splits=Count(splits), blocks=Count(blocks),
        block_chunk=Count(-(-blocks // -(-4 * threads // (panels * splits)))), block_bytes=Bytes(block_bytes),
        row_bytes=Bytes(kernel.nr * kernel.size),
    )  # fmt: skip
    sums_bytes = 64 + threads * weight_rows.SCRATCH_BYTES + 8 * len(table) + 64 + splits * panels * blocks * block_bytes
    packed_bytes = -(-panels * batch * image_places * b_bytes // 64) * 64 + fields["region_bytes"]
    kept = plan, of_planes, table, starts, zero
    return _Plan(of, unit.precision, unit.has_limits, task.images * positions, sums_bytes, packed_bytes, kept)


thresholds.when_changed.append(_plan.cache_clear)


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weight gradient (O, C / groups, *K) of a convolution of x (N, C, *S), from the gradient g (N, O, *S') of its
    result.

    Raises `Refused` if the result is not finite, since padding positions are multiplied by zero, and if the values
    exceed the range of the precision's parts.
    """
    if (found := pointwise_vector.weight_gradient(setting, x, g)) is not None:
        return found
    (pool, threads), groups = threading.pool(), setting.groups
    if not _in_one_run(g.shape, g.strides):
        g = np.ascontiguousarray(g)
    shape = g.shape[1] // groups, x.shape[1] // groups, *setting.size
    last = is_weight_last(x)
    out = np.empty((groups, shape[0], *((*shape[2:], shape[1]) if last else shape[1:])), working_dtype(x.dtype))
    plan = _plan(setting, x.shape, x.strides, g.shape, g.strides, x.dtype, last, threads)
    certain, before = 0.0, -(-(2 * threads * LIMITS_BYTES + plan.sums_bytes) // 64) * 64
    with Workspace(before + plan.packed_bytes) as at:
        for group in range(groups):
            at_x = address_of(x) + group * shape[1] * x.strides[1]
            at_g = address_of(g) + group * shape[0] * g.strides[1]
            *found, infinite = weight_rows.weight_gradient(
                pool, threads, plan.of, at_x, at_g, address_of(out[group]), out.itemsize, at, at + before
            )
            if plan.has_limits:
                certain = max(certain, ranges.certain_from(plan.precision, plan.depth, *found))
            if infinite:
                raise Refused("the result is not finite, and positions of padding would multiply that by zero")
    ranges.refuse_uncertain(certain, out)
    found = rounded_sums(out.reshape(-1, *out.shape[2:]), x.dtype)
    return np.moveaxis(found, -1, 1) if last else found
