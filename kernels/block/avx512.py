"""The instructions of AVX-512 that kernels name: emitted as they are, or as software that computes the same.

LLVM compiles its own operations on vectors of 64 bytes for any CPU. So this software and that of tiles (`amx.py`) are
all that a CPU with AVX2 needs for the kernels of every level (`cpu.EMULATION`). Intel's Software Developer's Manual
says what the instructions compute; the operands that only choose exceptions and rounding are not looked at.
"""

from __future__ import annotations

from ..runtime import cpu
from ..runtime.jit import ir
from . import emit as e

_WORDS, _NUMBERS = e.vector(e.I32), e.vector(e.F32)


def instruction(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Emit the instruction `name`, by LLVM's name of it."""
    if not cpu.is_emulated("avx512_bf16" if name.startswith("avx512bf16") else "avx512"):
        return e.call(builder, f"llvm.x86.{name}", result, *arguments)
    given = [builder.bitcast(a, _WORDS) if a.type == e.vector(e.BF16, 32) else a for a in arguments]
    kind = e.vector(e.I16, result.count) if result in (e.vector(e.BF16), e.vector(e.BF16, 32)) else result
    found = e.call_outlined(builder, f"emulated_{name}", kind, given, _EMULATED[name])
    return builder.bitcast(found, result) if kind != result else found


def flush_subnormals(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Zero of the same sign for subnormal numbers, as the instructions for bf16 read and write them."""
    bits = builder.bitcast(value, _WORDS)
    subnormal = builder.icmp_unsigned("<", builder.and_(bits, e.splat(e.I32, 0x7FFFFFFF)), e.splat(e.I32, 0x00800000))
    sign = builder.and_(bits, e.splat(e.I32, 0x80000000))
    return builder.bitcast(builder.select(subnormal, sign, bits), _NUMBERS)


def pairs_of(builder: ir.IRBuilder, words: ir.Value) -> list[ir.Value]:
    """The bf16 numbers in the lower and in the upper halves of words, as those instructions read them."""
    halves = builder.shl(words, e.splat(e.I32, 16)), builder.and_(words, e.splat(e.I32, 0xFFFF0000))
    return [flush_subnormals(builder, builder.bitcast(half, _NUMBERS)) for half in halves]


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a * b + c in one rounding, as those instructions write it."""
    return flush_subnormals(builder, e.call(builder, "llvm.fma.v16f32", _NUMBERS, a, b, c))


def _add_products(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    """VDPBF16PS: of each pair the odd number first."""
    (even_a, odd_a), (even_b, odd_b) = pairs_of(builder, a), pairs_of(builder, b)
    return fma(builder, even_a, even_b, fma(builder, odd_a, odd_b, flush_subnormals(builder, total)))


def _to_bf16(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """VCVTNEPS2BF16: rounds to nearest even; a NaN becomes quiet."""
    bits = builder.bitcast(flush_subnormals(builder, value), _WORDS)
    odd = builder.and_(builder.lshr(bits, e.splat(e.I32, 16)), e.splat(e.I32, 1))
    rounded = builder.add(builder.add(bits, e.splat(e.I32, 0x7FFF)), odd)
    quiet = builder.or_(bits, e.splat(e.I32, 0x00400000))
    words = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
    return builder.trunc(builder.lshr(words, e.splat(e.I32, 16)), e.vector(e.I16))


def _both_to_bf16(builder: ir.IRBuilder, second: ir.Value, first: ir.Value) -> ir.Value:
    """VCVTNE2PS2BF16: the last operand is the lower half of the result."""
    halves = [_to_bf16(builder, each) for each in (first, second)]
    return builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, 32), list(range(32))))


def _looked_up(builder: ir.IRBuilder, table: ir.Value, places: ir.Value) -> ir.Value:
    """VPERMB: bytes of a table of 64 at places modulo 64."""
    slot = builder.alloca(table.type)
    e.store(builder, table, slot, e.LINE)
    start = builder.bitcast(slot, e.I8.as_pointer())

    def byte(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        place = builder.and_(builder.extract_element(places, index), e.I8(63))
        value = e.load(builder, e.I8, e.offset(builder, start, builder.zext(place, e.I64)), 1)
        return [builder.insert_element(found[0], value, index)]

    return e.loop(builder, e.I64(64), [e.zero(table.type)], byte)[0]


def _add_products_of_bytes(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    """VPDPBUSD: to each word the products of the four bytes of a word without signs and of one with signs."""
    for byte in range(4):
        shift, up = e.splat(e.I32, 8 * byte), e.splat(e.I32, 24 - 8 * byte)
        factor = builder.and_(builder.lshr(a, shift), e.splat(e.I32, 0xFF))
        total = builder.add(total, builder.mul(factor, builder.ashr(builder.shl(b, up), e.splat(e.I32, 24))))
    return total


def _gather(
    builder: ir.IRBuilder, other: ir.Value, at: ir.Value, offsets: ir.Value, mask: ir.Value, _scale: ir.Value
) -> ir.Value:
    """VPGATHERDD of offsets in bytes: `other` where the mask has no bit."""
    places = e.pointers(builder, at, offsets, e.I32)
    return e.call(builder, "llvm.masked.gather.v16i32.v16p0", _WORDS, places, e.I32(1), mask, other)


def _scatter(
    builder: ir.IRBuilder, at: ir.Value, mask: ir.Value, offsets: ir.Value, value: ir.Value, _scale: ir.Value
) -> None:
    """VSCATTERDPS of offsets in bytes."""
    places = e.pointers(builder, at, offsets, e.F32)
    e.call(builder, "llvm.masked.scatter.v16f32.v16p0", e.VOID, value, places, e.I32(1), mask)


def _of_lanes(builder: ir.IRBuilder, name: str, x: ir.Value) -> ir.Value:
    return e.call(builder, f"llvm.{name}.{e.suffix(x.type.element, x.type.count)}", x.type, x)


def _reduce(builder: ir.IRBuilder, x: ir.Value, *_: ir.Value) -> ir.Value:
    """VREDUCE to no bits, rounding down: what x has beyond an integer; -0 of integers and of infinity."""
    floor, infinity = _of_lanes(builder, "floor", x), e.splat(x.type.element, float("inf"), x.type.count)
    infinite = builder.fcmp_ordered("==", _of_lanes(builder, "fabs", x), infinity)
    none = builder.or_(infinite, builder.fcmp_ordered("==", x, floor))
    return builder.select(none, e.splat(x.type.element, -0.0, x.type.count), builder.fsub(x, floor))


def _scale(builder: ir.IRBuilder, value: ir.Value, x: ir.Value, *_: ir.Value) -> ir.Value:
    """VSCALEF, of values near one: value * 2**floor(x), in three factors; only the last one may round."""
    element, lanes = value.type.element, value.type.count
    integer, shift, bias = (e.I32, 23, 127) if element == e.F32 else (e.I64, 52, 1023)
    exponent = _of_lanes(builder, "floor", x)
    for condition, limit in ((">", -2.0 * bias), ("<", 2.0 * bias)):
        limit = e.splat(element, limit, lanes)
        exponent = builder.select(builder.fcmp_ordered(condition, exponent, limit), exponent, limit)
    left = builder.fptosi(exponent, e.vector(integer, lanes))
    for factors in (3, 2, 1):
        some = builder.sdiv(left, e.splat(integer, factors, lanes))
        left = builder.sub(left, some)
        power = builder.shl(builder.add(some, e.splat(integer, bias, lanes)), e.splat(integer, shift, lanes))
        value = builder.fmul(value, builder.bitcast(power, value.type))
    return builder.select(builder.fcmp_unordered("uno", x, x), x, value)


_EMULATED = {
    "avx512.mask.gather.dpi.512": _gather, "avx512.mask.reduce.pd.512": _reduce, "avx512.mask.reduce.ps.512": _reduce,
    "avx512.mask.scalef.pd.512": _scale, "avx512.mask.scalef.ps.512": _scale, "avx512.mask.scatter.dps.512": _scatter,
    "avx512.permvar.qi.512": _looked_up, "avx512.vpdpbusd.512": _add_products_of_bytes,
    "avx512bf16.cvtne2ps2bf16.512": _both_to_bf16, "avx512bf16.cvtneps2bf16.512": _to_bf16,
    "avx512bf16.dpbf16ps.512": _add_products,
}  # fmt: skip
