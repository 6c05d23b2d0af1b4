"""softmax and its logarithm, each one fused forward and one fused gradient."""

from __future__ import annotations

import functools
from typing import Any

from ..dispatch.op import Array, composite, op
from ..kernels.arrays import rows
from ..tensor.tensor import Tensor
from .dims import wrap_dim
from .functional import functional

__all__ = ["log_softmax", "softmax", "softmin"]

# Gradients. Both are linear in grad_output; the derivative of a softmax is symmetric, so that its gradient is itself.


def _of_softmax_result(g: Tensor, grad_output: Tensor, result: Tensor, dim: int) -> Tensor:
    inner = (grad_output * result).sum(dim, keepdim=True)
    return g * (grad_output - inner) - grad_output * (g * result).sum(dim, keepdim=True)


_along_dim = functools.partial(op, traits="function unwidened wide_rules", takes="f")


@_along_dim(
    grad_output=lambda g, result, dim: softmax_backward(g, result, dim), result=_of_softmax_result, batch="along"
)
def softmax_backward(grad_output: Array, result: Array, dim: int) -> Array:
    """The gradient of a softmax from its result: result * (grad_output - sum(grad_output * result))."""
    return rows.softmax_gradient(grad_output, result, dim=dim)


@_along_dim(
    grad_output=lambda g, result, dim: g - (g * result.exp()).sum(dim, keepdim=True),
    result=lambda g, grad_output, result, dim: -(g * result.exp() * grad_output.sum(dim, keepdim=True)),
    batch="along",
)
def log_softmax_backward(grad_output: Array, result: Array, dim: int) -> Array:
    """The gradient of a log_softmax from its result: grad_output - exp(result) * sum(grad_output)."""
    return rows.log_softmax_gradient(grad_output, result, dim=dim)


# Forwards. The public functions take `dtype`, and cast the input to it first.


@_along_dim(
    name=("softmax_forward", "softmax"),
    traits="wide_rules unwidened function row_major",
    input=lambda g, out, dim: softmax_backward(g, out, dim),
    batch="along",
)
def softmax_forward(input: Array, dim: int) -> Array:
    """exp(input) / sum(exp(input)) along `dim`."""
    wrap_dim(dim, input.ndim)
    return rows.softmax(input, dim=dim)


@_along_dim(
    name=("log_softmax_forward", "log_softmax"),
    traits="wide_rules unwidened function row_major",
    input=lambda g, out, dim: log_softmax_backward(g, out, dim),
    batch="along",
)
def log_softmax_forward(input: Array, dim: int) -> Array:
    """input - log(sum(exp(input))) along `dim`."""
    wrap_dim(dim, input.ndim)
    return rows.log_softmax(input, dim=dim)


@functional(implicit_dim=True)
@composite(takes="f", also="bic")
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`, safe from overflow, in `dtype` if one is given.

    Raises IndexError for a dim out of range and RuntimeError for types that are not floating.
    """
    return softmax_forward(input if dtype is None else input.to(dtype), dim)


@functional(implicit_dim=True)
@composite(takes="f", also="bic")
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along `dim`, accurate where the softmax underflows, in `dtype` if one is given."""
    return log_softmax_forward(input if dtype is None else input.to(dtype), dim)


@functional(implicit_dim=True)
@composite(takes="f", also="bic", method=False)
def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """softmax(-input), in `dtype` if one is given, which integers need."""
    return softmax(-input, dim, dtype)
