"""Weights packed for convolutions: once for many calls where they are kept."""

from __future__ import annotations

import functools
import itertools
import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from ..block.conversions import CONVERSIONS
from ..block.emit import F32, I64, LINE, load, loop, offset, store, vector
from ..block.loops import LIMITS_BYTES, found_limits, leaf_address, reset_limits
from ..block.packing import (
    OfA,
    OfB,
    TilePanel,
    VectorPanel,
    interleaved_parts,
    pack_panel,
    updated_limits,
    widened_range,
)
from ..block.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..block.tags import constant
from ..block.vectors import Avx512Float32
from ..runtime import threading
from ..runtime.emitter import Class, Pointer, emitter, int64
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.record import Address, Bytes, Count, Record
from ..runtime.workspace import address_of, aligned_bytes, return_workspace, take_workspace
from .geometry import Pass
from .memory import clear, read64

_PANEL = 32
"""Lines of a panel for tiles, and channels of a step."""

PAIRED_DEPTH = 16
"""Channels of a step of words of two: squares of those of 16 lines are read."""


class Weights(Record):
    """How the weights of one pass are packed, but for addresses."""

    leaf: Address
    """Of a `PackWeights` or a `PackPairs`."""
    group_stride: Bytes
    line_stride: Bytes
    k_stride: Bytes
    groups: Count
    lines: Count
    count: Count
    """Channels; `depth` of them make a step."""
    depth: Count
    offsets: Address
    """Of the distance of each tap, in bytes."""
    taps: Count
    tap_stride: Bytes
    """Where all taps of a channel follow one another in memory and the leaf reads them at once, or 0."""
    first: Bytes
    """Where the panels begin."""
    panel_bytes: Bytes
    panels: Count
    panel_chunk: Count
    """Panels of a task."""
    scratch_bytes: Bytes
    """That a thread needs."""


PanelArguments = namedtuple(
    "PanelArguments",
    "at line_stride k_stride lines count depth offsets taps tap_stride target panel_bytes limits scratch first last",
)
"""Panels `first` to `last`; other names as in `Weights`."""


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


PackWeights = leaf_class("PackWeights", "source panel", _pack_panels, PanelArguments)
"""Leaf: pack panels of weights. Fields: tags of a source and of a panel format of `block.packing`."""


@subroutine
def _pack_tapped(leaf, job):
    """`_pack_panels` where the taps of a channel are neighbours: all of a block of channels are laid out as rows of 32
    first, since reading every ninth value for each tap takes twice as long."""
    lines, step, row = constant(leaf.panel, "lines"), constant(leaf.panel, "step"), constant(leaf.rows, "k_bytes")
    across = job.line_stride > job.k_stride  # a row has a value of each line, else of each channel
    taps = min(job.line_stride, job.k_stride) // job.tap_stride
    for panel in range(job.first, job.last):
        to, left = job.target + panel * job.panel_bytes, min(lines, job.lines - panel * lines)
        for k in range(0, job.count, job.depth):
            at, count = job.at + panel * lines * job.line_stride + k * job.k_stride, min(job.depth, job.count - k)
            far, wide, rows = (job.line_stride, left, count) if across else (job.k_stride, count, left)
            pack_panel(leaf.source, leaf.rows, at, far, job.tap_stride, wide, rows * taps, job.scratch, job.limits)
            line_stride, k_stride = (4, taps * row) if across else (taps * row, 4)
            for tap in range(job.taps):
                here = job.scratch + read64(job.offsets + 8 * tap) // job.tap_stride * row
                pack_panel(leaf.between, leaf.panel, here, line_stride, k_stride, left, count, to, job.limits)
                to += (count + step - 1) // step * step * constant(leaf.panel, "k_bytes")


PackTapped = leaf_class("PackTapped", "source rows between panel", _pack_tapped, PanelArguments)
"""Leaf: pack panels of weights by rows of all taps. Fields: tags of a source, of these rows, as panels of float32 and
as a source, and of a panel format."""


@emitter
def _join_rows(
    builder, kernel: Class, how: Class, rows: Pointer, stride, count, zeros: Pointer, target: Pointer, limits: Pointer
) -> int64:
    """Rows of weights, `stride` bytes apart, in twos as words, their parts in the order in which they are multiplied.
    The partner of an odd last one is at `zeros`. Returns the address behind them."""
    row = kernel.b_bytes

    def pair(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        first = builder.shl(index, I64(1))
        at = offset(builder, rows, builder.mul(first, stride))
        exists = builder.icmp_signed("<", builder.add(first, I64(1)), count)
        both = at, builder.select(exists, offset(builder, at, stride), zeros)
        to = offset(builder, target, builder.mul(index, I64(len(how.walk) * row)))
        for column in range(0, row, LINE):
            values = [load(builder, vector(F32), offset(builder, each, column), 4) for each in both]
            found = widened_range(builder, values, found)
            parts = interleaved_parts(builder, how, values)
            for place, (_, part) in enumerate(how.walk):
                store(builder, parts[part], offset(builder, to, place * row + column), 4)
        return found

    pairs = builder.ashr(builder.add(count, I64(1)), I64(1))
    updated_limits(builder, limits, lambda found: loop(builder, pairs, found, pair))
    return builder.add(builder.ptrtoint(target, I64), builder.mul(pairs, I64(len(how.walk) * row)))


@subroutine
def _pack_pairs(leaf, job):
    """Panels first to last of one group: for each block of channels and each tap its words. The block is laid out as
    rows of a value for each line first, all taps of a channel at once where they follow one another in memory."""
    lines, row = constant(leaf.rows, "lines"), constant(leaf.rows, "k_bytes")
    zeros, rows, taps = job.scratch, job.scratch + row, job.taps
    clear(zeros, row)
    for panel in range(job.first, job.last):
        to, left = job.target + panel * job.panel_bytes, job.lines - panel * lines
        for k in range(0, job.count, job.depth):
            at, count = job.at + panel * lines * job.line_stride + k * job.k_stride, min(job.depth, job.count - k)
            if job.tap_stride > 0:
                pack_panel(
                    leaf.source, leaf.rows, at, job.line_stride, job.tap_stride, left, count * taps, rows, job.limits
                )
                for tap in range(taps):
                    to = _join_rows(
                        leaf.rows.kernel, leaf.conversion, rows + tap * row, taps * row, count, zeros, to, job.limits
                    )
            else:
                for tap in range(taps):
                    here = at + read64(job.offsets + 8 * tap)
                    pack_panel(
                        leaf.source, leaf.rows, here, job.line_stride, job.k_stride, left, count, rows, job.limits
                    )
                    to = _join_rows(leaf.rows.kernel, leaf.conversion, rows, row, count, zeros, to, job.limits)


PackPairs = leaf_class("PackPairs", "source rows conversion", _pack_pairs, PanelArguments)
"""Leaf: pack panels of weights as words of two bf16. Fields: tags of a source, of the panels of float32 that come
first, and of a conversion of `conversions.PAIRED`."""


@task("of at target limits scratch")
def _weights_task(task, worker, job):
    of = job.of
    tasks = (of.panels + of.panel_chunk - 1) // of.panel_chunk
    group, first = task // tasks, task % tasks * of.panel_chunk
    call_at(
        of.leaf,
        PanelArguments(
            job.at + group * of.group_stride, of.line_stride, of.k_stride, of.lines, of.count, of.depth, of.offsets,
            of.taps, of.tap_stride, job.target + of.first + group * of.panels * of.panel_bytes, of.panel_bytes,
            job.limits + worker * LIMITS_BYTES, job.scratch + worker * of.scratch_bytes, first,
            min(first + of.panel_chunk, of.panels),
        ),
    )  # fmt: skip


@njit
def pack_weights(pool, threads, of: Weights, at, target, limits):
    """Pack the weights of one pass at an address, for all groups; the magnitudes found, as `block.loops.pack` has them.
    Behind the limits of each thread lies its scratch memory."""
    reset_limits(limits, threads)
    tasks = (of.panels + of.panel_chunk - 1) // of.panel_chunk
    launch(pool, threads, of.groups * tasks, _weights_task(of, at, target, limits, limits + threads * LIMITS_BYTES))
    return found_limits(limits, threads)


class Side(namedtuple("Side", "group_stride line_stride k_stride lines count")):
    """How weights are read: `lines` are what the result's channels are, `count` what is summed over, in each group."""

    def order(self, item: int) -> tuple[bool, bool]:
        """Whether it is read along what is summed over, and whether neighbours in that order, of so many bytes, are
        neighbours in memory."""
        along_k = abs(self.k_stride) <= abs(self.line_stride)
        return along_k, (self.k_stride if along_k else self.line_stride) == item


class Packing(NamedTuple):
    """How weights of one layout are packed: all that does not depend on addresses and values."""

    passes: tuple[Weights, ...]
    places: np.ndarray
    """Rows of int64 for each pass: where its panels begin, and the bytes from group to group."""
    size: int
    """Bytes of all panels."""
    kept: tuple[np.ndarray, ...]


PanelShape = namedtuple("PanelShape", "lines depth unit k_bytes")
"""Lines of a panel, channels of a step, what a step's depth is rounded up to, and bytes for each place along K."""


@functools.lru_cache(512)
def packing(
    leaf: int, side: Side, groups: int, panel: PanelShape, taps: tuple[tuple[int, ...], ...], threads: int,
    tap_stride: int = 0,
) -> Packing:  # fmt: skip
    """How to pack by the leaf at an address. `taps` has for each pass the distances of its taps in bytes."""
    panels, (whole, rest) = -(-side.lines // panel.lines), divmod(side.count, panel.depth)
    deep = whole * panel.depth + -(-rest // panel.unit) * panel.unit
    sizes = [deep * len(offsets) * panel.k_bytes for offsets in taps]
    starts = [0, *itertools.accumulate(groups * -(-panels * size // 64) * 64 for size in sizes)]
    tables = tuple(np.array(offsets, np.int64) for offsets in taps)
    rows = panel.depth * (len(set().union(*taps)) if tap_stride else 1)
    passes = []
    for start, size, table in zip(starts, sizes, tables, strict=False):
        one = Weights(
            leaf=Address(leaf), group_stride=Bytes(side.group_stride), line_stride=Bytes(side.line_stride),
            k_stride=Bytes(side.k_stride), groups=Count(groups), lines=Count(side.lines), count=Count(side.count),
            depth=Count(panel.depth), offsets=Address(address_of(table)), taps=Count(len(table)),
            tap_stride=Bytes(tap_stride), first=Bytes(start), panel_bytes=Bytes(size), panels=Count(panels),
            panel_chunk=Count(max(1, panels // (4 * threads))), scratch_bytes=Bytes(4 * panel.lines * (1 + rows)),
        )  # fmt: skip
        passes.append(one)
    places = np.array([(one.first, panels * one.panel_bytes) for one in passes], np.int64).reshape(-1, 2)
    return Packing(tuple(passes), places, starts[-1], tables)


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
        behind = threads * (LIMITS_BYTES + max((one.scratch_bytes for one in how.passes), default=0))
        self._memory = (take_workspace if lent else aligned_bytes)(how.size + behind)
        self.first = address_of(self._memory)
        self._places = np.add(how.places, (self.first, 0))
        self.address = address_of(self._places)
        at, least, greatest = address_of(w), 0, 0
        for one in how.passes:
            found = pack_weights(pool, threads, one, at, self.first, self.first + how.size)
            greatest = max(greatest, found >> 32)
            here = found & 0xFFFFFFFF
            least = min(least, here) if least and here else least or here
        self.found = greatest << 32 | least

    def give_back(self) -> None:
        """Let others use the memory, where it is lent."""
        return_workspace(self._memory)


@functools.lru_cache(512)
def _tile_packing(
    as_a: bool, precision: str, rounding: str | None, dtype: np.dtype, side: Side, groups: int,
    taps: tuple[tuple[int, ...], ...], threads: int,
) -> Packing:  # fmt: skip
    """How weights are packed for tiles; all taps are read at once where they are neighbours in memory."""
    conversion, element, (along_k, unit) = (
        CONVERSIONS[precision, rounding],
        ELEMENTS[dtype.name],
        side.order(dtype.itemsize),
    )
    item, every, (near, far) = dtype.itemsize, {tap for each in taps for tap in each}, sorted(side[1:3])
    tapped = 1 < len(every) < 50 and near == len(every) * item < far and every == set(range(0, near, item))
    panel, spacing = TilePanel(OfA() if as_a else OfB(), conversion), Contiguous() if unit or tapped else Strided()
    source: Any = PackWeights(Source(AlongK() if along_k or tapped else Across(), spacing, element), panel)
    if tapped:
        rows, between = (
            VectorPanel(OfB(), CONVERSIONS["ieee", None], Avx512Float32()),
            Across() if along_k else AlongK(),
        )
        source = PackTapped(source.source, rows, Source(between, Contiguous(), ELEMENTS["float32"]), panel)
    shape = PanelShape(_PANEL, _PANEL, _PANEL, 64 * conversion.tile_parts)
    return packing(leaf_address(source), side, groups, shape, taps, threads, item if tapped else 0)


def side_of(shape: tuple[int, ...], strides: tuple[int, ...], gradient: bool, groups: int) -> Side:
    """How a weight (O, C / groups, ...) is read: the result has its outputs, or with `gradient` its channels."""
    per_group, (of_outputs, of_channels) = shape[0] // groups, strides[:2]
    if gradient:
        return Side(per_group * of_outputs, of_channels, of_outputs, shape[1], per_group)
    return Side(per_group * of_outputs, of_outputs, of_channels, per_group, shape[1])


def tile_form(
    w: np.ndarray, gradient: bool, groups: int, precision: str, rounding: str | None, taps: tuple[tuple[int, ...], ...],
    as_a: bool = False,
) -> Form:  # fmt: skip
    """A weight (O, C / groups, ...) as panels for tiles: of its outputs, or with `gradient` of its channels. `taps` has
    for each pass the distances of its taps in bytes; `as_a` says which operand of a product it is."""
    side, threads = side_of(w.shape, w.strides, gradient, groups), threading.pool()[1]
    return Form(_tile_packing(as_a, precision, rounding, w.dtype, side, groups, taps, threads), w)


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
