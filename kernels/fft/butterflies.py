"""Transforms of a few vectors of complex numbers, as straight-line LLVM code: real parts and imaginary parts apart.

A transform of length a * b is b transforms of length a, a multiplication by roots of unity, and a of length b
(J. Cooley and J. Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965); where a and b have
no common factor, it needs no roots (I. Good, "The interaction algorithm and practical Fourier analysis", 1958). One of
odd prime length pairs what lies at j and at n - j, whose cosines are equal and whose sines are opposite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..block.emit import call, splat, suffix
from ..runtime import cpu
from ..runtime.jit import ir

SPLITS = {
    6: (2, 3), 8: (2, 4), 9: (3, 3), 10: (2, 5), 12: (3, 4), 14: (2, 7), 15: (3, 5), 16: (4, 4), 18: (2, 9), 20: (4, 5),
    24: (3, 8), 25: (5, 5), 28: (4, 7), 30: (2, 15), 32: (4, 8),
}  # fmt: skip
"""How the composite radices are divided; those that are not here are 2, 4, and odd primes."""

_FUSED = ("contract",)  # a product and a sum become one instruction where the CPU has it; nothing else may change


class Complex(NamedTuple):
    """A vector of complex numbers."""

    re: ir.Value
    im: ir.Value


class Arithmetic:
    """Emits complex arithmetic on vectors of one element type."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, lanes: int) -> None:
        self.builder, self.element, self.lanes = builder, element, lanes
        self.fuses = cpu.capability() != "portable"  # else a product of two sums is left to both

    def constant(self, value: float) -> ir.Value:
        return splat(self.element, value, self.lanes)

    def plus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b, flags=_FUSED)

    def minus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fsub(a, b, flags=_FUSED)

    def times(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fmul(a, b, flags=_FUSED)

    def add(self, a: Complex, b: Complex) -> Complex:
        return Complex(self.plus(a.re, b.re), self.plus(a.im, b.im))

    def subtract(self, a: Complex, b: Complex) -> Complex:
        return Complex(self.minus(a.re, b.re), self.minus(a.im, b.im))

    def multiply(self, a: Complex, b: Complex) -> Complex:
        return Complex(
            self.minus(self.times(a.re, b.re), self.times(a.im, b.im)),
            self.plus(self.times(a.re, b.im), self.times(a.im, b.re)),
        )

    def _negative(self, value: ir.Value) -> ir.Value:
        return self.builder.fneg(value)

    def _both(self, a: Complex, b: Complex, factor: float) -> tuple[Complex, Complex]:
        """a + factor * b, and a - factor * b."""
        if factor == 1:
            return self.add(a, b), self.subtract(a, b)
        if factor == -1:
            return self.subtract(a, b), self.add(a, b)
        by, less = self.constant(factor), Complex(self._negative(b.re), self._negative(b.im))
        plus, minus = (Complex(self._fma(a.re, x.re, by), self._fma(a.im, x.im, by)) for x in (b, less))
        return plus, minus

    def _fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a + b * c, in one instruction where the CPU has it, whatever else is done with the product."""
        name = f"llvm.fmuladd.{suffix(self.element, self.lanes)}"
        return call(self.builder, name, a.type, b, c, a)

    def _scale(self, a: Complex, factor: float) -> Complex:
        by = self.constant(factor)
        return a if factor == 1 else Complex(self.times(a.re, by), self.times(a.im, by))

    def _rotate(self, a: Complex, turns: int, of: int) -> tuple[Complex, float]:
        """Two factors of a * exp(-2 pi i turns / of): the real one is left to the sums that follow, which take it as
        fused products (E. Linzer and E. Feig, "Implementation of efficient FFT algorithms on fused multiply-add
        architectures", 1993)."""
        turns %= of
        if turns == 0:
            return a, 1.0
        if 4 * turns == of:
            return Complex(a.im, self._negative(a.re)), 1.0
        if 2 * turns == of:
            return Complex(self._negative(a.re), self._negative(a.im)), 1.0
        if 4 * turns == 3 * of:
            return Complex(self._negative(a.im), a.re), 1.0
        angle = 2 * math.pi * turns / of
        sign = 1 if (turns * 4 // of) % 2 == 0 else -1  # of the tangent
        if 8 * turns % of == 0:
            first = self.plus(a.re, a.im) if sign > 0 else self.minus(a.re, a.im)
            second = self.minus(a.im, a.re) if sign > 0 else self.plus(a.im, a.re)
            return Complex(first, second), math.copysign(math.sqrt(0.5), math.cos(angle))
        tangent = self.constant(math.tan(angle))
        turned = self.plus(a.re, self.times(a.im, tangent)), self.minus(a.im, self.times(a.re, tangent))
        return Complex(*turned), math.cos(angle)

    def transform(self, x: list[Complex]) -> list[Complex]:
        """The sums over j of x[j] exp(-2 pi i j k / n)."""
        return self._transform(x, [1.0] * len(x))

    def _transform(self, x: list[Complex], factors: list[float]) -> list[Complex]:
        """The transform of the products of x and factors, divided by the first factor."""
        n = len(x)
        if n == 1:
            return x
        if n == 2:
            return list(self._both(x[0], x[1], factors[1] / factors[0]))
        if n == 4:
            return self._of_four(x, factors)
        return self._composite(x, factors, *SPLITS[n]) if n in SPLITS else self._prime(x, factors)

    def _of_four(self, x: list[Complex], factors: list[float]) -> list[Complex]:
        a, b = self._both(x[0], x[2], factors[2] / factors[0])
        c, d = self._both(x[1], x[3], factors[3] / factors[1])
        even = self._both(a, c, factors[1] / factors[0])
        odd = self._both(b, Complex(d.im, self._negative(d.re)), factors[1] / factors[0])
        return [even[0], odd[0], even[1], odd[1]]

    def _composite(self, x: list[Complex], factors: list[float], a: int, b: int) -> list[Complex]:
        if math.gcd(a, b) == 1:
            return self._coprime(x, factors, a, b)
        inner = [self._transform(x[column::b], factors[column::b]) for column in range(b)]
        out = list(x)
        for row in range(a):
            turned = [self._rotate(inner[column][row], row * column, a * b) for column in range(b)]
            turned = [(value, factor * factors[column]) for column, (value, factor) in enumerate(turned)]
            if not self.fuses:
                turned = [(self._scale(value, factor / factors[0]), factors[0]) for value, factor in turned]
            out[row::a] = self._transform(*[list(each) for each in zip(*turned, strict=True)])
        return out

    def _coprime(self, x: list[Complex], factors: list[float], a: int, b: int) -> list[Complex]:
        """Without roots of unity: with j = b j1 + a j2, the exponent j k / n is j1 k / a + j2 k / b."""
        n = a * b
        places = [[(b * j1 + a * j2) % n for j1 in range(a)] for j2 in range(b)]
        columns = [self._transform([x[j] for j in each], [factors[j] for j in each]) for each in places]
        firsts = [factors[each[0]] for each in places]
        rows = [self._transform([column[k1] for column in columns], firsts) for k1 in range(a)]
        return [rows[k % a][k % b] for k in range(n)]

    def _prime(self, x: list[Complex], factors: list[float]) -> list[Complex]:
        n, half = len(x), len(x) // 2
        assert all(n % divisor for divisor in range(2, half + 1)), f"{n} is composite, and SPLITS does not divide it"
        ratios = [factor / factors[0] for factor in factors]
        pairs = [self._both(x[j], x[n - j], ratios[n - j] / ratios[j]) for j in range(1, half + 1)]
        total = x[0]
        for j, (s, _) in enumerate(pairs, 1):
            total = self._both(total, s, ratios[j])[0]
        out = [total, *x[1:]]
        for k in range(1, half + 1):
            even, odd = x[0], None
            for j, (s, d) in enumerate(pairs, 1):
                angle = 2 * math.pi * (j * k % n) / n
                cos, sin = self.constant(math.cos(angle) * ratios[j]), self.constant(math.sin(angle) * ratios[j])
                even = Complex(self.plus(even.re, self.times(s.re, cos)), self.plus(even.im, self.times(s.im, cos)))
                part = Complex(self.times(d.re, sin), self.times(d.im, sin))
                odd = part if odd is None else self.add(odd, part)
            assert odd is not None
            out[k] = Complex(self.plus(even.re, odd.im), self.minus(even.im, odd.re))
            out[n - k] = Complex(self.minus(even.re, odd.im), self.plus(even.im, odd.re))
        return out
