"""Resampling along a dimension: weighted sums of neighbours, and the transpose. Interpolation builds on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, op
from ...kernels import resampling
from ..indexing.accumulate import apply_at
from ..samples import Sample, between, sample


class Neighbours(NamedTuple):
    """The neighbours and weights of `count` results among `size` values along a dimension.

    Attributes:
        size: the number of values.
        places: the value of each part, int64 (parts, count).
        shares: its weight, (parts, count).
    """

    size: int
    places: np.ndarray
    shares: np.ndarray


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


def _three(input: np.ndarray, dim: int) -> np.ndarray:
    """As (lead, size, rest)."""
    shape = input.shape
    return input.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


@op(
    takes="f",
    method=False,
    input=lambda g, dim, at: resample_back(g, dim, at),
    reference=lambda input, dim, at: _product(_matrix(at), input, dim),
    samples=_samples,
)
def resample(input: Array, dim: int, at: Neighbours):
    """Along `dim`, counted from the front, of `at.size` values, the sums of `at`."""
    places, shares = at.places, at.shares.astype(input.dtype)
    if resampling.takes(input):
        found = resampling.resample(_three(input, dim), places, shares)
        return found.reshape(*input.shape[:dim], places.shape[1], *input.shape[dim + 1 :])
    weights = shares.reshape(*shares.shape, *(1,) * (input.ndim - dim - 1))
    total = input.take(places[0], dim) * weights[0]
    for part in range(1, len(places)):
        total += input.take(places[part], dim) * weights[part]
    return total


@op(
    takes="f",
    method=False,
    grad_output=lambda g, dim, at: resample(g, dim, at),
    reference=lambda grad_output, dim, at: _product(_matrix(at).T, grad_output, dim),
    samples=_back_samples,
)
def resample_back(grad_output: Array, dim: int, at: Neighbours):
    """The transpose of `resample`."""
    places, shares = at.places, at.shares.astype(grad_output.dtype)
    shape = (*grad_output.shape[:dim], at.size, *grad_output.shape[dim + 1 :])
    if resampling.takes(grad_output):
        return resampling.back(_three(grad_output, dim), at.size, places, shares).reshape(shape)
    weights = shares.reshape(*shares.shape, *(1,) * (grad_output.ndim - dim - 1))
    out = np.zeros(shape)
    for part in range(len(places)):
        apply_at(np.add, out, (slice(None),) * dim + (places[part],), grad_output * weights[part])
    return out.astype(grad_output.dtype, copy=False)
