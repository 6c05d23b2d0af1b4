"""Samples and references of `ops/images/resize.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.images.resize import _CUBIC, _DIMS, _MODES, Neighbours, _steps
from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


def _interpolate(size: Any, mode: str, align_corners: bool) -> Iterator[Sample]:
    dims = _DIMS.get(mode, 2)
    x = between(-2, 2, 1, 2, *(4, 3, 3)[:dims])
    yield sample(x, size, None, mode, align_corners or (False if mode in _DIMS else None))
    if mode in _DIMS:
        yield sample(x, [3] * dims, None, mode, True)
    yield sample(np.moveaxis(between(-2, 2, 2, *(4, 3, 3)[:dims], 3), -1, 1), None, 2.0, mode)
    yield sample(x, None, 1.3, mode)  # some sizes stay, where linear modes copy and the others do not
    yield sample(x[:0], 3, None, mode)


def _samples() -> Iterator[Sample]:
    for mode in _MODES:
        yield from _interpolate(5, mode, False)


def _matrix(size: int, count: int, scale: float | None, mode: str, align_corners: bool) -> np.ndarray:
    """The weights of all values in all results along one dimension, result by result."""
    matrix = np.zeros((count, size))
    for i in range(count):
        if mode == "nearest" and size == count:
            matrix[i, i] = 1  # of images, which samples are
        elif mode in ("nearest", "nearest-exact"):
            at = i + 0.5 if mode == "nearest-exact" else i
            matrix[i, min(int(at * (1 / scale if scale else size / count)), size - 1)] = 1
        elif mode == "area":
            start, stop = i * size // count, -(-(i + 1) * size // count)
            matrix[i, start:stop] = 1 / (stop - start)
        elif mode != "bicubic" and size == count:
            matrix[i, i] = 1
        else:
            step = _steps(size, count, scale, align_corners)
            place = i * step if align_corners else (i + 0.5) * step - 0.5
            place = place if mode == "bicubic" else max(place, 0.0)
            for shift in (-1, 0, 1, 2) if mode == "bicubic" else (0, 1):
                index, far = math.floor(place) + shift, abs(place - math.floor(place) - shift)
                share = 1 - far
                if mode == "bicubic":
                    near = (_CUBIC + 2) * far**3 - (_CUBIC + 3) * far**2 + 1
                    share = near if far <= 1 else _CUBIC * (far**3 - 5 * far**2 + 8 * far - 4)
                matrix[i, min(max(index, 0), size - 1)] += share
    return matrix


def _reference(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> np.ndarray:
    for dim in range(2, input.ndim):
        count = size if isinstance(size, int) else size[dim - 2] if size else int(input.shape[dim] * scale_factor)
        matrix = _matrix(input.shape[dim], count, scale_factor, mode, bool(align_corners))
        input = np.moveaxis(np.tensordot(matrix, input, (1, dim)), 0, dim)
    return input


declare("interpolate", _reference, _samples)


_AT = Neighbours(
    3,
    np.array([[0, 0, 1, 2, 2], [1, 1, 2, 2, 0]]),
    np.array([[1.0, 0.25, 0.5, 0.75, -0.5], [0.0, 0.75, 0.5, 0.25, 0.1]]),
)


def _samples_of_resample() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 3, 4), 1, _AT)
    yield sample(between(-2, 2, 2, 3), 1, _AT)
    yield sample(between(-2, 2, 6, 8)[::2, ::-2], 0, _AT)
    yield sample(between(-2, 2, 0, 3), 1, _AT)


def _back_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 5, 4), 1, _AT)
    yield sample(between(-2, 2, 2, 5), 1, _AT)
    yield sample(between(-2, 2, 10, 8)[::2, ::-2], 0, _AT)
    yield sample(between(-2, 2, 0, 5), 1, _AT)


def _matrix_of_resample(at: Neighbours) -> np.ndarray:
    matrix = np.zeros((at.places.shape[1], at.size))
    for places, shares in zip(at.places, at.shares, strict=True):
        for row, (place, share) in enumerate(zip(places, shares, strict=True)):
            matrix[row, place] += share
    return matrix


def _product(matrix: np.ndarray, input: Any, dim: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, input, (1, dim)), 0, dim)


declare("resample", lambda input, dim, at: _product(_matrix_of_resample(at), input, dim), _samples_of_resample)
declare(
    "resample_back", lambda grad_output, dim, at: _product(_matrix_of_resample(at).T, grad_output, dim), _back_samples
)
