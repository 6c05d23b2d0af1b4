"""The logarithm of the gamma function and its derivative, on vectors and in float64: tags, as in `functions`.

Between 1 and 3 both are polynomials, interpolated at the Chebyshev points, times the distance from their zero, so that
small values have small relative errors; from there on up to where Stirling's series is exact they go by the recurrence
in x, and for negative x by its reflection (M. Abramowitz and I. Stegun, "Handbook of mathematical functions", 6.1 and
6.3). Next to zeros at negative x errors are those of the terms, which cancel there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...runtime.jit import ir
from .functions import vector_function
from .gamma_series import LOGARITHM_OF_GAMMA
from .mathematics import in_float64
from .vectors import Vectors

_ZERO = 1.4616321449683622, 9.549995429965697e-17
"""Of digamma, in two parts."""

_DIGAMMA = (
    0.951055876031832836, -0.423627421281460581, 0.240542484240786975, -0.148404923053880922, 0.0949887244528903885,
    -0.06192213327548831, 0.0407608339408460849, -0.0269757966597870547, 0.0179072483173132943, -0.0119082201059597156,
    0.00792702179686815417, -0.00527993725553270801, 0.00351810656380247217, -0.00234549473973808334,
    0.00156336963136535041, -0.00103645848173128385, 0.000690925576128298608, -0.00048595039220036254,
    0.000323959454013451962, -0.00014480643368061614, 9.65364626141006172e-05, -0.000178218854885592309,
    0.000118812329085103352,
)  # fmt: skip
"""Of x - 1.5, for x from 1 to 2: digamma(x) over the distance of x from `_ZERO`, 5e-17 relative."""

_SERIES_OF_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_SERIES_OF_LOGARITHM = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_FAR = 10
"""From there on the next term of either series is below a unit in the last place."""


def _shift_argument(
    v: Vectors, x: ir.Value, start: list[ir.Value], least: float, above: float, step: Callable[..., list[ir.Value]]
) -> tuple[ir.Value, list[ir.Value]]:
    """x, moved by ones to between `least` and `above`, from -0.5 at least and `_FAR` at most; and what `step` makes of
    `start` and of each factor of gamma(x) / gamma(the result), and whether it is a divisor."""
    builder, one = v.builder, v.number(1.0)
    for up, count in ((True, math.ceil(least + 0.5)), (False, math.ceil(_FAR - above))):
        for _ in range(count):
            going = (
                builder.fcmp_ordered("<", x, v.number(least)) if up else builder.fcmp_ordered(">=", x, v.number(above))
            )
            moved = v.plus(x, one) if up else v.minus(x, one)
            made = step(start, x if up else moved, up)
            start = [builder.select(going, new, old) for new, old in zip(made, start, strict=True)]
            x = builder.select(going, moved, x)
    return x, start


def _half_turns(v: Vectors, size: ir.Value) -> ir.Value:
    """pi times the distance of a number from the nearest whole one, which is exact."""
    return v.times(v.minus(size, v.made_of("rint", size)), math.pi)


@vector_function
@in_float64
def Digamma(v: Vectors, x: ir.Value) -> ir.Value:
    """The derivative of the logarithm of the gamma function; NaN at negative whole numbers, infinite at zeros."""
    builder, one, zero = v.builder, v.number(1.0), v.number(0.0)
    negative = builder.fcmp_ordered("<", x, zero)
    positive = builder.select(negative, v.minus(one, x), x)
    far = builder.fcmp_ordered(">=", positive, v.number(float(_FAR)))

    def step(sums: list[ir.Value], factor: ir.Value, divisor: bool) -> list[ir.Value]:
        """One over the factor more, or less, as a fraction."""
        over, under = sums
        more = v.negative(under) if divisor else under
        return [v.fma(over, factor, more), v.times(under, factor)]

    near, (over, under) = _shift_argument(v, positive, [zero, one], 1.0, 2.0, step)
    distance = v.minus(v.minus(near, v.number(_ZERO[0])), v.number(_ZERO[1]))
    value = v.times(distance, v.polynomial(v.minus(near, v.number(1.5)), _DIGAMMA))
    value = v.plus(value, v.over(over, under))

    inverse = v.over(one, positive)
    square = v.times(inverse, inverse)
    series = v.fma(square, v.polynomial(square, _SERIES_OF_DIGAMMA), v.times(inverse, -0.5))
    value = builder.select(far, v.plus(v.logarithm(positive), series), value)

    def reflect() -> ir.Value:
        turn = _half_turns(v, x)
        found = v.minus(value, v.times(v.over(v.sine(turn, 1), v.sine(turn)), math.pi))
        return builder.select(builder.fcmp_ordered("==", turn, zero), v.number(math.nan), found)

    return v.where_any(negative, value, reflect)


@vector_function
@in_float64
def Lgamma(v: Vectors, x: ir.Value) -> ir.Value:
    """The logarithm of the absolute value of the gamma function; infinite where that is, at negative whole numbers."""
    builder, one, infinity = v.builder, v.number(1.0), v.number(math.inf)
    size = v.absolute(x)
    negative = builder.fcmp_ordered("<", x, v.number(-0.5))
    positive = builder.select(negative, size, x)
    far = builder.fcmp_ordered(">=", positive, v.number(float(_FAR)))

    def step(products: list[ir.Value], factor: ir.Value, divisor: bool) -> list[ir.Value]:
        factors, divisors = products
        return [factors, v.times(divisors, factor)] if divisor else [v.times(factors, factor), divisors]

    near, (factors, divisors) = _shift_argument(v, positive, [one, one], 1.5, 2.5, step)
    divides = builder.fcmp_ordered("!=", divisors, one)
    product = builder.select(divides, v.absolute(divisors), factors)
    logarithm = v.logarithm(builder.select(far, positive, product))

    from_one = v.minus(positive, one)
    once = builder.fcmp_ordered("<", v.absolute(from_one), v.number(0.5))  # one step up, whose sum is rounded
    distance = builder.select(once, from_one, v.minus(near, v.number(2.0)))
    value = v.times(distance, v.polynomial(distance, LOGARITHM_OF_GAMMA))
    value = v.plus(value, builder.select(divides, v.negative(logarithm), logarithm))

    inverse = v.over(one, positive)
    series = v.times(inverse, v.polynomial(v.times(inverse, inverse), _SERIES_OF_LOGARITHM))
    series = v.plus(series, v.number(math.log(2 * math.pi) / 2))
    main = v.fma(v.minus(positive, v.number(0.5)), v.minus(logarithm, one), v.number(-0.5))
    value = builder.select(far, v.plus(main, series), value)

    def reflect() -> ir.Value:
        turn = v.absolute(v.sine(_half_turns(v, size)))
        found = v.minus(v.minus(v.number(math.log(math.pi)), v.logarithm(v.times(size, turn))), value)
        return builder.select(builder.fcmp_ordered("==", turn, v.number(0.0)), infinity, found)

    value = v.where_any(negative, value, reflect)
    return builder.select(builder.fcmp_ordered("==", size, infinity), infinity, value)
