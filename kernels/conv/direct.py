"""Convolutions on tiles: which there are, and what is done once for a shape."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from .. import threading
from ..gemm import ranges
from ..gemm.compiled import computed
from ..gemm.loops import LIMITS_BYTES, leaf_address
from ..gemm.packing import CONVERSIONS, OfB, TilePanel
from ..gemm.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..gemm.workspace import address_of, empty, return_workspace, take_workspace
from ..registry import Refused
from . import finish, geometry, lines, tiles, weights
from .geometry import GROUP, Geometry, Pass, Task
from .weights import Kept, array_of, form_of

__all__ = ["convolve", "input_gradient"]

BLOCK = 32
"""Positions and channels of a block of the result."""

_CHANNELS = 32
_STEPS = 9
"""Steps along K between which sums are kept in memory: the weights of a panel fill a third of the L1 cache."""

_SUMS_BYTES = 1 << 19
_FOLDED_CHANNELS = 16
_LEAST_BIAS = 2.0**-102


def three(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    """Values for the spatial dimensions of a convolution as those for three."""
    return (fill,) * (3 - len(values)) + tuple(values)


def spread(x: np.ndarray) -> np.ndarray:
    """An array (a, b, *spatial) with three spatial dimensions."""
    return x.reshape(*x.shape[:2], *three(x.shape[2:], 1)) if x.ndim < 5 else x


def _strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for three spatial dimensions; those of dimensions of size 1 are 0, for they mean nothing."""
    own = tuple(stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
    return own[:2] + (0,) * (5 - len(own)) + own[2:]


def channels_last(x: np.ndarray) -> bool:
    """Whether the channels of each position are neighbours in memory, and positions are not."""
    if x.ndim < 3 or x.shape[1] == 1:
        return False
    inner = [stride for size, stride in zip(x.shape[2:], x.strides[2:], strict=True) if size > 1]
    return abs(x.strides[1]) == x.itemsize and all(abs(stride) > x.itemsize for stride in inner) and bool(inner)


def result_array(shape: tuple[int, ...], dtype: np.dtype, last: bool) -> np.ndarray:
    """An uninitialised array (N, C, *spatial), contiguous, or with the channels last in memory."""
    if not last:
        return empty(shape, dtype)
    return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def folded_dimensions(kernel: tuple[int, ...], channels: int) -> int:
    """How many trailing dimensions of a kernel to fold, so that a sum has the fewest steps of 32 channels."""
    if channels > _FOLDED_CHANNELS:
        return 0
    steps = []
    for folded in range(4):
        inside = math.prod(kernel[3 - folded :])
        steps.append(-(-channels * inside // _CHANNELS) * (math.prod(kernel) // inside))
    return steps.index(min(steps))


@functools.cache
def _pack_leaf(precision: str, rounding: str | None, dtype: str, along_k: bool) -> int:
    source = Source(AlongK() if along_k else Across(), Contiguous(), ELEMENTS[dtype])
    return leaf_address(lines.PackLines(source, CONVERSIONS[precision, rounding]))


@functools.cache
def _weights_leaf(precision: str, rounding: str | None, dtype: str, along_k: bool, unit: bool) -> int:
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype])
    return leaf_address(weights.PackWeights(source, TilePanel(OfB(), CONVERSIONS[precision, rounding])))


@functools.cache
def _block_leaf(precision: str) -> int:
    return leaf_address(tiles.ConvolveBlock(tiles.KERNELS[precision]))


@functools.cache
def _finish_leaf(dtype: str, last: bool) -> int:
    return leaf_address(finish.FinishBlock(AlongK() if last else Across(), ELEMENTS[dtype]))


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """One pass of a plan: the distances of its lines, and where its results go."""

    table: np.ndarray
    blocks: int
    end: int
    spots: geometry.Spots


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
    out_dtype: np.dtype
    group_stride: int
    spots: geometry.Spots
    tables: int
    channels: np.ndarray
    pack_leaf: int
    count: int
    blocks: int
    part_bytes: int
    parts: int
    steps: tuple[_Step, ...]
    block_leaf: int
    finish_leaf: int
    columns: int
    channel_stride: int
    direct: int
    no_bias: np.ndarray

    @property
    def panels(self) -> int:
        return -(-self.columns // BLOCK)

    @property
    def array_bytes(self) -> int:
        return self.parts * self.part_bytes

    def packed_bytes(self, groups: int) -> int:
        return groups * self.blocks * self.geometry.planes * self.array_bytes


def _contiguous_strides(shape: tuple[int, ...], item: int, last: bool) -> tuple[int, ...]:
    """Strides in bytes of an array (N, C, d, h, w), contiguous or with its channels last in memory."""
    n, c, d, h, w = shape
    if last:
        return d * h * w * c * item, item, h * w * c * item, w * c * item, c * item
    return c * d * h * w * item, d * h * w * item, h * w * item, w * item, item


@functools.lru_cache(512)
def _plan(
    gradient: bool,
    task: Task,
    channels: int,
    columns: int,
    groups: int,
    strides: tuple[int, ...],
    last: bool,
    dtype: np.dtype,
    precision: str,
    rounding: str | None,
) -> _Plan | None:
    """The plan of a convolution (or of the gradient with respect to its input) of `channels` to `columns` channels in
    each group, for an array to read with these strides."""
    folded = 0 if gradient else folded_dimensions(task.kernel, channels)
    shape = geometry.gradient_geometry(task, BLOCK) if gradient else geometry.forward_geometry(task, folded, BLOCK)
    item, parts = dtype.itemsize, CONVERSIONS[precision, rounding].tile_parts
    along_k = strides[1] == item and not folded and channels > 1
    spots = geometry.spots(shape, shape.sources, (strides[0], *strides[2:]), item)
    size = task.size if gradient else task.output
    out_shape = (task.images, groups * columns, *size)
    out_strides = _contiguous_strides(out_shape, item, last)
    neighbour = out_strides[4] if last else item
    steps, part_bytes = [], 64 * ((shape.lines + GROUP) | 1)
    tables = len(shape.sources) // shape.planes
    count, taps = channels * tables, math.prod(task.kernel)
    blocks = -(-count // _CHANNELS)
    for one in shape.passes:
        where = geometry.spots(shape, (geometry.result_indices(shape, one),), (out_strides[0], *out_strides[2:]), neighbour)
        if where is None:
            return None
        distances = [
            (block * shape.planes + plane) * parts * part_bytes + 64 * offset
            for block in range(blocks)
            for plane, offset, _ in one.taps
        ]
        end = shape.end(one)
        steps.append(_Step(np.array(distances, np.int64), -(-end // BLOCK), end, where))
    if spots is None:
        return None
    table = np.zeros((blocks * _CHANNELS, 2), np.int64)
    table[:count, 0] = np.repeat(np.arange(channels) * strides[1], tables)
    table[:count, 1] = np.tile(np.arange(tables), channels)
    regular = last and dtype == np.float32 and not gradient
    return _Plan(
        precision, rounding, shape, channels * taps, last, out_shape, dtype, channels * strides[1], spots, tables, table,
        _pack_leaf(precision, rounding, dtype.name, along_k), count, blocks, part_bytes, parts, tuple(steps),
        _block_leaf(precision), _finish_leaf(dtype.name, last), columns, out_strides[1],
        out_strides[4] if regular else 0, np.zeros((groups, -(-columns // BLOCK) * BLOCK), np.float32),
    )  # fmt: skip


def _chunks(plan: _Plan, step: _Step, groups: int, threads: int) -> tuple[int, int]:
    """Blocks and panels of a task: at most so many that sums fit, and fewer where there would be few tasks."""
    blocks, panels = min(step.blocks, 8), min(plan.panels, 16)
    while threads > 1 and groups * -(-step.blocks // blocks) * -(-plan.panels // panels) < 4 * threads:
        if panels >= blocks and panels > 1:
            panels = -(-panels // 2)
        elif blocks > 1:
            blocks = -(-blocks // 2)
        else:
            break
    return blocks, panels


def _bias_rows(bias: np.ndarray, plan: _Plan, groups: int) -> np.ndarray:
    """A bias as rows of whole blocks for each group; refused where tiles would change its values."""
    wide = np.asarray(bias, np.float32).reshape(groups, plan.columns)
    magnitude = np.abs(wide)
    if not ((magnitude < 1 / _LEAST_BIAS) & ((magnitude >= _LEAST_BIAS) | (wide == 0))).all():
        raise Refused(f"a bias for tiles lies within 2**-102 and 2**102 or is 0, and one is {magnitude.max():.3g}")
    rows = np.zeros_like(plan.no_bias)
    rows[:, : plan.columns] = wide
    return rows


def _run(plan: _Plan, x: np.ndarray, form: weights.Form, out: np.ndarray, bias: np.ndarray, groups: int, relu: bool) -> None:
    """Pack the activations, and convolve them with packed weights into the result."""
    (pool, threads), shape = threading.pool(), plan.geometry
    sums = 8 * 16 * 4096
    packed = plan.packed_bytes(groups)
    memory = take_workspace(packed + threads * (sums + LIMITS_BYTES))
    try:
        base = address_of(memory)
        scratch, limits = base + packed, base + packed + threads * sums
        all_groups = -(-shape.task.images * shape.image // GROUP)
        chunk = max(8, min(64, -(-all_groups * groups * plan.blocks * shape.planes // (4 * threads))))
        found = lines.pack_lines(
            pool, threads, plan.pack_leaf, address_of(x), plan.group_stride, plan.spots.period_stride,
            address_of(plan.spots.runs), address_of(plan.spots.offsets), plan.spots.groups, plan.tables, shape.planes,
            address_of(plan.channels), plan.count, plan.blocks, groups, base, plan.array_bytes, plan.part_bytes,
            plan.parts, shape.front, all_groups, chunk, limits,
        )  # fmt: skip
        sentence = ranges.refusal(plan.precision, plan.depth, found, form.found)
        if sentence is not None:
            raise Refused(sentence)
        a, a_group = base + 64 * shape.front, plan.blocks * shape.planes * plan.array_bytes
        for index, step in enumerate(plan.steps):
            if not step.table.size:
                continue
            block_chunk, panel_chunk = _chunks(plan, step, groups, threads)
            tiles.convolve(
                pool, threads, plan.block_leaf, plan.finish_leaf, groups, step.table.size, _STEPS, a, a_group,
                plan.part_bytes, address_of(step.table), form.addresses[index], form.group_bytes[index],
                address_of(bias), step.blocks, plan.panels, block_chunk, panel_chunk, step.end, address_of(out),
                step.spots.groups, step.spots.period_stride, address_of(step.spots.runs),
                address_of(step.spots.offsets), plan.channel_stride, plan.columns, int(relu),
                0 if relu else plan.direct, scratch, sums,
            )  # fmt: skip
    finally:
        return_workspace(memory)


def _form(w: np.ndarray, plan: _Plan, gradient: bool, groups: int) -> weights.Form:
    """The weights packed for a plan."""
    wide = weights.fold_weight(spread(w), plan.geometry.folded)
    item, per_group = wide.itemsize, wide.shape[0] // groups
    of_outputs, of_channels = wide.strides[:2]
    if gradient:
        side = weights.Side(per_group * of_outputs, of_channels, of_outputs, wide.shape[1], per_group)
    else:
        side = weights.Side(per_group * of_outputs, of_outputs, of_channels, per_group, wide.shape[1])
    along_k = abs(side.k_stride) <= abs(side.line_stride)
    unit = (side.k_stride if along_k else side.line_stride) == item
    leaf = _weights_leaf(plan.precision, plan.rounding, wide.dtype.name, along_k, unit)
    panel = (BLOCK, _CHANNELS, _CHANNELS, 64 * plan.parts)
    return weights.Form(leaf, address_of(wide), side, groups, panel, weights.tap_offsets(wide, plan.geometry.passes))


def _convolve(
    gradient: bool,
    x: np.ndarray,
    w: np.ndarray | Kept,
    bias: np.ndarray | None,
    task: Task,
    channels: int,
    columns: int,
    groups: int,
    precision: str,
    rounding: str,
    relu: bool,
) -> np.ndarray:
    inner = computed("amx", x.dtype, precision)
    assert inner is not None
    way = rounding if inner == "tf32" else None
    last = channels_last(x)
    rank, strides = x.ndim - 2, _strides(x.shape, x.strides)
    shape = (x.shape[0], groups * columns, *(task.size if gradient else task.output)[3 - rank :])
    out = result_array(shape, x.dtype, last)
    if out.size == 0:
        return out
    plan = _plan(gradient, task, channels, columns, groups, strides, last, x.dtype, inner, way)
    if plan is None:
        raise Refused(f"the array {list(x.shape)} reaches too far for offsets of 32 bits")
    key = ("tiles", inner, way, groups) + ((task.stride, task.padding, task.dilation, task.size) if gradient else ())
    form = form_of(w, key, lambda array: _form(array, plan, gradient, groups))
    rows = plan.no_bias if bias is None else _bias_rows(bias, plan, groups)
    if gradient and not all(step.table.size for step in plan.steps):
        out[...] = 0
    _run(plan, x, form, out, rows, groups, relu)
    return out


def convolve(
    x: np.ndarray,
    w: np.ndarray | Kept,
    bias: np.ndarray | None = None,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
    precision: str = "ieee",
    rounding: str = "rna",
    relu: bool = False,
) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (O, C / groups, *K), plus bias (O,), and max(., 0) where `relu` says so.

    The result is (N, O, *S'), contiguous, or with the channels last in memory where those of x are. Raises `Refused`
    where the values do not admit the precision on tiles.
    """
    task = Task(
        x.shape[0], three(x.shape[2:], 1), three(w.shape[2:], 1), three(stride, 1), three(padding, 0), three(dilation, 1)
    )
    return _convolve(
        False, x, w, bias, task, w.shape[1], w.shape[0] // groups, groups, precision, rounding, relu
    )  # fmt: skip


def input_gradient(
    g: np.ndarray,
    w: np.ndarray | Kept,
    *,
    input_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
    precision: str = "ieee",
    rounding: str = "rna",
) -> np.ndarray:
    """The gradient (N, C, *input_size) of a convolution with respect to its input, from that of its result, g."""
    task = Task(
        g.shape[0], three(input_size, 1), three(w.shape[2:], 1), three(stride, 1), three(padding, 0), three(dilation, 1)
    )
    return _convolve(
        True, g, w, None, task, w.shape[0] // groups, w.shape[1], groups, precision, rounding, False
    )  # fmt: skip
