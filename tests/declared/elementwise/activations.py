"""Samples and references of `ops/elementwise/activations.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.elementwise.activations import _SELU_ALPHA, _SELU_SCALE

from ..samples import Sample, arrays_like, between, sample, unary_samples
from ..table import declare


def with_options(low: float, high: float, *options: dict[str, Any]) -> Callable[[], Iterator[Sample]]:
    """The usual arrays with values in (low, high), and one array for each set of options."""

    def samples() -> Iterator[Sample]:
        yield from unary_samples(low, high)()
        for each in options:
            yield sample(between(low, high, 4, 5, seed=4), **each)

    return samples


def _relu_results() -> Iterator[Sample]:
    for seed, result in enumerate(arrays_like(-2, 2.5)):
        yield sample(between(-2, 2, *result.shape, seed=seed), np.asarray(np.maximum(result, 0)))
    yield sample(between(-2, 2, 3, 1), np.maximum(between(-2, 2.5, 3, 4), 0))


declare("relu_backward", lambda grad_output, result: np.where(result == 0, 0, grad_output), _relu_results)
declare("relu", lambda input: np.maximum(input, 0), unary_samples(-2, 2.5))
declare(
    "piecewise_gradient", lambda gradient, input: gradient, lambda: (sample(each, each) for each in arrays_like(-2, 2))
)
declare(
    "leaky_relu",
    lambda input, negative_slope=0.01: np.where(input > 0, input, input * negative_slope),
    with_options(-2, 2.5, {"negative_slope": 0.3}, {"negative_slope": 2.0}, {"negative_slope": -0.5}),
)
declare(
    "elu",
    lambda input, alpha=1.0: np.where(input > 0, input, alpha * (np.exp(np.minimum(input, 0)) - 1)),
    with_options(-2, 2.5, {"alpha": 0.7}),
)
declare(
    "selu",
    lambda input: _SELU_SCALE * np.where(input > 0, input, _SELU_ALPHA * (np.exp(np.minimum(input, 0)) - 1)),
    unary_samples(-2, 2.5),
)
declare(
    "celu",
    lambda input, alpha=1.0: np.where(input > 0, input, alpha * (np.exp(np.minimum(input, 0) / alpha) - 1)),
    with_options(-2, 2.5, {"alpha": 0.7}),
)


def _inside_samples() -> Iterator[Sample]:
    for seed, x in enumerate(arrays_like(-2, 2.5)):
        yield sample(between(-2, 2, *x.shape, seed=seed), x, -0.6, 1.7)


declare(
    "hardtanh_backward",
    lambda grad_output, input, min_val, max_val: np.where((input <= min_val) | (input >= max_val), 0, grad_output),
    _inside_samples,
)
declare(
    "hardtanh",
    lambda input, min_val=-1.0, max_val=1.0: np.minimum(np.maximum(input, min_val), max_val),
    with_options(-2, 2.5, {"min_val": -0.6, "max_val": 1.7}),
)
declare("relu6", lambda input: np.minimum(np.maximum(input, 0), 6), unary_samples(-2, 8.7))
declare("hardsigmoid", lambda input: np.minimum(np.maximum(input + 3, 0), 6) / 6, unary_samples(-4, 5.3))
declare("hardswish", lambda input: input * np.minimum(np.maximum(input + 3, 0), 6) / 6, unary_samples(-4, 5.3))


def _prelu_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2.5, 2, 3), between(0.1, 0.6, 1))
    yield sample(between(-2, 2.5, 2, 3, 2), between(0.1, 0.6, 3))
    yield sample(between(-2, 2.5, 6, 4)[::2, ::-2].T, between(0.1, 0.6, 6)[::2])
    yield sample(between(-2, 2.5, 3), between(0.1, 0.6))
    yield sample(between(-2, 2.5, 0, 3), between(0.1, 0.6, 3))


def _prelu_reference(input: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.where(input > 0, input, input * weight.reshape((-1,) + (1,) * max(input.ndim - 2, 0)))


declare("prelu", _prelu_reference, _prelu_samples)


def _softplus_reference(input: np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    return np.where(input * beta > threshold, input, np.log1p(np.exp(np.minimum(input * beta, threshold))) / beta)


declare("softplus", _softplus_reference, with_options(-3, 3, {"beta": 2.5}, {"beta": 0.5, "threshold": 1.0}))
declare("logsigmoid", lambda input: -np.log1p(np.exp(-input)), unary_samples(-3, 3))
declare("mish", lambda input: input * np.tanh(np.log1p(np.exp(input))), unary_samples(-3, 3))
declare("softsign", lambda input: input / (1 + np.abs(input)), unary_samples(-2, 2.5))
