"""Activations that multiply their input by a gate: gelu and silu, each with one op as its gradient, and glu."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.op import Array, composite, op
from ...kernels.arrays import elementwise
from ...tensor.tensor import Tensor
from ..functional import functional
from ..gradients import conjugate

__all__ = ["gelu", "glu", "silu"]

_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


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
)
def gelu_backward(grad_output: Array, input: Array, approximate: str) -> Array:
    """The gradient of `gelu`: grad_output times its derivative at `input`."""
    gradient = elementwise.gelu_gradient if approximate == "none" else elementwise.tanh_gelu_gradient
    return gradient(grad_output, input)


@functional
@op(takes="f", widen=False, method=False, input=lambda g, input, approximate: gelu_backward(g, input, approximate))
def gelu(input: Array, approximate: str = "none") -> Array:
    """`input` times the standard normal distribution function, or times its approximation by tanh.

    Hendrycks and Gimpel, Gaussian Error Linear Units, 2016. `approximate` is "none" or "tanh". Raises RuntimeError for
    another `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return (elementwise.gelu if approximate == "none" else elementwise.tanh_gelu)(input)


@op(
    takes="fc",
    widen=False,
    widen_rules=True,
    method=False,
    grad_output=lambda g, input: silu_backward(g, conjugate(input)),
    input=lambda g, grad_output, input: conjugate(g) * grad_output * _curvature(conjugate(input)),
)
def silu_backward(grad_output: Array, input: Array) -> Array:
    """The gradient of `silu`: grad_output times the conjugate of its derivative at `input`."""
    return elementwise.silu_gradient(grad_output, input.conj())


@functional(inplace=True)
@op(takes="fc", widen=False, method=False, input=lambda g, input: silu_backward(g, input))
def silu(input: Array) -> Array:
    """input * sigmoid(input), also called swish."""
    return elementwise.silu(input)


@functional
@composite(method=False, takes="f", widen=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim`, times the sigmoid of the second half (Dauphin et al., 2016). Raises RuntimeError for
    an odd size of `dim` and for 0-dim tensors."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors; expected at least one dimension to halve")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(f"glu halves dimension {dim}, whose size must be even, and it is {size}")
    return input.narrow(dim, 0, size // 2) * input.narrow(dim, size // 2, size // 2).sigmoid()
