"""Operands of small products as tiles of AMX, in memory: what `small_tiles.py` multiplies.

Tiles hold at A: 16 rows of 32 values; at B: 16 pairs of rows of 16 columns. Seen as 32-bit words both are 16 lines of
16 pairs along K, one the transpose of the other, so that an operand that lies the other way round is transposed in
registers. Pairs are neighbours along K, or values that lie 16 apart (`AsIs.apart`): of a line of A two vectors then
become pairs without a shuffle (three operations in place of two).
"""

from __future__ import annotations

from typing import NamedTuple

from ..block.emit import (
    F16,
    F32,
    I1,
    I16,
    I32,
    I64,
    LINE,
    POINTER,
    TILE,
    broadcast,
    call,
    either,
    lane_numbers,
    load,
    loop,
    masked_load,
    offset,
    prefetch,
    splat,
    store,
    transpose,
    vector,
    zero,
)
from ..block.packing import PAIRS, cut_parts, interleaved_parts, parts_of
from ..block.tags import field_class
from ..runtime.jit import intrinsic, ir, types


class Exactly(NamedTuple):
    """The least and the greatest magnitude are found."""

    rough = False


class Roughly(NamedTuple):
    """Whether all magnitudes but zero lie within 2**-49 and 2**15, where no precision refuses a product: three
    instructions for 16 values in place of four, and two for those that are cut. Where they do not, the product is done
    again `Exactly`."""

    rough = True


_LEAST, _OUTSIDE = (127 - 49) << 23, 0x60000000
"""Bits of 2**-49. Of magnitudes from there on to 64 binades further, less these, the two upper bits are zero."""

_UPPER_OUTSIDE, _LOWER = _OUTSIDE | _OUTSIDE >> 16, 0xFFFF


class _Lines:
    """Emits the reading of 32 values along a contiguous line as bf16 parts, and remembers magnitudes.

    Numbers of bfloat16 operands are their own only part. Of others the parts are those of the conversion. As bfloat16
    or rounded to it, the greatest magnitude does not matter, and the least one is found exactly.
    """

    def __init__(self, builder: ir.IRBuilder, leaf: types.Type) -> None:
        self.builder = builder
        self.conversion, self.element = field_class(leaf, "conversion"), field_class(leaf, "element")
        self.raw = self.element.stored is I16
        self.parts = 1 if self.raw else self.conversion.tile_parts
        self.greatest = not self.raw and self.conversion.target != "bf16"
        self.rough = self.greatest and field_class(leaf, "looks").rough
        # Looked at are the first parts, two in a word. tf32 may have rounded a NaN to zero.
        self.by_parts = self.rough and self.conversion.cut and self.conversion.rounding is None
        self.apart = not self.raw and self.conversion.apart
        self.fetches = field_class(leaf, "ahead").fetches

    def pair_places(self, pair: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Which places along K a pair is made of."""
        if self.apart:
            return pair, self.builder.add(pair, I64(16))
        first = self.builder.shl(pair, I64(1))
        return first, self.builder.add(first, I64(1))

    def masks(self, left: ir.Value) -> list[ir.Value]:
        """Which of two times 16 lanes exist where `left` values do."""
        least = self.builder.select(self.builder.icmp_signed("<", left, I64(64)), left, I64(64))
        left = broadcast(self.builder, self.builder.trunc(least, I32))
        return [self.builder.icmp_signed("<", lane_numbers(16, first), left) for first in (0, 16)]

    def read(self, at: ir.Value, mask: ir.Value | None, ahead: ir.Value) -> ir.Value:
        """16 stored values, zero where the mask says so; all without one. Those so many bytes `ahead` come soon."""
        if self.fetches:
            prefetch(self.builder, offset(self.builder, at, ahead))
        kind, size = self.element.stored, self.element.size
        if mask is None:
            return load(self.builder, vector(kind), at, size)
        return masked_load(self.builder, vector(kind), at, size, mask)

    def split(
        self, halves: list[ir.Value], limits: list[ir.Value], by_pairs: bool
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Two stored vectors as parts (32 bf16 each, of both vectors in turn or side by side), and the limits with them
        taken in."""
        builder = self.builder
        if self.raw:
            least, greatest = limits
            order = PAIRS if by_pairs else list(range(32))
            both = builder.shuffle_vector(*halves, ir.Constant(vector(I32, 32), order))
            magnitude = builder.and_(both, splat(I16, 0x7FFF, 32))
            least = call(
                builder, "llvm.umin.v32i16", vector(I16, 32), least, builder.sub(magnitude, splat(I16, 1, 32))
            )  # fmt: skip
            return [both], [least, greatest]
        if self.element.stored is F16:
            halves = [builder.fpext(half, vector(F32)) for half in halves]
        if self.by_parts:
            words, rest = cut_parts(builder, self.conversion, halves, by_pairs)
            return words, self._seen_in_parts(words[0], rest, limits)
        for half in halves:
            limits = self._widen_limits(builder.bitcast(half, vector(I32)), limits)
        parts = interleaved_parts if by_pairs else parts_of
        return parts(builder, self.conversion, halves), limits

    def _widen_limits(self, bits: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        """The limits with 16 float32 taken in."""
        builder, magnitude = self.builder, self.builder.and_(bits, splat(I32, 0x7FFFFFFF))
        if self.rough:
            some = builder.icmp_unsigned("!=", magnitude, zero(vector(I32)))
            above = builder.select(some, builder.sub(bits, splat(I32, _LEAST)), zero(vector(I32)))
            return [builder.or_(limits[0], above)]
        least, greatest = limits
        if self.greatest:
            greatest = call(builder, "llvm.umax.v16i32", vector(I32), greatest, magnitude)
        least = call(builder, "llvm.umin.v16i32", vector(I32), least, builder.sub(magnitude, splat(I32, 1)))
        return [least, greatest]

    def _seen_in_parts(self, first: ir.Value, rest: list[ir.Value], limits: list[ir.Value]) -> list[ir.Value]:
        """The rough limits with the first parts of 32 values included; parts of values next to zero are zero: what was
        cut off the last part, zero otherwise, tells them from zeros."""
        builder, kind = self.builder, vector(I16, 32)
        some = builder.icmp_unsigned("!=", builder.and_(first, splat(I16, 0x7FFF, 32)), zero(kind))
        above = builder.select(some, builder.sub(first, splat(I16, _LEAST >> 16, 32)), zero(kind))
        parts = builder.or_(builder.bitcast(limits[0], kind), above)
        low, high = (builder.bitcast(each, vector(I32)) for each in rest)
        return [builder.bitcast(parts, vector(I32)), builder.or_(limits[1], builder.or_(low, high))]

    def first_limits(self, at: ir.Value) -> list[ir.Value]:
        """What was found so far, as `split` goes on with it."""
        if self.rough:
            return [zero(vector(I32))] * (2 if self.by_parts else 1)
        if self.raw:
            return [splat(I16, 0xFFFF, 32), zero(vector(I32))]
        return [load(self.builder, vector(I32), offset(self.builder, at, LINE * line), LINE) for line in (0, 1)]

    def keep_limits(self, at: ir.Value, limits: list[ir.Value]) -> None:
        """Write what was found: of bfloat16 bits of the upper half of a float32; a rough look leaves a least magnitude
        below all others where some are outside."""
        builder = self.builder
        if self.rough:
            outside = builder.and_(limits[0], splat(I32, _UPPER_OUTSIDE if self.by_parts else _OUTSIDE))
            if self.by_parts:
                outside = builder.or_(outside, builder.and_(limits[1], splat(I32, _LOWER)))
            inside, before = (
                builder.icmp_unsigned("==", outside, zero(vector(I32))),
                load(builder, vector(I32), at, LINE),
            )
            store(builder, builder.select(inside, before, zero(vector(I32))), at, LINE)
            return
        if self.raw:
            least = limits[0]
            before = load(builder, vector(I32), at, LINE)
            for half in (0, 1):
                lanes = ir.Constant(vector(I32), list(range(16 * half, 16 * half + 16)))
                wide = builder.zext(builder.shuffle_vector(least, least, lanes), vector(I32))
                bits = builder.sub(builder.shl(builder.add(wide, splat(I32, 1)), splat(I32, 16)), splat(I32, 1))
                before = call(builder, "llvm.umin.v16i32", vector(I32), before, bits)
            store(builder, before, at, LINE)
            return
        for line, found in enumerate(limits):
            store(builder, found, offset(builder, at, LINE * line), LINE)


@intrinsic(prefer_literal=True)
def to_tiles(typingctx, leaf, operand, at, stride, lines, depth, target, limits, ahead):  # noqa: C901 (one block)
    """Write an operand (literally "a" or "b") as tiles: by steps along K, in each by 16 lines, each with its parts.

    `lines` and `depth` are its sizes, `stride` the bytes between contiguous lines, `ahead` those to the next operand.
    """
    along_k = field_class(leaf, f"order_{operand.literal_value}").along_k
    wanted_along_k = operand.literal_value == "a"

    def codegen(context, builder, signature, arguments):  # noqa: C901
        _, _, at, stride, lines, depth, target, limits_at, ahead = arguments
        at, target, limits_at = (builder.inttoptr(x, POINTER) for x in (at, target, limits_at))
        how = _Lines(builder, leaf)
        size, parts = how.element.size, how.parts
        unrolled = 16 if parts == 1 else 1  # of two and three parts 16 lines at once take a fifth to two fifths longer
        groups = builder.ashr(builder.add(lines, I64(15)), I64(4))
        steps = builder.ashr(builder.add(depth, I64(31)), I64(5))

        def one_line(place: ir.Value, line: ir.Value, masks: list) -> list:
            """16 pairs of values along K of one line, whose values begin at `place`."""
            here = offset(builder, place, builder.mul(line, stride))
            return [how.read(offset(builder, here, 16 * half * size), masks[half], ahead) for half in (0, 1)]

        def one_pair(place: ir.Value, pair: ir.Value, masks: list, left: ir.Value | None) -> list:
            """A pair along K of 16 lines, which lie side by side from `place` on."""
            first, second = how.pair_places(pair)
            mask, rows = masks[0], [offset(builder, place, builder.mul(k, stride)) for k in (first, second)]
            if left is not None:
                mask = builder.select(builder.icmp_signed("<", second, left), mask, zero(vector(I1)))
            return [how.read(rows[0], masks[0], ahead), how.read(rows[1], mask, ahead)]

        def put(halves: list, limits: list, tile: ir.Value, index: ir.Value) -> list:
            words, limits = how.split(halves, limits, not along_k or how.apart)
            for part, word in enumerate(words):
                place = offset(builder, offset(builder, tile, part * TILE), builder.shl(index, I64(6)))
                store(builder, word, place, LINE)
            return limits

        def one_tile(step: ir.Value, group: ir.Value, limits: list) -> list:
            first_line, first_k = builder.shl(group, I64(4)), builder.shl(step, I64(5))
            tile = builder.mul(builder.add(builder.mul(step, groups), group), I64(parts * TILE))
            tile = offset(builder, target, tile)
            across, down = (first_k, first_line) if along_k else (first_line, first_k)
            place = offset(builder, at, builder.add(builder.mul(down, stride), builder.mul(across, I64(size))))
            lines_here, depth_here = builder.sub(lines, first_line), builder.sub(depth, first_k)
            whole = builder.and_(
                builder.icmp_signed(">=", lines_here, I64(16)), builder.icmp_signed(">=", depth_here, I64(32))
            )

            def some(first: ir.Value, found: list) -> list:
                for index in range(unrolled):
                    at_once = builder.add(first, I64(index))
                    if along_k:
                        halves = one_line(place, at_once, [None, None])
                    else:
                        halves = one_pair(place, at_once, [None], None)
                    found = put(halves, found, tile, at_once)
                return found

            def all_of_it() -> list:
                if unrolled == 16:
                    return some(I64(0), limits)
                return loop(builder, I64(16), limits, some)

            def what_exists() -> list:
                masks, count = how.masks(depth_here if along_k else lines_here), lines_here
                if not along_k:
                    count = depth_here if how.apart else builder.ashr(builder.add(depth_here, I64(1)), I64(1))
                count = builder.select(builder.icmp_signed("<", count, I64(16)), count, I64(16))
                for line in range(0 if along_k == wanted_along_k else 16 * parts):  # the last product's, transposed
                    store(builder, zero(vector(I32)), offset(builder, tile, LINE * line), LINE)

                def by_lines(index: ir.Value, found: list) -> list:
                    halves = one_line(place, index, masks) if along_k else one_pair(place, index, masks, depth_here)
                    return put(halves, found, tile, index)

                return loop(builder, count, limits, by_lines)

            limits = either(builder, whole, all_of_it, what_exists)
            if along_k != wanted_along_k:
                for part in range(parts):
                    _transpose_tile(builder, offset(builder, tile, part * TILE))
            return limits

        def by_steps(step: ir.Value, limits: list) -> list:
            return loop(builder, groups, limits, lambda group, limits: one_tile(step, group, limits))

        how.keep_limits(limits_at, loop(builder, steps, how.first_limits(limits_at), by_steps))
        return context.get_dummy_value()

    return types.void(leaf, operand, *[types.int64] * 7), codegen


def _transpose_tile(builder: ir.IRBuilder, at: ir.Value) -> None:
    """Exchange the lines of a tile, 16 of 16 words, with its columns; in memory that is zero where nothing was put."""
    places = [offset(builder, at, LINE * line) for line in range(16)]
    square = [load(builder, vector(I32), place, LINE) for place in places]
    for line, place in zip(transpose(builder, square), places, strict=True):
        store(builder, line, place, LINE)
