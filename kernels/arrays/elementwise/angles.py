"""Angles and distances that NumPy computes number by number, on vectors and in float64: tags, as in `functions`, whose
bits are not NumPy's.

The angle of a point is that of a ratio up to tan(pi / 8), after a turn by pi / 4 where it is larger: r + r**3 p(r**2),
p interpolated at the Chebyshev points, 4.7e-18 relative, and a multiple of pi / 4 in two parts; the first is exact.
"""

from __future__ import annotations

import math

from ...runtime.jit import ir
from .functions import vector_function
from .mathematics import in_float64
from .vectors import Vectors

_QUARTER = 0.7853981633974474, 9.18794589678809e-16
"""pi / 4 in two parts; small multiples of the first are exact."""

_ANGLE = (
    -0.333333333333333302, 0.199999999999955207, -0.142857142846665429, 0.111111110152563617, -0.0909090457812390189,
    0.0769218319082608656, -0.06664511447381948, 0.0585814891280220988, -0.0508544973794025986, 0.0392316582955871913,
    -0.019176887119062259,
)  # fmt: skip


def _angle(v: Vectors, y: ir.Value, x: ir.Value) -> ir.Value:
    builder = v.builder
    up, along, one, zero = v.absolute(y), v.absolute(x), v.number(1.0), v.number(0.0)
    steep = builder.fcmp_ordered(">", up, along)
    smaller, larger = builder.select(steep, along, up), builder.select(steep, up, along)
    endless = builder.fcmp_ordered("==", smaller, v.number(math.inf))  # both are
    smaller, larger = builder.select(endless, one, smaller), builder.select(endless, one, larger)
    turned = builder.fcmp_ordered(">", smaller, v.times(larger, math.sqrt(2) - 1))
    over = builder.select(turned, v.minus(smaller, larger), smaller)
    under = builder.select(turned, v.plus(smaller, larger), larger)
    ratio = v.over(over, builder.select(builder.fcmp_ordered("==", under, zero), one, under))
    square = v.times(ratio, ratio)
    rest = v.fma(v.times(ratio, square), v.polynomial(square, _ANGLE), ratio)
    quarters = builder.select(turned, one, zero)
    # From the first eighth of a turn to the others: each reflection turns the sign of the rest.
    backward = builder.icmp_signed("<", builder.bitcast(x, v.integers), ir.Constant(v.integers, [0] * v.lanes))
    for reflected, axis in ((steep, 2.0), (backward, 4.0)):
        quarters = builder.select(reflected, v.minus(v.number(axis), quarters), quarters)
        rest = builder.select(reflected, v.negative(rest), rest)
    found = v.fma(quarters, v.number(_QUARTER[0]), v.fma(quarters, v.number(_QUARTER[1]), rest))
    unknown = builder.fcmp_unordered("uno", x, y)
    return builder.select(unknown, v.plus(x, y), v.copysign(found, y))


@vector_function
@in_float64
def Angle(v: Vectors, y: ir.Value, x: ir.Value) -> ir.Value:
    """Of the point (x, y), given y and x: `numpy.arctan2`."""
    return _angle(v, y, x)


def _cofunction(v: Vectors, x: ir.Value) -> ir.Value:
    """sqrt(1 - x**2)."""
    one = v.number(1.0)
    return v.root(v.times(v.minus(one, x), v.plus(one, x)))


@vector_function
@in_float64
def Arctangent(v: Vectors, x: ir.Value) -> ir.Value:
    """The angle of this tangent."""
    return _angle(v, x, v.number(1.0))


@vector_function
@in_float64
def Arcsine(v: Vectors, x: ir.Value) -> ir.Value:
    """The angle of this sine; NaN beyond 1."""
    return _angle(v, x, _cofunction(v, x))


@vector_function
@in_float64
def Arccosine(v: Vectors, x: ir.Value) -> ir.Value:
    """The angle of this cosine; NaN beyond 1."""
    return _angle(v, _cofunction(v, x), x)


@vector_function
@in_float64
def Tangent(v: Vectors, x: ir.Value) -> ir.Value:
    """Of float32."""
    return v.over(v.sine(x), v.sine(x, 1))


@vector_function
@in_float64
def Distance(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    """sqrt(x**2 + y**2), scaled so that squares neither overflow nor underflow."""
    builder, x, y = v.builder, v.absolute(x), v.absolute(y)
    larger, one = builder.select(builder.fcmp_ordered(">", x, y), x, y), v.number(1.0)
    scale = builder.select(builder.fcmp_ordered(">", larger, v.number(2.0**500)), v.number(2.0**-600), one)
    scale = builder.select(builder.fcmp_ordered("<", larger, v.number(2.0**-400)), v.number(2.0**600), scale)
    x, y, infinity = v.times(x, scale), v.times(y, scale), v.number(math.inf)
    found = v.over(v.root(v.fma(x, x, v.times(y, y))), scale)
    endless = builder.or_(*(builder.fcmp_ordered("==", each, infinity) for each in (x, y)))  # beside NaN, too
    return builder.select(endless, infinity, found)
