"""Bessel functions and the Airy function, from SciPy. Those without derivative in torch have none here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...tensor.tensor import Tensor
from .special import scipy_special
from .unary import unary_ufunc

__all__ = ["i0"]


def _over(value: Tensor, input: Tensor) -> Tensor:
    """value / input, and 0 where `input` is 0."""
    return (value / input.where(input != 0, 1)).where(input != 0, 0)


def _at_zero(slope: Tensor, input: Tensor) -> Tensor:
    """The derivative of i1 and i1e at 0, 1/2: the limit of I1(x) / x, which `_over` omits."""
    return slope.where(input != 0, 0.5)


# Modified, of the first kind

i0 = unary_ufunc(
    lambda input: scipy_special().i0(input),
    "The modified Bessel function of the first kind of order 0.",
    name="i0",
    gradient=lambda g, input: g * i1(input),
    takes="f",
)

i0e = unary_ufunc(
    lambda input: scipy_special().i0e(input),
    "exp(-|input|) * i0(input), which does not overflow.",
    name="i0e",
    gradient=lambda g, input, out: g * (i1e(input) - input.sign() * out),
    takes="f",
    method=False,
    inplace=False,
)

i1 = unary_ufunc(
    lambda input: scipy_special().i1(input),
    "The modified Bessel function of the first kind of order 1.",
    name="i1",
    gradient=lambda g, input, out: g * _at_zero(i0(input) - _over(out, input), input),
    takes="f",
    method=False,
    inplace=False,
)

i1e = unary_ufunc(
    lambda input: scipy_special().i1e(input),
    "exp(-|input|) * i1(input), which does not overflow.",
    name="i1e",
    gradient=lambda g, input, out: g * _at_zero(i0e(input) - input.sign() * out - _over(out, input), input),
    takes="f",
    method=False,
    inplace=False,
)


# Without gradients


def _declare(name: str, doc: str, function: Callable[[Any], Any]) -> Callable[..., Tensor]:
    """An op of one floating input that has no gradient."""

    def forward(input: Array) -> Array:
        return np.asarray(function(input)).astype(input.dtype, copy=False)

    forward.__name__, forward.__doc__ = name, doc
    return op(promote="float", takes="f", method=False)(forward)


def _of_scipy(name: str, function: str, doc: str) -> Callable[..., Tensor]:
    return _declare(name, doc, lambda x: getattr(scipy_special(), function)(x))


bessel_j0 = _of_scipy("bessel_j0", "j0", "The Bessel function of the first kind of order 0.")
bessel_j1 = _of_scipy("bessel_j1", "j1", "The Bessel function of the first kind of order 1.")
bessel_y0 = _of_scipy(
    "bessel_y0", "y0", "The Bessel function of the second kind of order 0; -inf at 0, NaN for negative input."
)
bessel_y1 = _of_scipy(
    "bessel_y1", "y1", "The Bessel function of the second kind of order 1; -inf at 0, NaN for negative input."
)
modified_bessel_k0 = _of_scipy("modified_bessel_k0", "k0",
    "The modified Bessel function of the second kind of order 0; infinite at 0, NaN for negative input.",
)  # fmt: skip
modified_bessel_k1 = _of_scipy("modified_bessel_k1", "k1",
    "The modified Bessel function of the second kind of order 1; infinite at 0, NaN for negative input.",
)  # fmt: skip
scaled_modified_bessel_k0 = _of_scipy("scaled_modified_bessel_k0", "k0e",
    "exp(input) * modified_bessel_k0(input), which does not vanish for large input.",
)  # fmt: skip
scaled_modified_bessel_k1 = _of_scipy("scaled_modified_bessel_k1", "k1e",
    "exp(input) * modified_bessel_k1(input), which does not vanish for large input.",
)  # fmt: skip
spherical_bessel_j0 = _declare(
    "spherical_bessel_j0",
    "The spherical Bessel function of the first kind of order 0: sin(input) / input, and 1 at 0.",
    lambda x: np.where(x == 0, 1, np.where(np.isinf(x), 0, np.sin(x) / x)),
)


airy_ai = _declare("airy_ai", "The Airy function Ai.", lambda x: scipy_special().airy(x)[0])
