"""How operands are rounded, or split in parts, before they are multiplied: one tag for each precision."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..runtime import cpu
from ..runtime.jit import ir
from .avx512 import instruction
from .emit import F16, F32, I8, I16, I32, call, either, splat, vector
from .tags import tag_class


class AsIs(NamedTuple):
    """How operands are rounded (`target`, `rounding`) and into how many bf16 parts tiles take them, and vector units.

    Parts that hold a value exactly are cut off its bits (`cut`), which takes two thirds of the instructions. Where not
    (nearly) all products of parts are summed, the first one is to nearest (`nearest`), ties away: the others are half
    as large, and leave less to the products left out. Two parts that do not hold it are both to nearest. Tiles of small
    products pair values that lie 16 apart along K where the conversion says so (`apart`), neighbours otherwise.
    """

    target = None
    rounding = None
    tile_parts = vector_parts = 1
    cut = nearest = apart = False
    paired = in_place = False
    """Whether vector units take values in twos, side by side in a word (`pairs.Avx512Pairs`); and whether these lie so
    anyway, or come from two arrays."""

    @staticmethod
    def arrays_each(tag: Any) -> int:
        """Arrays whose values a word has, given Numba's type of the tag."""
        return 2 if tag.instance_class.paired and not tag.instance_class.in_place else 1


ToBf16 = tag_class("ToBf16", __name__, AsIs, target="bf16", rounding="rne")
InTwo = tag_class("InTwo", __name__, AsIs, tile_parts=2, vector_parts=2)
PairsOfBf16 = tag_class("PairsOfBf16", __name__, ToBf16, paired=True, walk=((0, 0),))
"""For vector units that multiply pairs of bf16. `walk` lists the products: a part of A, and the part of B it meets."""

PairsInTwo = tag_class("PairsInTwo", __name__, InTwo, paired=True, walk=((1, 0), (0, 0), (0, 1)))
PositionsOfBf16 = tag_class("PositionsOfBf16", __name__, PairsOfBf16, in_place=True)
"""Where neighbours along K lie side by side in memory."""

PositionsInTwo = tag_class("PositionsInTwo", __name__, PairsInTwo, in_place=True)
InThree = tag_class("InThree", __name__, AsIs, tile_parts=3, cut=True, nearest=True)
CutInThree = tag_class("CutInThree", __name__, InThree, nearest=False)
ToTf32 = tag_class("ToTf32", __name__, AsIs, target="tf32", rounding="rna", tile_parts=2, cut=True)
ToTf32Even = tag_class("ToTf32Even", __name__, ToTf32, rounding="rne")
ToTf32Zero = tag_class("ToTf32Zero", __name__, ToTf32, rounding="rz")
InTwoTf32 = tag_class("InTwoTf32", __name__, AsIs, target="tf32x3", tile_parts=3, cut=True, nearest=True, apart=True)
"""Rounded to the sum of two tf32 parts, which three bf16 parts hold exactly."""

ToFp16 = tag_class("ToFp16", __name__, AsIs, target="fp16", tile_parts=2, cut=True)


CONVERSIONS = {
    ("ieee", None): AsIs(), ("bf16", None): ToBf16(), ("fp16", None): ToFp16(), ("tf32", "rna"): ToTf32(),
    ("tf32", "rne"): ToTf32Even(), ("tf32", "rz"): ToTf32Zero(), ("bf16x3", None): InTwo(),
    ("tf32x3", None): InTwoTf32(), ("bf16x6", None): InThree(), ("bf16x9", None): CutInThree(),
}  # fmt: skip
"""How operands are converted, by precision and (for tf32) rounding."""

PAIRED = {"bf16": PairsOfBf16(), "bf16x3": PairsInTwo()}
PAIRED_IN_PLACE = {"bf16": PositionsOfBf16(), "bf16x3": PositionsInTwo()}
"""The same for vector units that multiply pairs of bf16, by precision."""


def _round_bits(builder: ir.IRBuilder, value: ir.Value, rounding: str, drop: int) -> ir.Value:
    """Float32 values with the `drop` lowest bits of the significand rounded away. An Inf stays one; of a NaN the result
    may be anything, even a zero."""
    lanes = value.type.count
    bits = builder.bitcast(value, vector(I32, lanes))
    if rounding == "rna":
        bits = builder.add(bits, splat(I32, 1 << (drop - 1), lanes))
    elif rounding == "rne":
        odd = builder.and_(builder.lshr(bits, splat(I32, drop, lanes)), splat(I32, 1, lanes))
        bits = builder.add(builder.add(bits, splat(I32, (1 << (drop - 1)) - 1, lanes)), odd)
    return builder.bitcast(builder.and_(bits, splat(I32, 0x100000000 - (1 << drop), lanes)), value.type)


def round_lanes(builder: ir.IRBuilder, value: ir.Value, conversion: type) -> ir.Value:
    """Float32 values rounded to the conversion's target; NaN as `_round_bits` leaves it."""
    if conversion.target == "fp16":
        lanes = value.type.count
        return builder.fpext(builder.fptrunc(value, vector(F16, lanes)), value.type)
    if conversion.target == "tf32x3":
        first = _round_bits(builder, value, "rna", 13)
        return builder.fadd(first, _round_bits(builder, builder.fsub(value, first), "rna", 13))
    drop = {"tf32": 13, "bf16": 16}.get(conversion.target)
    return value if drop is None else _round_bits(builder, value, conversion.rounding, drop)


def rounded_for_tiles(builder: ir.IRBuilder, value: ir.Value, conversion: type) -> ir.Value:
    """`round_lanes` of what tiles are given: for tf32x3 by AVX512_VBMI and AVX512_VNNI where the CPU has them.

    What the first part leaves has up to 12 bits. Those that have 12, where bits 11 and 12 of the value differ, lose the
    last one, away from the first part: up, if bit 11 is set. The three bits, which turning a half brings into its lower
    six, are looked up in a table of 64 bytes, and the byte is added: three operations where `round_lanes` takes six.
    """
    if conversion.target != "tf32x3" or not cpu.looks_up_bytes():
        return round_lanes(builder, value, conversion)
    bits, halves = builder.bitcast(value, vector(I32)), vector(I16, 32)
    half = builder.bitcast(value, halves)
    turned = call(builder, "llvm.fshl.v32i16", halves, half, half, splat(I16, 5, 32))
    table = ir.Constant(vector(I8, 64), [_change(index & 1, index >> 1 & 1, index >> 5) for index in range(64)])
    change = instruction(builder, "avx512.permvar.qi.512", table.type, table, builder.bitcast(turned, table.type))
    # Adds to a word the products of its four bytes: with 1, 0, 0 and 0.
    words = bits, splat(I32, 1), builder.bitcast(change, vector(I32))
    both = instruction(builder, "avx512.vpdpbusd.512", vector(I32), *words)
    return builder.bitcast(both, value.type)


def _change(bit_11: int, bit_12: int, bit_0: int) -> int:
    """Units in the last place by which the sum of two tf32 parts differs from a value with these bits."""
    return bit_0 * (bit_11 - bit_12)


def convert_lanes(builder: ir.IRBuilder, value: ir.Value, conversion: type) -> ir.Value:
    """Values rounded to the conversion's target, for vector units; NaN stays one."""
    if conversion.target is None:
        return value
    if conversion.target == "tf32x3":
        return _in_two_tf32(builder, value)
    # In words, so that LLVM has the last step of rounding leave NaN as they are.
    both, kind = (round_lanes(builder, value, conversion), value), vector(I32, value.type.count)
    words = [builder.bitcast(each, kind) for each in both]
    return builder.bitcast(builder.select(builder.fcmp_ordered("ord", value, value), *words), value.type)


def _in_two_tf32(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Float32 values, whatever their size, as the sums of their two tf32 parts."""
    lanes = value.type.count
    magnitude = builder.and_(builder.bitcast(value, vector(I32, lanes)), splat(I32, 0x7FFFFFFF, lanes))
    from_least = builder.sub(magnitude, splat(I32, _LEAST_USUAL, lanes))
    unusual = builder.icmp_unsigned(">=", from_least, splat(I32, _LEAST_TRUNCATED - _LEAST_USUAL, lanes))
    unusual = builder.and_(unusual, builder.icmp_unsigned("!=", magnitude, splat(I32, 0, lanes)))
    some = builder.icmp_unsigned("!=", builder.bitcast(unusual, ir.IntType(lanes)), ir.IntType(lanes)(0))
    [parts] = either(
        builder,
        some,
        lambda: [_of_any_size(builder, value, magnitude)],
        lambda: [round_lanes(builder, value, InTwoTf32)],
    )
    return parts


def in_two_bf16(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """Float32 values as two bf16 parts, whatever is small; next to the largest float, and of Inf and NaN, the parts are
    not finite."""
    lanes = value.type.count
    magnitude = builder.and_(builder.bitcast(value, vector(I32, lanes)), splat(I32, 0x7FFFFFFF, lanes))
    small = builder.icmp_unsigned(
        "<", builder.sub(magnitude, splat(I32, 1, lanes)), splat(I32, _LEAST_USUAL - 1, lanes)
    )
    some = builder.icmp_unsigned("!=", builder.bitcast(small, ir.IntType(lanes)), ir.IntType(lanes)(0))

    def of_any_size() -> list[ir.Value]:
        one = splat(F32, 1.0, lanes)
        up, down = (builder.select(small, splat(F32, factor, lanes), one) for factor in (2.0**80, 2.0**-80))
        return [builder.fmul(part, down) for part in in_two_usual(builder, builder.fmul(value, up))]

    return either(builder, some, of_any_size, lambda: in_two_usual(builder, value))


def in_two_usual(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """`in_two_bf16` of values whose parts are normal numbers."""
    first = _round_bits(builder, value, "rne", 16)
    return [first, _round_bits(builder, builder.fsub(value, first), "rne", 16)]


_LEAST_USUAL, _LEAST_TRUNCATED = (127 - 60) << 23, 0x7F7FF000
"""Bits of floats whose tf32 parts are normal numbers, and of the least one whose first part to nearest would be Inf."""


def _of_any_size(builder: ir.IRBuilder, value: ir.Value, magnitude: ir.Value) -> ir.Value:
    """`_in_two_tf32`: small values are split far from where floats become coarser, next to the largest float parts are
    truncated, and Inf and NaN stay."""
    lanes = value.type.count
    one, small = splat(F32, 1.0, lanes), builder.icmp_unsigned("<", magnitude, splat(I32, _LEAST_USUAL, lanes))
    scaled = builder.fmul(value, builder.select(small, splat(F32, 2.0**80, lanes), one))
    near = builder.fmul(
        round_lanes(builder, scaled, InTwoTf32), builder.select(small, splat(F32, 2.0**-80, lanes), one)
    )
    first = _round_bits(builder, value, "rz", 13)
    below = builder.fadd(first, _round_bits(builder, builder.fsub(value, first), "rz", 13))
    large = builder.icmp_unsigned(">=", magnitude, splat(I32, _LEAST_TRUNCATED, lanes))
    special = builder.icmp_unsigned(">=", magnitude, splat(I32, 0x7F800000, lanes))
    return builder.select(special, value, builder.select(large, below, near))
