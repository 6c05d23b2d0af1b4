"""Samples and references of `ops/distances/similarity.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.views.broadcasting import broadcast_shapes

from ..losses.pointwise import reduced_array
from ..samples import Sample, between, sample
from ..table import declare


def _vectors(count: int, *options: dict[str, Any], **of_no_vectors: Any) -> Callable[[], Iterator[Sample]]:
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


_SIGNS = np.array([1, -1, 1])


def _cosine_samples() -> Iterator[Sample]:
    yield from _vectors(2, {"dim": 0})()
    yield sample(between(-2, 2.3), between(-2, 2.6, seed=1), 0)


def _cosine_reference(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = np.broadcast_to(x1, shape), np.broadcast_to(x2, shape)
    lengths = [np.maximum(np.sqrt(np.square(each).sum(dim)), eps) for each in (x1, x2)]
    return (x1 * x2).sum(dim) / (lengths[0] * lengths[1])


declare("cosine_similarity", _cosine_reference, _cosine_samples)


def _pairwise_samples() -> Iterator[Sample]:
    yield from _vectors(2, {"p": 3.0, "keepdim": True})()
    yield sample(between(-2, 2.3), between(-2, 2.1, seed=1))


def _pairwise_reference(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return (np.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)


declare("pairwise_distance", _pairwise_reference, _pairwise_samples)


def _ranking_reference(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    return reduced_array(np.maximum(margin - target * (input1 - input2), 0), reduction)


def _ranking_samples() -> Iterator[Sample]:
    for options in ({}, {"margin": 0.5, "reduction": "sum"}, {"reduction": "none"}):
        yield sample(between(-2, 2, 3), between(-2, 2.2, 3, seed=1), _SIGNS, **options)
    yield sample(between(-2, 2, 1, 6)[:, ::-2], between(-2, 2.2, 2, 1, seed=1), _SIGNS[None])
    yield sample(between(-2, 2, 0), between(-2, 2, 0), np.zeros(0, np.int64), reduction="sum")


declare("margin_ranking_loss", _ranking_reference, _ranking_samples)


def _hinge_reference(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    return reduced_array(np.where(target == 1, input, np.maximum(margin - input, 0)), reduction)


def _hinge_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2.3, 3, 4), _SIGNS[:, None])
    yield sample(between(-2, 2.3, 3, 4), _SIGNS[:, None], margin=0.4, reduction="sum")
    yield sample(between(-2, 2.3, 8, 6)[::2, ::-2].T, np.array(-1), reduction="none")
    yield sample(between(-2, 2.3), np.array(-1))
    yield sample(between(-2, 2.3, 0, 3), _SIGNS, reduction="sum")


declare("hinge_embedding_loss", _hinge_reference, _hinge_samples)


def _cosine_embedding_reference(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    cosine = _cosine_reference(input1, input2, input1.ndim - 1)
    return reduced_array(np.where(target == 1, 1 - cosine, np.maximum(cosine - margin, 0)), reduction)


def _cosine_embedding_samples() -> Iterator[Sample]:
    first, second = between(-2, 2, 3, 4), between(-2, 2.3, 3, 4, seed=1)
    yield sample(first, second, _SIGNS)
    yield sample(first, second, _SIGNS, margin=-0.9, reduction="none")
    yield sample(first[0], second[1], np.array(-1))
    yield sample(*(between(-2, 2, 8, 6, seed=seed)[::2, ::-2].T for seed in (0, 1)), _SIGNS)
    yield sample(first[:0], second[:0], np.zeros(0, np.int64), reduction="sum")


declare("cosine_embedding_loss", _cosine_embedding_reference, _cosine_embedding_samples)


def _triplet_reference(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    near, far = _pairwise_reference(anchor, positive, p, eps), _pairwise_reference(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, _pairwise_reference(positive, negative, p, eps))
    return reduced_array(np.maximum(near - far + margin, 0), reduction)


def _triplet_samples() -> Iterator[Sample]:
    yield from _vectors(3, {"margin": 0.3, "swap": True}, {"reduction": "none"}, reduction="sum")()
    yield sample(between(-2, 2.3), between(-2, 2.6), between(-2, 2.9))


declare("triplet_margin_loss", _triplet_reference, _triplet_samples)
declare("triplet_margin_with_distance_loss", _triplet_reference, _triplet_samples)
