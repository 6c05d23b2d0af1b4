"""Samples and references of `ops/losses/ctc.py`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.losses.ctc import _pad_labels

from ..samples import Sample, between, sample
from ..table import declare
from .pointwise import reduced_array


def _path_samples() -> Iterator[Sample]:
    skips = np.array([[0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
    yield sample(between(-2, 0, 5, 3, 5), skips, np.array([5, 4, 3]), np.array([2, 2, 1]))
    yield sample(between(-2, 0, 5, 3, 5), skips, np.array([5, 5, 1]), np.array([2, 1, 0]))


def _path_reference(emitted: Any, skips: Any, frames: Any, lengths: Any) -> np.ndarray:
    """By the definition: one path after the other."""
    found = []
    for n, (count, length) in enumerate(zip(frames, lengths, strict=True)):
        total = 0.0
        for path in itertools.product(range(emitted.shape[2]), repeat=int(count)):
            steps = [(b - a) in (0, 1) or (b - a == 2 and skips[n, b]) for a, b in itertools.pairwise(path)]
            if path[0] < 2 and all(steps) and path[-1] in (2 * length, max(2 * length - 1, 0)):
                total += math.exp(sum(emitted[t, n, state] for t, state in enumerate(path)))
        found.append(math.log(total))
    return np.array(found)


declare("path_sums", _path_reference, _path_samples)


def _reference(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """By the definition: the sum over all sequences of labels and blanks that collapse to the target."""
    single = log_probs.ndim == 2
    scores = log_probs[:, None] if single else log_probs
    frames, lengths = np.atleast_1d(input_lengths), np.atleast_1d(target_lengths)
    labels = _pad_labels(targets.reshape(1, -1) if single else targets, lengths)
    losses = []
    for n, (count, length) in enumerate(zip(frames, lengths, strict=True)):
        total = 0.0
        for path in itertools.product(range(scores.shape[2]), repeat=int(count)):
            if [k for k, _ in itertools.groupby(path) if k != blank] == [*labels[n, :length]]:
                total += math.exp(sum(scores[t, n, k] for t, k in enumerate(path)))
        losses.append(-math.log(total) if total else 0.0 if zero_infinity else math.inf)
    loss = np.array(losses)
    loss = loss / np.maximum(lengths, 1) if reduction == "mean" else loss
    return reduced_array(loss[0] if single and reduction == "none" else loss, reduction)


def _samples() -> Iterator[Sample]:
    x, targets = between(-2, 2, 5, 3, 3), np.array([[1, 2], [2, 2], [2, 0]])
    frames, lengths = np.array([5, 4, 3]), np.array([2, 2, 1])
    yield sample(x, targets, frames, lengths)
    yield sample(x, np.array([1, 2, 2, 2, 2]), (5, 4, 3), (2, 2, 1), reduction="none")
    yield sample(x, targets - (targets == 0), np.array([2, 2, 5]), np.array([2, 2, 0]), 0, "sum", True)
    yield sample(x[:, 0], np.array([0, 0]), np.array(4), np.array(2), 1, "none")
    yield sample(between(-2, 2, 6, 4, 8)[::2, ::-2, ::3], np.array([[1], [2]]), (3, 2), (1, 1))


def _of_logits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of scores that are normalized first: the gradient is that of such."""

    def call(input: Any, *args: Any, **named: Any) -> Any:
        if isinstance(input, np.ndarray):
            return function(input - np.log(np.exp(input).sum(-1, keepdims=True)), *args, **named)
        return function(input.log_softmax(-1), *args, **named)

    return call


declare("ctc_loss", _reference, _samples, tested_as=_of_logits)
