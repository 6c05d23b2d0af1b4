"""The loops of `pooling`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import carray, njit, subroutine
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
def _key(bits, job):
    """An integer that is ordered as the numbers with these bits are: NaN last, and the two zeros equal."""
    magnitude = bits & job.magnitude
    ordered = bits if bits >= 0 else -magnitude
    return job.infinity + 1 if magnitude > job.infinity else ordered


@subroutine
def _largest_of_image(task, worker, job):
    at, size = job.windows, job.size
    seen, made = at.height * at.width, at.rows * at.columns
    image = carray(pointer(at.images + task * seen * size, job.word), seen)
    values = carray(pointer(at.values + task * made * size, job.word), made)
    indices = carray(pointer(at.indices + task * made * 8, 0), made)
    for row in range(at.rows):
        top = row * at.stride_down - at.padding_above
        first = max(0, (at.dilation_down - 1 - top) // at.dilation_down)
        last = min(at.kernel_height, (at.height - 1 - top) // at.dilation_down + 1)
        for column in range(at.columns):
            left = column * at.stride_along - at.padding_before
            begin, end = 0, at.kernel_width
            while left + begin * at.dilation_along < 0:
                begin += 1
            while left + (end - 1) * at.dilation_along >= at.width:
                end -= 1
            best, found = -job.infinity - 1, -1
            for i in range(first, last):
                place = (top + i * at.dilation_down) * at.width + left + begin * at.dilation_along
                for _ in range(begin, end):
                    key = _key(image[place], job)
                    found = place if key > best else found
                    best = max(best, key)
                    place += at.dilation_along
            indices[row * at.columns + column] = found
            values[row * at.columns + column] = image[found] if found >= 0 else job.lowest


class _LargestJob(NamedTuple):
    windows: Windows
    size: int
    word: int
    magnitude: int
    infinity: int
    lowest: int
    run = _largest_of_image


@njit
def largest(pool, threads, images, windows, word, magnitude, infinity, lowest, size):
    """The largest values of windows of numbers as words of `size` bytes: `word` has their type. The other arguments are
    the bits of a magnitude, of infinity, and of -infinity, the value of empty windows.
    """
    launch(pool, threads, images, _LargestJob(windows, size, word, magnitude, infinity, lowest))


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
    sums = np.zeros(at.count)
    for number in range(at.given):
        place = indices[number]
        if 0 <= place < at.count:
            sums[place] += values[number]
        elif place != -1:
            outside[task] = place
    for place in range(at.count):
        out[place] = sums[place]


class _SpreadJob(NamedTuple):
    spread: Spread
    size: int
    zero: float
    run = _add_to_image


@njit
def add_at(pool, threads, images, spread, zero, size):
    """`zero` is of the type of the numbers, which have so many bytes."""
    launch(pool, threads, images, _SpreadJob(spread, size, zero))
