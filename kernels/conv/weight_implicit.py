"""The gradient of a convolution with respect to its weight on vector units: what is done once for a shape."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .. import threading
from ..gemm import plans, ranges
from ..gemm.compiled import vector_isa, working_dtype
from ..gemm.loops import LIMITS_BYTES, leaf_address
from ..gemm.workspace import address_of, return_workspace, take_workspace
from ..registry import Refused
from ..thresholds import Thresholds
from . import geometry, one_tap, taps
from .descriptor import TAPS, describe
from .fast import CHUNK_BYTES
from .geometry import Geometry
from .halves import rounded_sums
from .reading import three_strides
from .setting import Setting

__all__ = ["thresholds", "weight_gradient"]


class _Row(NamedTuple):
    places: int = 64
    places_most: int = 1024
    """Positions of a chunk. (Batch 8, 64-64 3 x 3 at 56 x 56, GFLOP/s for 512, 1024 and 2048: 218, 227, 239.)"""


thresholds = Thresholds(_Row())


class _Operand(NamedTuple):
    """What is packed of one array.

    Attributes:
        is_a: whether it is the left operand of the products.
        rows: for each plane the rows of neighbouring positions that have values, as `_rows` finds them.
        front, around: positions in front of a chunk that are packed with it, and of all around it.
        strides: bytes from line to line, and from place to place.
    """

    is_a: bool
    lines: int
    panel: int
    k_bytes: int
    rows: list[np.ndarray]
    front: int
    around: int
    strides: tuple[int, int]

    @property
    def panels(self) -> int:
        return -(-self.lines // self.panel)

    @property
    def place_bytes(self) -> int:
        return len(self.rows) * self.panels * self.k_bytes

    def plane_bytes(self, places: int) -> int:
        return self.panels * (places + self.around) * self.k_bytes


class _Plan(NamedTuple):
    """All that does not depend on addresses and values.

    Attributes:
        arguments: of `taps.weight_gradient`, from the leaf to the bytes of a value.
        sums_bytes, packed_bytes: of the memory for sums, and for what is packed.
        precision: that is computed, in sums of `depth` products.
    """

    precision: str
    depth: int
    arguments: tuple[int, ...]
    sums_bytes: int
    packed_bytes: int
    kept: tuple[Any, ...]


def _rows(table: tuple[np.ndarray, ...], where: Geometry, strides: tuple[int, ...]) -> np.ndarray:
    """The rows of neighbouring positions that have values: the first position, how many, and bytes to the first value.
    `table` has the index of each dimension at each place, or -1."""
    there = [np.flatnonzero(index >= 0) for index in table]
    if not all(each.size for each in there):
        return np.empty((0, 3), np.int64)
    images = np.arange(where.task.images)
    positions, offsets = images * where.image, images * strides[0]
    for axis in range(3):
        at = there[axis] if axis < 2 else there[axis][:1]
        positions = positions[..., None] + at * where.steps[axis]
        offsets = offsets[..., None] + table[axis][at] * strides[axis + 2]
    return np.stack([positions.ravel(), np.full(positions.size, there[2].size), offsets.ravel()], 1)


def _runs(rows: np.ndarray, operand: int, first: int, count: int, k_stride: int) -> list[np.ndarray]:
    """Of so many places from a position on: those of the rows, and zeros between them, as `taps` takes them."""
    begin, end = rows[:, 0], rows[:, 0] + rows[:, 1]
    some = slice(np.searchsorted(end, first, "right"), np.searchsorted(begin, first + count))
    start, stop = np.maximum(begin[some], first), np.minimum(end[some], first + count)
    sources = rows[some, 2] + (start - begin[some]) * k_stride
    start, stop = start - first, stop - first
    gaps, until = np.append(0, stop), np.append(start, count)
    zeros = np.stack([np.full(gaps.size, operand), gaps, until - gaps, np.full(gaps.size, taps.ZEROS)], 1)
    return [np.stack([np.full(start.size, operand), start, stop - start, sources], 1), zeros[until > gaps]]


def _all_runs(operands: list[_Operand], chunks: int, places: int) -> tuple[np.ndarray, np.ndarray]:
    """The runs of all chunks, and where those of each begin."""
    found, firsts = [], [0]
    for chunk in range(chunks):
        first, here, number = chunk * places, list[np.ndarray](), 0
        for each in operands:
            for rows in each.rows:
                here += _runs(rows, number, first - each.front, places + each.around, each.strides[1])
                number += 1
        found += here
        firsts.append(firsts[-1] + sum(map(len, here)))
    return np.ascontiguousarray(np.concatenate(found), np.int64), np.array(firsts, np.int64)


def _operands(
    where: Geometry, kernel: Any, x: tuple[int, tuple[int, ...]], g: tuple[int, tuple[int, ...]]
) -> tuple[_Operand, _Operand]:
    """The gradient and the images, of so many channels in a group and with these strides for three dimensions. That of
    the two is the left one which fills panels better so."""

    def operand(
        is_a: bool, lines: int, strides: tuple[int, ...], step: int, tables: Any, front: int, around: int
    ) -> _Operand:
        panel, k_bytes = (kernel.mr, kernel.a_bytes) if is_a else (kernel.nr, kernel.b_bytes)
        rows = [_rows(table, where, strides) for table in tables]
        return _Operand(is_a, lines, panel, k_bytes, rows, front, around, (strides[1], step * strides[4]))

    def fill_share(a: int, b: int) -> float:
        """The part of panels that so many lines fill."""
        return a / (-(-a // kernel.mr) * kernel.mr) * b / (-(-b // kernel.nr) * kernel.nr)

    (one,) = where.passes
    is_a, around = fill_share(x[0], g[0]) > fill_share(g[0], x[0]), where.front + where.back
    return (
        operand(not is_a, *g, 1, [geometry.result_indices(where, one)], 0, 0),
        operand(is_a, *x, where.task.stride[2], where.sources, where.front, around),
    )


def _table(plan: plans.Plan, operands: tuple[_Operand, ...], places: int, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """The rows of `descriptor.TAPS`, and the bytes of all that is packed."""
    rows, target = [], 0
    for each in operands:
        side = plans.side(plan, each.is_a, dtype, each.lines, 2, *each.strides)
        for _ in each.rows:
            rows.append(describe(TAPS, {
                "leaf": side.leaf, "line_stride": each.strides[0], "k_stride": each.strides[1], "lines": each.lines,
                "places": places + each.around, "k_bytes": each.k_bytes, "panels": each.panels, "target": target,
            }))  # fmt: skip
            target += each.plane_bytes(places)
    return np.concatenate(rows), target


@functools.lru_cache(512)
def _plan(
    setting: Setting,
    x_shape: tuple[int, ...],
    x_strides: tuple[int, ...],
    g_shape: tuple[int, ...],
    g_strides: tuple[int, ...],
    dtype: np.dtype,
) -> _Plan:
    isa, groups, working = vector_isa(), setting.groups, working_dtype(dtype)
    conversion, rounding = setting.conversion(isa, dtype)
    plan = plans.plan_for(isa, conversion, rounding or "rna", working.itemsize)
    kernel, where = plan.scheme.kernel, geometry.forward_geometry(setting.task(x_shape, g_shape), 0, 0)
    of_x, of_g = three_strides(x_shape, x_strides), three_strides(g_shape, g_strides)
    g, x = _operands(where, kernel, (x_shape[1] // groups, of_x), (g_shape[1] // groups, of_g))
    (one,) = where.passes
    row = thresholds.row
    most = max(min(row.places_most, CHUNK_BYTES // (x.place_bytes + g.place_bytes)), row.places, 2 * x.around)
    positions = where.end(one)
    places = -(-positions // -(-positions // most))
    chunks = -(-positions // places)
    runs, firsts = _all_runs([g, x], chunks, places)
    operands, packed_bytes = _table(plan, (g, x), places, dtype)
    shifts = np.zeros((len(one.taps), 2), np.int64)
    for index, (plane, offset, _) in enumerate(one.taps):
        shifts[index, 0 if x.is_a else 1] = plane * x.plane_bytes(places) + (offset + where.front) * x.k_bytes
    arguments = (
        leaf_address(taps.MultiplyTaps(kernel)), address_of(operands), address_of(runs), address_of(firsts), chunks,
        places, positions - (chunks - 1) * places, address_of(shifts), len(shifts), int(x.is_a),
        kernel.mr, kernel.nr, working.itemsize,
    )  # fmt: skip
    sums_bytes = len(shifts) * x.panels * g.panels * kernel.mr * kernel.nr * working.itemsize
    return _Plan(conversion, positions, arguments, sums_bytes, packed_bytes, (operands, runs, firsts, shifts))


thresholds.when_changed.append(_plan.cache_clear)


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weight gradient (O, C / groups, *K) of a convolution of x (N, C, *S), from the gradient g (N, O, *S') of its
    result.

    Raises `Refused` if the result is not finite, since padding positions are multiplied by zero, and if the values
    exceed the range of the precision's parts.
    """
    if (found := one_tap.weight_gradient(setting, x, g)) is not None:
        return found
    (pool, threads), groups = threading.pool(), setting.groups
    shape = g.shape[1] // groups, x.shape[1] // groups, *setting.size
    out = np.empty((groups, *shape), working_dtype(x.dtype))
    plan = _plan(setting, x.shape, x.strides, g.shape, g.strides, x.dtype)
    memory = take_workspace(2 * threads * LIMITS_BYTES + plan.sums_bytes + plan.packed_bytes)
    limits, certain = address_of(memory), 0.0
    sums = limits + 2 * threads * LIMITS_BYTES
    try:
        for group in range(groups):
            at = address_of(x) + group * shape[1] * x.strides[1], address_of(g) + group * shape[0] * g.strides[1]
            found = taps.weight_gradient(
                pool, threads, *plan.arguments, *at, sums + plan.sums_bytes, limits, sums, address_of(out[group])
            )
            if plan.precision == "bf16x3":
                certain = max(certain, ranges.certain_from(plan.precision, plan.depth, *found))
    finally:
        return_workspace(memory)
    ranges.refuse_uncertain(certain, out)
    if not np.isfinite(out).all():
        raise Refused("the result is not finite, and positions of padding would multiply that by zero")
    return rounded_sums(out.reshape(-1, *shape[1:]), x.dtype)
