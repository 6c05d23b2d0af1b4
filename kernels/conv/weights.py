"""Weights packed for convolutions: once for many calls where they are kept."""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from .. import threading
from ..gemm.conversions import CONVERSIONS
from ..gemm.loops import LIMITS_BYTES, found_limits, leaf_address, reset_limits
from ..gemm.packing import OfA, OfB, TilePanel, pack_panel
from ..gemm.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..gemm.tags import constant
from ..gemm.workspace import address_of, aligned_bytes, return_workspace, take_workspace
from ..jit import njit, subroutine
from ..launch import call_at, launch
from .geometry import Pass
from .memory import read64

_PANEL = 32
"""Lines of a panel for tiles, and channels of a step."""


@subroutine
def _pack_panels(leaf, job):
    """Panels first to last of one group: for each block of channels and each tap a step."""
    lines, step = constant(leaf.panel, "lines"), constant(leaf.panel, "step")
    k_bytes, depth = constant(leaf.panel, "k_bytes"), job.depth
    for panel in range(job.first, job.last):
        to = job.target + panel * job.panel_bytes
        for k in range(0, job.count, depth):
            for tap in range(job.taps):
                at = job.at + panel * lines * job.line_stride + k * job.k_stride + read64(job.offsets + 8 * tap)
                count = min(depth, job.count - k)
                pack_panel(
                    leaf.source, leaf.panel, at, job.line_stride, job.k_stride, job.lines - panel * lines, count, to,
                    job.limits,
                )  # fmt: skip
                to += (count + step - 1) // step * step * k_bytes


class _PanelArguments(NamedTuple):
    at: int
    line_stride: int
    k_stride: int
    lines: int
    count: int
    depth: int
    offsets: int
    taps: int
    target: int
    panel_bytes: int
    limits: int
    first: int
    last: int


class PackWeights(NamedTuple):
    """Leaf: pack panels of weights. Fields: tags of a source and of a panel format of `gemm.packing`."""

    source: NamedTuple
    panel: NamedTuple
    run = _pack_panels
    arguments = _PanelArguments


@subroutine
def _weights_task(task, worker, job):
    tasks = (job.panels + job.panel_chunk - 1) // job.panel_chunk
    group, first = task // tasks, task % tasks * job.panel_chunk
    call_at(
        job.leaf,
        _PanelArguments(
            job.at + group * job.group_stride, job.line_stride, job.k_stride, job.lines, job.count, job.depth,
            job.offsets, job.taps, job.target + group * job.panels * job.panel_bytes, job.panel_bytes,
            job.limits + worker * LIMITS_BYTES, first, min(first + job.panel_chunk, job.panels),
        ),
    )  # fmt: skip


class _Weights(NamedTuple):
    leaf: int
    at: int
    group_stride: int
    line_stride: int
    k_stride: int
    lines: int
    count: int
    depth: int
    offsets: int
    taps: int
    target: int
    panel_bytes: int
    panels: int
    panel_chunk: int
    limits: int
    run = _weights_task


@njit
def pack_weights(
    pool, threads, leaf, at, group_stride, line_stride, k_stride, groups, lines, count, depth, offsets, taps, target,
    panel_bytes, panels, panel_chunk, limits,
):  # fmt: skip
    """Pack the weights of one pass, for all groups; the magnitudes found, as `gemm.loops.pack` has them.

    `leaf` is the address of a `PackWeights`; `offsets` that of the distance of each tap in bytes; `depth` channels make
    a step.
    """
    reset_limits(limits, threads)
    job = _Weights(
        leaf, at, group_stride, line_stride, k_stride, lines, count, depth, offsets, taps, target, panel_bytes,
        panels, panel_chunk, limits,
    )  # fmt: skip
    launch(pool, threads, groups * ((panels + panel_chunk - 1) // panel_chunk), job)
    return found_limits(limits, threads)


class Side(NamedTuple):
    """How weights are read: `lines` are what the result's channels are, `count` what is summed over, in each group."""

    group_stride: int
    line_stride: int
    k_stride: int
    lines: int
    count: int

    def order(self, item: int) -> tuple[bool, bool]:
        """Whether it is read along what is summed over, and whether neighbours in that order, of so many bytes, are
        neighbours in memory."""
        along_k = abs(self.k_stride) <= abs(self.line_stride)
        return along_k, (self.k_stride if along_k else self.line_stride) == item


class Packing(NamedTuple):
    """How weights of one layout are packed: all that does not depend on addresses and values."""

    leaf: int
    side: Side
    groups: int
    depth: int
    """Channels of a step."""
    panels: int
    panel_chunk: int
    """Panels of a task."""
    passes: tuple[tuple[int, int, int, int], ...]
    """Of each pass: where its panels begin, the bytes of one, where the distances of its taps lie, and how many."""
    places: np.ndarray
    """Rows of int64 for each pass: where its panels begin, and the bytes from group to group."""
    size: int
    """Bytes of all panels."""
    kept: tuple[np.ndarray, ...]


@functools.lru_cache(512)
def packing(
    leaf: int,
    side: Side,
    groups: int,
    panel: tuple[int, int, int, int],
    taps: tuple[tuple[int, ...], ...],
    threads: int,
) -> Packing:
    """How to pack by the `PackWeights` at the address `leaf`. `panel` has the lines of a panel, the channels of a step,
    what a step's depth is rounded up to, and bytes for each place along K; `taps` for each pass the distances of its
    taps in bytes."""
    lines, depth, unit, k_bytes = panel
    panels, (whole, rest) = -(-side.lines // lines), divmod(side.count, depth)
    deep = whole * depth + -(-rest // unit) * unit
    panel_bytes = [deep * len(offsets) * k_bytes for offsets in taps]
    starts = [0, *itertools.accumulate(groups * -(-panels * size // 64) * 64 for size in panel_bytes)]
    tables = tuple(np.array(offsets, np.int64) for offsets in taps)
    passes = tuple(
        (start, size, address_of(table), len(table))
        for start, size, table in zip(starts, panel_bytes, tables, strict=False)
    )
    places = np.array([(start, panels * size) for start, size, *_ in passes], np.int64).reshape(-1, 2)
    return Packing(
        leaf, side, groups, depth, panels, max(1, panels // (4 * threads)), passes, places, starts[-1], tables
    )


class Form:
    """Weights packed for the passes of one kind of convolution.

    Attributes:
        address: of the rows of `Packing.places`, with addresses.
        first: where the panels of the first pass begin.
        found: the magnitudes found in all of them.
    """

    __slots__ = ("_memory", "_places", "address", "first", "found")

    def __init__(self, how: Packing, w: np.ndarray, lent: bool = False) -> None:
        """With `lent` the memory is a workspace, for `give_back`."""
        pool, threads = threading.pool()
        self._memory = (take_workspace if lent else aligned_bytes)(how.size + threads * LIMITS_BYTES)
        self.first = address_of(self._memory)
        self._places = np.add(how.places, (self.first, 0))
        self.address = address_of(self._places)
        side, at, least, greatest = how.side, address_of(w), 0, 0
        for start, size, table, taps in how.passes:
            found = pack_weights(
                pool, threads, how.leaf, at, side.group_stride, side.line_stride, side.k_stride, how.groups, side.lines,
                side.count, how.depth, table, taps, self.first + start, size, how.panels, how.panel_chunk,
                self.first + how.size,
            )  # fmt: skip
            greatest = max(greatest, found >> 32)
            here = found & 0xFFFFFFFF
            least = min(least, here) if least and here else least or here
        self.found = greatest << 32 | least

    def give_back(self) -> None:
        """Let others use the memory, where it is lent."""
        return_workspace(self._memory)


@functools.cache
def _tile_leaf(as_a: bool, precision: str, rounding: str | None, dtype: np.dtype, along_k: bool, unit: bool) -> int:
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    return leaf_address(PackWeights(source, TilePanel(OfA() if as_a else OfB(), CONVERSIONS[precision, rounding])))


def side_of(shape: tuple[int, ...], strides: tuple[int, ...], gradient: bool, groups: int) -> Side:
    """How a weight (O, C / groups, ...) is read: the result has its outputs, or with `gradient` its channels."""
    per_group, (of_outputs, of_channels) = shape[0] // groups, strides[:2]
    if gradient:
        return Side(per_group * of_outputs, of_channels, of_outputs, shape[1], per_group)
    return Side(per_group * of_outputs, of_outputs, of_channels, per_group, shape[1])


def tile_form(
    w: np.ndarray,
    gradient: bool,
    groups: int,
    precision: str,
    rounding: str | None,
    taps: tuple[tuple[int, ...], ...],
    as_a: bool = False,
) -> Form:
    """A weight (O, C / groups, ...) as panels for tiles: of its outputs, or with `gradient` of its channels. `taps` has
    for each pass the distances of its taps in bytes; `as_a` says which operand of a product it is."""
    side = side_of(w.shape, w.strides, gradient, groups)
    leaf = _tile_leaf(as_a, precision, rounding, w.dtype, *side.order(w.itemsize))
    panel = (_PANEL, _PANEL, _PANEL, 64 * CONVERSIONS[precision, rounding].tile_parts)
    return Form(packing(leaf, side, groups, panel, taps, threading.pool()[1]), w)


def fold_weight(w: np.ndarray, folded: int, taps_first: bool) -> np.ndarray:
    """A weight (O, C, d, h, w) whose trailing `folded` kernel dimensions have become channels, (c, taps) in order, or
    (taps, c) with `taps_first`."""
    if not folded:
        return w
    kept = w.shape[2 : 5 - folded]
    channels = w.shape[1] * math.prod(w.shape[5 - folded :])
    first = 1 if taps_first else 2
    moved = np.moveaxis(w, range(5 - folded, 5), range(first, first + folded))
    return np.ascontiguousarray(moved).reshape(w.shape[0], channels, *kept, *[1] * folded)


@functools.lru_cache(512)
def tap_offsets(
    shape: tuple[int, ...], strides: tuple[int, ...], passes: tuple[Pass, ...]
) -> tuple[tuple[int, ...], ...]:
    """For each pass the distances in bytes of its taps, by their index among the kernel's values, in a weight of this
    shape (three spatial dimensions) and these strides."""
    along = [[index * step for index in range(size)] for size, step in zip(shape[2:], strides[2:], strict=True)]
    flat = [sum(place) for place in itertools.product(*along)]
    return tuple(tuple(flat[index] for _, _, index in one.taps) for one in passes)
