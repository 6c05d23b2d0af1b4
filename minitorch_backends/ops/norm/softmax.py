"""softmax and its logarithm, each one fused forward and one fused gradient."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels import rows
from ...tensor.dtypes import float64
from ...tensor.tensor import Tensor
from ..dims import wrap_dim
from ..functional import functional
from ..samples import Sample, arrays_like, between, sample

__all__ = ["log_softmax", "softmax", "softmin"]


def _along() -> Iterator[Sample]:
    for each in arrays_like(-3, 3):
        yield sample(each, -1)
    yield sample(between(-3, 3, 2, 3, 4), 1)
    yield sample(between(-3, 3, 3, 0), -1)


def _along_in_dtype() -> Iterator[Sample]:
    yield from _along()
    yield sample(between(-3, 3, 3, 4), 0, dtype=float64)


def _results(function: Any) -> Any:
    """Samples of a gradient: cotangents and results of `function`."""

    def samples() -> Iterator[Sample]:
        for seed, ((input, dim), _) in enumerate(_along()):
            with np.errstate(divide="ignore"):  # empty sums
                yield sample(between(-1, 1, *input.shape, seed=seed + 9), np.asarray(function(input, dim)), dim)

    return samples


def _softmax(input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray:
    exponentials = np.exp(input)
    return exponentials / exponentials.sum(dim, keepdims=True)


def _log_softmax(input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray:
    return input - np.log(np.exp(input).sum(dim, keepdims=True))


# Gradients. Both are linear in grad_output; the derivative of a softmax is symmetric, so that its gradient is itself.


def _of_softmax_result(g: Tensor, grad_output: Tensor, result: Tensor, dim: int) -> Tensor:
    inner = (grad_output * result).sum(dim, keepdim=True)
    return g * (grad_output - inner) - grad_output * (g * result).sum(dim, keepdim=True)


_along_dim = functools.partial(op, method=False, takes="f", widen=False, widen_rules=True)


@_along_dim(
    grad_output=lambda g, result, dim: softmax_backward(g, result, dim),
    result=_of_softmax_result,
    reference=lambda grad_output, result, dim: result * (grad_output - (grad_output * result).sum(dim, keepdims=True)),
    samples=_results(_softmax),
)
def softmax_backward(grad_output: Array, result: Array, dim: int):
    """The gradient of a softmax from its result: result * (grad_output - sum(grad_output * result))."""
    return rows.softmax_gradient(grad_output, result, dim=dim)


@_along_dim(
    grad_output=lambda g, result, dim: g - (g * result.exp()).sum(dim, keepdim=True),
    result=lambda g, grad_output, result, dim: -(g * result.exp() * grad_output.sum(dim, keepdim=True)),
    reference=lambda grad_output, result, dim: grad_output - np.exp(result) * grad_output.sum(dim, keepdims=True),
    samples=_results(_log_softmax),
)
def log_softmax_backward(grad_output: Array, result: Array, dim: int):
    """The gradient of a log_softmax from its result: grad_output - exp(result) * sum(grad_output)."""
    return rows.log_softmax_gradient(grad_output, result, dim=dim)


# Forwards. The public functions take `dtype`, and cast the input to it first.


@_along_dim(
    called="softmax",
    row_major=True,
    input=lambda g, out, dim: softmax_backward(g, out, dim),
    reference=_softmax,
    samples=_along,
)
def softmax_forward(input: Array, dim: int):
    """exp(input) / sum(exp(input)) along `dim`."""
    wrap_dim(dim, input.ndim)
    return rows.softmax(input, dim=dim)


@_along_dim(
    called="log_softmax",
    row_major=True,
    input=lambda g, out, dim: log_softmax_backward(g, out, dim),
    reference=_log_softmax,
    samples=_along,
)
def log_softmax_forward(input: Array, dim: int):
    """input - log(sum(exp(input))) along `dim`."""
    wrap_dim(dim, input.ndim)
    return rows.log_softmax(input, dim=dim)


@functional(implicit_dim=True)
@composite(takes="f", also="bic", reference=_softmax, samples=_along_in_dtype)
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`, safe from overflow, in `dtype` if one is given.

    Raises IndexError for a dim out of range and RuntimeError for types that are not floating.
    """
    return softmax_forward(input if dtype is None else input.to(dtype), dim)


@functional(implicit_dim=True)
@composite(takes="f", also="bic", reference=_log_softmax, samples=_along_in_dtype)
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along `dim`, accurate where the softmax underflows, in `dtype` if one is given."""
    return log_softmax_forward(input if dtype is None else input.to(dtype), dim)


@functional(implicit_dim=True)
@composite(
    takes="f",
    also="bic",
    method=False,
    reference=lambda input, dim, dtype=None: _softmax(-input, dim),
    samples=_along_in_dtype,
)
def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """softmax(-input), in `dtype` if one is given, which integers need."""
    return softmax(-input, dim, dtype)
