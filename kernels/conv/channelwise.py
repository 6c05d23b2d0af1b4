"""Depthwise convolutions channel by channel: what is done once for a shape."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..block.conversions import CONVERSIONS
from ..block.loops import leaf_address
from ..block.sources import ELEMENTS
from ..gemm.compiled import vector_isa, working_dtype
from ..registry import Refused
from ..runtime import threading
from ..runtime.workspace import Workspace, address_of, empty
from .depthwise import Depthwise, DepthwiseWeight, PackWeights, run
from .depthwise_blocks import AXIS_BYTES
from .depthwise_lanes import VECTOR_BYTES, window_tag
from .descriptor import DepthwisePlan
from .fast import MOST_ACROSS
from .input_layout import contiguous_strides, is_channels_last, result_array, three_strides
from .packed_weight import Kept, array_of, form_of
from .params import Setting
from .shapes import lay_out_weight

_OUTPUTS = (14, 8, 7) if VECTOR_BYTES == 64 else (8, 7)
"""Results of a block; a multiple of it makes up most images: as many sums as registers have room for, or fewer."""

_USUAL = {(taps, stride, 1) for taps in (1, 2, 3, 4, 5, 7) for stride in (1, 2)} | {(3, 1, 2), (3, 1, 4)}
"""Taps, strides and dilations along the dimension of blocks that have code of their own. One code does all others, so
that the code of a process is bounded whatever shapes it meets."""

_ANY_OUTPUTS = 8
"""Results of a block in that code, whose sums stay in registers."""

_BESIDE = range(8, 3, -1)
"""Vectors of columns of a block of a single row, which share the weights and need no masks."""

_SEGMENTS = 4
"""Channels of a vector of columns, at most."""

_NEAR_BYTES = 24 << 10
"""Of what the rows that a row of results meets hold of a chunk of channels: half of the L1 cache."""

_LEAST_BYTES = 256 if VECTOR_BYTES == 64 else 768
"""Of neighbouring channels in such a chunk, at least: fewer are read and written more slowly than all in order. (AVX2,
72 channels of 56 x 56: 140 GFLOP/s by 128 bytes, 172 by whole rows; 240 of 28 x 28 to 56 x 56, by 512, 67 and 85.)"""

_TOGETHER = 4
"""Vectors of channels in a piece, at least."""

_PIECE_PRODUCTS, _MOST_PIECES = 50_000, 128
"""Products of vectors in a piece of a weight's gradient, and the most pieces. They do not depend on the number of
threads, so that the bits do not either."""


class _Axis(NamedTuple):
    """How the taps of a dimension meet places: of `size` places read, for `results`."""

    size: int
    results: int
    taps: int
    stride: int
    padding: int
    dilation: int
    spreads: bool
    """Whether it is the gradient with respect to the input."""

    @property
    def steps(self) -> tuple[int, int]:
        """From tap to tap of a result: of the places, and of the taps."""
        if not self.spreads:
            return self.dilation, 1
        common = math.gcd(self.stride, self.dilation)
        return -self.dilation // common, self.stride // common

    def table(self, results: int, clipped: bool) -> np.ndarray:
        """int64 (results, 3): the number of taps (if `clipped`, of those that meet a place that exists), the place that
        the first one meets, and which it is."""
        rows = []
        for result in range(results):
            met = []
            for tap in range(self.taps):
                if self.spreads:
                    place, rest = divmod(result + self.padding - tap * self.dilation, self.stride)
                else:
                    place, rest = result * self.stride - self.padding + tap * self.dilation, 0
                if rest == 0 and (0 <= place < self.size or not clipped):
                    met.append((place, tap))
            rows.append((len(met), *(met[0] if met else (0, 0))))
        return np.array(rows, np.int64).reshape(-1, 3)


def _axes(setting: Setting, shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[_Axis, ...]:
    task, spreads = setting.task(shape, other), setting.gradient
    read, written = (task.output, task.size) if spreads else (task.size, task.output)
    found = zip(read, written, task.kernel, task.stride, task.padding, task.dilation, strict=True)
    return tuple(_Axis(*each, spreads) for each in found)


def _outputs_of(inner: _Axis, copies: int, alone: bool) -> int:
    """Results of a block, each in so many vectors; `alone` where blocks of one are useful."""
    multiple = inner.stride if inner.spreads else 1
    if alone and inner.results == 1:
        return multiple
    most = max(_OUTPUTS) // copies if inner.taps <= max(_OUTPUTS) else 4
    options = [count for count in _OUTPUTS if count <= most and count % multiple == 0]
    if not options:
        options = [max(1, most // multiple) * multiple]
    return min(options, key=lambda count: -(-inner.results // count) * (count + 1))


def _segments_of(columns: int, lanes: int, channels: int) -> int:
    """Channels of a vector of columns, where so many columns lie in a row."""
    segments = 1
    while 2 * segments <= min(_SEGMENTS, channels) and 2 * segments * columns <= lanes:
        segments *= 2
    return segments


class _Case:
    """What follows from the shapes and strides of a call: `read` and `to` are those of what is read and of the result,
    or, for the gradient with respect to the weight, of g, with three spatial dimensions."""

    def __init__(
        self, setting: Setting, shape: tuple[int, ...], other: tuple[int, ...], dtype: np.dtype, by_channels: bool,
        usual: bool = True,
    ) -> None:  # fmt: skip
        self.setting, self.by_channels, self.images = setting, by_channels, shape[0]
        self.weighs, self.spreads = setting.kind == "weight", setting.gradient
        self.working, self.item = working_dtype(dtype), dtype.itemsize
        self.unit = self.working.itemsize
        self.lanes = VECTOR_BYTES // self.unit
        self.axes = _axes(setting, shape, other)
        self.plane, self.line, self.inner = (self.axes[axis] for axis in ((0, 1, 2) if by_channels else (0, 2, 1)))
        self.taps = math.prod(axis.taps for axis in self.axes)
        self.multiplier = other[1 if self.weighs else 0] // setting.groups
        self.channels = setting.groups * (1 if self.spreads else self.multiplier)
        self.out_shape = (shape[0], self.channels, *(axis.results for axis in self.axes))
        # Where lanes are columns, their stride, and the results of a place that is read.
        self.across, self.phases, self.width, self.rows = 0, 1, self.lanes, self.line.results
        if not by_channels:
            self.across = self.line.stride
            self.phases = self.across if self.spreads else 1
            apart = self.multiplier > 1 or self.across > 2
            self.width = 1 if apart else _segments_of(-(-self.rows // self.phases), self.lanes, self.channels)
            self.rows = -(-self.rows // (self.lanes * self.phases))
        inner = self.inner
        self.usual = usual and (inner.taps, inner.stride, inner.dilation) in _USUAL
        self.shares = self.usual or not self.spreads or inner.stride == 1  # results that follow one another share taps
        self.outputs = _outputs_of(inner, self.phases, not by_channels)
        if not self.usual:
            self.outputs = max(1, _ANY_OUTPUTS // self.phases) if self.shares else 1
        self.slot = self.unit * (self.lanes if by_channels or self.weighs else 1)
        self.unit_bytes = -(-self.taps // self.lanes) * self.lanes * self.lanes * self.unit

    @functools.cached_property
    def window(self) -> Any:
        inner = self.inner
        segments = int(self.channels < self.lanes) if self.by_channels else self.width
        phase = inner.padding % inner.stride if self.spreads else 0
        planes = self.plane.table(self.plane.results, True)[:, 0]
        nested = bool((planes != 1).any()) or (self.spreads and self.multiplier > 1)
        if not self.usual:
            window = int(self.weighs), int(self.spreads), 0, 0, 0, 0, self.outputs, self.across, segments, 1, 1
            return window_tag(*window)
        return window_tag(
            int(self.weighs), int(self.spreads), inner.taps, inner.stride, inner.dilation, phase, self.outputs,
            self.across, segments, int(nested), self.beside(),
        )  # fmt: skip

    @functools.cached_property
    def whole(self) -> tuple[int, int]:
        """The first of the vectors of columns that exist with all columns that they meet, and the one after the
        last."""
        table, step = self.line.table(self.phases, False), 1 if self.spreads else self.across
        firsts, ends = table[:, 1], table[:, 1] + (table[:, 0] - 1) * self.line.steps[0]
        low, high = int(np.minimum(firsts, ends).min()), int(np.maximum(firsts, ends).max())
        reach = self.lanes * step
        last = min((self.line.size - high) // reach, self.line.results // (self.lanes * self.phases))
        return -(min(low, 0) // reach), last

    def beside(self) -> int:
        """How many vectors of columns are a block, where each would be one."""
        inner, (first, last) = self.inner, self.whole if self.across else (0, 0)
        alone = inner.taps == inner.size == inner.results == self.width == 1 and inner.padding == 0
        if not alone or last - first < min(_BESIDE) or self.across > 2:
            return 1
        return min(_BESIDE, key=lambda count: (last - first) // count * (count + 1) + (last - first) % count * 4)

    def tables(self, read: tuple[int, ...], to: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Tables of places: for each vector of lanes those of its input, result, weight and first sum; then those of
        planes, of lines, and of the inner dimension of an unusual window."""
        count = -(-self.channels // self.width)
        starts = np.minimum(np.arange(count) * self.width, max(self.channels - self.width, 0))
        source = starts * self.multiplier if self.spreads else starts // self.multiplier
        if self.by_channels or self.weighs:
            weights = np.arange(count) * self.unit_bytes
        else:
            weights = (source if self.spreads else starts) * self.taps * self.unit
        last = starts * self.unit * (self.taps if self.weighs else 1)
        units = np.stack([source * read[1], starts * to[1], weights, last], axis=1).astype(np.int64)
        results = self.rows if self.by_channels else self.line.stride if self.spreads else 1
        inner = self.inner.table(0 if self.usual else self.inner.results, True)
        if self.spreads:  # by places, as in usual windows: the order of sums is one
            inner[:, 1:] += np.maximum(inner[:, :1] - 1, 0) * self.inner.steps
        planes, lines = self.plane.table(self.plane.results, True), self.line.table(results, self.by_channels)
        return units, planes, lines, inner

    def steps(self, read: tuple[int, ...], to: tuple[int, ...]) -> dict[str, int]:
        """From place to place of what is read, from result to result, and from weight to weight."""
        inner, (_, height, width) = self.inner, (axis.taps for axis in self.axes)
        forward = not self.spreads
        weights = height * width * self.slot, width * self.slot, self.slot
        of_inner, of_line = (2, 1) if self.by_channels else (1, 2)
        read_step, steps = read[2 + of_inner], inner.steps if forward else (-inner.steps[0], -inner.steps[1])
        first, advance = -inner.padding, self.outputs * inner.stride
        reach = (self.outputs - 1) * inner.stride + (inner.taps - 1) * inner.dilation + 1
        if self.spreads and self.shares:
            first, advance = self.window.low + inner.padding // inner.stride, self.outputs // inner.stride
            first -= 0 if self.usual else (inner.taps - 1) * inner.dilation
        elif self.spreads:
            first, advance, reach = 0, 0, 1 << 60  # nowhere are all taps met
        return {
            "x_image": read[0], "group_step": read[1], "read_channel": read[1], "plane_step": read[2],
            "line_step": read[3] if self.by_channels else self.item, "read_step": read_step,
            "out_image": to[0], "write_channel": to[1], "out_plane": to[2], "write_step": to[2 + of_inner],
            "out_row": to[3] if self.by_channels else self.lanes * self.phases * self.item,
            "group_weight": self.taps * self.unit, "weight_channel": self.taps * self.unit, "plane_weight": weights[0],
            "line_weight": weights[of_line], "tap": weights[of_inner],
            "plane_source": self.plane.steps[0], "plane_tap": self.plane.steps[1],
            "line_source": self.line.steps[0], "line_tap": self.line.steps[1],
            "line_row": AXIS_BYTES if self.by_channels else 0,
            "row_source": 0 if self.by_channels else self.lanes * (self.across if forward else 1),
            "first": first, "advance": advance, "reach": self.window.reach if self.usual else reach,
            "inner_source": steps[0] * read_step, "inner_weight": steps[1] * weights[of_inner],
            "output_source": inner.stride * read_step,
        }  # fmt: skip

    def pieces(self, units: int, threads: int) -> dict[str, int]:
        """How vectors of lanes and rows are divided."""
        near = min(self.line.taps, self.line.size) * self.inner.size * self.lanes * self.item
        if not self.by_channels:
            near = self.inner.size * self.line.size * self.width * self.item
        rows, step = self.rows * self.plane.results, _TOGETHER if self.by_channels else self.window.together
        least = _LEAST_BYTES // VECTOR_BYTES if self.by_channels and not self.weighs else step
        wanted = -(-8 * threads // max(1, self.images))
        if self.weighs:
            rows *= self.images
            wanted = min(_MOST_PIECES, units * rows * self.inner.results * self.taps // _PIECE_PRODUCTS)
        chunk = _NEAR_BYTES // max(1, near)
        if chunk < least:  # nothing is near, so that memory is read in order
            chunk = units if self.by_channels else least
        chunk = min(units, chunk, max(step, -(-units // max(1, wanted // rows if rows else 1))))
        chunk -= chunk % step if step < chunk < units else 0
        chunks = -(-units // chunk)
        strip = max(1, -(-rows // max(1, wanted // chunks)))
        strips = -(-rows // strip)
        total = chunks * strips * (1 if self.weighs else self.images)
        return {
            "chunk": chunk, "chunks": chunks, "strip": strip, "strips": strips, "pieces": chunks * strips,
            "all_pieces": total, "pieces_each": max(1, total // (16 * threads)),
        }  # fmt: skip


class _Plan(NamedTuple):
    """All that does not depend on addresses and values."""

    working: np.dtype
    conversion: tuple[str, str | None]
    out_shape: tuple[int, ...]
    """For a weight's gradient those of its strips, (strips, outputs, taps)."""
    no_bias: np.ndarray
    address: int
    memory_bytes: int
    worker_bytes: int
    kept: tuple[Any, ...]


@functools.cache
def _leaf(kind: type, dtype: str, conversion: tuple[str, str | None], *window: Any) -> int:
    return leaf_address(kind(ELEMENTS[dtype], CONVERSIONS[conversion], *(tag() for tag in window)))


def _case(
    setting: Setting, shape: tuple[int, ...], other: tuple[int, ...], dtype: np.dtype, by_channels: bool
) -> tuple[_Case, type]:
    """A case, and the class of its leaf. Where the package was installed with compiled code, and without that of a
    usual window, it is the code of any window."""
    case, conversion = _Case(setting, shape, other, dtype, by_channels), setting.conversion(vector_isa(), dtype)
    kind = DepthwiseWeight if case.weighs else Depthwise
    if case.usual:
        any_window = _Case(setting, shape, other, dtype, by_channels, usual=False)
        tags = ELEMENTS[dtype.name], CONVERSIONS[conversion]
        of_any, own = (leaf_address.is_installed(kind(*tags, each.window())) for each in (any_window, case))
        case = any_window if of_any and not own else case
    return case, kind


@functools.lru_cache(512)
def _plan(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, other: tuple[int, ...],
    written: tuple[int, ...] | None, threads: int, by_channels: bool,
) -> _Plan:  # fmt: skip
    """The plan of a convolution, or of a gradient; `other` is the shape of the second array, and `written` are the
    strides of g for the gradient with respect to the weight. Lanes are channels, or columns."""
    (case, kind), conversion = _case(setting, shape, other, dtype, by_channels), setting.conversion(vector_isa(), dtype)
    read, packs = three_strides(shape, strides), by_channels and not case.weighs
    to = contiguous_strides(case.out_shape, dtype.itemsize, by_channels)
    if written is not None:
        to = three_strides(other, written)
    kept = units, planes, lines, inner = case.tables(read, to)
    pieces = case.pieces(len(units), threads)
    values = DepthwisePlan(**case.steps(read, to) | pieces | {
        "leaf": _leaf(kind, dtype.name, conversion, case.window),
        "whole_from": case.whole[0] if case.across else 0, "whole_to": case.whole[1] if case.across else 0,
        "pack": _leaf(PackWeights, case.working.name, ("ieee", None)) if packs else 0,
        "images": case.images, "channels": case.channels, "units": len(units), "unit_table": address_of(units),
        "plane_table": address_of(planes), "line_table": address_of(lines),
        "inner_table": address_of(inner), "rows": case.rows,
        "all_rows": case.rows * case.plane.results, "positions": case.inner.size, "results": case.inner.results,
        "columns": case.line.size, "result_columns": case.line.results, "reads": case.multiplier if case.spreads else 1,
        "relu": int(setting.relu), "all_taps": case.taps, "unit_bytes": case.unit_bytes,
        "part_bytes": case.channels * case.taps * case.unit,
    })  # fmt: skip
    out_shape = (*case.out_shape[:2], *case.out_shape[7 - len(shape) :])
    if case.weighs:
        out_shape = pieces["strips"], case.channels, case.taps
    worker_bytes = pieces["chunk"] * case.unit_bytes if case.weighs else 0
    return _Plan(
        case.working, conversion, out_shape, np.zeros(max(case.channels, case.lanes), case.working), values,
        len(units) * case.unit_bytes if packs else threads * worker_bytes, worker_bytes, (values, *kept),
    )  # fmt: skip


def _run(plan: _Plan, where: tuple[int, int], x: np.ndarray, out: np.ndarray, others: tuple[int, int, int]) -> None:
    """Run a plan; `where` are the pool and the threads, `others` the addresses of weights, of a bias and of sums."""
    weights, bias, sums = others
    with Workspace(plan.memory_bytes) as memory:
        run(*where, plan.address, address_of(x), address_of(out), weights, memory, plan.worker_bytes, bias, sums)


def _has_rows(x: np.ndarray) -> bool:
    """Whether the columns of a row are neighbours in memory."""
    return x.shape[-1] == 1 or x.strides[-1] == x.itemsize


def _by_channels(setting: Setting, x: np.ndarray, multiplier: int) -> bool:
    """Whether lanes are channels: where they are neighbours, and where columns are too far apart for a vector."""
    return multiplier == 1 and (_has_channels_last(x) or setting.at.stride[-1] > MOST_ACROSS)


def _has_channels_last(x: np.ndarray) -> bool:
    return is_channels_last(x.shape, x.strides, x.itemsize)


def _weights(w: np.ndarray | Kept, plan: _Plan) -> np.ndarray:
    """The weights rounded, (outputs, taps)."""

    def round_weights(w: np.ndarray) -> np.ndarray:
        from ..precisions.parts import round_to_parts

        return np.ascontiguousarray(round_to_parts(w.astype(plan.working).reshape(len(w), -1), *plan.conversion))

    array = array_of(w)
    if array.dtype == plan.working and array.flags.c_contiguous and CONVERSIONS[plan.conversion].target is None:
        return array
    return form_of(w, ("depthwise", plan.conversion), round_weights)


def _with_layout(x: np.ndarray, last: bool) -> np.ndarray:
    """A copy, contiguous or with its channels last in memory."""
    return np.moveaxis(np.array(np.moveaxis(x, 1, -1), order="C"), -1, 1) if last else np.array(x, order="C")


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (O, 1, *K), groups = C, plus bias (O,), with an optional ReLU; or its
    input gradient, from the gradient (N, O, *S') of its result.

    The result is contiguous, or has its channels last in memory if x has.
    """
    last, by_channels = _has_channels_last(x), _by_channels(setting, x, w.shape[0] // setting.groups)
    if by_channels is not last or not (last or _has_rows(x)):
        x = _with_layout(x, by_channels)
    where = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape, None, where[1], by_channels)
    out = result_array(plan.out_shape, x.dtype, by_channels)
    if out.size == 0:
        return out
    weights, added = _weights(w, plan), plan.no_bias
    if bias is not None:
        added = np.zeros_like(added)
        added[: len(bias)] = bias
    _run(plan, where, x, out, (address_of(weights), address_of(added), 0))
    return out if by_channels is last else _with_layout(out, last)


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weight gradient (O, 1, *K) of such a convolution of x (N, C, *S), from the gradient g (N, O, *S') of its
    result.

    Raises `Refused` if lanes are columns and the result is not finite: columns that do not exist would multiply an Inf
    by zero.
    """
    kind, by_channels = x, _by_channels(setting, x, g.shape[1] // setting.groups)
    if by_channels:
        x, g = (a if _has_channels_last(a) else _with_layout(a, True) for a in (x, g))
    else:
        x, g = (a if _has_rows(a) else _with_layout(a, False) for a in (x, g))
    where = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, g.shape, g.strides, where[1], by_channels)
    sums = empty(plan.out_shape, plan.working)
    _run(plan, where, x, g, (0, 0, address_of(sums)))
    found = sums[0] if len(sums) == 1 else sums.sum(axis=0)
    if not by_channels and not np.isfinite(found).all():
        raise Refused("the result is not finite, and columns that do not exist would multiply Inf or NaN by zero")
    return lay_out_weight(found.astype(x.dtype, copy=False).reshape(len(found), 1, *setting.size), kind)
