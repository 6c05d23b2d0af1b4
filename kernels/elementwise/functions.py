"""The functions that are mapped over arrays: tags whose `emit` makes a result of vectors of the operands."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..jit import ir
from .vectors import Vectors

_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


# Exact ones, whose bits are NumPy's


class Relu(NamedTuple):
    """x, or 0 where it is negative; NaN stays."""

    operands = 1

    @staticmethod
    def emit(v: Vectors, x: ir.Value) -> ir.Value:
        zero = v.number(0.0)
        return v.builder.select(v.builder.fcmp_ordered("<=", x, zero), zero, x)


class ReluGradient(NamedTuple):
    """g, or 0 where the result y is."""

    operands = 2

    @staticmethod
    def emit(v: Vectors, g: ir.Value, y: ir.Value) -> ir.Value:
        zero = v.number(0.0)
        return v.builder.select(v.builder.fcmp_ordered("==", y, zero), zero, g)


class Relu6(NamedTuple):
    """min(max(x, 0), 6); NaN stays."""

    operands, emit = 1, staticmethod(lambda v, x: v.clamp(x, 0.0, 6.0))


class Relu6Gradient(NamedTuple):
    """g, or 0 where x is not between 0 and 6."""

    operands = 2

    @staticmethod
    def emit(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
        zero, six = v.number(0.0), v.number(6.0)
        outside = v.builder.or_(v.builder.fcmp_ordered("<=", x, zero), v.builder.fcmp_ordered(">=", x, six))
        return v.builder.select(outside, zero, g)


# Rounded ones


class Sigmoid(NamedTuple):
    """1 / (1 + e**-x)."""

    operands, emit = 1, staticmethod(lambda v, x: v.sigmoids(x)[0])


class Exponential(NamedTuple):
    """e**x."""

    operands, emit = 1, staticmethod(lambda v, x: v.exponential(x))


class ExponentialLessOne(NamedTuple):
    """e**x - 1."""

    operands, emit = 1, staticmethod(lambda v, x: v.exponential_less_one(x))


class Logarithm(NamedTuple):
    """The natural logarithm of x."""

    operands, emit = 1, staticmethod(lambda v, x: v.logarithm(x))


class LogarithmOfOnePlus(NamedTuple):
    """The natural logarithm of 1 + x."""

    operands, emit = 1, staticmethod(lambda v, x: v.logarithm_of_one_plus(x))


class Softplus(NamedTuple):
    """log(1 + e**x), and x itself beyond 20."""

    operands = 1

    @staticmethod
    def emit(v: Vectors, x: ir.Value) -> ir.Value:
        above = v.builder.fcmp_ordered(">", x, v.number(20.0))
        return v.builder.select(above, x, v.plus(v.clamp(x, 0.0, math.inf), v.softplus_of_negative(x)))


class Logsigmoid(NamedTuple):
    """log(1 / (1 + e**-x))."""

    operands, emit = 1, staticmethod(lambda v, x: v.minus(v.clamp(x, -math.inf, 0.0), v.softplus_of_negative(x)))


class Mish(NamedTuple):
    """x tanh(log(1 + e**x)), which is x n / (n + 2) with n = e**x (e**x + 2)."""

    operands = 1

    @staticmethod
    def emit(v: Vectors, x: ir.Value) -> ir.Value:
        power = v.exponential(v.clamp(x, -math.inf, 20.0))
        n = v.times(power, v.plus(power, v.number(2.0)))
        return v.times(x, v.over(n, v.plus(n, v.number(2.0))))


class Hardswish(NamedTuple):
    """x min(max(x + 3, 0), 6) / 6."""

    operands = 1

    @staticmethod
    def emit(v: Vectors, x: ir.Value) -> ir.Value:
        return v.times(x, v.over(v.clamp(v.plus(x, v.number(3.0)), 0.0, 6.0), v.number(6.0)))


class Sine(NamedTuple):
    """Of float64."""

    operands, emit = 1, staticmethod(lambda v, x: v.sine(x))


class Cosine(NamedTuple):
    """Of float64."""

    operands, emit = 1, staticmethod(lambda v, x: v.sine(x, 1))


class Erf(NamedTuple):
    """The error function."""

    operands, emit = 1, staticmethod(lambda v, x: v.error_function(x)[0])


class Erfc(NamedTuple):
    """1 minus the error function."""

    operands, emit = 1, staticmethod(lambda v, x: v.error_function(x)[1])


class Gelu(NamedTuple):
    """x times the normal distribution function of x."""

    operands, emit = 1, staticmethod(lambda v, x: v.times(x, v.normal(x)[0]))


class GeluGradient(NamedTuple):
    """g times the derivative of `Gelu` at x."""

    operands = 2

    @staticmethod
    def emit(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
        below, density = v.normal(x)
        return v.times(g, v.fma(v.times(x, 1 / math.sqrt(2 * math.pi)), density, below))


def _twice_the_argument(v: Vectors, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """2 sqrt(2 / pi) (x + 0.044715 x**3), the argument of the tanh twice, and its derivative."""
    square = v.times(x, x)
    slope = v.fma(square, v.number(2 * _ROOT * _CUBIC * 3), v.number(2 * _ROOT))
    return v.times(x, v.fma(square, v.number(2 * _ROOT * _CUBIC), v.number(2 * _ROOT))), slope


def _near(v: Vectors, x: ir.Value) -> ir.Value:
    """x, or something smaller where the sigmoid is 0 or 1 all the same, so that no power of it is infinite."""
    return v.clamp(x, -1e3, 1e3)


class TanhGelu(NamedTuple):
    """x times (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2, which is a sigmoid."""

    operands, emit = 1, staticmethod(lambda v, x: v.times(x, v.sigmoids(_twice_the_argument(v, _near(v, x))[0])[0]))


def _slope_of_gated(v: Vectors, x: ir.Value, argument: ir.Value, slope: ir.Value | None) -> ir.Value:
    """The derivative of x sigmoid(u), given u and its derivative, where that is not 1."""
    gate, other = v.sigmoids(argument)
    rising = v.times(x, other)
    return v.fma(gate, rising if slope is None else v.times(rising, slope), gate)


class TanhGeluGradient(NamedTuple):
    """g times the derivative of `TanhGelu` at x."""

    operands = 2

    @staticmethod
    def emit(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
        x = _near(v, x)
        argument, slope = _twice_the_argument(v, x)
        return v.times(g, _slope_of_gated(v, x, argument, slope))


class Silu(NamedTuple):
    """x sigmoid(x)."""

    operands, emit = 1, staticmethod(lambda v, x: v.times(x, v.sigmoids(x)[0]))


class SiluGradient(NamedTuple):
    """g times the derivative of `Silu` at x."""

    operands = 2

    @staticmethod
    def emit(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
        return v.times(g, _slope_of_gated(v, x, x, None))
