"""Exponentials, logarithms, hyperbolic functions and remainders that NumPy computes number by number, on vectors: tags,
as in `functions`, whose bits are not NumPy's.

Functions that lose digits are computed in float64 for float32 too. Hyperbolic functions and their inverses are the
formulas in e**x - 1 and log(1 + x) that do not cancel (W. Kahan, "Branch cuts for complex elementary functions", 1987).
The inverse of the error function is x times three polynomials (M. Giles, "Approximating the erfinv function", 2010).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ...block.emit import F32, F64, I32, call, vector
from ...runtime.jit import ir
from .functions import vector_function
from .vectors import Vectors

_LOG10_2 = 0.30102999566383914, 1.42050232272661e-13
"""log10(2) in two parts; the first times an exponent is exact."""

_ERFINV_OF_FLOAT32 = (
    (2.5, (
        1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
        3.43273939e-07, 2.81022636e-08,
    )),
    (3.0, (
        2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
        0.000100950558, -0.000200214257,
    )),
)  # fmt: skip
_ERFINV = (
    (3.125, (
        1.6536545626831027356, 0.24015818242558961693, -0.0060336708714301490533, -0.00074070253416626697512,
        0.0001867342080340571352, -1.3882523362786468719e-05, -1.3654692000834678645e-06, 4.2347877827932403518e-07,
        -2.9070369957882005086e-08, -4.1126339803469836976e-09, 1.051212273321532285e-09, -5.4154120542946279317e-11,
        -1.2975133253453532498e-11, 2.6335093153082322977e-12, -8.1519341976054721522e-14, -4.0545662729752068639e-14,
        6.6376381343583238325e-15, 2.0972767875968561637e-17, -1.333171662854620906e-16, 1.115787767802518096e-17,
        1.2858480715256400167e-18, -1.685059138182016589e-19, -3.6444120640178196996e-21,
    )),
    (3.25, (
        3.0838856104922207635, 1.0052589676941592334, 0.005370914553590063617, -0.0037512085075692412107,
        0.0024914420961078508066, -0.0016882755560235047313, 0.00095328937973738049703, -0.0003550375203628474796,
        2.4031110387097893999e-05, 6.8284851459573175448e-05, -4.7318229009055733981e-05, 1.2475304481671778723e-05,
        2.9234449089955446044e-06, -4.013867526981545969e-06, 1.5027403968909827627e-06, 1.8239629214389227755e-08,
        -2.7517406297064545428e-07, 9.0756561938885390979e-08, 2.2137376921775787049e-09,
    )),
    (5.0, (
        4.8499064014085844221, 1.0103004648645343977, -0.00013871931833623122026, -0.00021503011930044477347,
        7.5995277030017761139e-05, -1.9681778105531670567e-05, 4.5260625972231537039e-06, -9.9298272942317002539e-07,
        2.2900482228026654717e-07, -6.7711997758452339498e-08, 2.9147953450901080826e-08, -1.4960026627149240478e-08,
        7.6157012080783393804e-09, -3.7894654401267369937e-09, 1.5076572693500548083e-09, -2.5556418169965252055e-10,
        -2.7109920616438573243e-11,
    )),
)  # fmt: skip
"""Where each polynomial is centered: in w = -log(1 - x**2) up to 6.25 (5 of float32), and in its square root beyond, of
float64 up to 4 and beyond."""


def _by_libm(v: Vectors, name: str, usual: ir.Value, value: ir.Value, *operands: ir.Value) -> ir.Value:
    """`value` where `usual` holds, and in other lanes the C library's function of float64 of that name."""

    def one(numbers: list[ir.Value]) -> ir.Value:
        wide = numbers if v.element.working is F64 else [v.builder.fpext(number, F64) for number in numbers]
        found = v.builder.frem(*wide) if name == "frem" else call(v.builder, f"llvm.{name}.f64", F64, *wide)
        return found if v.element.working is F64 else v.builder.fptrunc(found, F32)

    return v.one_by_one(v.builder.not_(usual), value, one, *operands)


def in_float64(emit: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """The function, for vectors of float32 by way of two of float64."""

    def split(v: Vectors, value: ir.Value, part: int) -> ir.Value:
        lanes = ir.Constant(vector(I32, 8), list(range(8 * part, 8 * part + 8)))
        return v.builder.fpext(v.builder.shuffle_vector(value, value, lanes), vector(F64, 8))

    @functools.wraps(emit)
    def by_parts(v: Vectors, *operands: ir.Value) -> ir.Value:
        if v.element.working is F64:
            return emit(v, *operands)
        wide = v.wide()
        halves = [emit(wide, *[split(v, operand, part) for operand in operands]) for part in (0, 1)]
        narrow = [v.builder.fptrunc(half, vector(F32, 8)) for half in halves]
        return v.builder.shuffle_vector(*narrow, ir.Constant(vector(I32, 16), list(range(16))))

    return by_parts


# Exponentials and logarithms


@vector_function
def PowerOfTwo(v: Vectors, x: ir.Value) -> ir.Value:
    """2**x."""
    return v.power_of_two(x)


@vector_function
def LogarithmToTwo(v: Vectors, x: ir.Value) -> ir.Value:
    """The logarithm to base 2, exact of powers of two."""
    return v.logarithm(x, lambda whole, log: v.fma(log, v.number(1 / math.log(2)), whole))


@vector_function
@in_float64
def LogarithmToTen(v: Vectors, x: ir.Value) -> ir.Value:
    """The logarithm to base 10."""

    def combine(whole: ir.Value, log: ir.Value) -> ir.Value:
        small = v.fma(log, v.number(1 / math.log(10)), v.times(whole, _LOG10_2[1]))
        return v.fma(whole, v.number(_LOG10_2[0]), small)

    return v.logarithm(x, combine)


@vector_function
def AddedExponentials(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    """log(e**x + e**y)."""
    larger = v.builder.select(v.builder.fcmp_ordered(">", x, y), x, y)
    equal = v.builder.fcmp_ordered("==", x, y)  # infinities, whose difference is NaN
    return v.plus(larger, v.builder.select(equal, v.number(math.log(2)), v.softplus_of_negative(v.minus(x, y))))


@vector_function
@in_float64
def Power(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    """x**y of float32, which float64 holds with digits to spare; the C library's where x is not positive."""
    builder = v.builder
    positive, finite = builder.fcmp_ordered(">", x, v.number(0.0)), builder.fcmp_ordered("<", x, v.number(math.inf))
    moderate = builder.fcmp_ordered("<", v.absolute(y), v.number(2.0**40))
    usual = builder.and_(builder.and_(positive, finite), moderate)
    return _by_libm(v, "pow", usual, v.exponential(v.times(y, v.logarithm(x))), x, y)


# Hyperbolic functions


@vector_function
def HyperbolicSine(v: Vectors, x: ir.Value) -> ir.Value:
    """(e**x - e**-x) / 2."""
    size = v.absolute(x)
    less = v.exponential_less_one(size)
    near = v.times(v.plus(less, v.over(less, v.plus(less, v.number(1.0)))), 0.5)
    far = v.builder.fcmp_ordered(">", size, v.number(20.0))
    return v.copysign(v.builder.select(far, v.half_exponential(size), near), x)


@vector_function
def HyperbolicCosine(v: Vectors, x: ir.Value) -> ir.Value:
    """(e**x + e**-x) / 2."""
    half = v.half_exponential(v.absolute(x))
    return v.plus(half, v.over(v.number(0.25), half))


@vector_function
def HyperbolicTangent(v: Vectors, x: ir.Value) -> ir.Value:
    """(e**x - e**-x) / (e**x + e**-x)."""
    less = v.exponential_less_one(v.times(v.absolute(x), -2.0))
    return v.copysign(v.over(less, v.plus(less, v.number(2.0))), x)


@vector_function
def HyperbolicArcsine(v: Vectors, x: ir.Value) -> ir.Value:
    """The inverse of the hyperbolic sine."""
    size, one = v.absolute(x), v.number(1.0)
    square = v.times(size, size)
    near = v.plus(size, v.over(square, v.plus(one, v.root(v.plus(square, one)))))
    return v.copysign(_logarithm_of_large(v, size, near), x)


def _logarithm_of_large(v: Vectors, x: ir.Value, near: ir.Value) -> ir.Value:
    """log(1 + near), or log(2 x) where x is so large that it is the same."""
    far = v.builder.fcmp_ordered(">", x, v.number(2.0**28))
    found = v.logarithm_of_one_plus(v.builder.select(far, v.minus(x, v.number(1.0)), near))
    return v.builder.select(far, v.plus(found, v.number(math.log(2))), found)


@vector_function
def HyperbolicArccosine(v: Vectors, x: ir.Value) -> ir.Value:
    """The inverse of the hyperbolic cosine; NaN below 1."""
    beyond = v.minus(x, v.number(1.0))
    near = v.plus(beyond, v.root(v.fma(beyond, beyond, v.plus(beyond, beyond))))
    below = v.builder.fcmp_ordered("<", x, v.number(1.0))
    return v.builder.select(below, v.number(math.nan), _logarithm_of_large(v, x, near))


@vector_function
def HyperbolicArctangent(v: Vectors, x: ir.Value) -> ir.Value:
    """The inverse of the hyperbolic tangent; NaN beyond 1."""
    size = v.absolute(x)
    ratio = v.over(v.plus(size, size), v.minus(v.number(1.0), size))
    return v.copysign(v.times(v.logarithm_of_one_plus(ratio), 0.5), x)


# Remainders


def _truncated_remainder(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    builder, zero = v.builder, v.number(0.0)
    size, unit = v.absolute(x), v.absolute(y)
    quotient = v.made_of("trunc", v.over(size, unit))
    usual = builder.fcmp_ordered("<", quotient, v.number(2.0 ** (v.format.shift - 1)))
    rest = v.fma(v.negative(quotient), unit, size)  # without an error
    above = builder.fcmp_ordered("<", rest, zero)  # the quotient was rounded up to a whole number
    rest = builder.select(above, v.fma(v.minus(v.number(1.0), quotient), unit, size), rest)
    endless = builder.fcmp_ordered("==", unit, v.number(math.inf))
    rest = builder.select(builder.and_(endless, builder.fcmp_ordered("<", size, unit)), size, rest)
    return _by_libm(v, "frem", usual, v.copysign(rest, x), x, y)


def _across(v: Vectors, rest: ir.Value, y: ir.Value) -> ir.Value:
    """Where a remainder is not zero and has not the sign of y."""
    builder, zero = v.builder, v.number(0.0)
    signs = (builder.fcmp_ordered("<", each, zero) for each in (rest, y))
    return builder.and_(builder.fcmp_ordered("!=", rest, zero), builder.xor(*signs))


@vector_function
def Remainder(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    """The same with the sign of y."""
    rest = _truncated_remainder(v, x, y)
    found = v.builder.select(_across(v, rest, y), v.plus(rest, y), rest)
    return v.builder.select(v.builder.fcmp_ordered("==", rest, v.number(0.0)), v.copysign(rest, y), found)


@vector_function
def FlooredQuotient(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    """floor(x / y), as `numpy.floor_divide` rounds it."""
    builder, zero, one = v.builder, v.number(0.0), v.number(1.0)
    rest = _truncated_remainder(v, x, y)
    quotient = v.over(v.minus(x, rest), y)
    quotient = builder.select(_across(v, rest, y), v.minus(quotient, one), quotient)
    floor = v.made_of("floor", quotient)
    nearer = builder.fcmp_ordered(">", v.minus(quotient, floor), v.number(0.5))
    floor = builder.select(nearer, v.plus(floor, one), floor)
    ratio = v.over(x, y)
    floor = builder.select(builder.fcmp_ordered("==", quotient, zero), v.copysign(zero, ratio), floor)
    return builder.select(builder.fcmp_ordered("==", y, zero), ratio, floor)


@vector_function
def TruncatedRemainder(v: Vectors, x: ir.Value, y: ir.Value) -> ir.Value:
    """What is left of x by a whole number of y, with the sign of x: exact."""
    return _truncated_remainder(v, x, y)


# Others


@vector_function
def Sign(v: Vectors, x: ir.Value) -> ir.Value:
    """-1, 0 or 1; 0 of NaN."""
    zero, one = v.number(0.0), v.number(1.0)
    found = v.builder.select(v.builder.fcmp_ordered(">", x, zero), one, zero)
    return v.builder.select(v.builder.fcmp_ordered("<", x, zero), v.number(-1.0), found)


@vector_function
def Rsqrt(v: Vectors, x: ir.Value) -> ir.Value:
    """1 / sqrt(x)."""
    return v.over(v.number(1.0), v.root(x))


@vector_function
def Erfinv(v: Vectors, x: ir.Value) -> ir.Value:
    """The inverse of the error function, to five units in the last place; infinite at -1 and 1, NaN beyond."""
    builder, one = v.builder, v.number(1.0)
    size = v.absolute(x)
    distance = v.negative(v.logarithm(v.times(v.minus(one, size), v.plus(one, size))))
    root = v.root(distance)
    single = v.element.working is F32
    table, limits = (_ERFINV_OF_FLOAT32, (5.0,)) if single else (_ERFINV, (6.25, 4.0))
    places = (distance, root, root)
    parts = [v.polynomial(v.minus(x, v.number(at)), row) for x, (at, row) in zip(places, table, strict=False)]
    found = parts[-1]
    for place, limit, part in reversed(list(zip(places, limits, parts, strict=False))):
        found = builder.select(builder.fcmp_ordered("<", place, v.number(limit)), part, found)
    found = v.times(size, found)
    found = builder.select(builder.fcmp_ordered("==", size, one), v.number(math.inf), found)
    return v.copysign(found, x)
