"""Transforms of a few vectors of complex numbers, as straight-line LLVM code: real parts and imaginary parts apart.

A transform of length a * b is b transforms of length a, a multiplication by roots of unity, and a of length b
(J. Cooley and J. Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965); where a and b have
no common factor, it needs no roots (I. Good, "The interaction algorithm and practical Fourier analysis", 1958). One of
odd prime length pairs what lies at j and at n - j, whose cosines are equal and whose sines are opposite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..gemm.emit import splat
from ..jit import ir

__all__ = ["SPLITS", "Arithmetic", "Complex"]

SPLITS = {6: (2, 3), 8: (2, 4), 9: (3, 3), 10: (2, 5), 12: (3, 4), 14: (2, 7), 15: (3, 5), 16: (4, 4), 32: (4, 8)}
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

    def _rotate(self, a: Complex, turns: int, of: int) -> Complex:
        """a * exp(-2 pi i turns / of)."""
        turns %= of
        if turns == 0:
            return a
        if 4 * turns == of:
            return Complex(a.im, self._negative(a.re))
        if 2 * turns == of:
            return Complex(self._negative(a.re), self._negative(a.im))
        if 4 * turns == 3 * of:
            return Complex(self._negative(a.im), a.re)
        angle = 2 * math.pi * turns / of
        cos, sin = math.cos(angle), math.sin(angle)
        if 8 * turns % of == 0:  # a multiple of an eighth: one factor for both parts
            half = self.constant(math.sqrt(0.5))
            c, s = round(cos / math.sqrt(0.5)), round(sin / math.sqrt(0.5))
            re = self.plus(a.re, a.im) if s > 0 else self.minus(a.re, a.im)
            im = self.minus(a.im, a.re) if s > 0 else self.plus(a.im, a.re)
            if c < 0:  # (c - i s) = -(1 - i s'), with s' = -s
                re = self.minus(a.im, a.re) if s > 0 else self._negative(self.plus(a.re, a.im))
                im = self._negative(self.plus(a.im, a.re)) if s > 0 else self.minus(a.re, a.im)
            return Complex(self.times(re, half), self.times(im, half))
        return self.multiply(a, Complex(self.constant(cos), self.constant(-sin)))

    def transform(self, x: list[Complex]) -> list[Complex]:
        """The sums over j of x[j] exp(-2 pi i j k / n)."""
        n = len(x)
        if n == 1:
            return x
        if n == 2:
            return [self.add(x[0], x[1]), self.subtract(x[0], x[1])]
        if n == 4:
            return self._of_four(x)
        return self._composite(x, *SPLITS[n]) if n in SPLITS else self._prime(x)

    def _of_four(self, x: list[Complex]) -> list[Complex]:
        a, b = self.add(x[0], x[2]), self.subtract(x[0], x[2])
        c, d = self.add(x[1], x[3]), self.subtract(x[1], x[3])
        return [
            self.add(a, c),
            Complex(self.plus(b.re, d.im), self.minus(b.im, d.re)),
            self.subtract(a, c),
            Complex(self.minus(b.re, d.im), self.plus(b.im, d.re)),
        ]

    def _composite(self, x: list[Complex], a: int, b: int) -> list[Complex]:
        if math.gcd(a, b) == 1:
            return self._coprime(x, a, b)
        inner = [self.transform(x[column::b]) for column in range(b)]
        out = list(x)
        for row in range(a):
            turned = [self._rotate(inner[column][row], row * column, a * b) for column in range(b)]
            out[row::a] = self.transform(turned)
        return out

    def _coprime(self, x: list[Complex], a: int, b: int) -> list[Complex]:
        """Without roots of unity: with j = b j1 + a j2, the exponent j k / n is j1 k / a + j2 k / b."""
        n = a * b
        columns = [self.transform([x[(b * j1 + a * j2) % n] for j1 in range(a)]) for j2 in range(b)]
        rows = [self.transform([column[k1] for column in columns]) for k1 in range(a)]
        return [rows[k % a][k % b] for k in range(n)]

    def _prime(self, x: list[Complex]) -> list[Complex]:
        n, half = len(x), len(x) // 2
        sums = [self.add(x[j], x[n - j]) for j in range(1, half + 1)]
        differences = [self.subtract(x[j], x[n - j]) for j in range(1, half + 1)]
        total = x[0]
        for each in sums:
            total = self.add(total, each)
        out = [total, *x[1:]]
        for k in range(1, half + 1):
            even, odd = x[0], None
            for j, (s, d) in enumerate(zip(sums, differences, strict=True), 1):
                angle = 2 * math.pi * (j * k % n) / n
                cos, sin = self.constant(math.cos(angle)), self.constant(math.sin(angle))
                even = Complex(self.plus(even.re, self.times(s.re, cos)), self.plus(even.im, self.times(s.im, cos)))
                part = Complex(self.times(d.re, sin), self.times(d.im, sin))
                odd = part if odd is None else self.add(odd, part)
            assert odd is not None
            out[k] = Complex(self.plus(even.re, odd.im), self.minus(even.im, odd.re))
            out[n - k] = Complex(self.minus(even.re, odd.im), self.plus(even.im, odd.re))
        return out
