"""Convolutions of one tap: products of the channels of all positions with the weights, in either layout.

Channels that are neighbours in memory are the rows of a left operand, all positions after one another; the weights are
the right one. Where positions are neighbours, the weights are the left operand of a product for each image. The
weight's gradient is one product, whose sums run over positions: those of some positions at a time are computed in
parallel, and added in their order.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .. import threading
from ..gemm import plans, unpacked
from ..gemm.compiled import vector_isa
from ..gemm.divisions import is_read_in_place
from ..gemm.product import Packed, product
from ..gemm.unpacked_strips import LEAST_ROWS
from ..gemm.workspace import address_of
from .kept import Kept, array_of, form_of
from .reading import is_channels_last, is_one_row
from .setting import Setting

__all__ = ["convolve", "takes", "weight_gradient"]

_LEAST_POSITIONS = 16
"""Neighbouring positions that are worth a product for each image."""

_PART = 1536
"""Least positions of a part of a weight's gradient: adding its sums takes about a thirtieth of its time."""

_MOST_PARTS = 16


def _is_one_tap(setting: Setting, kernel: tuple[int, ...]) -> bool:
    """Whether each position uses one tap, and channels form one group."""
    stride, padding, _ = setting.at
    return max(kernel) == setting.groups == max(stride) == 1 and max(padding) == 0


def _is_last(x: np.ndarray) -> bool:
    """Whether channels are neighbours, and positions are consecutive."""
    return is_channels_last(x.shape, x.strides, x.itemsize) and is_one_row(x.shape, x.strides, x.itemsize)


def _is_planes(x: np.ndarray) -> bool:
    """Whether the positions of a channel are neighbours."""
    expected, positions = x.itemsize, math.prod(x.shape[2:])
    for size, stride in zip(reversed(x.shape[2:]), reversed(x.strides[2:]), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return positions >= _LEAST_POSITIONS and x.strides[1] >= positions * x.itemsize


def _plan(setting: Setting, dtype: np.dtype) -> plans.Plan:
    isa = vector_isa()
    precision, rounding = setting.conversion(isa, dtype)
    return plans.plan_for(isa, precision, rounding or "rna", 8 if dtype.itemsize == 8 else 4)


def takes(setting: Setting, x: np.ndarray, w: np.ndarray | Kept) -> bool:
    """Whether `convolve` takes the call."""
    if not _is_one_tap(setting, w.shape[2:]) or 0 in x.shape:
        return False
    if _is_last(x):
        return True
    matrix = array_of(w)
    unit = x.itemsize in matrix.strides[:2]
    return _is_planes(x) and is_read_in_place(_plan(setting, x.dtype), x.dtype, w.shape[setting.gradient], unit)


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """`implicit.convolve` of what is taken."""
    isa = vector_isa()
    precision, rounding = setting.conversion(isa, x.dtype)
    how = {"isa": isa, "precision": precision, "rounding": rounding or "rna", "relu": setting.relu}
    addend = None if bias is None else bias.astype(x.dtype, copy=False)

    def right(array: np.ndarray) -> np.ndarray:
        matrix = array.reshape(array.shape[:2])
        return matrix if setting.gradient else matrix.T

    if not _is_last(x):
        planes = x.reshape(*x.shape[:2], -1)
        added = None if addend is None else addend[:, None]
        return product(right(array_of(w)).T, planes, addend=added, **how).reshape(x.shape[0], -1, *x.shape[2:])
    weights: np.ndarray | Packed
    if isinstance(w, Kept):
        key = "one tap", isa, precision, how["rounding"], setting.gradient
        weights = form_of(w, key, lambda array: Packed(right(array), isa, precision, how["rounding"]))
    else:
        weights = right(w)
    rows = np.moveaxis(x, 1, -1)
    out = product(rows.reshape(-1, rows.shape[-1]), weights, addend=addend, **how)
    return np.moveaxis(out.reshape(*rows.shape[:-1], -1), -1, 1)


class _Division(NamedTuple):
    """How the sums of a weight's gradient are computed.

    Attributes:
        x_is_a: whether the left operand is x, so that the product is the gradient transposed.
        parts: sums that are added at the end.
        segments: for each term the image, its first position, and how many.
    """

    x_is_a: bool
    parts: int
    segments: np.ndarray
    ready: unpacked.Prepared


def _cost(m: int, n: int, packs: bool) -> float:
    """Cycles for each position of a product of m rows with n columns, with those of packing a column."""
    return m * plans.up(n, 16) / 32 + 0.4 * n * packs


@functools.lru_cache(512)
def _division(
    plan: plans.Plan,
    dtype: np.dtype,
    channels: tuple[int, int],
    strides: tuple[int, int, int, int],
    images: int,
    positions: int,
    threads: int,
) -> _Division | None:
    """For g and x of so many channels, with their strides from channel to channel and from position to position."""
    of_g, of_x = channels
    packs = strides[0] != dtype.itemsize
    x_is_a = _cost(of_x, of_g, packs) < _cost(of_g, of_x, packs)
    if min(of_g, of_x) < LEAST_ROWS:
        x_is_a = of_x > of_g
    (n, m), (b_column, b_k, a_row, a_k) = channels, strides
    if not x_is_a:
        (m, n), (a_row, a_k, b_column, b_k) = channels, strides
    most = max(1, min(_MOST_PARTS, images * positions // _PART))
    parts = max(part for part in range(1, most + 1) if images % part == 0) if images >= most else images
    depth = plans.up(-(-positions // max(1, most // images)), plan.scheme.kc) if images < most else positions
    firsts = range(0, positions, depth)
    segments = np.array([(image, at, min(depth, positions - at)) for image in range(images) for at in firsts])
    parts *= len(firsts)
    shape = unpacked.Shape(
        m, min(depth, positions), n, a_row, a_k, b_k, b_column, n * dtype.itemsize, parts, len(segments) // parts, False
    )
    ready = unpacked.prepare(plan, dtype, shape, None, threads)
    return None if ready is None else _Division(x_is_a, parts, segments, ready)


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray | None:
    """`weight_implicit.weight_gradient`, or None of what is not taken."""
    if not _is_one_tap(setting, setting.size) or 0 in x.shape or x.dtype.kind != "f":
        return None
    images, positions = x.shape[0], math.prod(x.shape[2:])
    if all(map(_is_last, (x, g))):
        images, positions = 1, images * positions
        strides = g.itemsize, g.shape[1] * g.itemsize, x.itemsize, x.shape[1] * x.itemsize
    elif all(map(_is_planes, (x, g))):
        strides = g.strides[1], g.itemsize, x.strides[1], x.itemsize
    else:
        return None
    pool, threads = threading.pool()
    channels = g.shape[1], x.shape[1]
    found = _division(_plan(setting, x.dtype), x.dtype, channels, strides, images, positions, threads)
    if found is None:
        return None
    shape = channels[::-1] if found.x_is_a else channels
    sums = np.empty((found.parts, *shape), x.dtype)
    image, first, depth = found.segments.T
    at_g = address_of(g) + image * g.strides[0] + first * strides[1]
    at_x = address_of(x) + image * x.strides[0] + first * strides[3]
    places = np.zeros((5, image.size), np.int64)
    places[:3] = (at_x, at_g, depth) if found.x_is_a else (at_g, at_x, depth)
    places[3, : found.parts] = address_of(sums) + np.arange(found.parts) * sums[0].nbytes
    unpacked.multiply(found.ready, pool, places, found.parts)
    out = sums[0] if found.parts == 1 else np.add.reduce(sums, axis=0)
    out = np.ascontiguousarray(out.T) if found.x_is_a else out
    return out.reshape(*channels, *setting.size)
