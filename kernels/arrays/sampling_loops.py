"""The loops of `sampling`: the taps of a point along each dimension, and the sum over all their combinations."""

from __future__ import annotations

import numpy as np

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import job_class, launch
from ..runtime.raw_memory import pointer

_TAPS, _CONSTANTS = 4, 7
"""Taps of a dimension, at most, and constants of one (`sampling`)."""

SCRATCH = 256
"""Bytes of a thread: an index of 8 bytes and a weight of up to 8 for each tap of three dimensions."""

_NEAREST, _BICUBIC, _BORDER, _REFLECTION = 0, 2, 1, 2


@subroutine
def _clamp(place, low, high):
    """NaN stays."""
    if place < low:
        return low
    if place > high:
        return high
    return place


@subroutine
def _inside(place, padding, constants, row):
    """The place, or the one on the border or in the mirrors that stands for it."""
    low, span, last = constants[row + 2], constants[row + 3], constants[row + 4]
    zero = last - last
    if padding == _REFLECTION:
        if span == 0:
            return place * zero
        away = abs(place - low)
        turns = np.floor(away / span)
        rest = away - turns * span
        if turns % 2 != 0:
            rest = span - rest
        return _clamp(rest + low, zero, last)
    return _clamp(place, zero, last) if padding == _BORDER else place


@subroutine
def _cubic(t, tap):
    """The weight of the tap at -1, 0, 1 or 2 of a place at t (R. Keys, 1981, with a = -0.75)."""
    a = -0.75
    if tap == 0:
        return ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a
    if tap == 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    if tap == 2:
        return ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1
    return ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a


@subroutine
def _find_taps(place, size, dim, job, constants, indices, weights):
    """Store the taps of a point along a dimension that lie in the image, and return how many there are."""
    row, first_tap = _CONSTANTS * dim, _TAPS * dim
    place = place * constants[row] + constants[row + 1]
    if job.padding != _REFLECTION:
        place = _clamp(place, constants[row + 5], constants[row + 6])
    if job.mode != _BICUBIC:
        place = _inside(place, job.padding, constants, row)
    first = np.rint(place) if job.mode == _NEAREST else np.floor(place)
    share = place - first
    if share != share:
        indices[first_tap], weights[first_tap] = 0, share
        return 1
    found, taps = 0, 1 << job.mode
    for tap in range(taps):
        at = first + (tap - 1 if job.mode == _BICUBIC else tap)
        if job.mode == _BICUBIC:
            at = np.floor(_inside(constants[row] * 0 + at, job.padding, constants, row))
        if at >= 0 and at < size:
            indices[first_tap + found] = int(at)
            if job.mode == _NEAREST:
                weights[first_tap + found] = job.one
            elif job.mode == _BICUBIC:
                weights[first_tap + found] = _cubic(share, tap)
            else:
                weights[first_tap + found] = share if tap else job.one - share
            found += 1
    return found


@subroutine
def _sample_points(task, worker, job):
    tasks = (job.points + job.block - 1) // job.block
    image, start = task // tasks, task % tasks * job.block
    scratch = job.scratch + worker * SCRATCH
    indices, weights = carray(pointer(scratch, 0), 3 * _TAPS), carray(pointer(scratch + 128, job.one), 3 * _TAPS)
    constants = carray(pointer(job.constants, job.one), 3 * _CONSTANTS)
    plane, channel = job.height * job.width, job.depth * job.height * job.width
    of_image, of_places = job.channels * channel, job.points * job.dims
    x = carray(pointer(job.images + image * of_image * job.size, job.one), of_image)
    places = carray(pointer(job.places + image * of_places * job.size, job.one), of_places)
    out = carray(pointer(job.out + image * job.channels * job.points * job.size, job.one), job.channels * job.points)
    for point in range(start, min(start + job.block, job.points)):
        at = point * job.dims
        deep = 1
        if job.dims == 3:
            deep = _find_taps(places[at + 2], job.depth, 0, job, constants, indices, weights)
        else:
            indices[0], weights[0] = 0, job.one
        down = _find_taps(places[at + 1], job.height, 1, job, constants, indices, weights)
        along = _find_taps(places[at], job.width, 2, job, constants, indices, weights)
        for c in range(job.channels):
            total = job.one - job.one
            for i in range(deep):
                for j in range(down):
                    weight = weights[_TAPS + j] * weights[i]
                    row = c * channel + indices[i] * plane + indices[_TAPS + j] * job.width
                    for k in range(along):
                        total += x[row + indices[2 * _TAPS + k]] * (weights[2 * _TAPS + k] * weight)
            out[c * job.points + point] = total


Job = job_class(
    "Job",
    "images places out constants scratch count channels points dims mode padding block size depth height width one",
    _sample_points,
)
"""Addresses, sizes, and the numbers of the mode and of the padding; `block` points are a task. `one` has the type
of the numbers, and `size` their bytes."""


@njit
def run(pool, threads, job):
    launch(pool, threads, job.count * ((job.points + job.block - 1) // job.block), job)
