"""Mathematics on vectors of float32 or float64 in registers: emitted code.

e**x is 2**n e**r with n the nearest integer to x / log 2 and |r| <= log(2) / 2, subtracted in two parts (W. Cody and W.
Waite, "Software Manual for the Elementary Functions", 1980); 1 + r + r**2 p(r) with p interpolated at the Chebyshev
points, 1e-8 and 2e-17 relative. The tail of the normal distribution at z >= 0 is e**(-z**2 / 2) R(z), where (z + k)
R(z) is a polynomial of (z - k) / (z + k) (M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x)
exp(x**2) erfc x", 1981), 1.2e-9 and 1.2e-17 relative. The error function up to 1 is x + x p(x**2), p interpolated at
the Chebyshev points, 1.3e-9 and 8e-18 relative; beyond, it is 1 minus a tail. The sine of x is that of r, plus or
minus, where r is what the nearest multiple of pi leaves, in three parts (the first is subtracted without an error); r +
r**3 p(r**2), p interpolated at the Chebyshev points, 1.3e-18 relative. The logarithm of 2**n (1 + f) is that of 2**n,
in two parts, and of 1 + f: f - (f**2 / 2 - s (f**2 / 2 + s**2 p(s**2))), s = f / (2 + f) (`e_log.c` of Sun
Microsystems' fdlibm, 1993), p interpolated at the Chebyshev points up to s = 1/3, 3.5e-10 and 4.7e-18 relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...block.emit import F32, F64, I32, I64, broadcast, call, lane_numbers, splat, suffix, vector
from ...block.microkernels import Rows, convert
from ...block.sources import ELEMENTS, UNFUSED
from ...runtime.jit import ir


class _Format(NamedTuple):
    """What differs between float32 and float64.

    Attributes:
        magic: 1.5 * 2**p with p the stored bits of the significand: adding it rounds to an integer, which the low bits
            then hold.
        shift, bias: of the exponent.
        magic_bits: of `magic`.
        log_2: in two parts; an integer within the range of exponents times the first is exact.
        greatest, least: arguments of the exponential from which it is infinite, and zero.
        powers: the coefficients of p.
        center, farthest, tail: k, the z up to which the tail is not zero, and the polynomial.
        error: the coefficients of p of the error function.
        logarithm: the coefficients of p of the logarithm.
    """

    integer: ir.Type
    magic: float
    magic_bits: int
    shift: int
    bias: int
    log_2: tuple[float, float]
    greatest: float
    least: float
    powers: tuple[float, ...]
    center: float
    farthest: float
    tail: tuple[float, ...]
    error: tuple[float, ...]
    logarithm: tuple[float, ...]


_HALF_TURN = 3.141592653589793, 1.224646799147353e-16, 2.165713347843828e-32
"""pi, in three parts, all positive, so that a negative zero stays one."""

_FARTHEST_TURN = 2.0**30
_SINE = (
    -0.1666666666666666663, 0.008333333333333315747, -0.0001984126984125488467, 2.755731921913917618e-6,
    -2.505210761393399382e-8, 1.605897711402502703e-10, -7.643963964341869225e-13, 2.731365847769419163e-15,
)  # fmt: skip

_FORMATS = {
    F32: _Format(
        I32, 12582912.0, 0x4B400000, 23, 127, (0.693145751953125, 1.42860682030941723e-06), 89.0, -104.0,
        (0.5, 0.1666657699, 0.04166655462, 0.008363179053, 0.001392618359), 3.0, 14.5,
        (
            0.7290836907, -0.5093319895, 0.2300176777, -0.04726274528, -0.01046229376, 0.006969813131, 0.001024135711,
            -0.001034222059, -0.0002445826664, 0.0001331259088, 5.535596630e-5,
        ),
        (
            0.128379166, -0.3761262667, 0.1128359472, -0.02685421201, 0.005189087423, -0.0008016864287, 7.875875063e-5,
        ),
        (0.6666666732, 0.3999970633, 0.28592358, 0.217065758, 0.2322432923),
    ),
    F64: _Format(
        I64, 6755399441055744.0, 0x4338000000000000, 52, 1023, (0.693147180369123816490, 1.90821492927058770002e-10),
        710.0, -746.0,
        (
            0.5, 0.166666666666666675, 0.0416666666666241279, 0.00833333333333006183, 0.00138888889172137169,
            0.000198412698630536169, 2.48015212959543751e-5, 2.75572684599970648e-6, 2.76200884454097482e-7,
            2.51003854955103191e-8,
        ), 5.0, 39.0,
        (
            0.769193049750062959, -0.665382502890056700, 0.495305615969976413, -0.313533156671304545,
            0.165020366170384718, -0.0691186387063101636, 0.0207950667998831796, -0.00299337677050854244,
            -0.000797869398466070105, 0.000544899064773129894, -5.93757280099158637e-5, -4.97628142705858052e-5,
            1.66812137420420615e-5, 3.98090215786804112e-6, -2.76926709599743025e-6, -3.36615368101247117e-7,
            4.33141035686258495e-7, 4.22749937400653484e-8, -6.59422166247722304e-8, -9.31356099432605914e-9,
            7.66307180076004105e-9, 1.75304840140823198e-9, -1.58774688274733654e-10,
        ),
        (
            0.12837916709551257, -0.376126389031835404, 0.112837916709450063, -0.0268661706432377704,
            0.00522397760711642273, -0.000854832597538969208, 0.000120552949048397079,
            -0.0000149247369074196603, 1.64474247033173624e-6, -1.62084838018717059e-7,
            1.37200645467776856e-8, -7.79589882700214224e-10,
        ),
        (
            0.666666666666666586, 0.400000000000145827, 0.285714285671087572, 0.22222222717427863, 0.181817894361328582,
            0.153855700649586231, 0.133141442096549362, 0.120010728095907125, 0.0880073848614467388,
            0.161640456119435322,
        ),
    ),
}  # fmt: skip


class Vectors:
    """Emits reading, arithmetic and writing for an element type: 16 values of float32, half types among them, or 8 of
    float64, or some times as many. Operands of the arithmetic are vectors."""

    def __init__(self, builder: ir.IRBuilder, element: Any, times: int = 1) -> None:
        self.builder, self.element = builder, element
        self.lanes = times * (8 if element.working is F64 else 16)
        self.kind = vector(element.working, self.lanes)
        self.format, self.access = _FORMATS[element.working], Rows(builder, element, self.lanes)
        self.integers = vector(self.format.integer, self.lanes)
        self.all = ir.Constant(vector(ir.IntType(1), self.lanes), [1] * self.lanes)

    def number(self, value: float) -> ir.Constant:
        return splat(self.element.working, value, self.lanes)

    def first(self, count: ir.Value) -> ir.Value:
        """Which lanes so many values fill."""
        return self.builder.icmp_signed(
            "<", lane_numbers(self.lanes), broadcast(self.builder, self.builder.trunc(count, I32), self.lanes)
        )

    def read(self, at: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        return self.access.read(at, None, self.all if mask is None else mask)

    def write(self, value: ir.Value, at: ir.Value, mask: ir.Value | None = None) -> None:
        self.access.write(convert(self.builder, value, self.element), at, self.all if mask is None else mask)

    # Arithmetic

    def plus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b)

    def minus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fsub(a, b)

    def times(self, a: ir.Value, b: ir.Value | float) -> ir.Value:
        return self.builder.fmul(a, self.number(b) if isinstance(b, float) else b)

    def over(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fdiv(a, b)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, in one rounding if the CPU and the element allow it."""
        return self.made_of("fmuladd", a, b, c) if self.element.fused else self.plus(self.times(a, b), c)

    def fused_exactly(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c where c takes most of the product away, by the product in two numbers (T. J. Dekker, 1971)."""
        if self.element.fused:
            return self.fma(a, b, c)
        splitter, product = 134217729.0 if self.element.working is F64 else 4097.0, self.times(a, b)

        def halves(x: ir.Value) -> tuple[ir.Value, ir.Value]:
            large = self.times(x, splitter)
            high = self.minus(large, self.minus(large, x))
            return high, self.minus(x, high)

        (high_a, low_a), (high_b, low_b) = halves(a), halves(b)
        rest = self.minus(self.times(high_a, high_b), product)
        for pair in ((high_a, low_b), (low_a, high_b), (low_a, low_b)):
            rest = self.plus(rest, self.times(*pair))
        return self.plus(self.plus(product, c), rest)

    def wide(self) -> Vectors:
        """The same of float64."""
        return Vectors(self.builder, (ELEMENTS if self.element.fused else UNFUSED)["float64"])

    def made_of(self, name: str, *operands: ir.Value) -> ir.Value:
        """LLVM's function of that name."""
        return call(self.builder, f"llvm.{name}.{suffix(self.element.working, self.lanes)}", self.kind, *operands)

    def root(self, x: ir.Value) -> ir.Value:
        return self.made_of("sqrt", x)

    def absolute(self, x: ir.Value) -> ir.Value:
        return self.made_of("fabs", x)

    def copysign(self, x: ir.Value, sign: ir.Value) -> ir.Value:
        """x with the sign of another."""
        return self.made_of("copysign", x, sign)

    def clamp(self, x: ir.Value, least: float, greatest: float) -> ir.Value:
        """Within these limits, or NaN."""
        for limit, beyond in ((greatest, ">"), (least, "<")):
            x = self.builder.select(self.builder.fcmp_ordered(beyond, x, self.number(limit)), self.number(limit), x)
        return x

    def polynomial(self, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
        value = self.number(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.number(each))
        return value

    # Functions

    def exponential(self, x: ir.Value) -> ir.Value:
        """e**x to one unit in the last place, subnormal results included."""
        return self._scale_by_power(*self._exponential(self.clamp(x, self.format.least, self.format.greatest)))

    def half_exponential(self, x: ir.Value) -> ir.Value:
        """e**x / 2, which may be finite where e**x is not."""
        return self._scale_by_power(*self._exponential(self.clamp(x, self.format.least, self.format.greatest + 1.0)), 1)

    def power_of_two(self, x: ir.Value) -> ir.Value:
        """2**x to one unit in the last place, exact for whole x."""
        of = self.format
        x = self.clamp(x, of.least / math.log(2), of.greatest / math.log(2))
        shifted = self.plus(x, self.number(of.magic))
        rest = self.times(self.minus(x, self.minus(shifted, self.number(of.magic))), math.log(2))
        return self._scale_by_power(self.builder.bitcast(shifted, self.integers), self._small_exponential(rest))

    def _scale_by_power(self, shifted: ir.Value, less: ir.Value, down: int = 0) -> ir.Value:
        """2**(n - down) (1 + less), given the bits of n + `magic`: by two powers that neither overflow nor are
        subnormal."""
        builder, of = self.builder, self.format
        exponents = builder.sub(shifted, splat(of.integer, of.magic_bits - 2 * of.bias + down, self.lanes))
        half = builder.lshr(exponents, splat(of.integer, 1, self.lanes))
        value = self.times(self.plus(less, self.number(1.0)), self._power(half))
        return self.times(value, self._power(builder.sub(exponents, half)))

    def exponential_less_one(self, x: ir.Value) -> ir.Value:
        """e**x - 1, with small relative errors where that is small."""
        of = self.format
        shifted, less = self._exponential(self.clamp(x, -40.0, of.greatest))
        exponents = self.builder.sub(shifted, splat(of.integer, of.magic_bits - of.bias + 1, self.lanes))
        power = self._power(exponents)  # half of 2**n, since this might be too large
        half = self.fma(power, less, self.minus(power, self.number(0.5)))
        zero = self.builder.fcmp_ordered("==", x, self.number(0.0))
        return self.builder.select(zero, x, self.plus(half, half))  # of either sign

    def _exponential(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The bits of n + `magic`, and e**r - 1."""
        of = self.format
        shifted = self.fma(x, self.number(1.4426950408889634), self.number(of.magic))
        whole, rest = self.minus(shifted, self.number(of.magic)), x
        for part in of.log_2:
            rest = self.fma(whole, self.number(-part), rest)
        return self.builder.bitcast(shifted, self.integers), self._small_exponential(rest)

    def _small_exponential(self, rest: ir.Value) -> ir.Value:
        """e**r - 1 for |r| <= log(2) / 2."""
        return self.fma(self.times(rest, rest), self.polynomial(rest, self.format.powers), rest)

    def _power(self, exponents: ir.Value) -> ir.Value:
        """The powers of two with these biased exponents."""
        of = self.format
        return self.builder.bitcast(self.builder.shl(exponents, splat(of.integer, of.shift, self.lanes)), self.kind)

    def logarithm(self, x: ir.Value, combine: Callable[..., ir.Value] | None = None) -> ir.Value:
        """The natural logarithm to one unit in the last place; -inf or NaN for zero and negative numbers.
        For x = 2**n y, `combine` instead maps n and the logarithm of y to the result."""
        of, up = self.format, self.format.shift + 2.0
        tiny = self.builder.fcmp_ordered("<", x, self.number(2.0 ** (2 - of.bias)))
        whole, rest = self._binade(self.builder.select(tiny, self.times(x, 2.0**up), x))
        whole = self.builder.select(tiny, self.minus(whole, self.number(up)), whole)
        if combine is not None:
            return self._unless_special(x, 0.0, combine(whole, self._logarithm(rest)))
        return self._unless_special(x, 0.0, self._logarithm(rest, whole, self.times(whole, of.log_2[1])))

    def logarithm_of_one_plus(self, x: ir.Value) -> ir.Value:
        """log(1 + x), with small relative errors where x is small."""
        builder, of, one = self.builder, self.format, self.number(1.0)
        sum_ = self.plus(x, one)
        large = builder.fcmp_ordered(">", x, one)
        lost = builder.select(large, self.minus(one, self.minus(sum_, x)), self.minus(x, self.minus(sum_, one)))
        whole, rest = self._binade(sum_)
        value = self._logarithm(rest, whole, self.fma(whole, self.number(of.log_2[1]), self.over(lost, sum_)))
        zero = builder.fcmp_ordered("==", x, self.number(0.0))
        return builder.select(zero, x, self._unless_special(x, -1.0, value))

    def softplus_of_negative(self, x: ir.Value) -> ir.Value:
        """log(1 + e**-|x|)."""
        return self._logarithm(self.exponential(self.negative(self.absolute(x))))

    def _binade(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """n and f of a normal x = 2**n (1 + f) with 1 + f from sqrt(1/2) to sqrt(2)."""
        builder, of = self.builder, self.format
        bits, root = builder.bitcast(x, self.integers), builder.bitcast(self.number(math.sqrt(0.5)), self.integers)
        shift = splat(of.integer, of.shift, self.lanes)
        exponents = builder.shl(builder.ashr(builder.sub(bits, root), shift), shift)
        near = builder.bitcast(builder.sub(bits, exponents), self.kind)
        # An integer added to the bits of `magic` is added to its value.
        numbered = builder.add(builder.ashr(exponents, shift), splat(of.integer, of.magic_bits, self.lanes))
        whole = self.minus(builder.bitcast(numbered, self.kind), self.number(of.magic))
        return whole, self.minus(near, self.number(1.0))

    def _logarithm(self, rest: ir.Value, whole: ir.Value | None = None, small: ir.Value | None = None) -> ir.Value:
        """log(1 + rest), and `whole` times the first part of log(2) and `small` besides."""
        ratio = self.over(rest, self.plus(rest, self.number(2.0)))
        square, half = self.times(ratio, ratio), self.times(self.times(rest, 0.5), rest)
        series = self.fma(square, self.polynomial(square, self.format.logarithm), half)
        if whole is None:
            return self.minus(rest, self.minus(half, self.times(ratio, series)))
        lost = self.minus(self.minus(half, self.fma(ratio, series, small)), rest)
        return self.minus(self.times(whole, self.format.log_2[0]), lost)

    def _unless_special(self, x: ir.Value, pole: float, value: ir.Value) -> ir.Value:
        """A logarithm that is -inf at the pole, NaN below, and infinite where x is."""
        builder = self.builder
        special = builder.select(builder.fcmp_ordered("==", x, self.number(pole)), self.number(-math.inf), x)
        special = builder.select(builder.fcmp_ordered("<", x, self.number(pole)), self.number(math.nan), special)
        above = builder.fcmp_ordered(">", x, self.number(pole))
        usual = builder.and_(above, builder.fcmp_ordered("<", x, self.number(math.inf)))
        return builder.select(usual, value, special)

    def sigmoids(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """1 / (1 + e**-x) and 1 / (1 + e**x), both with small relative errors, by e**-|x|, which does not overflow."""
        one, negative = self.number(1.0), self.negative(x)
        below = self.builder.fcmp_ordered("<", x, self.number(0.0))
        small = self.exponential(self.builder.select(below, x, negative))
        larger = self.over(one, self.plus(one, small))
        smaller = self.times(small, larger)
        return self.builder.select(below, smaller, larger), self.builder.select(below, larger, smaller)

    def normal(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The distribution function of the standard normal distribution, with small relative errors in both tails, and
        e**(-x**2 / 2)."""
        builder, farthest = self.builder, self.format.farthest
        below = builder.fcmp_ordered("<", x, self.number(0.0))
        z = self._magnitude(self.clamp(x, -farthest, farthest), below)
        density = self._of_square(z, -0.5)
        tail = self._tail(z, density)
        return builder.select(below, tail, self.minus(self.number(1.0), tail)), density

    def error_function(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """erf and erfc of x, with small relative errors where they are small."""
        builder, one = self.builder, self.number(1.0)
        below = builder.fcmp_ordered("<", x, self.number(0.0))
        z = self._magnitude(x, below)
        near = builder.fcmp_ordered("<", z, one)
        square = self.times(x, x)
        series = self.fma(x, self.polynomial(builder.select(near, square, one), self.format.error), x)
        z = self.clamp(z, 0.0, self.format.farthest / math.sqrt(2))
        tail = self.times(self._tail(self.times(z, math.sqrt(2)), self._of_square(z, -1.0)), 2.0)
        head = self.minus(one, tail)
        head = builder.select(below, self.negative(head), head)
        # Up to 1/2 erfc is nearer to 1 than to 0, and less than 1 by the series.
        small = builder.fcmp_ordered("<", z, self.number(0.5))
        rest = builder.select(below, self.minus(self.number(2.0), tail), tail)
        return builder.select(near, series, head), builder.select(small, self.minus(one, series), rest)

    def negative(self, x: ir.Value) -> ir.Value:
        return self.builder.fsub(self.number(-0.0), x)

    def _magnitude(self, x: ir.Value, below: ir.Value) -> ir.Value:
        """|x|, given where x is below zero; zeros keep their sign."""
        return self.builder.select(below, self.negative(x), x)

    def _of_square(self, z: ir.Value, factor: float) -> ir.Value:
        """e**(factor * z**2), for factors that round nothing."""
        square = self.times(z, z)
        lost = self.fused_exactly(z, z, self.negative(square))  # what rounding took from the square
        power = self.exponential(self.times(square, factor))
        return self.fma(self.times(lost, factor), power, power)

    def _tail(self, z: ir.Value, density: ir.Value) -> ir.Value:
        """Of the normal distribution at z >= 0, where e**(-z**2 / 2) is `density`."""
        center = self.number(self.format.center)
        inverse = self.over(self.number(1.0), self.plus(z, center))
        series = self.polynomial(self.times(self.minus(z, center), inverse), self.format.tail)
        return self.times(self.times(density, inverse), series)

    def sine(self, x: ir.Value, quarters: int = 0) -> ir.Value:
        """Of float64, to two units in the last place, on CPUs with fused operations; with one quarter of a turn, the
        cosine. Beyond 2**30, and of infinities, the C library's."""
        builder, of = self.builder, self.format
        turns = self.fma(x, self.number(1 / math.pi), self.number(-0.5 * quarters))
        shifted = self.plus(turns, self.number(of.magic))
        halves = self.fma(self.minus(shifted, self.number(of.magic)), self.number(2.0), self.number(float(quarters)))
        rest = x
        for part in _HALF_TURN:
            rest = self.fused_exactly(self.negative(halves), self.number(part / 2), rest)
        bits = builder.sub(builder.bitcast(shifted, self.integers), splat(of.integer, -quarters, self.lanes))
        sign = builder.shl(bits, splat(of.integer, of.shift + 11, self.lanes))
        rest = builder.bitcast(builder.xor(builder.bitcast(rest, self.integers), sign), self.kind)
        square = self.times(rest, rest)
        value = self.fma(self.times(rest, square), self.polynomial(square, _SINE), rest)
        zero = builder.fcmp_ordered("==", rest, self.number(0.0))
        value = builder.select(zero, rest, value)  # of either sign
        far = builder.fcmp_ordered(">", self.absolute(x), self.number(_FARTHEST_TURN))
        name = "llvm.cos.f64" if quarters else "llvm.sin.f64"
        return self.one_by_one(far, value, lambda numbers: call(builder, name, F64, *numbers), x)

    def one_by_one(self, where: ir.Value, value: ir.Value, make: Callable[..., ir.Value], *operands: Any) -> ir.Value:
        """`value`, but in some lanes, which are few, what `make` makes of the list of their numbers."""

        def lanes() -> ir.Value:
            found = value
            for lane in range(self.lanes):
                number = make([self.builder.extract_element(each, I32(lane)) for each in operands])
                found = self.builder.insert_element(found, number, I32(lane))
            return found

        return self.where_any(where, value, lanes)

    def where_any(self, where: ir.Value, value: ir.Value, make: Callable[[], ir.Value]) -> ir.Value:
        """`value`, but in some lanes what `make` makes, which is emitted where no vector without such lanes comes."""
        builder, mask = self.builder, ir.IntType(self.lanes)
        before = builder.block
        some = builder.icmp_unsigned("!=", builder.bitcast(where, mask), mask(0))
        with builder.if_then(some, likely=False):
            found = builder.select(where, make(), value)
            inside = builder.block
        result = builder.phi(self.kind)
        result.add_incoming(value, before)
        result.add_incoming(found, inside)
        return result
