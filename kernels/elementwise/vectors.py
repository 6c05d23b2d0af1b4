"""Mathematics on vectors of float32 or float64 in registers: emitted code.

e**x is 2**n e**r with n the nearest integer to x / log 2 and |r| <= log(2) / 2, subtracted in two parts (W. Cody and
W. Waite, "Software Manual for the Elementary Functions", 1980); 1 + r + r**2 p(r) with p interpolated at the Chebyshev
points, 1e-8 and 2e-17 relative. The tail of the normal distribution at z >= 0 is e**(-z**2 / 2) R(z), where
(z + k) R(z) is a polynomial of (z - k) / (z + k) (M. Shepherd and J. Laframboise, "Chebyshev approximation of
(1 + 2x) exp(x**2) erfc x", 1981), 1.2e-9 and 1.2e-17 relative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import F32, F64, I32, I64, broadcast, call, lane_numbers, splat, vector
from ..gemm.microkernels import Rows, convert
from ..jit import ir

__all__ = ["Vectors"]


class _Format(NamedTuple):
    """What differs between float32 and float64.

    Attributes:
        magic: 1.5 * 2**p with p the stored bits of the significand: adding it rounds to an integer, which the low bits
            then hold.
        shift, bias: of the exponent.
        magic_bits: of `magic`.
        log_2: in two parts, of which an integer within the range of exponents times the first is exact.
        greatest, least: arguments of the exponential from which it is infinite, and zero.
        powers: the coefficients of p.
        center, farthest, tail: k, the z up to which the tail is not zero, and the polynomial.
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


_FORMATS = {
    F32: _Format(
        I32, 12582912.0, 0x4B400000, 23, 127, (0.693145751953125, 1.42860682030941723e-06), 89.0, -104.0,
        (0.5, 0.1666657699, 0.04166655462, 0.008363179053, 0.001392618359), 3.0, 14.5,
        (
            0.7290836907, -0.5093319895, 0.2300176777, -0.04726274528, -0.01046229376, 0.006969813131, 0.001024135711,
            -0.001034222059, -0.0002445826664, 0.0001331259088, 5.535596630e-5,
        ),
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
    ),
}  # fmt: skip


class Vectors:
    """Emits reading, arithmetic and writing for an element type: 16 values of float32, half types among them, or 8 of
    float64. Operands of the arithmetic are vectors."""

    def __init__(self, builder: ir.IRBuilder, element: Any) -> None:
        self.builder, self.element = builder, element
        self.lanes = 8 if element.working is F64 else 16
        self.kind = vector(element.working, self.lanes)
        self.format, self.access = _FORMATS[element.working], Rows(builder, element, self.lanes)
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

    def fused(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, in one rounding where the CPU can."""
        bits = 64 if self.element.working is F64 else 32
        return call(self.builder, f"llvm.fmuladd.v{self.lanes}f{bits}", self.kind, a, b, c)

    def clamped(self, x: ir.Value, least: float, greatest: float) -> ir.Value:
        """Within these limits, or NaN."""
        for limit, beyond in ((greatest, ">"), (least, "<")):
            x = self.builder.select(self.builder.fcmp_ordered(beyond, x, self.number(limit)), self.number(limit), x)
        return x

    def polynomial(self, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
        value = self.number(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            value = self.fused(value, x, self.number(each))
        return value

    # Functions

    def exponential(self, x: ir.Value) -> ir.Value:
        """e**x to one unit in the last place, subnormal results included."""
        builder, of = self.builder, self.format
        integers = vector(of.integer, self.lanes)
        x = self.clamped(x, of.least, of.greatest)
        shifted = self.fused(x, self.number(1.4426950408889634), self.number(of.magic))
        whole, rest = self.minus(shifted, self.number(of.magic)), x
        for part in of.log_2:
            rest = self.fused(whole, self.number(-part), rest)
        value = self.fused(self.times(rest, rest), self.polynomial(rest, of.powers), rest)
        value = self.plus(value, self.number(1.0))
        # 2**n as a product of two powers, of which neither overflows nor is subnormal.
        low_bits = splat(of.integer, of.magic_bits - 2 * of.bias, self.lanes)
        exponents = builder.sub(builder.bitcast(shifted, integers), low_bits)
        half = builder.lshr(exponents, splat(of.integer, 1, self.lanes))
        for each in (half, builder.sub(exponents, half)):
            power = builder.shl(each, splat(of.integer, of.shift, self.lanes))
            value = self.times(value, builder.bitcast(power, self.kind))
        return value

    def sigmoids(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """1 / (1 + e**-x) and 1 / (1 + e**x), both with small relative errors, by e**-|x|, which does not overflow."""
        one, negative = self.number(1.0), self.builder.fsub(self.number(-0.0), x)
        below = self.builder.fcmp_ordered("<", x, self.number(0.0))
        small = self.exponential(self.builder.select(below, x, negative))
        larger = self.over(one, self.plus(one, small))
        smaller = self.times(small, larger)
        return self.builder.select(below, smaller, larger), self.builder.select(below, larger, smaller)

    def normal(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The distribution function of the standard normal distribution, with small relative errors in both tails, and
        e**(-x**2 / 2)."""
        builder, of = self.builder, self.format
        below = builder.fcmp_ordered("<", x, self.number(0.0))
        x = self.clamped(x, -of.farthest, of.farthest)
        z = builder.select(below, builder.fsub(self.number(-0.0), x), x)
        square = self.times(z, z)
        lost = self.fused(z, z, builder.fsub(self.number(-0.0), square))  # what rounding took from the square
        density = self.exponential(self.times(square, -0.5))
        density = self.fused(self.times(lost, -0.5), density, density)
        center = self.number(of.center)
        inverse = self.over(self.number(1.0), self.plus(z, center))
        series = self.polynomial(self.times(self.minus(z, center), inverse), of.tail)
        tail = self.times(self.times(density, inverse), series)
        return builder.select(below, tail, self.minus(self.number(1.0), tail)), density
