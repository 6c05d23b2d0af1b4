"""Samples and references of `ops/losses/cross_entropy.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.losses.cross_entropy import _count_targets

from ..samples import Sample, between, pairs, sample
from ..table import declare
from .pointwise import loss_samples, reduced_array


def _terms_samples() -> Iterator[Sample]:
    classes = np.array([2, 0, 1])
    yield sample(between(-2, 0, 3, 4), classes)
    yield sample(between(-2, 0, 3, 4), np.array([2, -100, 1]))
    yield sample(between(-2, 0, 8, 6)[::2, ::-2].T, classes)
    yield sample(between(-2, 0, 2, 4, 3), np.array([[0, 3, 1], [2, 2, 0]]), 2)
    yield sample(between(-2, 0, 4), np.array(3))
    yield sample(between(-2, 0, 0, 4), np.zeros(0, np.int64))


def _terms_reference(input: Any, target: Any, ignore_index: int = -100) -> np.ndarray:
    """The definition, one class at a time."""
    scores = np.moveaxis(input, 0 if input.ndim == 1 else 1, -1)
    loss = np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        if target[place] != ignore_index:
            loss[place] = -scores[place][target[place]]
    return loss


def _spread_samples() -> Iterator[Sample]:
    for seed, ((input, target, *rest), _) in enumerate(_terms_samples()):
        yield sample(between(-1, 1, *target.shape, seed=seed), target, input.shape, *rest)
    yield sample(between(-1, 1, 6)[::-2], np.array([2, 0, 1]), (3, 4))


def _spread_reference(grad_output: Any, target: Any, shape: tuple[int, ...], ignore_index: int = -100) -> np.ndarray:
    out = np.zeros(shape)
    scores = np.moveaxis(out, 0 if out.ndim == 1 else 1, -1)
    for place in np.ndindex(target.shape):
        if target[place] != ignore_index:
            scores[place][target[place]] = -grad_output[place]
    return out


declare("nll_spread", _spread_reference, _spread_samples)
declare("nll_terms", _terms_reference, _terms_samples)


def _mean_samples() -> Iterator[Sample]:
    yield from _terms_samples()
    yield sample(between(-2, 0, 3, 4), np.array([2, 7, 7]), 7)


def _mean_reference(input: Any, target: Any, ignore_index: int = -100) -> Any:
    with np.errstate(invalid="ignore"):
        return np.divide(_terms_reference(input, target, ignore_index).sum(), _count_targets(target, ignore_index))


declare("nll_mean", _mean_reference, _mean_samples)


def _loss_samples() -> Iterator[Sample]:
    classes, weight = np.array([2, 0, 1]), between(0.5, 2, 4)
    yield sample(between(-2, 2, 3, 4), classes)
    yield sample(between(-2, 2, 3, 4), np.array([2, -100, 1]), weight)
    yield sample(between(-2, 2, 8, 6)[::2, ::-2].T, classes, weight, reduction="sum")
    yield sample(between(-2, 2, 2, 4, 3), np.array([[0, 3, 1], [2, 2, 0]]), weight, ignore_index=2, reduction="none")
    yield sample(between(-2, 2, 4), np.array(3))
    yield sample(between(-2, 2, 0, 4), np.zeros(0, np.int64), reduction="sum")


def _nll_reference(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    counted = (target != ignore_index) * (np.ones(input.shape[input.ndim > 1]) if weight is None else weight)[
        np.maximum(target, 0)
    ]
    loss = _terms_reference(input, target, ignore_index) * counted
    return loss.sum() / counted.sum() if reduction == "mean" else reduced_array(loss, reduction)


declare("nll_loss", _nll_reference, _loss_samples)


def _cross_entropy_samples() -> Iterator[Sample]:
    yield from _loss_samples()
    for options in ({}, {"reduction": "sum"}, {"reduction": "none"}):
        yield sample(between(-2, 2, 3, 4), np.array([2, -100, 1]), between(0.5, 2, 4), label_smoothing=0.2, **options)
    yield sample(between(-2, 2, 3, 4), between(0, 1, 3, 4, seed=1))
    yield sample(between(-2, 2, 2, 4, 3), between(0, 1, 2, 4, 3, seed=1), between(0.5, 2, 4), label_smoothing=0.1)
    yield sample(between(-2, 2, 4), between(0, 1, 4, seed=1), reduction="sum")


def _cross_entropy_reference(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """By probabilities for every class, whatever the target."""
    dim = 0 if input.ndim == 1 else 1
    classes = input.shape[dim]
    log_probabilities = input - np.log(np.exp(input).sum(dim, keepdims=True))
    counted = np.ones(1)
    if target.shape != input.shape:
        counted = (target != ignore_index) * (np.ones(classes) if weight is None else weight)[np.maximum(target, 0)]
        kept = (target != ignore_index)[..., None]
        target = np.moveaxis(
            (target[..., None] == np.arange(classes)) * kept * (1 - label_smoothing)
            + kept * (label_smoothing / classes),
            -1,
            dim,
        )
    else:
        counted = np.ones(input.size // classes)
        target = target * (1 - label_smoothing) + label_smoothing / classes
    weights = np.ones(classes) if weight is None else weight
    loss = -np.moveaxis(target * log_probabilities, dim, -1) @ weights
    return loss.sum() / counted.sum() if reduction == "mean" else reduced_array(loss, reduction)


declare("cross_entropy", _cross_entropy_reference, _cross_entropy_samples)


def _bce_reference(input: Any, target: Any, weight: Any = 1, reduction: str = "mean") -> Any:
    return reduced_array(-(target * np.log(input) + (1 - target) * np.log1p(-input)) * weight, reduction)


declare(
    "binary_cross_entropy_terms",
    lambda input, target: _bce_reference(input, target, reduction="none"),
    pairs(0.1, 0.9, 0.25, 0.75),
)


declare("binary_cross_entropy", _bce_reference, loss_samples(0.1, 0.9, 0.1, 0.9, {"weight": between(0.5, 2, 5)}))


def _bce_with_logits_reference(
    input: Any, target: Any, weight: Any = 1, reduction: str = "mean", pos_weight: Any = 1
) -> Any:
    loss = pos_weight * target * np.log1p(np.exp(-input)) + (1 - target) * np.log1p(np.exp(input))
    return reduced_array(loss * weight, reduction)


declare(
    "binary_cross_entropy_with_logits",
    _bce_with_logits_reference,
    loss_samples(-3, 3, 0.1, 0.9, {"weight": between(0.5, 2, 5)}, {"pos_weight": between(0.5, 2, 5)}),
)
