"""What the gradients of flash attention do to a row of scores, in vectors of 16: emitted code.

2**x for x <= 0 is 2**n * p(f) with n the nearest integer and |f| <= 1/2, where p is the polynomial of degree 6 that
interpolates 2**f at the Chebyshev points: 2.6e-9 relative to 2**f, and two units in the last place when rounded.
Results below 2**-126 are zero.
"""

from __future__ import annotations

from ..gemm.emit import F32, I32, I64, POINTER, broadcast, call, lane_numbers, load, loop, offset, splat, store, vector
from ..gemm.microkernels import Rows
from ..gemm.sources import Float32
from ..jit import intrinsic, ir, types

__all__ = ["LANES", "fill_row", "mask_row", "slope_row", "weigh_row"]

LANES = 16
_VECTOR = vector(F32, LANES)
_BYTES = 4 * LANES
_LOWEST = -126.0
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which the low bits then hold
_POWERS = (
    1.0, 0.6931472067028327, 0.2402265092228862, 0.05550327226670292,
    0.00961805667854805, 0.0013400428177566465, 0.00015461444691130264,
)  # fmt: skip


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a * b + c, in one rounding where the CPU can."""
    return call(builder, f"llvm.fmuladd.v{LANES}f32", _VECTOR, a, b, c)


def _exp2(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """2**x of each lane, for x <= 0; NaN of NaN."""
    below = builder.fcmp_ordered("<", x, splat(F32, _LOWEST, LANES))
    x = builder.select(below, splat(F32, _LOWEST, LANES), x)
    shifted = builder.fadd(x, splat(F32, _MAGIC, LANES))
    fraction = builder.fsub(x, builder.fsub(shifted, splat(F32, _MAGIC, LANES)))
    value = splat(F32, _POWERS[-1], LANES)
    for power in reversed(_POWERS[:-1]):
        value = _fused(builder, value, fraction, splat(F32, power, LANES))
    integers = vector(I32, LANES)
    exponent = builder.shl(builder.bitcast(shifted, integers), splat(I32, 23, LANES))
    scaled = builder.bitcast(builder.add(builder.bitcast(value, integers), exponent), _VECTOR)
    # The low bits of a NaN are no exponent, and would make a number of it.
    scaled = builder.select(builder.fcmp_unordered("uno", x, x), x, scaled)
    return builder.select(below, splat(F32, 0.0, LANES), scaled)


def _place(builder: ir.IRBuilder, base: ir.Value, index: ir.Value) -> ir.Value:
    return offset(builder, base, builder.mul(index, I64(_BYTES)))


def _shifted(builder: ir.IRBuilder, place: ir.Value, scale: ir.Value, shift: ir.Value) -> ir.Value:
    """scale * score + shift in two roundings. Fused, the largest score would not meet its own negative, and beyond
    2**30 all weights would vanish."""
    return builder.fadd(builder.fmul(load(builder, _VECTOR, place, 4), scale), shift)


@intrinsic
def weigh_row(typingctx, scores, vectors, scale, logarithm):
    """Scores become weights: 2**(scale * score - l), with l the float32 at the address `logarithm`."""

    def codegen(context, builder, signature, arguments):
        scores, vectors, scale, logarithm = arguments
        scores, scale = builder.inttoptr(scores, POINTER), broadcast(builder, scale, LANES)
        value = load(builder, F32, builder.inttoptr(logarithm, POINTER), 4)
        shift = broadcast(builder, builder.fsub(F32(-0.0), value), LANES)

        def weigh(index: ir.Value, _: list) -> list:
            place = _place(builder, scores, index)
            store(builder, _exp2(builder, _shifted(builder, place, scale, shift)), place, 4)
            return []

        loop(builder, vectors, [], weigh)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32, types.int64), codegen


@intrinsic
def mask_row(typingctx, scores, count, scale, mask, logarithm):
    """Scores become scale * score + mask - l, with l the float32 at the address `logarithm`."""

    def codegen(context, builder, signature, arguments):
        scores, count, scale, mask, logarithm = arguments
        scores, mask, logarithm = (builder.inttoptr(a, POINTER) for a in (scores, mask, logarithm))
        scale = broadcast(builder, builder.fptrunc(scale, F32), LANES)
        access = Rows(builder, Float32, LANES)
        shift = broadcast(builder, load(builder, F32, logarithm, 4), LANES)

        def add(index: ir.Value, _: list) -> list:
            place, left = _place(builder, scores, index), builder.sub(count, builder.mul(index, I64(LANES)))
            there = builder.icmp_signed("<", lane_numbers(LANES), broadcast(builder, builder.trunc(left, I32), LANES))
            added = access.read(_place(builder, mask, index), None, there)
            sums = _fused(builder, load(builder, _VECTOR, place, 4), scale, added)
            store(builder, builder.fsub(sums, shift), place, 4)
            return []

        loop(builder, builder.sdiv(builder.add(count, I64(LANES - 1)), I64(LANES)), [], add)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64, types.int64, types.int64), codegen


@intrinsic
def slope_row(typingctx, weights, slopes, vectors, mean, scale):
    """Slopes become scale * weight * (slope - m), with m the float32 at the address `mean`."""

    def codegen(context, builder, signature, arguments):
        weights, slopes, vectors, mean, scale = arguments
        weights, slopes, mean = (builder.inttoptr(a, POINTER) for a in (weights, slopes, mean))
        mean = broadcast(builder, load(builder, F32, mean, 4), LANES)
        scale = broadcast(builder, scale, LANES)

        def step(index: ir.Value, _: list) -> list:
            place = _place(builder, slopes, index)
            difference = builder.fsub(load(builder, _VECTOR, place, 4), mean)
            weight = builder.fmul(load(builder, _VECTOR, _place(builder, weights, index), 4), scale)
            store(builder, builder.fmul(weight, difference), place, 4)
            return []

        loop(builder, vectors, [], step)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, types.float32), codegen


@intrinsic
def fill_row(typingctx, at, first, last, value):
    """Set the float32 numbers first to last - 1 of the row at an address."""

    def codegen(context, builder, signature, arguments):
        at, first, last, value = arguments
        start, count = builder.inttoptr(at, POINTER), builder.sub(last, first)

        def fill(index: ir.Value, _: list) -> list:
            store(builder, value, offset(builder, start, builder.mul(builder.add(first, index), I64(4))), 4)
            return []

        with builder.if_then(builder.icmp_signed(">", count, I64(0))):
            loop(builder, count, [], fill)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.float32), codegen
