"""The loops of `pooling`."""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import allocate, free, pointer


class Windows(NamedTuple):
    """Addresses of the images and the results, the channels that lie side by side, the sizes of an image and of its
    result, and where windows lie."""

    images: int
    values: int
    indices: int
    channels: int
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
def _taps_inside(start, dilation, taps, size):
    """The first tap of a window that is inside an image of this size, and the one after the last."""
    return max(0, (dilation - 1 - start) // dilation), min(taps, (size - 1 - start) // dilation + 1)


@subroutine
def _largest_of_image(task, worker, job):
    at, size = job.windows, job.size
    seen, made = at.height * at.width, at.rows * at.columns
    image = carray(pointer(at.images + task * seen * size, job.word), seen)
    values = carray(pointer(at.values + task * made * size, job.word), made)
    indices = carray(pointer(at.indices + task * made * 8, 0), made)
    for row in range(at.rows):
        top = row * at.stride_down - at.padding_above
        first, last = _taps_inside(top, at.dilation_down, at.kernel_height, at.height)
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


@subroutine
def _largest_of_row(task, worker, job):
    """A row of windows, all channels at once."""
    at, size, count = job.windows, job.size, job.windows.channels
    image, top = task // at.rows, task % at.rows * at.stride_down - at.padding_above
    first, last = _taps_inside(top, at.dilation_down, at.kernel_height, at.height)
    for column in range(at.columns):
        left = column * at.stride_along - at.padding_before
        begin, end = _taps_inside(left, at.dilation_along, at.kernel_width, at.width)
        to = (task * at.columns + column) * count
        values = carray(pointer(at.values + to * size, job.word), count)
        indices = carray(pointer(at.indices + to * 8, 0), count)
        if first >= last or begin >= end:
            for channel in range(count):
                values[channel] = job.lowest
                indices[channel] = -1
        for i in range(first, last):
            for j in range(begin, end):
                place = (top + i * at.dilation_down) * at.width + left + j * at.dilation_along
                source = at.images + (image * at.height * at.width + place) * count * size
                here = carray(pointer(source, job.word), count)
                if i == first and j == begin:
                    for channel in range(count):
                        values[channel] = here[channel]
                        indices[channel] = place
                    continue
                for channel in range(count):
                    larger = _key(here[channel], job) > _key(values[channel], job)
                    values[channel] = here[channel] if larger else values[channel]
                    indices[channel] = place if larger else indices[channel]


@task("windows size word magnitude infinity lowest")
def _largest_task(task, worker, job):
    if job.windows.channels > 1:
        _largest_of_row(task, worker, job)
    else:
        _largest_of_image(task, worker, job)


@njit
def largest(pool, threads, images, windows, word, magnitude, infinity, lowest, size):
    """The largest values of windows of numbers as words of `size` bytes: `word` has their type. The other arguments are
    the bits of a magnitude, of infinity, and of -infinity, the value of empty windows."""
    tasks = images * windows.rows if windows.channels > 1 else images
    launch(pool, threads, tasks, _largest_task(windows, size, word, magnitude, infinity, lowest))


class Spread(NamedTuple):
    """Addresses of values, indices and results, and how many an image has of the first two and of the last; and of a
    number for each image, the last index outside it, or -1."""

    values: int
    indices: int
    out: int
    outside: int
    given: int
    count: int


@task("spread size zero")
def _add_to_image(task, worker, job):
    at, size = job.spread, job.size
    values = carray(pointer(at.values + task * at.given * size, job.zero), at.given)
    indices = carray(pointer(at.indices + task * at.given * 8, 0), at.given)
    out = carray(pointer(at.out + task * at.count * size, job.zero), at.count)
    outside = carray(pointer(at.outside, 0), task + 1)
    outside[task] = -1
    sums = allocate(at.count, 0.0)
    sums[:] = 0.0
    for number in range(at.given):
        place = indices[number]
        if 0 <= place < at.count:
            sums[place] += values[number]
        elif place != -1:
            outside[task] = place
    for place in range(at.count):
        out[place] = sums[place]
    free(sums)


@njit
def add_at(pool, threads, images, spread, zero, size):
    """`zero` is of the type of the numbers, which have so many bytes."""
    launch(pool, threads, images, _add_to_image(spread, size, zero))


class GradientWindows(NamedTuple):
    """As `Windows`, of the gradient: addresses of the images, of the values of windows and their indices, and of
    float64 sums of the channels for each worker; sizes and steps."""

    images: int
    values: int
    indices: int
    sums: int
    channels: int
    height: int
    width: int
    rows: int
    columns: int
    reach_down: int
    reach_along: int
    stride_down: int
    stride_along: int
    padding_above: int
    padding_before: int


@subroutine
def _windows_over(place, padding, reach, stride, count):
    """The first of the windows that reach from a place to `reach` behind it that see this one, and the one after the
    last."""
    return max(0, (place + padding - reach + stride - 1) // stride), min(count, (place + padding) // stride + 1)


@task("windows size zero")
def _gather_row(task, worker, job):
    """A row of an image, all channels at once."""
    at, size, count = job.windows, job.size, job.windows.channels
    image, row = task // at.height, task % at.height
    first, last = _windows_over(row, at.padding_above, at.reach_down, at.stride_down, at.rows)
    sums = carray(pointer(at.sums + worker * count * 8, 0.0), count)
    for column in range(at.width):
        begin, end = _windows_over(column, at.padding_before, at.reach_along, at.stride_along, at.columns)
        place = row * at.width + column
        out = carray(pointer(at.images + (task * at.width + column) * count * size, job.zero), count)
        if first >= last or begin >= end:
            for channel in range(count):
                out[channel] = 0.0
            continue
        for i in range(first, last):
            for j in range(begin, end):
                window = ((image * at.rows + i) * at.columns + j) * count
                values = carray(pointer(at.values + window * size, job.zero), count)
                indices = carray(pointer(at.indices + window * 8, 0), count)
                if i == first and j == begin:
                    for channel in range(count):
                        sums[channel] = 0.0 + (values[channel] if indices[channel] == place else 0.0)
                    continue
                for channel in range(count):
                    sums[channel] += values[channel] if indices[channel] == place else 0.0
        for channel in range(count):
            out[channel] = sums[channel]


@njit
def gather(pool, threads, images, windows, zero, size):
    """`zero` is of the type of the numbers, which have so many bytes."""
    launch(pool, threads, images * windows.height, _gather_row(windows, size, zero))
