"""The transforms of Winograd's convolutions, compiled: tiles of an image to values, and products to results.

Lanes are tiles of one channel, or, where channels are neighbours in memory, channels of one tile. A worker lays out the
values of LANES of them one after the other, so that each step of a transform is a loop over neighbours.

Importing this module imports Numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import njit
from ..launch import launch

__all__ = ["LANES", "ReadChannels", "ReadPlanes", "WriteChannels", "WritePlanes", "scratch_size", "start"]

LANES = 32


def scratch_size(tile: int) -> int:
    """Floats that a worker needs."""
    return 3 * tile * tile * LANES


@njit(cache=False)
def _row(memory, part, tile, i, j):
    """The lanes at place (i, j) of one of the three parts of a worker's memory."""
    start = ((part * tile + i) * tile + j) * LANES
    return memory[start : start + LANES]


@njit(cache=False)
def _input4(d0, d1, d2, d3, o0, o1, o2, o3):
    for lane in range(LANES):
        a, b, c, d = d0[lane], d1[lane], d2[lane], d3[lane]
        o0[lane], o1[lane], o2[lane], o3[lane] = a - c, b + c, c - b, b - d


@njit(cache=False)
def _input6(d0, d1, d2, d3, d4, d5, o0, o1, o2, o3, o4, o5):
    two, four, five = np.float32(2), np.float32(4), np.float32(5)
    for lane in range(LANES):
        a, b, c, d, e, f = d0[lane], d1[lane], d2[lane], d3[lane], d4[lane], d5[lane]
        even, odd = e - four * c, d - four * b
        near, far = e - c, two * (d - b)
        o0[lane], o5[lane] = four * a - five * c + e, four * b - five * d + f
        o1[lane], o2[lane], o3[lane], o4[lane] = even + odd, even - odd, near + far, near - far


@njit(cache=False)
def _output4(d0, d1, d2, d3, o0, o1):
    for lane in range(LANES):
        a, b, c, d = d0[lane], d1[lane], d2[lane], d3[lane]
        o0[lane], o1[lane] = a + b + c, b - c - d


@njit(cache=False)
def _output6(d0, d1, d2, d3, d4, d5, o0, o1, o2, o3):
    two, four, eight = np.float32(2), np.float32(4), np.float32(8)
    for lane in range(LANES):
        a, b, c, d, e, f = d0[lane], d1[lane], d2[lane], d3[lane], d4[lane], d5[lane]
        near, far, near_odd, far_odd = b + c, d + e, b - c, d - e
        o0[lane], o1[lane] = a + near + far, near_odd + two * far_odd
        o2[lane], o3[lane] = near + four * far, near_odd + eight * far_odd + f


@njit(cache=False)
def _transform_input(memory, tile):
    """From part 0 to part 2, along columns and along rows."""
    for j in range(tile):
        if tile == 4:
            _input4(
                _row(memory, 0, 4, 0, j), _row(memory, 0, 4, 1, j), _row(memory, 0, 4, 2, j), _row(memory, 0, 4, 3, j),
                _row(memory, 1, 4, 0, j), _row(memory, 1, 4, 1, j), _row(memory, 1, 4, 2, j), _row(memory, 1, 4, 3, j),
            )  # fmt: skip
        else:
            _input6(
                _row(memory, 0, 6, 0, j), _row(memory, 0, 6, 1, j), _row(memory, 0, 6, 2, j), _row(memory, 0, 6, 3, j),
                _row(memory, 0, 6, 4, j), _row(memory, 0, 6, 5, j), _row(memory, 1, 6, 0, j), _row(memory, 1, 6, 1, j),
                _row(memory, 1, 6, 2, j), _row(memory, 1, 6, 3, j), _row(memory, 1, 6, 4, j), _row(memory, 1, 6, 5, j),
            )  # fmt: skip
    for i in range(tile):
        if tile == 4:
            _input4(
                _row(memory, 1, 4, i, 0), _row(memory, 1, 4, i, 1), _row(memory, 1, 4, i, 2), _row(memory, 1, 4, i, 3),
                _row(memory, 2, 4, i, 0), _row(memory, 2, 4, i, 1), _row(memory, 2, 4, i, 2), _row(memory, 2, 4, i, 3),
            )  # fmt: skip
        else:
            _input6(
                _row(memory, 1, 6, i, 0), _row(memory, 1, 6, i, 1), _row(memory, 1, 6, i, 2), _row(memory, 1, 6, i, 3),
                _row(memory, 1, 6, i, 4), _row(memory, 1, 6, i, 5), _row(memory, 2, 6, i, 0), _row(memory, 2, 6, i, 1),
                _row(memory, 2, 6, i, 2), _row(memory, 2, 6, i, 3), _row(memory, 2, 6, i, 4), _row(memory, 2, 6, i, 5),
            )  # fmt: skip


@njit(cache=False)
def _transform_output(memory, tile):
    """From part 0 to the first rows and columns of part 2, along columns and along rows."""
    for j in range(tile):
        if tile == 4:
            _output4(
                _row(memory, 0, 4, 0, j), _row(memory, 0, 4, 1, j), _row(memory, 0, 4, 2, j), _row(memory, 0, 4, 3, j),
                _row(memory, 1, 4, 0, j), _row(memory, 1, 4, 1, j),
            )  # fmt: skip
        else:
            _output6(
                _row(memory, 0, 6, 0, j), _row(memory, 0, 6, 1, j), _row(memory, 0, 6, 2, j), _row(memory, 0, 6, 3, j),
                _row(memory, 0, 6, 4, j), _row(memory, 0, 6, 5, j), _row(memory, 1, 6, 0, j), _row(memory, 1, 6, 1, j),
                _row(memory, 1, 6, 2, j), _row(memory, 1, 6, 3, j),
            )  # fmt: skip
    for i in range(tile - 2):
        if tile == 4:
            _output4(
                _row(memory, 1, 4, i, 0), _row(memory, 1, 4, i, 1), _row(memory, 1, 4, i, 2), _row(memory, 1, 4, i, 3),
                _row(memory, 2, 4, i, 0), _row(memory, 2, 4, i, 1),
            )  # fmt: skip
        else:
            _output6(
                _row(memory, 1, 6, i, 0), _row(memory, 1, 6, i, 1), _row(memory, 1, 6, i, 2), _row(memory, 1, 6, i, 3),
                _row(memory, 1, 6, i, 4), _row(memory, 1, 6, i, 5), _row(memory, 2, 6, i, 0), _row(memory, 2, 6, i, 1),
                _row(memory, 2, 6, i, 2), _row(memory, 2, 6, i, 3),
            )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def _read_planes(task, worker, job):
    """The tiles of one channel of one image, as values (tile * tile, C, N * tiles)."""
    channels, height, width = job.image.shape[1:]
    n, c = task // channels, task % channels
    tile, across, count = job.tile, job.tiles_across, job.tiles_down * job.tiles_across
    memory, plane, step = job.scratch[worker], job.image[n, c], job.tile - 2
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for lane in range(lanes):
            top, left = (first + lane) // across * step - job.top, (first + lane) % across * step - job.left
            inside = top >= 0 and left >= 0 and top + tile <= height and left + tile <= width
            for i in range(tile):
                for j in range(tile):
                    y, x = top + i, left + j
                    value = np.float32(0)
                    if inside or (0 <= y < height and 0 <= x < width):
                        value = plane[np.uint64(y), np.uint64(x)]
                    memory[np.uint64((i * tile + j) * LANES + lane)] = value
        _transform_input(memory, tile)
        for place in range(tile * tile):
            target = job.values[place, c, n * count + first : n * count + first + lanes]
            source = memory[(2 * tile * tile + place) * LANES :]
            for lane in range(lanes):
                target[lane] = source[lane]


@njit(cache=False, no_cpython_wrapper=True)
def _read_channels(task, worker, job):
    """The tiles of one row of tiles of one image (N, H, W, C), as values (tile * tile, N * tiles, C)."""
    height, width, channels = job.image.shape[1:]
    n, row = task // job.tiles_down, task % job.tiles_down
    tile, memory = job.tile, job.scratch[worker]
    top = row * (tile - 2) - job.top
    for column in range(job.tiles_across):
        left = column * (tile - 2) - job.left
        at = task * job.tiles_across + column
        for first in range(0, channels, LANES):
            lanes = min(LANES, channels - first)
            for i in range(tile):
                for j in range(tile):
                    target, y, x = _row(memory, 0, tile, i, j), top + i, left + j
                    if 0 <= y < height and 0 <= x < width:
                        source = job.image[n, y, x, first : first + lanes]
                        for lane in range(lanes):
                            target[lane] = source[lane]
                    else:
                        target[:] = 0
            _transform_input(memory, tile)
            for place in range(tile * tile):
                source, target = memory[(2 * tile * tile + place) * LANES :], job.values[place, at, first:]
                for lane in range(lanes):
                    target[lane] = source[lane]


@njit(cache=False, no_cpython_wrapper=True)
def _write_planes(task, worker, job):
    """The results of one channel of one image, from products (tile * tile, O, N * tiles)."""
    channels, height, width = job.image.shape[1:]
    n, c = task // channels, task % channels
    tile, across, count = job.tile, job.tiles_across, job.tiles_down * job.tiles_across
    memory, plane, step, bias = job.scratch[worker], job.image[n, c], job.tile - 2, job.bias[c]
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for place in range(tile * tile):
            source = job.values[place, c, n * count + first : n * count + first + lanes]
            target = memory[place * LANES :]
            for lane in range(lanes):
                target[lane] = source[lane]
        _transform_output(memory, tile)
        for lane in range(lanes):
            top, left = (first + lane) // across * step, (first + lane) % across * step
            for i in range(min(step, height - top)):
                for j in range(min(step, width - left)):
                    value = memory[np.uint64(((2 * tile + i) * tile + j) * LANES + lane)] + bias
                    if job.relu and value < 0:
                        value = np.float32(0)
                    plane[np.uint64(top + i), np.uint64(left + j)] = value


@njit(cache=False, no_cpython_wrapper=True)
def _write_channels(task, worker, job):
    """The results of one row of tiles of one image (N, H, W, O), from products (tile * tile, N * tiles, O)."""
    height, width, channels = job.image.shape[1:]
    n, row = task // job.tiles_down, task % job.tiles_down
    tile, memory, step = job.tile, job.scratch[worker], job.tile - 2
    top = row * step
    for column in range(job.tiles_across):
        left, at = column * step, task * job.tiles_across + column
        for first in range(0, channels, LANES):
            lanes = min(LANES, channels - first)
            for place in range(tile * tile):
                source, target = job.values[place, at, first:], memory[place * LANES :]
                for lane in range(lanes):
                    target[lane] = source[lane]
            _transform_output(memory, tile)
            bias = job.bias[first:]
            for i in range(min(step, height - top)):
                for j in range(min(step, width - left)):
                    source, target = _row(memory, 2, tile, i, j), job.image[n, top + i, left + j, first:]
                    for lane in range(lanes):
                        value = source[lane] + bias[lane]
                        target[lane] = np.float32(0) if job.relu and value < 0 else value


class ReadPlanes(NamedTuple):
    """Job: Tiles of an image (N, C, H, W), to values (tile * tile, C, N * tiles)."""

    image: np.ndarray
    values: np.ndarray
    bias: np.ndarray
    scratch: np.ndarray
    tile: int
    top: int
    left: int
    tiles_down: int
    tiles_across: int
    relu: bool
    run = _read_planes


class ReadChannels(NamedTuple):
    """Job: Tiles of an image (N, H, W, C), to values (tile * tile, N * tiles, C)."""

    image: np.ndarray
    values: np.ndarray
    bias: np.ndarray
    scratch: np.ndarray
    tile: int
    top: int
    left: int
    tiles_down: int
    tiles_across: int
    relu: bool
    run = _read_channels


class WritePlanes(NamedTuple):
    """Job: Results (N, O, H, W), from products (tile * tile, O, N * tiles)."""

    image: np.ndarray
    values: np.ndarray
    bias: np.ndarray
    scratch: np.ndarray
    tile: int
    top: int
    left: int
    tiles_down: int
    tiles_across: int
    relu: bool
    run = _write_planes


class WriteChannels(NamedTuple):
    """Job: Results (N, H, W, O), from products (tile * tile, N * tiles, O)."""

    image: np.ndarray
    values: np.ndarray
    bias: np.ndarray
    scratch: np.ndarray
    tile: int
    top: int
    left: int
    tiles_down: int
    tiles_across: int
    relu: bool
    run = _write_channels


@njit
def start(pool, threads, tasks, job):
    """Run a job of this module, on so many threads."""
    launch(pool, threads, tasks, job)
