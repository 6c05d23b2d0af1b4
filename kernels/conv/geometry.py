"""The geometry of a convolution on flat lists: every tap is a shift.

The values of a padded image are laid out one after the other along its positions (n, d, h, w), each dimension with a
pitch that leaves room for the padding, which neighbouring rows and images share. Where the output position is flat
index m, the input of a tap is at m + offset, with one offset for all positions. A stride is taken out first: the
*planes* of an input are its phases modulo the stride, each a convolution of stride 1. A gradient with respect to the
input has one plane, and *passes* in their place: each phase of the result is a convolution with its own taps.

Padding positions are computed and not stored (one row in 57 for an image of 56 with a padding of 1). Trailing
dimensions may be *folded*: their taps become channels, which fills vectors where channels are few.

`Spots` say where the values of 16 neighbouring positions lie in an array of any strides. All shapes here have three
spatial dimensions, leading ones of size 1 where the convolution has fewer.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

GROUP = 16
"""Positions that are read and written together."""

NOWHERE = -(1 << 31)
"""The offset of a position that has no value."""

EVERY_OTHER = 1 << 16
"""A bit of the mask in `Spots.runs`."""

RUN_BYTES = 16
"""Of a row of `Spots.runs`."""

_ROUNDED_FROM = 128
"""Positions of an image from which each image begins a new group, so that one table serves all: at most 12 % more."""

_FARTHEST = (1 << 31) - 1


class Task(NamedTuple):
    """A convolution without its channels: sizes of input, kernel and output, and how they meet; all of length 3."""

    images: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def output(self) -> tuple[int, ...]:
        """The sizes of the output; it is empty if one of them is not positive."""
        return tuple(
            (i + 2 * p - d * (k - 1) - 1) // s + 1
            for i, k, s, p, d in zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        )


class Pass(NamedTuple):
    """One phase of the result: its taps as (plane, offset, index among the kernel's values), and its positions."""

    phase: tuple[int, ...]
    counts: tuple[int, ...]
    taps: tuple[tuple[int, int, int], ...]


class Geometry(NamedTuple):
    task: Task
    folded: int
    """How many trailing dimensions are folded."""
    steps: tuple[int, ...]
    """Positions from one index to the next along each dimension."""
    image: int
    """Positions of an image."""
    period: int
    """Images that one table of spots covers."""
    sources: tuple[tuple[np.ndarray, ...], ...]
    """For each plane (outer) and folded tap (inner): for each dimension the index read at each place, or -1."""
    planes: int
    passes: tuple[Pass, ...]
    result_step: tuple[int, ...]
    front: int
    """Positions before the first one and after the last one that taps reach."""
    back: int

    @property
    def pitches(self) -> tuple[int, ...]:
        d, h, w = self.steps
        return self.sources[0][0].size, d // h, h // w

    @property
    def lines(self) -> int:
        """Positions of one packed plane, with those in front and behind: whole groups."""
        return self.front + -(-self.task.images * self.image // GROUP) * GROUP + self.back

    def end(self, one: Pass) -> int:
        """One more than the last position of a pass that is part of the result."""
        last = sum((count - 1) * step for count, step in zip(one.counts, self.steps, strict=True))
        return (self.task.images - 1) * self.image + last + 1


class Spots(NamedTuple):
    """Where positions lie in memory, in bytes from an array's beginning (for the images of one period).

    Attributes:
        runs: int32 (tables, groups, 4): an offset and a mask of positions, twice. If the first mask has 16 bits, the
            offset is that of the first position that exists, and all that do are neighbours in memory, in order. With
            the bit `EVERY_OTHER`, position i of either mask is 2 i values behind its offset. The mask is -1 for any
            other arrangement.
        offsets: int32 (tables, groups, 16), `NOWHERE` for missing values.
        period_stride: bytes from period to period.
    """

    runs: np.ndarray
    offsets: np.ndarray
    period_stride: int

    @property
    def groups(self) -> int:
        return self.runs.shape[1]


def _layout(
    task: Task, folded: int, extents: list[tuple[int, int, int, int]]
) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Pitches, steps, positions of an image and its period; `extents` has for each dimension how many values and how
    many positions there are, and the least and greatest shift."""
    pitches = tuple(max(values - min(low, 0), positions + max(high, 0), 1) for values, positions, low, high in extents)
    steps = (pitches[1] * pitches[2], pitches[2], 1)
    image = math.prod(pitches)
    if image % GROUP and (image >= _ROUNDED_FROM or task.images * image > 1 << 20) and task.images > 1:
        image = -(-image // GROUP) * GROUP
    return pitches, steps, image, 1 if image % GROUP == 0 else task.images


def _reach(offsets: list[int], block: int) -> tuple[int, int]:
    """Positions in front and behind, so that blocks of so many positions may be read from anywhere."""
    return max(0, -min(offsets, default=0)), max(0, max(offsets, default=0)) + block


def _indices(count: int, pitch: int, step: int, first: int, size: int) -> np.ndarray:
    """first + step * place for the places below `count`, and -1 if that is outside the dimension."""
    places = np.arange(pitch)
    index = first + step * places
    return np.where((places < count) & (index >= 0) & (index < size), index, -1)


@functools.lru_cache(1024)
def forward_geometry(task: Task, folded: int, block: int) -> Geometry:
    """The geometry of a convolution (and of its weight's gradient), read in blocks of `block` positions."""
    output, shifts, phases, extents = task.output, [], [], []
    for axis in range(3):
        size, kernel, stride, count = task.size[axis], task.kernel[axis], task.stride[axis], output[axis]
        at = [tap * task.dilation[axis] - task.padding[axis] for tap in range(kernel)]
        if axis >= 3 - folded:
            shifts.append([(0, 0)] * kernel)
            phases.append([0])
            extents.append((count, count, 0, 0))
            continue
        used = sorted({place % stride for place in at})
        shifts.append([(used.index(place % stride), place // stride) for place in at])
        phases.append(used)
        low, high = min(place // stride for place in at), max(place // stride for place in at)
        # Values beyond the last one read need no room: of a 1 x 1 kernel with a stride the last column may be one.
        extents.append((min(-(-size // stride), count + high), count, low, high))
    pitches, steps, image, period = _layout(task, folded, extents)
    sources = [
        tuple(_source(task, folded, axis, plane, tap, extents, pitches) for axis in range(3))
        for plane in itertools.product(*phases)
        for tap in itertools.product(*[range(task.kernel[axis]) for axis in range(3 - folded, 3)])
    ]
    ranges = [range(task.kernel[axis]) if axis < 3 - folded else range(1) for axis in range(3)]
    taps = []
    for index, tap in enumerate(itertools.product(*ranges)):
        chosen = [shifts[axis][tap[axis]] for axis in range(3)]
        plane = _flat([c[0] for c in chosen], [len(p) for p in phases])
        taps.append((plane, sum(c[1] * step for c, step in zip(chosen, steps, strict=True)), index))
    front, back = _reach([offset for _, offset, _ in taps], block)
    planes = math.prod(len(p) for p in phases)
    one = Pass((0, 0, 0), output, tuple(taps))
    return Geometry(task, folded, steps, image, period, tuple(sources), planes, (one,), (1, 1, 1), front, back)


def _source(
    task: Task, folded: int, axis: int, plane: tuple[int, ...], tap: tuple[int, ...],
    extents: list[tuple[int, int, int, int]], pitches: tuple[int, ...],
) -> np.ndarray:  # fmt: skip
    """The index of the input along a dimension at each place of a plane, for a folded tap."""
    stride, size, values = task.stride[axis], task.size[axis], extents[axis][0]
    if axis < 3 - folded:
        return _indices(values, pitches[axis], stride, plane[axis], size)
    first = tap[axis - (3 - folded)] * task.dilation[axis] - task.padding[axis]
    return _indices(values, pitches[axis], stride, first, size)


def _flat(index: list[int], sizes: list[int]) -> int:
    flat = 0
    for i, size in zip(index, sizes, strict=True):
        flat = flat * size + i
    return flat


@functools.lru_cache(1024)
def gradient_geometry(task: Task, block: int) -> Geometry:
    """The geometry of the gradient with respect to the input: what is read has the sizes of the output."""
    output, choices, extents = task.output, [], []
    for axis in range(3):
        stride = task.stride[axis]
        phases = []
        for phase in range(min(stride, task.size[axis])):
            reached = [phase + task.padding[axis] - tap * task.dilation[axis] for tap in range(task.kernel[axis])]
            taps = [(tap, place // stride) for tap, place in enumerate(reached) if place % stride == 0]
            phases.append((phase, -(-(task.size[axis] - phase) // stride), taps))
        choices.append(phases)
        shifts = [shift for _, _, taps in phases for _, shift in taps]
        count = max(count for _, count, _ in phases)
        extents.append((output[axis], count, min(shifts, default=0), max(shifts, default=0)))
    pitches, steps, image, period = _layout(task, 0, extents)
    passes = []
    for chosen in itertools.product(*choices):
        found = []
        for one in itertools.product(*[taps for _, _, taps in chosen]):
            offset = sum(shift * step for (_, shift), step in zip(one, steps, strict=True))
            found.append((0, offset, _flat([tap for tap, _ in one], list(task.kernel))))
        passes.append(Pass(tuple(c[0] for c in chosen), tuple(c[1] for c in chosen), tuple(found)))
    front, back = _reach([offset for each in passes for _, offset, _ in each.taps], block)
    source = tuple(_indices(output[axis], pitches[axis], 1, 0, output[axis]) for axis in range(3))
    return Geometry(task, 0, steps, image, period, (source,), 1, tuple(passes), task.stride, front, back)


def result_indices(geometry: Geometry, one: Pass) -> tuple[np.ndarray, ...]:
    """For each dimension the index of the result at each place of a pass, or -1."""
    pitches = geometry.pitches
    return tuple(
        _indices(one.counts[axis], pitches[axis], geometry.result_step[axis], one.phase[axis], _FARTHEST)
        for axis in range(3)
    )


def _places(
    geometry: Geometry, table: tuple[np.ndarray, ...], strides: tuple[int, ...], images: int
) -> np.ndarray | None:
    """Where each position of so many images lies in an array, in bytes, or `NOWHERE`; None beyond 32 bits."""
    place = np.arange(images)[:, None] * strides[0] + np.zeros(geometry.image, np.int64)
    exists = np.zeros(geometry.image, bool)
    here = np.zeros([index.size for index in table], np.int64)
    there = np.ones(here.shape, bool)
    for axis, index in enumerate(table):
        shape = [1, 1, 1]
        shape[axis] = -1
        here += (index * strides[axis + 1]).reshape(shape)
        there &= (index >= 0).reshape(shape)
    place[:, : here.size] += here.ravel()
    exists[: here.size] = there.ravel()
    if np.abs(place).max(initial=0) > _FARTHEST:
        return None
    return np.where(exists, place, NOWHERE).reshape(-1)


def spots(
    geometry: Geometry, tables: tuple[tuple[np.ndarray, ...], ...], strides: tuple[int, ...], neighbour: int
) -> Spots | None:
    """The spots of an array with these strides in bytes (images, then three dimensions). Values `neighbour` bytes apart
    count as neighbours. None where the array reaches too far for 32 bits."""
    runs, offsets = [], []
    for table in tables:
        places = _places(geometry, table, strides, geometry.period)
        if places is None:
            return None
        flat = np.full(-(-places.size // GROUP) * GROUP, NOWHERE, np.int64)
        flat[: places.size] = places
        offsets.append(flat.reshape(-1, GROUP))
        runs.append(_runs(offsets[-1], neighbour))
    period_stride = geometry.period * strides[0]
    return Spots(np.stack(runs).astype(np.int32), _with_guard_row(np.stack(offsets)), period_stride)


def lane_spots(
    geometry: Geometry, one: Pass, lanes: np.ndarray, images: int, strides: tuple[int, ...], neighbour: int
) -> Spots | None:
    """The spots in the result of a pass of the positions in `lanes` (groups, 16), -1 for none, of a period of so many
    images."""
    places = _places(geometry, result_indices(geometry, one), strides, images)
    if places is None:
        return None
    offsets = np.where(lanes >= 0, places[lanes], NOWHERE)
    return Spots(_runs(offsets, neighbour)[None].astype(np.int32), _with_guard_row(offsets[None]), images * strides[0])


def _with_guard_row(offsets: np.ndarray) -> np.ndarray:
    """As int32, with a row behind the last one, since the next group is looked up ahead."""
    found = np.full(offsets.size + GROUP, NOWHERE, np.int32)
    found[: offsets.size] = offsets.ravel()
    return found[: offsets.size].reshape(offsets.shape)


def tap_spots(places: Spots, folds: int, channels: int, step: int) -> Spots:
    """Spots of `folds` folded taps of each plane as those of all together: in the first of two tables the offsets of
    the first tap's channels, whether they exist or not, and in the second a bit for each value that exists. Taps are
    `step` bytes apart, which is where their channels end; they are at most 32 values."""
    offsets = places.offsets.reshape(-1, folds, *places.offsets.shape[1:])
    exists = offsets != NOWHERE
    taps = np.arange(folds).reshape(1, -1, 1, 1)
    starts = np.where(exists, offsets.astype(np.int64) - step * taps, 0)
    which = exists.argmax(axis=1)[:, None]
    bits = (exists * (((1 << channels) - 1) << (channels * taps))).sum(axis=1)
    first = np.take_along_axis(starts, which, axis=1)[:, 0]
    return places._replace(offsets=_with_guard_row(np.stack([first, bits.astype(np.uint32).view(np.int32)], axis=1)))


def _runs(offsets: np.ndarray, neighbour: int) -> np.ndarray:
    """Rows of `Spots.runs` for rows of offsets."""
    exists = offsets != NOWHERE
    rank = np.cumsum(exists, axis=1) - 1
    first = np.take_along_axis(offsets, exists.argmax(axis=1)[:, None], axis=1)
    together = (~exists | (offsets == first + rank * neighbour)).all(axis=1)
    found = np.zeros((len(offsets), 4), np.int64)
    found[:, 1] = np.where(together, _bits(exists), -1)
    found[:, 0] = np.where(exists.any(axis=1), first[:, 0], 0)
    left = exists & ~together[:, None]
    halves = []
    for _ in (0, 1):
        start, members = _every_other(offsets, left, neighbour)
        halves += [start, _bits(members)]
        left &= ~members
    every_other = ~together & ~left.any(axis=1)
    halves[1] |= EVERY_OTHER
    found[every_other] = np.stack(halves, axis=1)[every_other]
    return found


def _bits(lanes: np.ndarray) -> np.ndarray:
    return (lanes * (1 << np.arange(GROUP))).sum(axis=1)


def _every_other(offsets: np.ndarray, among: np.ndarray, neighbour: int) -> tuple[np.ndarray, np.ndarray]:
    """For each row where position 0 would be if every second value were one, from the first of those in `among` on, and
    which of these lie there."""
    lane = among.argmax(axis=1)
    start = np.take_along_axis(offsets, lane[:, None], axis=1)[:, 0] - 2 * lane * neighbour
    start = np.where(among.any(axis=1), start, 0)
    return start, among & (offsets == start[:, None] + 2 * neighbour * np.arange(GROUP))
