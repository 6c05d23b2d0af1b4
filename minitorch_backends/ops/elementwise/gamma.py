"""Relatives of the gamma function: its incomplete forms, its form of several variables, and the Hurwitz zeta function.

`special` has the gamma function itself and its logarithmic derivatives.
"""

from __future__ import annotations

import math
from operator import index as as_int
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.arrays import elementwise
from ...tensor.tensor import Tensor
from ..gradients import no_derivative
from .special import digamma, lgamma, scipy_special

__all__ = ["igamma", "igammac", "mvlgamma"]


def _density(input: Tensor, other: Tensor) -> Tensor:
    """The density of a gamma distribution, the derivative of `igamma`."""
    return ((input - 1) * other.log() - other - lgamma(input)).exp()


@op(
    input=no_derivative("igamma with respect to input"),
    other=lambda g, input, other: g * _density(input, other),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    inplace=True,
)
def igamma(input: Array, other: Array) -> Array:
    """The regularized lower incomplete gamma function: the integral of t**(input - 1) exp(-t) from 0 to `other`, over
    gamma(input). NaN for negative arguments."""
    return scipy_special().gammainc(input, other)


@op(
    input=no_derivative("igammac with respect to input"),
    other=lambda g, input, other: g * -_density(input, other),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    inplace=True,
)
def igammac(input: Array, other: Array) -> Array:
    """1 - igamma(input, other), accurate where that is small."""
    return scipy_special().gammaincc(input, other)


_STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
_STEP = 1e-3


def _quantile_slope(g: Tensor, input: Tensor, p: Tensor, out: Tensor) -> Tensor:
    """The derivative by the shape, from five-point differences of the quantile's logarithm, to ten digits: it has no
    closed form."""
    moved = sum(gamma_quantile(input * (1 + at * _STEP), p).log() * weight for at, weight in _STENCIL)
    return g * out * moved / (input * _STEP)


@op(
    input=_quantile_slope,
    p=lambda g, input, out: g * (out + lgamma(input) - (input - 1) * out.log()).exp(),
    promote=True,
    only_tensors=("input", "p"),
    takes="f",
    method=False,
)
def gamma_quantile(input: Array, p: Array) -> Array:
    """The number below which a gamma distributed one of shape `input` and scale 1 is with probability `p`."""
    return scipy_special().gammaincinv(input, p)


_MOST_VARIABLES = 1 << 20


def _arguments(input: Any, p: int) -> list[Any]:
    """Return the arguments of the `p` gamma functions in `mvlgamma`."""
    return [input - j / 2 for j in range(p)]


def _mvlgamma_gradient(g: Tensor, input: Tensor, p: int) -> Tensor:
    first, *others = map(digamma, _arguments(input, p))
    return g * sum(others, first)


@op(
    input=_mvlgamma_gradient,
    promote="float",
    takes="f",
    booleans=False,
    inplace=True,
    )  # fmt: skip
def mvlgamma(input: Array, p: int) -> Array:
    """The logarithm of the gamma function of `p` variables: the sum of lgamma(input - j / 2) for j below `p`, plus
    p (p - 1) / 4 log(pi).

    Raises RuntimeError for a p below 1, and above 2**20.
    """
    count = as_int(p)
    if not 1 <= count <= _MOST_VARIABLES:
        raise RuntimeError(f"mvlgamma(): p must be an integer from 1 to {_MOST_VARIABLES}, got {p}")
    total = np.full(input.shape, count * (count - 1) / 4 * math.log(math.pi), input.dtype)
    for each in _arguments(input, count):
        total += elementwise.lgamma(each)
    return total


@op(
    input=no_derivative("zeta with respect to input"),
    other=lambda g, input, other: g * (-input * zeta(input + 1, other)),
    promote="float",
    takes="f",
    method=False,
)
def zeta(input: Array, other: Array) -> Array:
    """The Hurwitz zeta function: the sum of (k + other)**-input over k = 0, 1, ...; infinite for an `input` of 1, NaN
    below 1."""
    found = scipy_special().zeta(input, other)
    return np.where(np.isposinf(input) & (other > 1), found.dtype.type(0), found)  # the limit, where SciPy has NaN
