"""Samples and references of `ops/elementwise/activations.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.elementwise.activations import _CUBIC, _ROOT, _SELU_ALPHA, _SELU_SCALE
from tests.declared.samples import Sample, arrays_like, between, sample, unary_samples
from tests.declared.table import declare


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


def _logistic(x: Any) -> Any:
    return 0.5 + 0.5 * np.tanh(x / 2)


def _normal(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erfc, [np.float64])(-x / math.sqrt(2)) / 2


def _gelu_reference(input: np.ndarray, approximate: str = "none") -> np.ndarray:
    return input * (_normal(input) if approximate == "none" else _logistic(2 * _ROOT * (input + _CUBIC * input**3)))


def _derivative(function: Callable[..., np.ndarray], x: np.ndarray) -> np.ndarray:
    """By a step in the imaginary direction, where no difference cancels."""
    return function(x + 1e-30j).imag / 1e-30


def _gelu_backward_reference(grad_output: np.ndarray, input: np.ndarray, approximate: str) -> np.ndarray:
    if approximate == "none":
        return grad_output * (_normal(input) + input * np.exp(-input * input / 2) / math.sqrt(2 * math.pi))
    return grad_output * _derivative(lambda x: _gelu_reference(x, approximate), input)


def _pairs(*options: tuple) -> Callable[[], Iterator[Sample]]:
    """Samples of gradients: a cotangent and an input."""

    def samples() -> Iterator[Sample]:
        for each in options:
            yield sample(between(-1, 1, 4, 5), between(-3, 3, 4, 5, seed=1), *each)
            yield sample(between(-1, 1, 6, 8)[::2, ::-2], between(-3, 3, 4, 3, seed=1).T, *each)
            yield sample(between(-1, 1), between(-3, 3, seed=1), *each)
            yield sample(between(-1, 1, 0, 3), between(-3, 3, 0, 3), *each)

    return samples


declare("gelu_backward", _gelu_backward_reference, _pairs(("none",), ("tanh",)))


def _gelu_samples() -> Iterator[Sample]:
    yield from unary_samples(-3, 3)()
    yield sample(between(-3, 3, 4, 5, seed=4), approximate="tanh")


declare("gelu", _gelu_reference, _gelu_samples)


def _silu_reference(input: np.ndarray) -> np.ndarray:
    return input * _logistic(input)


def _silu_backward_reference(grad_output: np.ndarray, input: np.ndarray) -> np.ndarray:
    gate = _logistic(input.conj())
    return grad_output * (gate + gate * (1 - gate) * input.conj())


declare("silu_backward", _silu_backward_reference, _pairs(()))
declare("silu", _silu_reference, unary_samples(-3, 3))


def _glu_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4))
    yield sample(between(-2, 2, 4, 6)[::-1, ::2], 0)
    yield sample(between(-2, 2, 2, 4, 3), 1)
    yield sample(between(-2, 2, 0, 4))


def _glu_reference(input: np.ndarray, dim: int = -1) -> np.ndarray:
    value, gate = np.split(input, 2, dim)
    return value / (1 + np.exp(-gate))


declare("glu", _glu_reference, _glu_samples)


def _slope_samples() -> Iterator[Sample]:
    for each in arrays_like(-2, 2.3):
        yield sample(each)
    yield sample(between(-2, 2.3, 3, 4), 0.1, 0.5)
    yield sample(between(-2, 2.3, 3, 4), 0.25, 0.25, True)


def _slope_reference(input: np.ndarray, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """Apply a fixed slope: the samples fix it, and a separate test checks the distribution of random slopes."""
    return np.where(input > 0, input, input * (lower + upper) / 2)


declare("rrelu", _slope_reference, _slope_samples)


declare(
    "threshold",
    lambda input, threshold, value: np.where(input <= threshold, value, input),
    lambda: (sample(each, 0.4, 7) for each in arrays_like(-2, 2.5)),
)
declare(
    "hardshrink",
    lambda input, lambd=0.5: np.where(np.abs(input) > lambd, input, 0),
    with_options(-2, 2.5, {"lambd": 1.1}),
)
declare(
    "softshrink",
    lambda input, lambd=0.5: np.sign(input) * np.maximum(np.abs(input) - lambd, 0),
    with_options(-2, 2.5, {"lambd": 1.1}),
)
declare("tanhshrink", lambda input: input - np.tanh(input), unary_samples())


declare("sigmoid", lambda input: 0.5 + 0.5 * np.tanh(input / 2), unary_samples(-6, 6))
