"""The functions that are mapped over arrays: each emits its result for vectors of the operands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

from ...block.tags import tag_class
from ...runtime.jit import ir
from .vectors import Vectors

_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def vector_function(emit: Callable[..., ir.Value]) -> type:
    """The tag of a function that is mapped over arrays, given the function that emits it for vectors of operands."""
    operands = inspect.unwrap(emit).__code__.co_argcount - 1
    return tag_class(emit.__name__, emit.__module__, operands=operands, emit=staticmethod(emit))


# Exact ones, whose bits are NumPy's


@vector_function
def Relu(v: Vectors, x: ir.Value) -> ir.Value:
    """x, or 0 where it is negative; NaN stays."""
    zero = v.number(0.0)
    return v.builder.select(v.builder.fcmp_ordered("<", x, zero), zero, x)


@vector_function
def ReluGradient(v: Vectors, g: ir.Value, y: ir.Value) -> ir.Value:
    """g, or 0 where the result y is."""
    zero = v.number(0.0)
    return v.builder.select(v.builder.fcmp_ordered("==", y, zero), zero, g)


@vector_function
def Relu6(v: Vectors, x: ir.Value) -> ir.Value:
    """min(max(x, 0), 6); NaN stays."""
    return v.clamp(x, 0.0, 6.0)


@vector_function
def Relu6Gradient(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
    """g, or 0 where x is not between 0 and 6."""
    zero, six = v.number(0.0), v.number(6.0)
    outside = v.builder.or_(v.builder.fcmp_ordered("<=", x, zero), v.builder.fcmp_ordered(">=", x, six))
    return v.builder.select(outside, zero, g)


# Rounded ones


@vector_function
def Sigmoid(v: Vectors, x: ir.Value) -> ir.Value:
    """1 / (1 + e**-x)."""
    return v.sigmoids(x)[0]


@vector_function
def Exponential(v: Vectors, x: ir.Value) -> ir.Value:
    """e**x."""
    return v.exponential(x)


@vector_function
def ExponentialLessOne(v: Vectors, x: ir.Value) -> ir.Value:
    """e**x - 1."""
    return v.exponential_less_one(x)


@vector_function
def Logarithm(v: Vectors, x: ir.Value) -> ir.Value:
    """The natural logarithm of x."""
    return v.logarithm(x)


@vector_function
def LogarithmOfOnePlus(v: Vectors, x: ir.Value) -> ir.Value:
    """The natural logarithm of 1 + x."""
    return v.logarithm_of_one_plus(x)


@vector_function
def Softplus(v: Vectors, x: ir.Value) -> ir.Value:
    """log(1 + e**x), and x itself beyond 20."""
    above = v.builder.fcmp_ordered(">", x, v.number(20.0))
    return v.builder.select(above, x, v.plus(v.clamp(x, 0.0, math.inf), v.softplus_of_negative(x)))


@vector_function
def Logsigmoid(v: Vectors, x: ir.Value) -> ir.Value:
    """log(1 / (1 + e**-x))."""
    return v.minus(v.clamp(x, -math.inf, 0.0), v.softplus_of_negative(x))


@vector_function
def Mish(v: Vectors, x: ir.Value) -> ir.Value:
    """x tanh(log(1 + e**x)), which is x n / (n + 2) with n = e**x (e**x + 2)."""
    power = v.exponential(v.clamp(x, -math.inf, 20.0))
    n = v.times(power, v.plus(power, v.number(2.0)))
    return v.times(x, v.over(n, v.plus(n, v.number(2.0))))


@vector_function
def Hardswish(v: Vectors, x: ir.Value) -> ir.Value:
    """x min(max(x + 3, 0), 6) / 6."""
    return v.times(x, v.over(v.clamp(v.plus(x, v.number(3.0)), 0.0, 6.0), v.number(6.0)))


@vector_function
def Sine(v: Vectors, x: ir.Value) -> ir.Value:
    """Of float64."""
    return v.sine(x)


@vector_function
def Cosine(v: Vectors, x: ir.Value) -> ir.Value:
    """Of float64."""
    return v.sine(x, 1)


@vector_function
def Erf(v: Vectors, x: ir.Value) -> ir.Value:
    """The error function."""
    return v.error_function(x)[0]


@vector_function
def Erfc(v: Vectors, x: ir.Value) -> ir.Value:
    """1 minus the error function."""
    return v.error_function(x)[1]


@vector_function
def Gelu(v: Vectors, x: ir.Value) -> ir.Value:
    """x times the normal distribution function of x."""
    return v.times(x, v.normal(x)[0])


@vector_function
def GeluGradient(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
    """g times the derivative of `Gelu` at x."""
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


@vector_function
def TanhGelu(v: Vectors, x: ir.Value) -> ir.Value:
    """x times (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2, which is a sigmoid."""
    return v.times(x, v.sigmoids(_twice_the_argument(v, _near(v, x))[0])[0])


def _slope_of_gated(v: Vectors, x: ir.Value, argument: ir.Value, slope: ir.Value | None) -> ir.Value:
    """The derivative of x sigmoid(u), given u and its derivative, where that is not 1."""
    gate, other = v.sigmoids(argument)
    rising = v.times(x, other)
    return v.fma(gate, rising if slope is None else v.times(rising, slope), gate)


@vector_function
def TanhGeluGradient(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
    """g times the derivative of `TanhGelu` at x."""
    x = _near(v, x)
    argument, slope = _twice_the_argument(v, x)
    return v.times(g, _slope_of_gated(v, x, argument, slope))


@vector_function
def Silu(v: Vectors, x: ir.Value) -> ir.Value:
    """x sigmoid(x)."""
    return v.times(x, v.sigmoids(x)[0])


@vector_function
def SiluGradient(v: Vectors, g: ir.Value, x: ir.Value) -> ir.Value:
    """g times the derivative of `Silu` at x."""
    return v.times(g, _slope_of_gated(v, x, x, None))
