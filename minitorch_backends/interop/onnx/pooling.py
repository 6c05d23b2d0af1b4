"""Pooling, by torch's functions where they suffice; other padding, and dilated sums, are computed here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ... import linalg
from ...nn import functional as F
from ...ops import names as ops
from ...ops.limits import finfo, iinfo
from ...ops.names import tensor
from ...tensor.tensor import Tensor
from .products import Pads, Steps, pad, pads_of
from .table import operator


def _with_ceiling(sizes: Sequence[int], steps: Steps, around: Pads) -> tuple[Pads, list[int]]:
    """Padding behind that completes the last window of each axis, with the number of windows. A window that would begin
    in the padding behind is left out."""
    after, counts = [], []
    for size, before, behind, taps, stride, dilation in zip(sizes, *around, *steps, strict=True):
        reach = (taps - 1) * dilation + 1
        count = -(-(size + before + behind - reach) // stride) + 1
        if (count - 1) * stride >= size + before:
            count -= 1
        after.append((count - 1) * stride + reach - size - before)
        counts.append(count)
    return Pads(around.before, after), counts


def _steps(kernel: Sequence[int], strides: Sequence[int] | None, dilations: Sequence[int] | None) -> Steps:
    return Steps(kernel, strides or [1] * len(kernel), dilations or [1] * len(kernel))


def _is_plain(steps: Steps, around: Pads) -> bool:
    """Whether torch's functions take this padding: the same on both sides, and at most half of the windows."""
    return around.is_symmetric and all(
        2 * pad <= (taps - 1) * dilation + 1
        for pad, taps, dilation in zip(around.before, steps.kernel, steps.dilations, strict=True)
    )


@operator("MaxPool")
def max_pool(
    x: Tensor, *, kernel_shape: list[int], strides: list[int] | None = None, pads: list[int] | None = None,
    dilations: list[int] | None = None, ceil_mode: int = 0, auto_pad: str = "NOTSET", storage_order: int = 0,
    outputs: int = 1,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The largest value of each window, and, as a second output, its place in the flattened input."""
    dims, sizes, steps = len(kernel_shape), x.shape[2:], _steps(kernel_shape, strides, dilations)
    around = pads_of(sizes, steps, pads, auto_pad)
    image, ceiling = x, bool(ceil_mode)
    if not _is_plain(steps, around):
        around, ceiling = _with_ceiling(sizes, steps, around)[0] if ceiling else around, False
        lowest = finfo(x.dtype).min if x.is_floating_point() else iinfo(x.dtype).min
        image = pad(x, around, lowest)
    inside = image is x
    pool: Any = getattr(F, f"max_pool{dims}d")
    padding = tuple(around.before) if inside else 0
    options = (tuple(steps.kernel), tuple(steps.strides), padding, tuple(steps.dilations), ceiling)
    if outputs < 2:
        return pool(image, *options)
    values, places = pool(image, *options, return_indices=True)
    return values, _places(places, x, image, [0] * dims if inside else around.before, bool(storage_order))


def _places(places: Tensor, x: Tensor, image: Tensor, before: Sequence[int], by_column: bool) -> Tensor:
    """Places in the flattened input, from those in one channel of the padded image; the last axis is the slowest one
    with `by_column`."""
    coordinates = []
    for size in reversed(image.shape[2:]):
        coordinates.append(places % size)
        places = places // size
    coordinates = [each - start for each, start in zip(reversed(coordinates), before, strict=True)]
    sizes = list(x.shape[2:])
    pairs = list(zip(coordinates, sizes, strict=True))
    flat = ops.zeros_like(places)
    for coordinate, size in reversed(pairs) if by_column else pairs:
        flat = flat * size + coordinate
    channels = ops.arange(x.shape[0] * x.shape[1]).reshape((*x.shape[:2], *[1] * len(sizes)))
    return flat + channels * (x[0, 0].numel() if x.numel() else 1)


def _window_sums(x: Tensor, steps: Steps, counts: Sequence[int]) -> Tensor:
    """The sum of each window, one tap after the other."""
    total: Any = 0
    for taps in itertools.product(*map(range, steps.kernel)):
        key = [
            slice(tap * dilation, tap * dilation + (count - 1) * stride + 1, stride)
            for tap, dilation, stride, count in zip(taps, steps.dilations, steps.strides, counts, strict=True)
        ]
        total = total + x[(slice(None), slice(None), *key)]
    return total


def _windows(sizes: Sequence[int], steps: Steps, around: Pads, ceil_mode: int) -> tuple[Pads, list[int]]:
    whole, counts = (
        around,
        [
            (size + before + behind - (taps - 1) * dilation - 1) // stride + 1
            for size, before, behind, taps, stride, dilation in zip(sizes, *around, *steps, strict=True)
        ],
    )
    if ceil_mode:
        whole, counts = _with_ceiling(sizes, steps, around)
    if min(counts, default=1) < 1:
        raise ValueError(f"windows must fit the padded input, got {list(steps.kernel)} for {list(sizes)}")
    return whole, counts


@operator("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: list[int], strides: list[int] | None = None, pads: list[int] | None = None,
    dilations: list[int] | None = None, ceil_mode: int = 0, auto_pad: str = "NOTSET", count_include_pad: int = 0,
) -> Tensor:  # fmt: skip
    """The mean of each window, of all its places with `count_include_pad`, or of those inside of the input."""
    dims, sizes, steps = len(kernel_shape), x.shape[2:], _steps(kernel_shape, strides, dilations)
    around = pads_of(sizes, steps, pads, auto_pad)
    if _is_plain(steps, around) and set(steps.dilations) == {1}:
        pool = getattr(F, f"avg_pool{dims}d")
        options = (tuple(steps.kernel), tuple(steps.strides), tuple(around.before), bool(ceil_mode))
        return pool(x, *options, bool(count_include_pad))
    whole, counts = _windows(sizes, steps, around, ceil_mode)
    total = _window_sums(pad(x, whole), steps, counts)
    counted = around if count_include_pad else Pads([0] * dims, [0] * dims)
    for axis in range(dims):
        start = whole.before[axis] - counted.before[axis]
        stop = whole.before[axis] + sizes[axis] + counted.after[axis]
        places = [
            sum(
                start <= number * steps.strides[axis] + tap * steps.dilations[axis] < stop
                for tap in range(kernel_shape[axis])
            )
            for number in range(counts[axis])
        ]
        total = total / tensor(places, dtype=x.dtype).reshape((-1, *[1] * (dims - axis - 1)))
    return total


@operator("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: list[int], strides: list[int] | None = None, pads: list[int] | None = None,
    dilations: list[int] | None = None, ceil_mode: int = 0, auto_pad: str = "NOTSET", p: int = 2,
) -> Tensor:  # fmt: skip
    """The p-norm of each window."""
    steps = _steps(kernel_shape, strides, dilations)
    around, counts = _windows(x.shape[2:], steps, pads_of(x.shape[2:], steps, pads, auto_pad), ceil_mode)
    return ops.pow(_window_sums(pad(ops.pow(ops.abs(x), p), around), steps, counts), 1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return ops.mean(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return ops.amax(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return linalg.vector_norm(x, p, list(range(2, x.ndim)), True)
