"""Samples and references of `ops/losses/margin.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..distances import batches_of_vectors, cosine_reference, pairwise_reference
from ..samples import Sample, between, sample
from ..table import declare
from .pointwise import loss_samples, reduced_array


def _margin_reference(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Any:
    rows, loss = np.atleast_2d(input), np.zeros(target.size)
    for place, (row, label) in enumerate(zip(rows, target.reshape(-1), strict=True)):
        terms = np.maximum(margin - row[label] + row, 0) ** p
        loss[place] = (terms.sum() - margin**p) / row.size * (1 if weight is None else weight[label])
    return reduced_array(loss.reshape(target.shape), reduction)


def _margin_samples() -> Iterator[Sample]:
    x, target = between(-2, 2.31, 3, 4), np.array([2, 0, 3])
    yield sample(x, target)
    yield sample(x, target, 2, 0.7, between(0.5, 2, 4), reduction="none")
    yield sample(between(-2, 2.31, 8, 6)[::2, ::-2].T, target, margin=0.3, reduction="sum")
    yield sample(x[0], np.array(1), reduction="none")
    yield sample(x[:0], target[:0], reduction="none")


declare("multi_margin_loss", _margin_reference, _margin_samples)


def _multilabel_reference(input: Any, target: Any, reduction: str = "mean") -> Any:
    rows, targets = np.atleast_2d(input), np.atleast_2d(target)
    loss = np.zeros(len(rows))
    for place, (row, labels) in enumerate(zip(rows, targets, strict=True)):
        named = [*labels[: np.argmax(labels < 0) if (labels < 0).any() else None]]
        others = [c for c in range(row.size) if c not in named]
        loss[place] = sum(max(0, 1 - row[y] + row[c]) for y in named for c in others) / row.size
    return reduced_array(loss.reshape(input.shape[:-1]), reduction)


def _multilabel_samples() -> Iterator[Sample]:
    x, target = between(-2, 2.3, 3, 4), np.array([[3, 0, -1, 1], [0, 1, 2, 3], [-1, 0, 1, 2]])
    yield sample(x, target)
    yield sample(x, target, reduction="sum")
    yield sample(between(-2, 2.31, 6, 8)[::2, ::-2], target[[0, 0, 1]], reduction="none")
    yield sample(x[0], np.array([2, 2, -1, 0]), reduction="none")
    yield sample(between(-2, 2), np.array(0))
    yield sample(x[:0], target[:0], reduction="none")


declare("multilabel_margin_loss", _multilabel_reference, _multilabel_samples)


def _soft_reference(input: Any, target: Any, weight: Any = 1, reduction: str = "mean") -> Any:
    terms = target * np.log1p(np.exp(-input)) + (1 - target) * np.log1p(np.exp(input))
    return reduced_array((terms * weight).mean(-1), reduction)


def _soft_samples() -> Iterator[Sample]:
    x, target = between(-3, 3, 3, 4), between(0.1, 0.9, 3, 4, seed=5)
    yield sample(x, target)
    yield sample(x, target, between(0.5, 2, 4), reduction="sum")
    yield sample(between(-3, 3, 8, 6)[::2, ::-2].T, target, reduction="none")
    yield sample(x[0], target[0], reduction="none")
    yield sample(x[:0], target[:0], reduction="none")


declare("multilabel_soft_margin_loss", _soft_reference, _soft_samples)


_SIGNS = np.array([1, -1, 1])


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
    cosine = cosine_reference(input1, input2, input1.ndim - 1)
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
    near, far = pairwise_reference(anchor, positive, p, eps), pairwise_reference(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_reference(positive, negative, p, eps))
    return reduced_array(np.maximum(near - far + margin, 0), reduction)


def _triplet_samples() -> Iterator[Sample]:
    yield from batches_of_vectors(3, {"margin": 0.3, "swap": True}, {"reduction": "none"}, reduction="sum")()
    yield sample(between(-2, 2.3), between(-2, 2.6), between(-2, 2.9))


declare("triplet_margin_loss", _triplet_reference, _triplet_samples)
declare("triplet_margin_with_distance_loss", _triplet_reference, _triplet_samples)


declare(
    "soft_margin_loss",
    lambda input, target, reduction="mean": reduced_array(np.log1p(np.exp(-target * input)), reduction),
    loss_samples(-3, 3, -1, 1.2),
)
