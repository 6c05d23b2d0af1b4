"""Powers of two of vectors of float32 or float64 in registers, as softmax needs them: emitted code.

2**x for x <= 0 is 2**n * p(f) with n the nearest integer and |f| <= 1/2, or the next lower one, where p is a polynomial
of least relative error, or one that meets 2**f at the Chebyshev points.
"""

from __future__ import annotations

from typing import NamedTuple

from ..block.avx512 import instruction
from ..block.emit import F32, F64, I32, I64, call, splat, suffix, vector
from ..runtime.jit import ir


class _Format(NamedTuple):
    """What differs between float32 and float64.

    Attributes:
        integer, shift: as long as a number, and the stored bits of its significand.
        magic: 1.5 * 2**shift: adding it rounds to an integer, which the low bits then hold.
        lowest: the exponent of the least result; smaller ones may be zero.
        exact: the degree whose polynomial errs less than rounding does.
        near, up: the coefficients by degree, for fractions from -1/2 to 1/2, and from 0 to 1.
    """

    integer: ir.Type
    shift: int
    magic: float
    lowest: float
    exact: int
    near: dict[int, tuple[float, ...]]
    up: dict[int, tuple[float, ...]]


_FORMATS = {
    F32: _Format(
        I32, 23, 12582912.0, -125.0, 6,
        {  # relative errors before rounding: 7.5e-5, 2.6e-6, 1.5e-7 and 3e-9
            3: (0.999928073614, 0.693260985892, 0.242611122161, 0.055171667509),
            4: (0.999999261437, 0.693121814701, 0.240247448398, 0.055917860552, 0.009570101628),
            5: (1.0, 0.693146967062, 0.240221197227, 0.055507132756, 0.009675541376, 0.001327647156),
            6: (1.0, 0.693147206083, 0.240226468389, 0.055503283446, 0.009618490955, 0.00134000513, 0.000153457215),
        },
        {
            3: (0.999925218626, 0.695833539508, 0.226067158668, 0.07802452045),
            4: (1.000002593442, 0.693003833486, 0.241442760601, 0.052011455304, 0.01353417046),
            5: (1.0, 0.693153072127, 0.240153620488, 0.055826315079, 0.008989338698, 0.001877578644),
            6: (1.0, 0.693146985167, 0.240229821623, 0.055483393952, 0.009678766929, 0.001244011253, 0.00021701556),
        },
    ),
    F64: _Format(
        I64, 52, 6755399441055744.0, -1021.0, 11,
        {  # 2e-17
            11: (
                1.0, 0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606888,
                0.0013333558146416936, 0.0001540353044173605, 1.525273382983612e-05, 1.321544258792169e-06,
                1.0178062445845774e-07, 7.072585949269223e-09, 4.4549605981865186e-10,
            ),
        },
        {  # 3e-17
            11: (
                1.0, 0.6931471805599453, 0.24022650695909673, 0.05550410866498067, 0.009618129105151757,
                0.001333355834393728, 0.00015403521219107733, 1.5252998899728418e-05, 1.3210583477765189e-06,
                1.0236023803275179e-07, 6.634445866251414e-09, 6.123092916826387e-10,
            ),
        },
    ),
}  # fmt: skip


class Powers:
    """Emits functions of vectors of `lanes` numbers; with `avx512`, of 64 bytes, by instructions of its own."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, lanes: int, avx512: bool) -> None:
        self.builder, self.element, self.lanes, self.avx512 = builder, element, lanes, avx512
        self.kind, self.format = vector(element, lanes), _FORMATS[element]
        self.lowest, self.exact = self.format.lowest, self.format.exact
        self._letter = "s" if element is F32 else "d"

    def splat(self, value: float) -> ir.Constant:
        return splat(self.element, value, self.lanes)

    def _integers(self, value: int) -> ir.Constant:
        return splat(self.format.integer, value, self.lanes)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, in one rounding where the CPU can."""
        name = f"llvm.fmuladd.{suffix(self.element, self.lanes)}"
        return call(self.builder, name, self.kind, a, b, c)

    def _polynomial(self, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
        value = self.splat(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.splat(each))
        return value

    def power(self, difference: ir.Value, scale: ir.Value, lowest: ir.Value, degree: int) -> ir.Value:
        """2**(scale * difference) for differences <= 0; NaN of NaN. `lowest` is the difference of the least result."""
        builder, of = self.builder, self.format
        if self.avx512:
            return self._power_by_instructions(builder.fmul(difference, scale), degree)
        magic, integers = self.splat(of.magic), vector(of.integer, self.lanes)
        below = builder.fcmp_ordered("<", difference, lowest)
        shifted = self.fma(difference, scale, magic)
        fraction = self.fma(difference, scale, builder.fsub(magic, shifted))
        value = self._polynomial(fraction, of.near[degree])
        exponent = builder.shl(builder.bitcast(shifted, integers), self._integers(of.shift))
        scaled = builder.bitcast(builder.add(builder.bitcast(value, integers), exponent), self.kind)
        # The low bits of a NaN do not hold an exponent; they would turn it into a number.
        scaled = builder.select(builder.fcmp_unordered("uno", difference, difference), difference, scaled)
        return builder.select(below, self.splat(0.0), scaled)

    def _power_by_instructions(self, x: ir.Value, degree: int) -> ir.Value:
        """2**x by VREDUCE and VSCALEF of AVX-512, which also take what is too small: a quarter faster."""
        name = f"avx512.mask.{{}}.p{self._letter}.512"
        rest = self.splat(0.0), ir.IntType(self.lanes)(-1), I32(4)  # all lanes, exceptions and rounding as they are
        fraction = instruction(self.builder, name.format("reduce"), self.kind, x, I32(9), *rest)  # down
        value = self._polynomial(fraction, self.format.up[degree])
        return instruction(self.builder, name.format("scalef"), self.kind, value, x, *rest)
