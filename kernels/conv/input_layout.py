"""How compiled convolutions see arrays: three spatial dimensions, either layout, packed in lines."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..block.conversions import CONVERSIONS
from ..block.loops import leaf_address
from ..block.sources import ELEMENTS, Across, AlongK, Contiguous, Source
from ..runtime.workspace import address_of, empty, result
from . import pack_tiles
from .geometry import GROUP, Geometry, Task, spots, tap_spots
from .params import three

CHANNELS = 32
"""Channels of a line."""

_FOLDED_CHANNELS = 16
"""Channels from which dimensions are not folded: each value is packed once for each folded tap."""

_STEP_COST = 4
"""Of a step of 32 channels, where packing a value costs 1. (3-64, 7 x 7 at a stride of 2, 224 x 224, batch 8, bfloat16:
2450 microseconds with 7 taps folded, 3950 with 49.)"""


def spread(x: np.ndarray) -> np.ndarray:
    """An array (a, b, *spatial) with three spatial dimensions."""
    return x.reshape(*x.shape[:2], *three(x.shape[2:], 1)) if x.ndim < 5 else x


def three_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for three spatial dimensions; those of dimensions of size 1 are 0, for they mean nothing."""
    own = tuple(stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
    return own[:2] + (0,) * (5 - len(own)) + own[2:]


def is_channels_last(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether the channels of each position are neighbours in memory, and positions are not."""
    inner = [stride for size, stride in zip(shape[2:], strides[2:], strict=True) if size > 1]
    return shape[1] > 1 and strides[1] == item and all(abs(stride) > item for stride in inner) and bool(inner)


def is_one_row(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether channels are neighbours in memory, and the positions of all images follow one another."""
    expected = shape[1] * item
    for size, stride in zip((*reversed(shape[2:]), shape[0]), (*reversed(strides[2:]), strides[0]), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return strides[1] == item


def are_neighbours(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether all positions of a channel are neighbours in memory."""
    expected = item
    for size, stride in zip(reversed(shape[2:]), reversed(strides[2:]), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """float32 zeros that begin on a cache line."""
    found = empty(shape, np.dtype(np.float32))
    found[...] = 0
    return found


def result_array(shape: tuple[int, ...], dtype: np.dtype, last: bool) -> np.ndarray:
    """An uninitialised result (N, C, *spatial), contiguous or with channels last, in memory that a caller offered."""
    if not last:
        return result(shape, dtype, aligned=True)
    rank = len(shape)
    return result((shape[0], *shape[2:], shape[1]), dtype, aligned=True).transpose(0, rank - 1, *range(1, rank - 1))


class Folding(NamedTuple):
    """How many trailing dimensions are folded, and whether channels are neighbours within a tap, as taps are."""

    dimensions: int
    taps_first: bool


def folding(task: Task, strides: tuple[int, ...], channels: int, groups: int, item: int) -> Folding:
    """How to fold an array of these strides (three dimensions). Where channels are neighbours, and columns follow them,
    the taps of a row are read at once; elsewhere sums take the fewest steps of 32 channels, counting what is packed
    again for each folded tap."""
    kernel = task.kernel
    if channels > _FOLDED_CHANNELS:
        return Folding(0, False)
    if (
        groups == 1
        and 1 < kernel[2] <= CHANNELS // channels
        and task.dilation[2] == 1
        and (channels == 1 or strides[1] == item)
        and strides[4] == channels * item
    ):
        return Folding(1, True)
    costs = []
    for folded in range(4):
        inside = math.prod(kernel[3 - folded :])
        steps = -(-channels * inside // CHANNELS) * (math.prod(kernel) // inside)
        planes = math.prod(min(k, s) for k, s in zip(kernel[: 3 - folded], task.stride[: 3 - folded], strict=True))
        costs.append(steps * _STEP_COST + planes * channels * inside)
    return Folding(costs.index(min(costs)), False)


@functools.cache
def pack_leaf(precision: str, rounding: str | None, dtype: str, order: type) -> int:
    """The leaf that packs; `order` is a class, since tags without fields are equal to one another."""
    source = Source(order(), Contiguous(), ELEMENTS[dtype])
    return leaf_address(pack_tiles.PackLines(source, CONVERSIONS[precision, rounding]))


def contiguous_strides(shape: tuple[int, ...], item: int, last: bool) -> tuple[int, ...]:
    """Strides in bytes of an array (N, C, d, h, w), contiguous or with its channels last in memory."""
    _, c, d, h, w = shape
    if last:
        return d * h * w * c * item, item, h * w * c * item, w * c * item, c * item
    return c * d * h * w * item, d * h * w * item, h * w * item, w * item, item


def reading(
    where: Geometry, tables: tuple[tuple[np.ndarray, ...], ...], planes: int, strides: tuple[int, ...], channels: int,
    groups: int, dtype: np.dtype, conversion: tuple[str, str | None], region: tuple[int, int], threads: int,
    taps_first: bool,
) -> tuple[dict[str, int], tuple[Any, ...]] | None:  # fmt: skip
    """The fields of a plan with which an array is packed, and what they point to; None where it reaches too far.

    Arguments:
        tables: for each plane and folded tap, the index read at each place (`Geometry.sources`).
        strides: of the array, in bytes, with three spatial dimensions.
        channels: of each group.
        region: groups of positions in front of position 0, and in all.
        taps_first: as `Folding` has it.
    """
    places = spots(where, tables, (strides[0], *strides[2:]), dtype.itemsize)
    if places is None:
        return None
    folds = len(tables) // planes
    count, parts = channels * folds, CONVERSIONS[conversion].tile_parts
    blocks = -(-count // CHANNELS)
    order: Any = AlongK if strides[1] == dtype.itemsize and folds == 1 and channels > 1 else Across
    if taps_first:
        places, order = tap_spots(places, folds, channels, strides[4]), pack_tiles.AlongTaps
    part_bytes = 64 * ((GROUP * region[1]) | 1)  # an odd number of lines: equal addresses of parts would share a set
    table = np.zeros((blocks * CHANNELS, 2), np.int64)
    table[:count, 0] = np.repeat(np.arange(channels) * strides[1], folds)
    table[:count, 1] = np.tile(np.arange(folds), channels)
    arrays = groups * (1 if order.along_k else blocks * planes)
    fields = {
        "pack": pack_leaf(*conversion, dtype.name, order), "groups": places.groups,
        "period_stride": places.period_stride, "runs": address_of(places.runs), "offsets": address_of(places.offsets),
        "tables": 2 if taps_first else folds, "planes": planes, "channels": address_of(table), "count": count,
        "blocks": blocks, "parts": parts, "all_groups": -(-where.task.images * where.image // GROUP),
        "group_stride": channels * strides[1], "array_chunk": blocks * planes if order.along_k else 1,
        "channel_groups": groups,
        "array_bytes": parts * part_bytes, "part_bytes": part_bytes,
        "region_bytes": blocks * planes * parts * part_bytes, "front_groups": region[0], "region_groups": region[1],
        "plane_table": 0,
        "pack_chunk": max(4, min(64, region[1] * arrays // (4 * threads))),
    }  # fmt: skip
    return fields, (places, table)
