"""Max pooling with positions, and scatter-add into images, with several threads on separate images.

Images are (N, C, H, W) or (N, C, L), float32 or float64, contiguous or with the channels last in memory; results are
laid out as they are. `takes` decides whether an array is large enough.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.dtypes import FLOATS
from ..runtime.shapes import expect
from ..runtime.workspace import Workspace, address_of, empty

_LEAST, _LEAST_SHARED = 1 << 9, 1 << 13
"""Numbers from which loops are worth loading and calling, and from which they are worth a second thread."""


def takes(images: np.ndarray) -> bool:
    fits = images.size >= _LEAST and images.ndim in (3, 4) and images.dtype in FLOATS
    return fits and (bool(images.flags.c_contiguous) or is_last(images))


def is_last(images: np.ndarray) -> bool:
    """Whether the channels of each position are neighbours in memory, and the array has no gaps."""
    return not images.flags.c_contiguous and bool(np.moveaxis(images, 1, -1).flags.c_contiguous)


def _empty(shape: tuple[int, ...], dtype: np.dtype, last: bool) -> np.ndarray:
    return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1) if last else empty(shape, dtype)


def _images(shape: tuple[int, ...], last: bool) -> tuple[int, int]:
    """How many images have their positions side by side, and the channels of a position."""
    return (shape[0], shape[1]) if last else (shape[0] * shape[1], 1)


def _pool(numbers: int) -> tuple[int, int]:
    return threading.pool() if numbers >= _LEAST_SHARED else (0, 1)


def largest(
    images: np.ndarray, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...],
    dilation: tuple[int, ...], output: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The largest value of each window, and its index in the image as one dimension: of equal ones the first, and NaN
    before all. Windows that see nothing of the image have -inf, and -1."""
    shape, last = (*images.shape[:2], *output), is_last(images)
    values, indices = (_empty(shape, dtype, last) for dtype in (images.dtype, np.dtype(np.int64)))
    count, channels = _images(shape, last)
    height, width = _two(images.shape[2:], 1)
    rows, columns = _two(output, 1)
    windows = _loops().Windows(
        address_of(images), address_of(values), address_of(indices), channels, height, width, rows, columns,
        *_two(kernel, 1), *_two(stride, 1), *_two(padding, 0), *_two(dilation, 1),
    )  # fmt: skip
    _loops().largest(*_pool(images.size), count, windows, *_bits(images.dtype), images.itemsize)
    return values, indices


@functools.cache
def _bits(dtype: np.dtype) -> tuple[Any, int, int, int]:
    """An integer of the dtype's size as the type tag of the loops, and the bits of the largest magnitude, of infinity
    and of -infinity."""
    infinite = np.array([np.inf, -np.inf], dtype).view(f"i{dtype.itemsize}")
    return infinite.dtype.type(0), int(np.iinfo(infinite.dtype).max), int(infinite[0]), int(infinite[1])


def gradient(
    g: np.ndarray, indices: np.ndarray, size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...],
    padding: tuple[int, ...], dilation: tuple[int, ...],
) -> np.ndarray:  # fmt: skip
    """Images (N, C, *size) of zeros, to which the gradients of the values of windows, laid out with the channels last,
    are added where these were found."""
    output, count = g.shape[2:], g.shape[1]
    expect("indices", indices, g.shape, np.int64)
    indices = np.moveaxis(np.ascontiguousarray(np.moveaxis(indices, 1, -1)), -1, 1)
    out, (pool, threads) = _empty((*g.shape[:2], *size), g.dtype, True), _pool(g.size)
    reach = [gap * (taps - 1) for gap, taps in zip(dilation, kernel, strict=True)]
    with Workspace(threads * count * 8) as memory:
        windows = _loops().GradientWindows(
            *(address_of(array) for array in (out, g, indices)), memory, count, *_two(size, 1), *_two(output, 1),
            *_two(tuple(reach), 0), *_two(stride, 1), *_two(padding, 0),
        )  # fmt: skip
        _loops().gather(pool, threads, len(g), windows, FLOATS[g.dtype], g.itemsize)
    return out


def add_at(values: np.ndarray, indices: np.ndarray, count: int) -> np.ndarray:
    """Images (N, C, count) of zeros, to which the values of each are added at their indices, nowhere at -1.

    Raises RuntimeError for other indices outside.
    """
    images = math.prod(values.shape[:2])
    out = empty((*values.shape[:2], count), values.dtype)
    expect("indices", indices, values.shape, np.int64)
    indices, outside = np.ascontiguousarray(indices), np.empty(images, np.int64)
    places = (address_of(array) for array in (values, indices, out, outside))
    spread = _loops().Spread(*places, values.size // max(images, 1), count)
    _loops().add_at(*_pool(out.size), images, spread, FLOATS[values.dtype], values.itemsize)
    if outside.max(initial=-1) >= 0 or outside.min(initial=-1) < -1:
        wrong = next(int(place) for place in outside if place != -1)
        raise RuntimeError(f"found the index {wrong} of a value in an image of {count}; expected 0 to {count - 1}")
    return out


def _two(sizes: tuple[int, ...], first: int) -> tuple[int, ...]:
    return sizes if len(sizes) == 2 else (first, *sizes)


@functools.cache
def _loops() -> Any:
    from . import pooling_loops

    return pooling_loops
