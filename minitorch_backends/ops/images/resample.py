"""Resampling along a dimension: weighted sums of neighbours, and the transpose. Interpolation builds on it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.arrays import resampling
from ..indexing.accumulate import apply_at


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


def _three(input: np.ndarray, dim: int) -> np.ndarray:
    """As (lead, size, rest)."""
    shape = input.shape
    return input.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


@op(takes="f", method=False, input=lambda g, dim, at: resample_back(g, dim, at), batch="shift dim")
def resample(input: Array, dim: int, at: Neighbours) -> Array:
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
    batch="loop: functions of it fold the batch",
)
def resample_back(grad_output: Array, dim: int, at: Neighbours) -> Array:
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
