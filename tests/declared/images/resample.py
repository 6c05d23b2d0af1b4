"""Samples and references of `ops/images/resample.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.images.resample import Neighbours

from ..samples import Sample, between, sample
from ..table import declare

_AT = Neighbours(
    3,
    np.array([[0, 0, 1, 2, 2], [1, 1, 2, 2, 0]]),
    np.array([[1.0, 0.25, 0.5, 0.75, -0.5], [0.0, 0.75, 0.5, 0.25, 0.1]]),
)


def _samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 3, 4), 1, _AT)
    yield sample(between(-2, 2, 2, 3), 1, _AT)
    yield sample(between(-2, 2, 6, 8)[::2, ::-2], 0, _AT)
    yield sample(between(-2, 2, 0, 3), 1, _AT)


def _back_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 5, 4), 1, _AT)
    yield sample(between(-2, 2, 2, 5), 1, _AT)
    yield sample(between(-2, 2, 10, 8)[::2, ::-2], 0, _AT)
    yield sample(between(-2, 2, 0, 5), 1, _AT)


def _matrix(at: Neighbours) -> np.ndarray:
    matrix = np.zeros((at.places.shape[1], at.size))
    for places, shares in zip(at.places, at.shares, strict=True):
        for row, (place, share) in enumerate(zip(places, shares, strict=True)):
            matrix[row, place] += share
    return matrix


def _product(matrix: np.ndarray, input: Any, dim: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, input, (1, dim)), 0, dim)


declare("resample", lambda input, dim, at: _product(_matrix(at), input, dim), _samples)
declare("resample_back", lambda grad_output, dim, at: _product(_matrix(at).T, grad_output, dim), _back_samples)
