"""Samples and references of `ops/images/grid_sample.py`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minitorch_backends.ops.images.grid_sample import _MODES, _PADDINGS

from ..samples import Sample, between, sample
from ..table import declare


def _grid_samples() -> Iterator[Sample]:
    images, places = between(-2, 2, 2, 3, 4, 5), between(-1.7, 1.6, 2, 3, 2, 2)
    for mode, padding_mode, align in itertools.product(_MODES, _PADDINGS, (False, True)):
        yield sample(images, places, mode, padding_mode, align)
    volume, places = between(-2, 2, 1, 2, 3, 2, 4), between(-1.3, 1.4, 1, 2, 2, 1, 3)
    yield sample(volume, places)
    yield sample(volume, places, "nearest", "border", True)
    yield sample(volume, places, "bilinear", "reflection")
    yield sample(images[:0], between(-1, 1, 0, 3, 2, 2))
    yield sample(np.moveaxis(between(-2, 2, 1, 2, 5, 3), -1, 1), between(-1, 1, 1, 2, 2, 2), "bilinear", "border")


def _along(place: float, size: int, mode: str, padding_mode: str, align: bool) -> list[tuple[int, float]]:
    """The definition for one place: the values with their weights."""

    def inside(x: float) -> float:
        if padding_mode == "reflection":
            low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
            while low < high and not low <= x <= high:
                x = 2 * low - x if x < low else 2 * high - x
        return x if padding_mode == "zeros" else min(max(x, 0.0), size - 1.0)

    x = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
    x = x if mode == "bicubic" else inside(x)
    first = round(x) if mode == "nearest" else math.floor(x)
    if mode == "nearest":
        found = [(first, 1.0)]
    elif mode == "bilinear":
        found = [(first, 1 - (x - first)), (first + 1, x - first)]
    else:
        a, found = -0.75, []
        for k in range(first - 1, first + 3):
            d = abs(x - k)
            near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            found.append((math.floor(inside(k)), near if d <= 1 else far))
    return [(k, weight) for k, weight in found if 0 <= k < size]


def _grid_reference(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> np.ndarray:
    out = np.zeros((*input.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(*grid.shape[:-1]):
        around = [
            _along(x, size, mode, padding_mode, bool(align_corners))
            for x, size in zip(grid[place][::-1], input.shape[2:], strict=True)
        ]
        for taps in itertools.product(*around):
            value = input[(place[0], slice(None), *(k for k, _ in taps))]
            out[(place[0], slice(None), *place[1:])] += value * math.prod(weight for _, weight in taps)
    return out


declare("grid_sample", _grid_reference, _grid_samples)


def _affine_samples() -> Iterator[Sample]:
    for align in (False, True):
        yield sample(between(-1, 1, 2, 2, 3), (2, 3, 3, 4), align)
        yield sample(between(-1, 1, 2, 3, 4), (2, 1, 2, 1, 3), align)
    yield sample(between(-1, 1, 0, 2, 3), (0, 1, 2, 2))


def _affine_reference(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> np.ndarray:
    out = np.empty((*(size[0], *size[2:]), len(size) - 2))
    for place in np.ndindex(*size[2:]):
        middles = [
            (2 * k / (n - 1) - 1 if n > 1 else 0.0) if align_corners else (2 * k + 1) / n - 1
            for k, n in zip(place, size[2:], strict=True)
        ]
        out[(slice(None), *place)] = theta @ np.array([*middles[::-1], 1.0])
    return out


declare("affine_grid", _affine_reference, _affine_samples)
