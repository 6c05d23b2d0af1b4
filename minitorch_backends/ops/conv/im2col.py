"""Sliding windows: their values as columns and back (unfold, fold), their sums, and their largest values."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.arrays import pooling
from ...kernels.arrays.sums import sum as sum_over
from ...kernels.conv.shapes import Steps, windows
from ...tensor.tensor import Tensor


class Windows(NamedTuple):
    """The geometry of windows on images of sizes `size`, with one number per spatial dimension.

    `output` is the number of windows; the last ones may reach beyond the padding.
    """

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output: tuple[int, ...]

    def are_apart(self) -> bool:
        """Whether no two windows see the same place."""
        steps = zip(self.kernel, self.stride, self.dilation, strict=True)
        return all(step > gap * (taps - 1) for taps, step, gap in steps)

    def wide(self) -> tuple[int, ...]:
        """Sizes of an image with its padding and what windows see beyond it."""
        reach = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, self.output, strict=True)
        return tuple(max(s + 2 * p, (o - 1) * step + d * (k - 1) + 1) for s, k, step, p, d, o in reach)

    def inside(self) -> Any:
        """Where the image is in that."""
        return (..., *(slice(pad, pad + size) for pad, size in zip(self.padding, self.size, strict=True)))

    def taps(self) -> tuple[tuple[Any, Any], ...]:
        """For each kernel position, the elements of the padded image that the windows have there."""
        return _taps(self)


@functools.lru_cache(256)
def _taps(at: Windows) -> tuple[tuple[Any, Any], ...]:
    found = []
    for tap in itertools.product(*map(range, at.kernel)):
        starts = [index * gap for index, gap in zip(tap, at.dilation, strict=True)]
        places = zip(starts, at.output, at.stride, strict=True)
        found.append((tap, (..., *(slice(at, at + (count - 1) * step + 1, step) for at, count, step in places))))
    return tuple(found)


def _pad_image(x: np.ndarray, at: Windows, value: Any) -> np.ndarray:
    """The image with `value` around it, laid out in memory as it is."""
    if at.wide() == at.size:
        return x
    last = x.strides[1] == x.itemsize and x.shape[1] > 1
    shape = (*x.shape[:2], *at.wide())
    wide = np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), x.dtype), -1, 1) if last else np.empty(shape, x.dtype)
    wide[...] = value
    wide[at.inside()] = x
    return wide


def _inner(wide: np.ndarray, at: Windows) -> np.ndarray:
    return wide[at.inside()]


# Samples


def _kernel_axes(at: Windows) -> tuple[int, ...]:
    return tuple(range(2, 2 + len(at.kernel)))


# Linear ops: two pairs, each the transpose of the other


@op(
    traits="function unwidened silent", takes="bifc", input=lambda g, at: fold_windows(g, at),
    batch="loop: functions of it fold the batch",
)  # fmt: skip
def unfold_windows(input: Array, at: Windows) -> Array:
    """The windows of an image (N, C, *size), padded with zeros: (N, C, *kernel, *output)."""
    steps = Steps(at.stride, at.padding, at.dilation)
    return windows(_pad_image(input, at, 0), at.kernel, at.output, steps).copy()


_FEW = 12
"""Numbers that float32 adds one after the other and loses at most 3 units in the last place."""


def _summing(dtype: np.dtype, at: Windows) -> np.dtype:
    """The accumulation dtype of overlapping windows."""
    if math.prod(-(-taps // step) for taps, step in zip(at.kernel, at.stride, strict=True)) <= _FEW:
        return dtype
    return np.result_type(dtype, np.float64) if dtype.kind in "fc" else dtype


@op(
    traits="function silent", takes="ifc", input=lambda g, at: unfold_windows(g, at),
    batch="loop: functions of it fold the batch",
)  # fmt: skip
def fold_windows(input: Array, at: Windows) -> Array:
    """Sum windows (N, C, *kernel, *output) at their places in an image (N, C, *size)."""
    wide = np.zeros((*input.shape[:2], *at.wide()), _summing(input.dtype, at))
    for tap, place in at.taps():
        wide[place] += input[(slice(None), slice(None), *tap)]
    return _inner(wide, at).astype(input.dtype, copy=False)


@op(
    traits="function silent", takes="ifc", input=lambda g, at: spread_windows(g, at),
    batch="loop: functions of it fold the batch",
)  # fmt: skip
def sum_windows(input: Array, at: Windows) -> Array:
    """The sum of each window on an image (N, C, *size), zeros around it: (N, C, *output); of integers in int64."""
    input = input.astype(np.int64) if input.dtype.kind in "iu" else input
    wide = _pad_image(input, at, 0)
    if math.prod(at.kernel) <= _FEW:
        first, *others = (wide[place] for _, place in at.taps())
        total = first.copy(order="K")
        for each in others:
            np.add(total, each, out=total)
        return total
    seen = windows(wide, at.kernel, at.output, Steps(at.stride, at.padding, at.dilation))
    if np.moveaxis(input, 1, -1).flags.c_contiguous:  # channels stay last
        seen = np.moveaxis(seen, 1, -1)
        return np.moveaxis(np.asarray(sum_over(seen, tuple(range(1, 1 + len(at.kernel))))), -1, 1)
    return np.asarray(sum_over(seen, _kernel_axes(at)))


@op(
    traits="function silent", takes="fc", input=lambda g, at: sum_windows(g, at),
    batch="loop: functions of it fold the batch",
)  # fmt: skip
def spread_windows(input: Array, at: Windows) -> Array:
    """The sum, at each place of an image (N, C, *size), of the values (N, C, *output) of the windows that see it."""
    if input.ndim != 2 + len(at.output):
        raise RuntimeError(f"spread_windows: expected values (N, C, *{at.output}), got shape {list(input.shape)}")
    wide = np.zeros((*input.shape[:2], *at.wide()), _summing(input.dtype, at))
    for _, place in at.taps():
        wide[place] += input
    return _inner(wide, at).astype(input.dtype, copy=False)


# Largest values


class Pooled(NamedTuple):
    """The largest value of each window, and where it is: its index in the image as one dimension."""

    values: Any
    indices: Any


def _least(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def largest(input: np.ndarray, at: Windows) -> np.ndarray:
    """The largest value of each window; NaN where a window has one."""
    if pooling.takes(input) and pooling.is_last(input):
        return pooling.largest(input, at.kernel, at.stride, at.padding, at.dilation, at.output)[0]
    wide, found = _pad_image(input, at, _least(input.dtype)), None
    for _, place in at.taps():
        found = wide[place].copy(order="K") if found is None else np.maximum(found, wide[place], out=found)
    return found  # type: ignore[return-value]


def _first_places(at: Windows) -> tuple[np.ndarray, list[np.ndarray]]:
    """The flat image index of each window's first element (possibly outside), and the step to each kernel position."""
    pitches = [math.prod(at.size[axis + 1 :]) for axis in range(len(at.size))]
    first = np.zeros((), np.int64)
    for count, step, pad, pitch in zip(at.output, at.stride, at.padding, pitches, strict=True):
        first = first[..., None] + (np.arange(count) * step - pad) * pitch
    return first, [np.int64(gap * pitch) for gap, pitch in zip(at.dilation, pitches, strict=True)]  # type: ignore[misc]


def _first_inside(at: Windows) -> np.ndarray:
    """The flat index in the image of each window's first place that is inside, -1 where none is."""
    found, none = np.zeros((), np.int64), np.zeros((), bool)
    for length, taps, step, pad, gap, count in zip(*at, strict=True):
        starts = np.arange(count) * step - pad
        outside = -(np.minimum(starts, 0) // gap)  # taps before the image
        places = starts + outside * gap
        found = found[..., None] * length + places
        none = none[..., None] | (outside >= taps) | (places >= length)
    return np.where(none, -1, found)


@op(
    traits="function silent", takes="if",
    input=lambda g, indices, input_shape, at: scatter_flat(g[0], indices, input_shape[2:], at),
    batch="loop: functions of it fold the batch",
)  # fmt: skip
def pool_max(input: Array, at: Windows) -> Pooled:
    """The largest value of each window on an image (N, C, *size), and its index, (N, C, *output) both. The first one of
    equal values counts, and NaN above all. Windows beyond the image have the least value, and -1."""
    if pooling.takes(input):
        return Pooled(*pooling.largest(input, at.kernel, at.stride, at.padding, at.dilation, at.output))
    found, first, pitches = largest(input, at), *_first_places(at)
    wide, taps = _pad_image(input, at, _least(input.dtype)), at.taps()
    wrong = bool(np.isnan(found).any()) if input.dtype.kind == "f" else False
    # Of the taps that have it the first one has the highest rank: no branches, and one byte for a window.
    rank = np.zeros_like(found, np.min_scalar_type(len(taps)))
    for before, (_, place) in enumerate(taps):
        here = wide[place]
        alike = here == found
        if wrong:
            alike |= np.isnan(here)
        np.maximum(rank, np.multiply(alike, len(taps) - before, dtype=rank.dtype), out=rank)
    shifts = [0, *(sum(i * p for i, p in zip(tap, pitches, strict=True)) for tap, _ in reversed(taps))]
    indices = first + np.array(shifts, np.int64)[rank]
    least = found == _least(input.dtype)  # possibly an index in the padding
    return Pooled(found, np.where(least, _first_inside(at), indices) if least.any() else indices)


def _images(indices: np.ndarray, count: int) -> np.ndarray:
    """Indices in one image of `count` values as indices in all images."""
    rows = np.arange(math.prod(indices.shape[:2])).reshape(*indices.shape[:2], *(1,) * (indices.ndim - 2))
    return indices + rows * count


@op(
    traits="function silent", takes="ifc", input=lambda g, indices: gather_flat(g, indices),
    batch="loop: places in one sample",
)  # fmt: skip
def scatter_flat(input: Array, indices: Array, size: Sequence[int], at: Windows | None = None) -> Array:
    """Zero images (N, C, *size) with each value added at its flat index; index -1 drops the value.

    With `at` each index is one of the places that its window sees.
    """
    count, images = math.prod(size), input.shape[0] * input.shape[1]
    taken, last = pooling.takes(input), pooling.is_last(input)
    if taken and last and at is not None:
        return pooling.gradient(input, indices, at.size, at.kernel, at.stride, at.padding, at.dilation)
    if taken and not last:
        return pooling.add_at(input, indices, count).reshape(*input.shape[:2], *size)
    places, values = _images(indices, count).ravel(), input.ravel()
    if indices.min(initial=0) < 0:
        inside = indices.ravel() >= 0
        places, values = places[inside], values[inside]
    if at is not None and at.are_apart():
        out = np.zeros(images * count, input.dtype)
        out[places] = values
    elif input.dtype.kind == "f":
        out = np.bincount(places, weights=values, minlength=images * count)
    else:
        out = np.zeros(images * count, input.dtype)
        np.add.at(out, places, values)
    return out.reshape(*input.shape[:2], *size).astype(input.dtype, copy=False)


def _gather_reference(input: Any, indices: Any) -> np.ndarray:
    flat = input.reshape(*input.shape[:2], math.prod(input.shape[2:]))
    places = indices.reshape(*indices.shape[:2], math.prod(indices.shape[2:]))
    return np.where(indices >= 0, np.take_along_axis(flat, places, 2).reshape(indices.shape), 0).astype(input.dtype)


@op(
    traits="function unwidened silent",
    input=lambda g, indices, input_shape: scatter_flat(g, indices, input_shape[2:]),
    batch="loop: places in one sample",
)  # fmt: skip
def gather_flat(input: Array, indices: Array) -> Array:
    """The values of images (N, C, *size) at indices in each image as one dimension; 0 at -1."""
    return _gather_reference(input, indices)


def _of_unpool(g: Tensor, indices: Tensor) -> Tensor:
    return gather_flat(g, indices)


@op(traits="function unwidened silent", input=_of_unpool, batch="loop: places in one sample")
def unpool(input: Array, indices: Array, size: Sequence[int]) -> Array:
    """Zero images (N, C, *size) with each value written at its flat index."""
    count = math.prod(size)
    out = np.zeros(input.shape[0] * input.shape[1] * count, input.dtype)
    out[_images(indices, count).ravel()] = input.ravel()
    return out.reshape(*input.shape[:2], *size)
