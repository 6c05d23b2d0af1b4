"""Weights packed for convolutions: once for many calls where they are kept."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .. import threading
from ..gemm.loops import LIMITS_BYTES, found_limits, leaf_address, reset_limits
from ..gemm.packing import CONVERSIONS, OfA, OfB, TilePanel, pack_panel
from ..gemm.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..gemm.tags import constant
from ..gemm.workspace import address_of, aligned_bytes
from ..jit import njit
from ..launch import call_at, launch
from .geometry import Pass
from .memory import read64

__all__ = ["Form", "PackWeights", "Side", "fold_weight", "pack_weights", "tap_offsets", "tile_form"]

_PANEL = 32
"""Lines of a panel for tiles, and channels of a step."""


@njit(cache=False, no_cpython_wrapper=True)
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


@njit(cache=False, no_cpython_wrapper=True)
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


class Form:
    """Weights packed for the passes of one kind of convolution.

    Attributes:
        address: of pairs of int64 for each pass: where its panels begin, and the bytes from group to group.
        first: where those of the first pass begin.
        found: the magnitudes found in all of them.
    """

    __slots__ = ("_memory", "_places", "address", "first", "found")

    def __init__(
        self,
        leaf: int,
        at: int,
        side: Side,
        groups: int,
        panel: tuple[int, int, int, int],
        taps: tuple[tuple[int, ...], ...],
    ) -> None:
        """`taps` has for each pass the distances of its taps in bytes; `panel` its lines, the channels of a step, what
        a step's depth is rounded up to, and bytes for each place along K."""
        lines, depth, unit, k_bytes = panel
        panels, (pool, threads) = -(-side.lines // lines), threading.pool()
        whole, rest = divmod(side.count, depth)
        deep = whole * depth + -(-rest // unit) * unit
        panel_bytes = [deep * len(offsets) * k_bytes for offsets in taps]
        group_bytes = [panels * size for size in panel_bytes]
        starts = np.cumsum([0] + [groups * -(-size // 64) * 64 for size in group_bytes]).tolist()
        self._memory = aligned_bytes(starts[-1] + threads * LIMITS_BYTES)
        base = address_of(self._memory)
        self._places = np.array(
            [(base + start, size) for start, size in zip(starts, group_bytes, strict=False)], np.int64
        )
        self.address, self.first = address_of(self._places), base
        least, greatest = 0, 0
        chunk = max(1, panels // (4 * threads))
        for target, size, offsets in zip(self._places[:, 0].tolist(), panel_bytes, taps, strict=True):
            table = np.array(offsets, np.int64)
            found = pack_weights(
                pool, threads, leaf, at, side.group_stride, side.line_stride, side.k_stride, groups, side.lines,
                side.count, depth, address_of(table), len(offsets), target, size, panels, chunk, base + starts[-1],
            )  # fmt: skip
            greatest = max(greatest, found >> 32)
            here = found & 0xFFFFFFFF
            least = min(least, here) if least and here else least or here
        self.found = greatest << 32 | least


@functools.cache
def _tile_leaf(as_a: bool, precision: str, rounding: str | None, dtype: str, along_k: bool, unit: bool) -> int:
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype])
    return leaf_address(PackWeights(source, TilePanel(OfA() if as_a else OfB(), CONVERSIONS[precision, rounding])))


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
    per_group, (of_outputs, of_channels) = w.shape[0] // groups, w.strides[:2]
    if gradient:
        side = Side(per_group * of_outputs, of_channels, of_outputs, w.shape[1], per_group)
    else:
        side = Side(per_group * of_outputs, of_outputs, of_channels, per_group, w.shape[1])
    along_k = abs(side.k_stride) <= abs(side.line_stride)
    unit = (side.k_stride if along_k else side.line_stride) == w.itemsize
    leaf = _tile_leaf(as_a, precision, rounding, w.dtype.name, along_k, unit)
    panel = (_PANEL, _PANEL, _PANEL, 64 * CONVERSIONS[precision, rounding].tile_parts)
    return Form(leaf, address_of(w), side, groups, panel, taps)


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


def tap_offsets(w: np.ndarray, passes: tuple[Pass, ...]) -> tuple[tuple[int, ...], ...]:
    """For each pass the distance in bytes of its taps, by their index among the kernel's values."""
    grid = np.zeros(w.shape[2:], np.int64)
    for axis, stride in enumerate(w.strides[2:]):
        shape = [1, 1, 1]
        shape[axis] = -1
        grid += (np.arange(w.shape[2 + axis]) * stride).reshape(shape)
    flat = grid.ravel().tolist()
    return tuple(tuple(flat[index] for _, _, index in one.taps) for one in passes)
