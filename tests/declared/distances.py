"""Samples and references of `ops/distances.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.distances import _BY_PRODUCTS, _differences
from minitorch_backends.ops.views.broadcasting import broadcast_shapes

from .samples import Sample, between, sample, samples_of_shapes, strided_matrix
from .table import declare


def _norm(size: Any, p: float, **named: Any) -> Any:
    if p == 0:
        return np.sum(size != 0, dtype=size.dtype, **named)
    return np.max(size, **named) if math.isinf(p) else np.sum(size**p, **named) ** (1 / p)


def _vectors() -> Iterator[Sample]:
    yield sample(between(-2, 2.3, 3, 2), between(-1, 2.1, 4, 2, seed=1))
    yield sample(between(-2, 2.3, 2, 3, 2), between(-1, 2.1, 1, 2, 2, seed=1))
    yield sample(between(-2, 2.3, 2, 3).T, between(-1, 2.1, 2, 2, seed=1))
    yield sample(between(-2, 2.3, 0, 2), between(-1, 2.1, 3, 2, seed=1))


def _weighted_vectors() -> Iterator[Sample]:
    for (x1, x2), _ in _vectors():
        shape = (*broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), x1.shape[-2], x2.shape[-2])
        yield sample(between(-1, 1, *shape, seed=2), x1, x2)


declare(
    "weighted_differences",
    lambda weights, x1, x2: (weights[..., None] * _differences(x1, x2)).sum(-2),
    _weighted_vectors,
)
declare("euclidean_distances", lambda x1, x2: np.sqrt((_differences(x1, x2) ** 2).sum(-1)), _vectors)


def _pairs() -> Iterator[Sample]:
    for p in (2.0, 1.0, 3.0, math.inf, 0.0):
        yield sample(between(-2, 2.3, 3, 2), between(-1, 2.1, 4, 2, seed=1), p)
    yield sample(between(-2, 2.3, 2, 3, 2), between(-1, 2.1, 1, 2, 2, seed=1))
    yield sample(between(-2, 2.3, 2, 3).T, between(-1, 2.1, 2, 2, seed=1))
    yield sample(between(-2, 2.3, 0, 2), between(-1, 2.1, 3, 2, seed=1))
    yield sample(between(-2, 2.3, 2, 3, 2), between(-1, 2.1, 4, 2, seed=1), compute_mode=_BY_PRODUCTS)


declare(
    "cdist",
    lambda x1, x2, p=2.0, compute_mode=None: _norm(np.abs(x1[..., :, None, :] - x2[..., None, :, :]), p, axis=-1),
    _pairs,
)


def _pdist_reference(input: np.ndarray, p: float = 2.0) -> np.ndarray:
    first, second = np.triu_indices(len(input), 1)
    return _norm(np.abs(input[first] - input[second]), p, axis=-1)


declare(
    "pdist",
    _pdist_reference,
    samples_of_shapes(
        ((4, 3),), ((3, 2), 1.0), ((3, 2), 3.0), ((3, 2), math.inf), (strided_matrix(), 2.0), ((1, 2),), ((0, 2),)
    ),
)


def _two() -> Iterator[Sample]:
    for p in (2, 1, 3, math.inf):
        yield sample(between(-2, 2.3, 3, 2), between(-1, 2.1, 3, 2, seed=1), p)
    yield sample(strided_matrix(), between(-1, 2.1, 2, seed=1))
    yield sample(between(-2, 2.3), between(-1, 2.1))
    yield sample(between(-2, 2.3, 0), between(-1, 2.1, 0))


declare("dist", lambda input, other, p=2: _norm(np.abs(input - other), p), _two)


def _renorm_reference(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    axes = tuple(axis for axis in range(input.ndim) if axis != dim % input.ndim)
    norm = _norm(np.abs(input), p, axis=axes, keepdims=True)
    return np.where(norm > maxnorm, input * maxnorm / (norm + 1e-7), input)


def _slices() -> Iterator[Sample]:
    for p in (2, 1, math.inf):
        yield sample(between(-2, 2.3, 3, 4), p, 0, 2.5)
    yield sample(between(-2, 2.3, 2, 3, 2), 2, -1, 1.0)
    yield sample(strided_matrix(), 2, 1, 1.0)
    yield sample(between(-2, 2.3, 0, 3), 2, 0, 1.0)


declare("renorm", _renorm_reference, _slices)


def batches_of_vectors(count: int, *options: dict[str, Any], **of_no_vectors: Any) -> Callable[[], Iterator[Sample]]:
    """Samples of `count` batches of vectors: plain, with options, with gaps, broadcasting, and without vectors."""

    def batches(*shapes: tuple[int, ...]) -> list[np.ndarray]:
        return [between(-2, 2.3, *shape, seed=seed) for seed, shape in enumerate((shapes * count)[:count])]

    def samples() -> Iterator[Sample]:
        for each in ({}, *options):
            yield sample(*batches((3, 4)), **each)
        yield sample(*(each[::2, ::-2].T for each in batches((8, 6))))
        yield sample(*batches((2, 3, 4), (1, 3, 4), (2, 1, 4)))
        yield sample(*batches((0, 4)), **of_no_vectors)

    return samples


def _cosine_samples() -> Iterator[Sample]:
    yield from batches_of_vectors(2, {"dim": 0})()
    yield sample(between(-2, 2.3), between(-2, 2.6, seed=1), 0)


def cosine_reference(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = np.broadcast_to(x1, shape), np.broadcast_to(x2, shape)
    lengths = [np.maximum(np.sqrt(np.square(each).sum(dim)), eps) for each in (x1, x2)]
    return (x1 * x2).sum(dim) / (lengths[0] * lengths[1])


declare("cosine_similarity", cosine_reference, _cosine_samples)


def _pairwise_samples() -> Iterator[Sample]:
    yield from batches_of_vectors(2, {"p": 3.0, "keepdim": True})()
    yield sample(between(-2, 2.3), between(-2, 2.1, seed=1))


def pairwise_reference(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return (np.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)


declare("pairwise_distance", pairwise_reference, _pairwise_samples)
