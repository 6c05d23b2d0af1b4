"""Circular and hyperbolic functions and their inverses, element by element; angles are in radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, op, synonyms
from ...kernels.arrays.elementwise import each
from ...tensor.tensor import Tensor
from ..functional import functional
from ..gradients import conjugate
from .unary import unary_ufunc

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cos", "cosh", "deg2rad", "hypot", "rad2deg", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

sin = unary_ufunc(np.sin, "The sine.", gradient=lambda g, input: g * conjugate(input.cos()))

cos = unary_ufunc(np.cos, "The cosine.", gradient=lambda g, input: g * conjugate(-input.sin()))

tan = unary_ufunc(np.tan, "The tangent.", gradient=lambda g, out: g * conjugate(out * out + 1))

asin = unary_ufunc(
    np.arcsin,
    "The angle in [-pi/2, pi/2] of this sine; NaN for reals outside [-1, 1].",
    name="asin",
    gradient=lambda g, input: g * conjugate((1 - input * input).rsqrt()),
)

acos = unary_ufunc(
    np.arccos,
    "The angle in [0, pi] of this cosine; NaN for reals outside [-1, 1].",
    name="acos",
    gradient=lambda g, input: -g * conjugate((1 - input * input).rsqrt()),
)

atan = unary_ufunc(
    np.arctan,
    "The angle in [-pi/2, pi/2] of this tangent.",
    name="atan",
    gradient=lambda g, input: g / conjugate(input * input + 1),
)


def _distance(input: Tensor, other: Any) -> Tensor:
    """The squared distance from the origin, and inf for 0, so that the gradients there are 0."""
    squares = input * input + other * other
    return squares.where(squares != 0, math.inf)


@op(
    input=lambda g, input, other: g * (other / _distance(input, other)),
    other=lambda g, input, other: -g * (input / _distance(input, other)),
    promote="float",
    only_tensors=("input", "other"),
    takes="f",
    ufunc=np.arctan2,
    traits="inplace",
)
def atan2(input: Array, other: Array) -> Array:
    """The angle in [-pi, pi] of the point with ordinate `input` and abscissa `other`."""
    return each(np.arctan2, input, other)


@op(
    input=lambda g, input, out: g * (input / out),
    other=lambda g, other, out: g * (other / out),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    ufunc=np.hypot,
    traits="inplace",
)
def hypot(input: Array, other: Array) -> Array:
    """sqrt(input**2 + other**2) without overflow."""
    return each(np.hypot, input, other)


sinh = unary_ufunc(np.sinh, "The hyperbolic sine.", gradient=lambda g, input: g * conjugate(input.cosh()))

cosh = unary_ufunc(np.cosh, "The hyperbolic cosine.", gradient=lambda g, input: g * conjugate(input.sinh()))


tanh = functional(unary_ufunc(np.tanh, "The hyperbolic tangent.", gradient=lambda g, out: g * conjugate(1 - out * out)))

asinh = unary_ufunc(
    np.arcsinh,
    "The inverse of `sinh`.",
    name="asinh",
    gradient=lambda g, input: g * conjugate((input * input + 1).rsqrt()),
)


# Two roots, since the root of the product is that of another branch for complex numbers; less -1, which leaves the
# sign of an imaginary zero.
acosh = unary_ufunc(
    np.arccosh,
    "The inverse of `cosh`; NaN for reals below 1.",
    name="acosh",
    gradient=lambda g, input: g * conjugate((input - 1).rsqrt() * (input - -1).rsqrt()),
)

atanh = unary_ufunc(
    np.arctanh,
    "The inverse of `tanh`; NaN for reals outside [-1, 1].",
    name="atanh",
    gradient=lambda g, input: g / conjugate(1 - input * input),
)

deg2rad = unary_ufunc(np.deg2rad, "Degrees as radians.", gradient=lambda g: g * (math.pi / 180), takes="f")

rad2deg = unary_ufunc(np.rad2deg, "Radians as degrees.", gradient=lambda g: g * (180 / math.pi), takes="f")


arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
synonyms(arcsin=asin, arccos=acos, arctan=atan, arctan2=atan2, arcsinh=asinh, arccosh=acosh, arctanh=atanh)
