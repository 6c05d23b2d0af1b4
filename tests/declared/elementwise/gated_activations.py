"""Samples and references of `ops/elementwise/gated_activations.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.elementwise.gated_activations import _CUBIC, _ROOT

from ..samples import Sample, between, sample, unary_samples
from ..table import declare


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
