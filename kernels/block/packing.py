"""Packing: an operand in memory becomes panels, rounded or split on the way.

A panel holds neighbouring lines (rows of A, columns of B) and runs along K in a microkernel's order. Its formats:

* `TilePanel`, for AMX: 32 lines, in steps of 32 along K. A step has two tiles of 16 lines of 64 bytes for each bf16
  part. In a tile of A, line i has the 32 values of row i. In a tile of B, line r has, for each of 16 columns, values 2r
  and 2r + 1 along K side by side. The smallest non-zero and the largest magnitude are found on the way.
* `VectorPanel`, for vector units: at each place along K, the values of all lines side by side; for operands in two
  parts two such rows, and the smallest non-zero and the largest magnitude.

Vectors are read along whichever direction is contiguous in memory, and transposed in registers where the panel wants
the other one. Measured on one core, n = 1024 to 4096: 17 to 20 cycles for 32 values to one part and 24 to 30 to two,
memory included (3.5 to 4 bytes a cycle written, twice that read); 9 in the L2 cache. Software prefetch gave nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..runtime.emitter import Pointer, Type, emitter
from ..runtime.jit import ir
from . import emit as e
from .avx512 import instruction
from .conversions import AsIs, convert_lanes, in_two_usual, round_lanes, rounded_for_tiles
from .sources import Reader
from .tags import field_class, instance


class OfA(NamedTuple):
    operand = "a"


class OfB(NamedTuple):
    operand = "b"


def to_bf16(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """32 values rounded to bf16, nearest even, as bit patterns: those of `first`, then those of `second`."""
    both = instruction(builder, "avx512bf16.cvtne2ps2bf16.512", e.vector(e.BF16, 32), second, first)
    return builder.bitcast(both, e.vector(e.I16, 32))


def _widen(builder: ir.IRBuilder, bf16: ir.Value, half: int) -> ir.Value:
    """16 of 32 bf16 values as float32."""
    chosen = builder.shuffle_vector(bf16, bf16, ir.Constant(e.vector(e.I32), list(range(16 * half, 16 * half + 16))))
    return builder.bitcast(builder.shl(builder.zext(chosen, e.vector(e.I32)), e.splat(e.I32, 16)), e.vector(e.F32))


def _in_turn(builder: ir.IRBuilder, bits: list[ir.Value]) -> ir.Value:
    """The upper halves of the words of two vectors: those of the first, then those of the second."""
    halves = [builder.bitcast(each, e.vector(e.I16, 32)) for each in bits]
    return builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, 32), list(range(1, 64, 2))))


def _by_pairs(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """The upper halves of the words of two vectors, side by side; the lower halves of the second are zero."""
    return builder.bitcast(builder.or_(builder.lshr(first, e.splat(e.I32, 16)), second), e.vector(e.I16, 32))


_UPPER = 0xFFFF0000


def cut_parts(
    builder: ir.IRBuilder, conversion: type, values: list[ir.Value], by_pairs: bool
) -> tuple[list[ir.Value], list[ir.Value]]:
    """The parts of two vectors of float32, cut off the bits of the values, which the parts hold exactly, and the last
    parts of both before they were cut. The first part is to nearest, ties away, where the conversion says so."""
    parts, last = [], conversion.tile_parts - 1
    values = [rounded_for_tiles(builder, value, conversion) for value in values]
    for part in range(last + 1):
        bits = [builder.bitcast(value, e.vector(e.I32)) for value in values]
        if conversion.nearest and part == 0:
            bits = [builder.add(each, e.splat(e.I32, 0x8000)) for each in bits]
        upper = bits if part == last else [builder.and_(each, e.splat(e.I32, _UPPER)) for each in bits]
        parts.append(_by_pairs(builder, bits[0], upper[1]) if by_pairs else _in_turn(builder, bits))
        if part < last:
            cuts = [builder.bitcast(each, e.vector(e.F32)) for each in upper]
            values = [builder.fsub(value, cut) for value, cut in zip(values, cuts, strict=True)]
    return parts, values


def parts_of(builder: ir.IRBuilder, conversion: type, values: list[ir.Value]) -> list[ir.Value]:
    """The bf16 parts of two vectors of float32, the largest part first. The hardware rounds to bf16 itself."""
    if conversion.cut:
        return cut_parts(builder, conversion, values, False)[0]
    if conversion.target != "bf16":
        values = [round_lanes(builder, value, conversion) for value in values]
    parts = []
    for remaining in reversed(range(conversion.tile_parts)):
        parts.append(to_bf16(builder, *values))
        if remaining:
            values = [builder.fsub(value, _widen(builder, parts[-1], half)) for half, value in enumerate(values)]
    return parts


def widened_range(builder: ir.IRBuilder, values: list[ir.Value], limits: list[ir.Value]) -> list[ir.Value]:
    """The limits (least non-zero magnitude less one, greatest magnitude, as bits) with the values taken in."""
    least, greatest = limits
    for value in values:
        magnitude = builder.and_(builder.bitcast(value, e.vector(e.I32)), e.splat(e.I32, 0x7FFFFFFF))
        greatest = e.call(builder, "llvm.umax.v16i32", e.vector(e.I32), greatest, magnitude)
        least = e.call(builder, "llvm.umin.v16i32", e.vector(e.I32), least, builder.sub(magnitude, e.splat(e.I32, 1)))
    return [least, greatest]


PAIRS = [lane // 2 + 16 * (lane % 2) for lane in range(32)]


def interleaved_parts(builder: ir.IRBuilder, conversion: type, values: list[ir.Value]) -> list[ir.Value]:
    """The bf16 parts of two places along K, as lines of a tile of B."""
    if conversion.cut:
        return cut_parts(builder, conversion, values, True)[0]
    pairs = ir.Constant(e.vector(e.I32, 32), PAIRS)
    return [builder.shuffle_vector(part, part, pairs) for part in parts_of(builder, conversion, values)]


class TilePanel(NamedTuple):
    """Panels of bf16 parts for AMX tiles."""

    operand: OfA | OfB
    conversion: AsIs
    lines = step = places = 32

    @staticmethod
    def k_bytes(tag: Any) -> int:
        """Bytes of a panel for each place along K."""
        return 64 * field_class(tag, "conversion").tile_parts

    @staticmethod
    def emit(builder: ir.IRBuilder, tag: Any, readers: Any, depth: ir.Value, target: ir.Value, limits_at: ir.Value):
        step_bytes = 32 * TilePanel.k_bytes(tag)
        tiles = builder.shl(builder.ashr(builder.add(depth, e.I64(31)), e.I64(5)), e.I64(1))

        def one_tile(index: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
            step, half = builder.lshr(index, e.I64(1)), builder.and_(index, e.I64(1))
            reader = readers(builder.shl(half, e.I64(4)), builder.shl(step, e.I64(5)))
            begin = builder.add(builder.mul(step, e.I64(step_bytes)), builder.mul(half, e.I64(e.TILE)))
            return _pack_tile(builder, tag, reader, e.offset(builder, target, begin), limits)

        updated_limits(builder, limits_at, lambda limits: e.loop(builder, tiles, limits, one_tile))


def updated_limits(builder: ir.IRBuilder, at: ir.Value, found: Callable[[list[ir.Value]], list[ir.Value]]) -> None:
    """Replace the limits in memory by what is found from them on."""
    slots = [e.offset(builder, at, e.LINE * slot) for slot in (0, 1)]
    limits = [e.load(builder, e.vector(e.I32), slot, 4) for slot in slots]
    for slot, value in zip(slots, found(limits), strict=True):
        e.store(builder, value, slot, 4)


def _pack_tile(builder: ir.IRBuilder, tag: Any, reader: Reader, target: ir.Value, limits: list) -> list[ir.Value]:
    """Convert one tile of every part to `target`, the parts two tiles apart; return the limits."""
    operand, conversion = field_class(tag, "operand").operand, field_class(tag, "conversion")
    if reader.element.stored is e.I16 and conversion.target == "bf16" and reader.unit:
        return _copy_tile(builder, operand, reader, target, limits)

    def convert(index: ir.Value, limits: list) -> tuple[list[ir.Value], list[ir.Value]]:
        """The parts of line `index` along K, or of places 2 index and 2 index + 1 across the lines."""
        if reader.along_k:
            values = [reader.along(index, 0), reader.along(index, 16)]
            parts = parts_of(builder, conversion, values)
        else:
            k = builder.shl(index, e.I64(1))
            values = [reader.across(k), reader.across(builder.add(k, e.I64(1)))]
            parts = interleaved_parts(builder, conversion, values)
        found = [builder.bitcast(part, e.vector(e.I32)) for part in parts]
        return found, widened_range(builder, values, limits)

    def put(line: ir.Value, part: int, at: ir.Value) -> None:
        e.store(builder, line, e.offset(builder, at, 2 * e.TILE * part), e.LINE)

    def one_line(index: ir.Value, limits: list) -> list[ir.Value]:
        parts, limits = convert(index, limits)
        for part, line in enumerate(parts):
            put(line, part, e.offset(builder, target, builder.mul(index, e.I64(e.LINE))))
        return limits

    if reader.along_k == (operand == "a"):
        return e.loop(builder, e.I64(16), limits, one_line)
    lines = []
    for index in range(16):
        parts, limits = convert(e.I64(index), limits)
        lines.append(parts)
    for part, square in enumerate(zip(*lines, strict=True)):
        for index, line in enumerate(e.transpose(builder, list(square))):
            put(line, part, e.offset(builder, target, e.LINE * index))
    return limits


def _copy_tile(builder: ir.IRBuilder, operand: str, reader: Reader, target: ir.Value, limits: list) -> list[ir.Value]:
    """`_pack_tile` of bfloat16 values, which tiles take as they are: 32 in a vector, and no conversion."""
    bits = e.vector(e.I16, 32)

    def line(index: ir.Value) -> ir.Value:
        """Line `index` along K, or places 2 index and 2 index + 1 across the lines."""
        if reader.along_k:
            return reader.load_stored(index, 32)
        k = builder.shl(index, e.I64(1))
        pair = [reader.load_stored(each, 16) for each in (k, builder.add(k, e.I64(1)))]
        return builder.shuffle_vector(*pair, ir.Constant(e.vector(e.I32, 32), PAIRS))

    def widen_limits(value: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        magnitude = builder.and_(value, e.splat(e.I16, 0x7FFF, 32))
        less = builder.sub(magnitude, e.splat(e.I16, 1, 32))
        least = e.call(builder, "llvm.umin.v32i16", bits, found[0], less)
        return [least, e.call(builder, "llvm.umax.v32i16", bits, found[1], magnitude)]

    def put(value: ir.Value, at: ir.Value) -> None:
        e.store(builder, builder.bitcast(value, e.vector(e.I32)), at, e.LINE)

    found = [e.splat(e.I16, -1, 32), e.splat(e.I16, 0, 32)]
    if reader.along_k == (operand == "a"):

        def one_line(index: ir.Value, found: list) -> list[ir.Value]:
            value = line(index)
            put(value, e.offset(builder, target, builder.mul(index, e.I64(e.LINE))))
            return widen_limits(value, found)

        found = e.loop(builder, e.I64(16), found, one_line)
    else:
        lines = [line(e.I64(index)) for index in range(16)]
        for value in lines:
            found = widen_limits(value, found)
        for index, value in enumerate(e.transpose(builder, [builder.bitcast(each, e.vector(e.I32)) for each in lines])):
            put(value, e.offset(builder, target, e.LINE * index))
    return joined_limits(builder, found, limits)


def joined_limits(builder: ir.IRBuilder, found: list[ir.Value], limits: list[ir.Value]) -> list[ir.Value]:
    """The limits with those of bfloat16 values taken in, whose bits are the upper half of a float32's."""
    least, greatest = limits
    for half in (0, 1):
        chosen = ir.Constant(e.vector(e.I32), list(range(16 * half, 16 * half + 16)))
        low, high = (builder.zext(builder.shuffle_vector(each, each, chosen), e.vector(e.I32)) for each in found)
        up = builder.shl(builder.add(low, e.splat(e.I32, 1)), e.splat(e.I32, 16))
        least = e.call(builder, "llvm.umin.v16i32", e.vector(e.I32), least, builder.sub(up, e.splat(e.I32, 1)))
        greatest = e.call(builder, "llvm.umax.v16i32", e.vector(e.I32), greatest, builder.shl(high, e.splat(e.I32, 16)))
    return [least, greatest]


class VectorPanel(NamedTuple):
    """Panels of float32 or float64 for the microkernel in field `kernel`, whose class says how many lines there are."""

    operand: OfA | OfB
    conversion: AsIs
    kernel: Any
    step = 1

    @staticmethod
    def lines(tag: Any) -> int:
        kernel = field_class(tag, "kernel")
        return kernel.mr if field_class(tag, "operand").operand == "a" else kernel.nr

    @staticmethod
    def places(tag: Any) -> int:
        """Along K that are read over all lines before the next ones, each from a page of its own: of 16 a Zen 3 does
        not fetch ahead. Milliseconds of 8, 32, 64, 256 rows with 4096 x 4096 on AVX2 by 16 and by 8: 7.6, 6.0, 11.9,
        9.9, 17.3, 15.3, 50.8, 48.3 (and without masks where all lines exist 5.1, 9.5, 14.5, 48.0)."""
        kernel = field_class(tag, "kernel")
        return 8 if kernel.lanes * kernel.size <= 32 else 16

    @staticmethod
    def k_bytes(tag: Any) -> int:
        kernel = field_class(tag, "kernel")
        return kernel.a_bytes if field_class(tag, "operand").operand == "a" else kernel.b_bytes

    @staticmethod
    def emit(builder: ir.IRBuilder, tag: Any, readers: Any, depth: ir.Value, target: ir.Value, limits_at: ir.Value):
        working = readers.working
        lanes, size = (8, 8) if working is e.F64 else (16, 4)
        conversion, operand = field_class(tag, "conversion"), field_class(tag, "operand").operand
        width, in_two = VectorPanel.k_bytes(tag) // conversion.vector_parts, conversion.vector_parts == 2

        def put(value: ir.Value, k: ir.Value, first: int) -> None:
            at = e.offset(builder, target, builder.mul(k, e.I64(width * conversion.vector_parts)))
            kept = min(lanes, width // size - first)
            rows = factors_in_two(builder, operand, value) if in_two else [convert_lanes(builder, value, conversion)]
            for row, number in enumerate(rows):
                if kept < lanes:
                    number = builder.shuffle_vector(
                        number, number, ir.Constant(e.vector(e.I32, kept), list(range(kept)))
                    )
                e.store(builder, number, e.offset(builder, at, row * width + first * size), size)

        def widen_limits(values: list[ir.Value], limits: list[ir.Value]) -> list[ir.Value]:
            return widened_range(builder, values, limits) if in_two else []

        def across(k: ir.Value, limits: list, every_line: bool = False) -> list:
            for first in range(0, width // size, lanes):
                reader = readers(e.I64(first), k)
                value = reader.whole(0) if every_line else reader.across(e.I64(0))
                limits = widen_limits([value], limits)
                put(value, k, first)
            return limits

        def along(index: ir.Value, limits: list) -> list:
            k = builder.mul(index, e.I64(lanes))
            for first in range(0, width // size, lanes):
                reader = readers(e.I64(first), k)
                values = [reader.along(e.I64(line)) for line in range(lanes)]
                limits = widen_limits(values, limits)
                for place, value in enumerate(e.transpose(builder, values)):
                    with builder.if_then(builder.icmp_signed("<", builder.add(k, e.I64(place)), depth), likely=True):
                        put(value, builder.add(k, e.I64(place)), first)
            return limits

        def whole(limits: list) -> list:
            if not readers.along_k and readers.unit and width // size % lanes == 0:  # no masks where all lines exist
                return e.either(
                    builder,
                    builder.icmp_signed(">=", readers.lines, e.I64(width // size)),
                    lambda: e.loop(builder, depth, limits, lambda k, limits: across(k, limits, True)),
                    lambda: e.loop(builder, depth, limits, across),
                )
            if not readers.along_k:
                return e.loop(builder, depth, limits, across)
            return e.loop(builder, builder.sdiv(builder.add(depth, e.I64(lanes - 1)), e.I64(lanes)), limits, along)

        if in_two:
            updated_limits(builder, limits_at, whole)
        else:
            whole([])


def factors_in_two(builder: ir.IRBuilder, operand: str, value: ir.Value) -> list[ir.Value]:
    """What values along K become for operands in two parts: those of A ("a") and of B are multiplied in pairs."""
    first, second = in_two_usual(builder, value)
    if operand == "a":
        return [first, second]
    return [builder.fadd(first, second), first]


class _Readers:
    """Makes a reader for the square of a panel that begins at (line, k)."""

    def __init__(self, builder: ir.IRBuilder, source: Any, at, strides, lines, depth) -> None:
        self.builder, self.source, self.at, self.lines, self.depth = builder, source, at, lines, depth
        self.strides = strides
        self.working = field_class(source, "element").working
        self.along_k = field_class(source, "order").along_k
        self.unit = field_class(source, "spacing").unit

    def __call__(self, line: ir.Value, k: ir.Value) -> Reader:
        builder, (line_stride, k_stride) = self.builder, self.strides
        at = e.offset(builder, self.at, builder.add(builder.mul(line, line_stride), builder.mul(k, k_stride)))
        left = builder.sub(self.lines, line), builder.sub(self.depth, k)
        return Reader(builder, self.source, at, self.strides, *left)


@emitter
def pack_panel(
    builder, source: Type, panel: Type, at: Pointer, line_stride, k_stride, lines, depth, target: Pointer,
    limits_at: Pointer,
) -> None:  # fmt: skip
    """Pack `depth` places along K of one panel, from the address `at` on, where `lines` lines exist; strides in bytes.

    `limits` is the address of 2 x 16 uint32, which panels that look for magnitudes update.
    """
    readers = _Readers(builder, source, at, (line_stride, k_stride), lines, depth)
    instance(panel).emit(builder, panel, readers, depth, target, limits_at)
