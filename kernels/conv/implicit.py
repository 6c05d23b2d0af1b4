"""Convolutions as implicit products on vector units: what is done once for a shape."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ..block import pairs, plans, ranges, vectors
from ..block.conversions import CONVERSIONS, PAIRED, PAIRED_IN_PLACE
from ..block.loops import LIMITS_BYTES, leaf_address
from ..block.packing import OfB, VectorPanel
from ..block.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..block.tuning import memoise, tuning
from ..gemm.compiled import pairs_multiply, vector_isa, working_dtype
from ..registry import Refused
from ..runtime import threading
from ..runtime.workspace import Workspace, address_of
from . import blocks, geometry, in_place, pack_planes, pointwise_vector, strips, weights
from .descriptor import PassPlan, Plan, Plane, plan_with, table_of
from .geometry import GROUP, Geometry, Pass
from .input_layout import contiguous_strides, is_channels_last, result_array, three_strides
from .packed_weight import Kept, array_of, form_of
from .params import Setting
from .segments import Blocks, blocks_of


class Unit(NamedTuple):
    """What multiplies values of a dtype at a precision.

    Attributes:
        precision: that it computes.
        how: the conversion of the operands.
        kernel: the microkernel, for so many columns.
        panel: of a right operand. (Of pairs, what comes before values are joined.)
        size: bytes of a value of what is laid out, which is a word, or one of two that make one.
    """

    precision: str
    how: Any
    kernel: Any
    panel: VectorPanel
    size: int

    @property
    def together(self) -> int:
        """Channels whose values a word has."""
        return 2 if self.how.paired and not self.how.in_place else 1

    @property
    def has_limits(self) -> bool:
        """Whether only operands of some magnitudes are certain (`block.ranges`)."""
        return self.how.paired or self.how.vector_parts == 2

    @property
    def b_bytes(self) -> int:
        """Of a place along K in a panel of a right operand."""
        return self.kernel.b_bytes * len(self.parts)

    @property
    def parts(self) -> list[int]:
        """Of a left operand, for each row of a panel of the right one."""
        return [part for part, _ in self.how.walk] if self.how.paired else list(range(self.how.vector_parts))


@memoise
def unit_of(setting: Setting, dtype: np.dtype, columns: int) -> Unit:
    """Pairs of bf16 where they are faster, vectors elsewhere. Those of a weight's gradient are of positions."""
    if pairs_multiply(dtype, setting.precision):
        precision, _ = setting.conversion("avx512_bf16", dtype)
        how = (PAIRED_IN_PLACE if setting.kind == "weight" else PAIRED)[precision]
        kernel = _fitting(pairs.Avx512Pairs(), columns)
        size = 2 if how.in_place else 4
        return Unit(precision, how, kernel, VectorPanel(OfB(), CONVERSIONS["ieee", None], kernel), size)
    (precision, rounding), size = setting.conversion(vector_isa(), dtype), working_dtype(dtype).itemsize
    how, of_one = CONVERSIONS[precision, rounding], plans.plan_for(vector_isa(), "ieee", "rna", size).scheme.kernel
    whole = of_one if how.vector_parts == 1 else plans.plan_for(vector_isa(), precision, "rna", size).scheme.kernel
    return Unit(precision, how, _fitting(of_one, columns), VectorPanel(OfB(), how, _fitting(whole, columns)), size)


class _Plan(NamedTuple):
    """All that does not depend on addresses and values.

    Attributes:
        products: of each sum.
        packing: of the weights.
    """

    unit: Unit
    products: int
    packing: weights.Packing
    last: bool
    out_shape: tuple[int, ...]
    clears: bool
    of: Plan
    worker_bytes: int
    whole_bytes: int
    form_key: tuple
    kept: tuple[Any, ...]


class _Strips(NamedTuple):
    """How positions are divided: the table of `strips` (none: all are laid out first, and passes are divided), groups
    of positions in front of the first one, and of what is laid out at once."""

    table: np.ndarray
    front: int
    region: int


def _strips(where: Geometry, blocks: list[Blocks], length: int, position_bytes: int, threads: int) -> _Strips:
    """A strip fills half of the L2 cache, unless that is less than twice what its taps reach around it."""
    begins = [each.begins(where.image) for each in blocks]
    ends = [each.ends(where.image, length) for each in blocks]
    front, back = -(-where.front // GROUP), max(0, where.back)
    last = max((int(end.max()) for end in ends if end.size), default=0)
    around = where.front + back
    fitting = tuning(vector_isa()).cache_bytes // 2 // position_bytes - around
    count = -(-last // fitting) if fitting >= max(2 * around, 128) else 0
    if last > 2 * 32 * threads:
        count = max(count, 4 * threads) if count else 0
    if count > 1 and last // count >= 2 * around:
        main = max(range(len(begins)), key=lambda index: begins[index].size)
        firsts = np.unique(np.linspace(0, begins[main].size, count + 1).astype(int))[:-1]
        at = begins[main][firsts]
        bounds = [[0, *np.searchsorted(begin, at[1:]), begin.size] for begin in begins]
        lowest, highest = np.full(len(at), last), np.zeros(len(at), int)
        for begin, end, bound in zip(begins, ends, bounds, strict=True):
            for strip, (first, until) in enumerate(itertools.pairwise(bound)):
                if first < until:
                    lowest[strip] = min(lowest[strip], begin[first:until].min())
                    highest[strip] = max(highest[strip], end[first:until].max())
        groups = (lowest - where.front) // GROUP
        region = int((-(-(highest + back) // GROUP) - groups).max())
        columns = [column for bound in bounds for column in (bound[:-1], bound[1:])]
        return _Strips(np.stack([groups, *columns], axis=1).astype(np.int64), front, region)
    return _Strips(np.zeros((0, 1), np.int64), front, front + -(-(last + back) // GROUP))


def describe_planes(
    where: Geometry, strides: tuple[int, ...], channels: int, dtype: np.dtype, unit: Unit, region: tuple[int, int],
    last: bool, threads: int,
) -> tuple[dict[str, int], np.ndarray]:  # fmt: skip
    """The fields of a plan by which images are laid out, and the rows for each plane that they point to.

    Arguments:
        strides: of the images, in bytes, with three spatial dimensions.
        channels: of each group.
        region: groups of positions in front of position 0, and in all.
        last: whether channels are neighbours in memory.
        threads: among which it is divided, where it is laid out as a whole.
    """
    size, parts, words = unit.size, unit.how.vector_parts, -(-channels // unit.together)
    part_bytes = (GROUP * region[1] + GROUP) * size  # a cache line or two more: equal addresses would share a set
    squares, arrays = last and channels > 4, words * where.planes  # those of few are mostly empty
    rows = pack_planes.plane_rows(where, strides)
    pace = pack_planes.pace_of(int(rows[0, Plane.places()["step_w"][0]]), dtype.itemsize, squares)
    fields = {
        "pack": _pack_leaf(dtype.name, type(unit.how), pace), "plane_table": address_of(rows), "planes": where.planes,
        "channels": unit.together * strides[1], "count": channels, "blocks": words,
        "group_stride": channels * strides[1],
        "array_bytes": parts * part_bytes, "part_bytes": part_bytes, "region_bytes": arrays * parts * part_bytes,
        "region_groups": region[1], "front_groups": region[0], "channel_groups": 1, "group_bytes": GROUP * size,
        "pack_chunk": -(-region[1] // (4 * threads)) if squares or arrays < 4 * threads else region[1],
        "array_chunk": arrays if squares else -(-arrays // (4 * threads)),
    }  # fmt: skip
    return fields, rows


def _describe_pass(
    one: Pass, found: Blocks, where: Geometry, arrays: np.ndarray, size: int, out_strides: tuple[int, ...], item: int
) -> tuple[dict[str, int], tuple[Any, ...]]:
    """The fields of a pass, but for how it is divided, and the arrays that they point to. `arrays` has the bytes to the
    arrays (channels in the order of their weights, planes, parts); refused where the result reaches too far."""
    written = geometry.lane_spots(where, one, found.lanes, found.images, (out_strides[0], *out_strides[2:]), item)
    if written is None:
        raise Refused("an array reaches too far for offsets of 32 bits")
    groups = [group[:, plane] + size * shift for group in arrays for plane, shift, _ in one.taps]
    table = np.ascontiguousarray(np.concatenate([group.ravel() for group in groups]), np.int64)
    fields = {
        "steps": table.size, "table": address_of(table), "end": 0, "groups": len(found.starts),
        "period_stride": written.period_stride, "runs": address_of(written.runs),
        "offsets": address_of(written.offsets), "blocks": found.count, "starts": address_of(found.starts),
        "period": found.images * where.image,
    }  # fmt: skip
    return fields, (table, written, found)


def _describe(
    where: Geometry, passes: list[Pass], unit: Unit, dtype: np.dtype, sizes: tuple[int, int, int, int],
    wide: tuple[int, ...], out_strides: tuple[int, ...], last: bool, threads: int,
) -> tuple[dict[str, int], list[dict[str, int]], tuple[Any, ...]]:  # fmt: skip
    """The fields of the plan and of each pass, where images are laid out, and what they point to. The sizes are the
    channels of a group, groups, columns, and channels whose weights for one tap lie together."""
    channels, groups, columns, depth = sizes
    kernel, size, parts, words = unit.kernel, unit.size, unit.how.vector_parts, -(-channels // unit.together)
    length, segments = blocks.segments_of(kernel)
    found = [blocks_of(where, one, length, segments) for one in passes]
    divided = _strips(where, found, length, words * where.planes * parts * size, threads)
    count, region, panels = len(divided.table), (divided.front, divided.region), -(-columns // kernel.nr)
    fields, of_planes = describe_planes(where, wide, channels, dtype, unit, region, last, threads * groups)
    step = weights.PAIRED_DEPTH // 2 if unit.how.paired else depth
    numbers = np.arange(words * where.planes * parts).reshape(words, where.planes, parts)[:, :, unit.parts]
    arrays = np.split(numbers * fields["part_bytes"], range(step, words, step))
    rows, kept = [], []
    for one, each in zip(passes, found, strict=True):
        values, pointed = _describe_pass(one, each, where, arrays, size, out_strides, dtype.itemsize)
        values["block_chunk"] = each.count if count else -(-each.count // -(-4 * threads // (groups * panels)))
        values["panel_chunk"] = panels if count else 1
        rows.append(values)
        kept.append(pointed)
    fields |= {
        "strip_table": address_of(divided.table), "strips": count, "convolve": _block_leaf(dtype.name, type(kernel)),
    }  # fmt: skip
    return fields, rows, (of_planes, kept, divided.table)


@functools.lru_cache(512)
def _plan(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, w_shape: tuple[int, ...],
    w_strides: tuple[int, ...], threads: int,
) -> _Plan:  # fmt: skip
    gradient, groups, task = setting.gradient, setting.groups, setting.task(shape, w_shape)
    of_outputs, of_channels = w_shape[0] // groups, w_shape[1]
    channels, columns = (of_outputs, of_channels) if gradient else (of_channels, of_outputs)
    out_shape = (shape[0], groups * columns, *(task.size if gradient else task.output))
    where = geometry.gradient_geometry(task, 0) if gradient else geometry.forward_geometry(task, 0, 0)
    passes = [one for one in where.passes if one.taps]
    is_in_place = bool(passes) and min(out_shape) > 0 and in_place.takes(setting, shape, strides, dtype)
    unit, item = unit_of(setting, dtype, in_place.COLUMNS if is_in_place else columns), dtype.itemsize
    kernel, last, wide = unit.kernel, is_channels_last(shape, strides, item), three_strides(shape, strides)
    out_strides = contiguous_strides(out_shape, item, last)
    depth = _depth(setting, w_shape, w_strides, item)
    if is_in_place:
        depth = depth if unit.how.paired else in_place.WORDS
        fields, rows, kept = in_place.describe(
            setting, where, passes, unit, dtype, channels, columns, (wide[0], *wide[2:]),
            (out_strides[0], *out_strides[2:]), threads,
        )  # fmt: skip
    else:
        fields, rows, kept = _describe(
            where, passes, unit, dtype, (channels, groups, columns, depth), wide, out_strides, last, threads
        )
    pass_table = table_of(PassPlan, rows)
    count, region_bytes, sums = fields["strips"], fields["region_bytes"], blocks.sums_bytes(kernel)
    values = plan_with(fields | {
        "channel_groups": groups, "columns": columns, "channel_stride": out_strides[1], "relu": int(setting.relu),
        "panels": -(-columns // kernel.nr), "sums_bytes": sums, "passes": len(passes),
        "pass_table": address_of(pass_table), "bias_group": columns * unit.size,
    })  # fmt: skip
    key: tuple = ("vectors", type(unit.how), kernel.nr, groups, depth)
    key += (task.stride, task.padding, task.dilation, task.size) if gradient else ()
    wide_weights = (*w_shape[:2], *task.kernel), three_strides(w_shape, w_strides)
    packing = _packing(unit, gradient, groups, depth, *wide_weights, dtype, tuple(passes), threads)
    return _Plan(
        unit, channels * math.prod(task.kernel), packing, last,
        (*out_shape[:2], *out_shape[7 - len(shape) :]), len(passes) < len(where.passes), values,
        sums + (-(-region_bytes // 64) * 64 if count else 0), 0 if count else groups * region_bytes, key,
        (pass_table, kept),
    )  # fmt: skip


def _depth(setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> int:
    """Channels whose weights for one tap lie together: as in memory where what is summed over lies in a row there.
    Elsewhere some, so that the values that all taps of them meet stay in the L1 cache."""
    in_rows = tuple(item * math.prod(shape[axis + 1 :]) for axis in range(1, len(shape)))
    if not setting.gradient and three_strides(shape, strides)[1:] == three_strides(shape, (0, *in_rows))[1:]:
        return 1
    return 16 if setting.gradient else 64


_NARROW = {
    vectors.Avx512Float32: vectors.Avx512Float32Narrow(),
    vectors.Avx512InTwo: vectors.Avx512InTwoNarrow(),
    pairs.Avx512Pairs: pairs.Avx512PairsNarrow(),
}
_NARROW_TIME = 7.5 / 14
"""Of a block of one vector of columns, which loads bound, relative to one of two."""


def _fitting(kernel: Any, columns: int) -> Any:
    """The microkernel, or that of one vector of columns where more of those would be empty otherwise."""
    narrow = _NARROW.get(type(kernel))
    if narrow is None or _NARROW_TIME * -(-columns // narrow.nr) >= -(-columns // kernel.nr):
        return kernel
    return narrow


@functools.cache
def _pack_leaf(dtype: str, how: type, pace: type) -> int:
    return leaf_address(pack_planes.PackPlanes(ELEMENTS[dtype], how(), pace()))


@functools.cache
def _block_leaf(dtype: str, kernel: type) -> int:
    return leaf_address(blocks.ConvolveVectors(kernel(), ELEMENTS[dtype]))


@functools.cache
def weights_leaf(dtype: str, how: type, kernel: type, along_k: bool, unit: bool) -> int:
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype])
    if how.paired:
        rows = VectorPanel(OfB(), CONVERSIONS["ieee", None], kernel())
        return leaf_address(weights.PackPairs(source, rows, how()))
    return leaf_address(weights.PackWeights(source, VectorPanel(OfB(), how(), kernel())))


def _packing(
    unit: Unit, gradient: bool, groups: int, depth: int, shape: tuple[int, ...], strides: tuple[int, ...],
    dtype: np.dtype, passes: tuple[Pass, ...], threads: int,
) -> weights.Packing:  # fmt: skip
    """How weights of this shape and these strides (three spatial dimensions) are packed."""
    kernel, how, item = unit.panel.kernel, unit.how, dtype.itemsize
    side = weights.side_of(shape, strides, gradient, groups)
    taps, order, tap_stride = weights.tap_offsets(shape, strides, passes), side.order(item), 0
    panel = weights.PanelShape(kernel.nr, depth, 1, unit.b_bytes)
    if how.paired:
        panel = weights.PanelShape(kernel.nr, weights.PAIRED_DEPTH, 2, unit.b_bytes // 2)
        if depth == 1:
            order, tap_stride = (True, True), item
    elif depth == 1:  # all taps of all channels are a row
        side = side._replace(k_stride=item, count=side.count * len(taps[0]))
        taps, panel, order = ((0,),), panel._replace(depth=side.count), (True, True)
    leaf = weights_leaf(dtype.name, type(how), type(kernel), *order)
    return weights.packing(leaf, side, groups, panel, taps, threads, tap_stride)


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """The convolution of x (N, C, *S) with w (O, C / groups, *K), plus bias (O,), with an optional ReLU; or its input
    gradient, from the gradient (N, O, *S') of its result.

    The result is contiguous, or has its channels last in memory if x has. Raises `Refused` if the values exceed the
    range of the precision's parts.
    """
    if (found := pointwise_vector.convolve(setting, x, w, bias)) is not None:
        return found
    pool, threads = threading.pool()
    plan = _plan(setting, x.shape, x.strides, x.dtype, w.shape, array_of(w).strides, threads)
    out = result_array(plan.out_shape, x.dtype, plan.last)
    if out.size == 0:
        return out
    if plan.clears:
        out[...] = 0
    lent = not isinstance(w, Kept)
    form = form_of(w, plan.form_key, lambda array: weights.Form(plan.packing, array, lent))
    added = np.zeros(plan.out_shape[1] + plan.unit.kernel.nr, working_dtype(x.dtype))  # whole vectors of it are read
    if bias is not None:
        added[: plan.out_shape[1]] = bias
    with Workspace(threads * (plan.worker_bytes + LIMITS_BYTES) + plan.whole_bytes) as base:
        found = strips.convolve(
            pool, threads, plan.of, address_of(x), form.address, address_of(added), address_of(out), base,
            plan.worker_bytes, base + threads * plan.worker_bytes + plan.whole_bytes,
        )  # fmt: skip
        if lent:
            form.give_back()
    if plan.unit.has_limits:
        ranges.refuse_uncertain(ranges.certain_from(plan.unit.precision, plan.products, found, form.found), out)
    return out
