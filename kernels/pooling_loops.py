"""The loops of `pooling`."""

from __future__ import annotations

from typing import NamedTuple

from numba import carray

from .jit import njit, subroutine
from .launch import launch
from .words import pointer

__all__ = ["Spread", "Windows", "add_at", "largest"]


class Windows(NamedTuple):
    """Addresses of the images and the results, the sizes of an image and of its result, and where windows lie."""

    images: int
    values: int
    indices: int
    height: int
    width: int
    rows: int
    columns: int
    kernel_height: int
    kernel_width: int
    stride_down: int
    stride_along: int
    padding_above: int
    padding_before: int
    dilation_down: int
    dilation_along: int


@subroutine
def _largest_of_image(task, worker, job):
    at, size = job.windows, job.size
    seen, made = at.height * at.width, at.rows * at.columns
    image = carray(pointer(at.images + task * seen * size, job.lowest), seen)
    values = carray(pointer(at.values + task * made * size, job.lowest), made)
    indices = carray(pointer(at.indices + task * made * 8, 0), made)
    for row in range(at.rows):
        here = row * at.columns
        for column in range(at.columns):
            values[here + column], indices[here + column] = job.lowest, -1
        top = row * at.stride_down - at.padding_above
        first = max(0, (at.dilation_down - 1 - top) // at.dilation_down)
        last = min(at.kernel_height, (at.height - 1 - top) // at.dilation_down + 1)
        for i in range(first, last):
            for j in range(at.kernel_width):
                left = j * at.dilation_along - at.padding_before
                begin = max(0, (at.stride_along - 1 - left) // at.stride_along)
                end = min(at.columns, (at.width - 1 - left) // at.stride_along + 1)
                start = (top + i * at.dilation_down) * at.width + left
                for column in range(begin, end):
                    place = start + column * at.stride_along
                    value, best, found = image[place], values[here + column], indices[here + column]
                    better = (value > best) | (found < 0) | ((value != value) & (best == best))
                    values[here + column] = value if better else best
                    indices[here + column] = place if better else found


class _LargestJob(NamedTuple):
    windows: Windows
    size: int
    lowest: float
    run = _largest_of_image


@njit
def largest(pool, threads, images, windows, lowest, size):
    """`lowest` is -inf of the type of the numbers, which have so many bytes."""
    launch(pool, threads, images, _LargestJob(windows, size, lowest))


class Spread(NamedTuple):
    """Addresses of values, indices and results, and how many an image has of the first two and of the last; and of a
    number for each image, the last index outside it, or -1."""

    values: int
    indices: int
    out: int
    outside: int
    given: int
    count: int


@subroutine
def _add_to_image(task, worker, job):
    at, size = job.spread, job.size
    values = carray(pointer(at.values + task * at.given * size, job.zero), at.given)
    indices = carray(pointer(at.indices + task * at.given * 8, 0), at.given)
    out = carray(pointer(at.out + task * at.count * size, job.zero), at.count)
    outside = carray(pointer(at.outside, 0), task + 1)
    outside[task] = -1
    for place in range(at.count):
        out[place] = job.zero
    for number in range(at.given):
        place = indices[number]
        if 0 <= place < at.count:
            out[place] += values[number]
        elif place != -1:
            outside[task] = place


class _SpreadJob(NamedTuple):
    spread: Spread
    size: int
    zero: float
    run = _add_to_image


@njit
def add_at(pool, threads, images, spread, zero, size):
    """`zero` is of the type of the numbers, which have so many bytes."""
    launch(pool, threads, images, _SpreadJob(spread, size, zero))
