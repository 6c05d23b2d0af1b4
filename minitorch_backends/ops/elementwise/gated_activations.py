"""Activations that multiply their input by a gate: gelu and silu, each with one op as its gradient, and glu."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels import elementwise
from ...tensor.tensor import Tensor
from ..functional import functional
from ..gradients import conjugate
from ..samples import Sample, between, sample, unary_samples

__all__ = ["gelu", "glu", "silu"]

_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


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


def _curvature(input: Tensor, slope: Any = 1, bend: Any = 0, argument: Tensor | None = None) -> Tensor:
    """The second derivative of input * sigmoid(u), given the first and second of u, which is the input by default."""
    gate = (input if argument is None else argument).sigmoid()
    return gate * (1 - gate) * (2 * slope + input * ((1 - 2 * gate) * (slope * slope) + bend))


def _gelu_curvature(input: Tensor, approximate: str) -> Tensor:
    if approximate == "none":
        return (input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi)) * (2 - input * input)
    slope, bend = 2 * _ROOT * (1 + 3 * _CUBIC * input * input), 12 * _ROOT * _CUBIC * input
    return _curvature(input, slope, bend, 2 * _ROOT * (input + _CUBIC * input * input * input))


@op(
    takes="f",
    widen=False,
    widen_rules=True,
    method=False,
    grad_output=lambda g, input, approximate: gelu_backward(g, input, approximate),
    input=lambda g, grad_output, input, approximate: g * grad_output * _gelu_curvature(input, approximate),
    reference=_gelu_backward_reference,
    samples=_pairs(("none",), ("tanh",)),
)
def gelu_backward(grad_output: Array, input: Array, approximate: str):
    """The gradient of `gelu`: grad_output times its derivative at `input`."""
    gradient = elementwise.gelu_gradient if approximate == "none" else elementwise.tanh_gelu_gradient
    return gradient(grad_output, input)


def _gelu_samples() -> Iterator[Sample]:
    yield from unary_samples(-3, 3)()
    yield sample(between(-3, 3, 4, 5, seed=4), approximate="tanh")


@functional
@op(
    takes="f",
    widen=False,
    method=False,
    input=lambda g, input, approximate: gelu_backward(g, input, approximate),
    reference=_gelu_reference,
    samples=_gelu_samples,
)
def gelu(input: Array, approximate: str = "none"):
    """`input` times the standard normal distribution function, or times its approximation by tanh.

    Hendrycks and Gimpel, Gaussian Error Linear Units, 2016. `approximate` is "none" or "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return (elementwise.gelu if approximate == "none" else elementwise.tanh_gelu)(input)


def _silu_reference(input: np.ndarray) -> np.ndarray:
    return input * _logistic(input)


def _silu_backward_reference(grad_output: np.ndarray, input: np.ndarray) -> np.ndarray:
    gate = _logistic(input.conj())
    return grad_output * (gate + gate * (1 - gate) * input.conj())


@op(
    takes="fc",
    widen=False,
    widen_rules=True,
    method=False,
    grad_output=lambda g, input: silu_backward(g, conjugate(input)),
    input=lambda g, grad_output, input: conjugate(g) * grad_output * _curvature(conjugate(input)),
    reference=_silu_backward_reference,
    samples=_pairs(()),
)
def silu_backward(grad_output: Array, input: Array):
    """The gradient of `silu`: grad_output times the conjugate of its derivative at `input`."""
    return elementwise.silu_gradient(grad_output, input.conj())


@functional(inplace=True)
@op(
    takes="fc",
    widen=False,
    method=False,
    input=lambda g, input: silu_backward(g, input),
    reference=_silu_reference,
    samples=unary_samples(-3, 3),
)
def silu(input: Array):
    """input * sigmoid(input), also called swish."""
    return elementwise.silu(input)


def _glu_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4))
    yield sample(between(-2, 2, 4, 6)[::-1, ::2], 0)
    yield sample(between(-2, 2, 2, 4, 3), 1)
    yield sample(between(-2, 2, 0, 4))


def _glu_reference(input: np.ndarray, dim: int = -1) -> np.ndarray:
    value, gate = np.split(input, 2, dim)
    return value / (1 + np.exp(-gate))


@functional
@composite(method=False, takes="f", widen=True, reference=_glu_reference, samples=_glu_samples)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim`, times the sigmoid of the second half (Dauphin et al., 2016)."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors; expected at least one dimension to halve")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(f"glu halves dimension {dim}, whose size must be even, and it is {size}")
    return input.narrow(dim, 0, size // 2) * input.narrow(dim, size // 2, size // 2).sigmoid()
