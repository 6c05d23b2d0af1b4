"""Samples and references of `ops/losses/pointwise.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


def reduced_array(loss: Any, reduction: str) -> Any:
    """`reduce_loss`, for references."""
    return loss if reduction == "none" else np.mean(loss) if reduction == "mean" else np.sum(loss)


def loss_samples(
    low: float, high: float, low_target: float, high_target: float, *options: dict[str, Any]
) -> Callable[[], Iterator[Sample]]:
    """Samples of inputs and targets of equal shapes, one set for each reduction, and one for each set of options."""

    def samples() -> Iterator[Sample]:
        def both(*shape: int) -> tuple[np.ndarray, np.ndarray]:
            return between(low, high, *shape), between(low_target, high_target, *shape, seed=5)

        yield sample(*both(3, 4))
        yield sample(*both(3, 4), reduction="sum")
        yield sample(*(each[::2, ::-2].T for each in both(4, 6)), reduction="none")
        yield sample(*both())
        yield sample(*both(0, 3), reduction="sum")
        for option in options:
            yield sample(*both(3, 5), **option)

    return samples


declare(
    "mse_loss",
    lambda input, target, reduction="mean": reduced_array(np.square(input - target), reduction),
    loss_samples(-2, 2, -2, 2),
)
declare(
    "l1_loss",
    lambda input, target, reduction="mean": reduced_array(np.abs(input - target), reduction),
    loss_samples(-2, 2, -3, 2),
)


def _huber_terms_samples() -> Iterator[Sample]:
    for numbers in (between(-2, 2, 3, 4), between(-2, 2, 4, 6)[::2, ::-2].T, between(-2, 2), between(-2, 2, 0, 3)):
        yield sample(numbers, 0.37)


declare("huber_terms", lambda difference, delta: _huber_reference(difference, 0, "none", delta), _huber_terms_samples)


def _smooth_l1_reference(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    distance = np.abs(input - target)
    loss = np.where(distance < beta, 0.5 * distance**2 / (beta or 1), distance - 0.5 * beta)
    return reduced_array(loss, reduction)


declare("smooth_l1_loss", _smooth_l1_reference, loss_samples(-2, 2, -3, 2, {"beta": 0.37}, {"beta": 0.0}))


def _huber_reference(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    distance = np.abs(input - target)
    return reduced_array(np.where(distance <= delta, 0.5 * distance**2, delta * (distance - 0.5 * delta)), reduction)


declare("huber_loss", _huber_reference, loss_samples(-2, 2, -3, 2, {"delta": 0.37}))


def _kl_div_reference(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    logarithm = target if log_target else np.log(target)
    loss = np.exp(logarithm) * (logarithm - input)
    return loss.sum() / len(loss) if reduction == "batchmean" else reduced_array(loss, reduction)


declare("kl_div", _kl_div_reference, loss_samples(-3, -0.1, 0.1, 0.9, {"log_target": True}, {"reduction": "batchmean"}))


def _poisson_reference(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Any:
    loss = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    stirling = target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target)
    return reduced_array(loss + (np.where(target > 1, stirling, 0) if full else 0), reduction)


declare("poisson_nll_loss", _poisson_reference, loss_samples(0.2, 2, 0.3, 4, {"full": True}, {"log_input": False}))


def _gaussian_samples() -> Iterator[Sample]:
    for (input, target), options in loss_samples(-2, 2, -2, 2, {"full": True})():
        yield sample(input, target, between(0.2, 2, *input.shape, seed=7), **options)


def _gaussian_reference(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    var = np.maximum(var, eps)
    return reduced_array(
        0.5 * (np.log(var) + (input - target) ** 2 / var + (np.log(2 * np.pi) if full else 0)), reduction
    )


declare("gaussian_nll_loss", _gaussian_reference, _gaussian_samples)
