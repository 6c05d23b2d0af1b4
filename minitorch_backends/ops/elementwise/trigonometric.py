"""Circular and hyperbolic functions and their inverses, element by element; angles are in radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...dispatch.samples import pairs, unary_samples
from ...tensor.tensor import Tensor
from ..functional import functional
from ..gradients import conjugated

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "deg2rad",
    "hypot",
    "rad2deg",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


@op(
    input=lambda g, input: g * conjugated(input.cos()),
    promote="float",
    ufunc=np.sin,
    inplace=True,
    reference=np.sin,
    samples=unary_samples(),
)
def sin(input: Array):
    """The sine."""
    return np.sin(input)


@op(
    input=lambda g, input: g * conjugated(-input.sin()),
    promote="float",
    ufunc=np.cos,
    inplace=True,
    reference=np.cos,
    samples=unary_samples(),
)
def cos(input: Array):
    """The cosine."""
    return np.cos(input)


@op(
    input=lambda g, out: g * conjugated(out * out + 1),
    promote="float",
    ufunc=np.tan,
    inplace=True,
    reference=np.tan,
    samples=unary_samples(-1.2, 1.2),
)
def tan(input: Array):
    """The tangent."""
    return np.tan(input)


@op(
    input=lambda g, input: g * conjugated((1 - input * input).rsqrt()),
    promote="float",
    ufunc=np.arcsin,
    inplace=True,
    reference=np.arcsin,
    samples=unary_samples(-0.9, 0.9),
)
def asin(input: Array):
    """The angle in [-pi/2, pi/2] of this sine; NaN for reals outside [-1, 1]."""
    return np.arcsin(input)


@op(
    input=lambda g, input: -g * conjugated((1 - input * input).rsqrt()),
    promote="float",
    ufunc=np.arccos,
    inplace=True,
    reference=np.arccos,
    samples=unary_samples(-0.9, 0.9),
)
def acos(input: Array):
    """The angle in [0, pi] of this cosine; NaN for reals outside [-1, 1]."""
    return np.arccos(input)


@op(
    input=lambda g, input: g / conjugated(input * input + 1),
    promote="float",
    ufunc=np.arctan,
    inplace=True,
    reference=np.arctan,
    samples=unary_samples(),
)
def atan(input: Array):
    """The angle in [-pi/2, pi/2] of this tangent."""
    return np.arctan(input)


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
    inplace=True,
    reference=np.arctan2,
    samples=pairs(0.2, 2, -2, 2.3, numbers=False),
)
def atan2(input: Array, other: Array):
    """The angle in [-pi, pi] of the point with ordinate `input` and abscissa `other`."""
    return np.arctan2(input, other)


@op(
    input=lambda g, input, out: g * (input / out),
    other=lambda g, other, out: g * (other / out),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    ufunc=np.hypot,
    inplace=True,
    reference=lambda input, other: np.sqrt(input * input + other * other),
    samples=pairs(0.2, 2, numbers=False),
)
def hypot(input: Array, other: Array):
    """sqrt(input**2 + other**2) without overflow."""
    return np.hypot(input, other)


@op(
    input=lambda g, input: g * conjugated(input.cosh()),
    promote="float",
    ufunc=np.sinh,
    inplace=True,
    reference=np.sinh,
    samples=unary_samples(),
)
def sinh(input: Array):
    """The hyperbolic sine."""
    return np.sinh(input)


@op(
    input=lambda g, input: g * conjugated(input.sinh()),
    promote="float",
    ufunc=np.cosh,
    inplace=True,
    reference=np.cosh,
    samples=unary_samples(),
)
def cosh(input: Array):
    """The hyperbolic cosine."""
    return np.cosh(input)


@functional
@op(
    input=lambda g, out: g * conjugated(1 - out * out),
    promote="float",
    ufunc=np.tanh,
    inplace=True,
    reference=np.tanh,
    samples=unary_samples(),
)
def tanh(input: Array):
    """The hyperbolic tangent."""
    return np.tanh(input)


@op(
    input=lambda g, input: g * conjugated((input * input + 1).rsqrt()),
    promote="float",
    ufunc=np.arcsinh,
    inplace=True,
    reference=np.arcsinh,
    samples=unary_samples(),
)
def asinh(input: Array):
    """The inverse of `sinh`."""
    return np.arcsinh(input)


@op(
    # Two roots, since the root of the product is that of another branch for complex numbers; less -1, which leaves the
    # sign of an imaginary zero.
    input=lambda g, input: g * conjugated((input - 1).rsqrt() * (input - -1).rsqrt()),
    promote="float",
    ufunc=np.arccosh,
    inplace=True,
    reference=np.arccosh,
    samples=unary_samples(1.2, 4),
)
def acosh(input: Array):
    """The inverse of `cosh`; NaN for reals below 1."""
    return np.arccosh(input)


@op(
    input=lambda g, input: g / conjugated(1 - input * input),
    promote="float",
    ufunc=np.arctanh,
    inplace=True,
    reference=np.arctanh,
    samples=unary_samples(-0.9, 0.9),
)
def atanh(input: Array):
    """The inverse of `tanh`; NaN for reals outside [-1, 1]."""
    return np.arctanh(input)


@op(
    input=lambda g: g * (math.pi / 180),
    promote="float",
    takes="f",
    ufunc=np.deg2rad,
    inplace=True,
    reference=lambda input: input * math.pi / 180,
    samples=unary_samples(-180, 200),
)
def deg2rad(input: Array):
    """Degrees as radians."""
    return np.deg2rad(input)


@op(
    input=lambda g: g * (180 / math.pi),
    promote="float",
    takes="f",
    ufunc=np.rad2deg,
    inplace=True,
    reference=lambda input: input * 180 / math.pi,
    samples=unary_samples(),
)
def rad2deg(input: Array):
    """Radians as degrees."""
    return np.rad2deg(input)


arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2"):
    for _end in ("", "_"):
        setattr(Tensor, f"arc{_name}{_end}", getattr(Tensor, f"a{_name}{_end}"))
