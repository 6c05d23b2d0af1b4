"""Operands of small products as tiles of AMX, in memory: what `small_tiles.py` multiplies.

Tiles hold at A: 16 rows of 32 values; at B: 16 pairs of rows of 16 columns. Seen as 32-bit words both are 16 lines of
16 pairs along K, one the transpose of the other, so that an operand that lies the other way round is transposed in
registers. Pairs are neighbours along K, or values that lie 16 apart (`AsIs.apart`): of a line of A two vectors then
become pairs without a shuffle (three operations in place of two).
"""

from __future__ import annotations

from ..block import emit as e
from ..block.packing import PAIRS, cut_parts, interleaved_parts, parts_of
from ..block.tags import field_class, tag_class
from ..runtime.emitter import Constant, Pointer, Type, emitter
from ..runtime.jit import ir, types

Exactly = tag_class("Exactly", __name__, rough=False)
"""The least and the greatest magnitude are found."""

Roughly = tag_class("Roughly", __name__, rough=True)
"""Whether all magnitudes but zero lie within 2**-49 and 2**15, where no precision refuses a product: three
instructions for 16 values in place of four, and two for those that are cut. Where they do not, the product is done
again `Exactly`."""


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
        self.raw = self.element.stored is e.I16
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
            return pair, self.builder.add(pair, e.I64(16))
        first = self.builder.shl(pair, e.I64(1))
        return first, self.builder.add(first, e.I64(1))

    def masks(self, left: ir.Value) -> list[ir.Value]:
        """Which of two times 16 lanes exist where `left` values do."""
        least = self.builder.select(self.builder.icmp_signed("<", left, e.I64(64)), left, e.I64(64))
        return [e.first_lanes(self.builder, least, 16, first) for first in (0, 16)]

    def read(self, at: ir.Value, mask: ir.Value | None, ahead: ir.Value) -> ir.Value:
        """16 stored values, zero where the mask says so; all without one. Those so many bytes `ahead` come soon."""
        if self.fetches:
            e.prefetch(self.builder, e.offset(self.builder, at, ahead))
        kind, size = self.element.stored, self.element.size
        if mask is None:
            return e.load(self.builder, e.vector(kind), at, size)
        return e.masked_load(self.builder, e.vector(kind), at, size, mask)

    def split(
        self, halves: list[ir.Value], limits: list[ir.Value], by_pairs: bool
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Two stored vectors as parts (32 bf16 each, of both vectors in turn or side by side), and the limits with them
        taken in."""
        builder = self.builder
        if self.raw:
            least, greatest = limits
            order = PAIRS if by_pairs else list(range(32))
            both = builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, 32), order))
            magnitude = builder.and_(both, e.splat(e.I16, 0x7FFF, 32))
            least = e.call(
                builder, "llvm.umin.v32i16", e.vector(e.I16, 32), least, builder.sub(magnitude, e.splat(e.I16, 1, 32))
            )  # fmt: skip
            return [both], [least, greatest]
        if self.element.stored is e.F16:
            halves = [builder.fpext(half, e.vector(e.F32)) for half in halves]
        if self.by_parts:
            words, rest = cut_parts(builder, self.conversion, halves, by_pairs)
            return words, self._seen_in_parts(words[0], rest, limits)
        for half in halves:
            limits = self._widen_limits(builder.bitcast(half, e.vector(e.I32)), limits)
        parts = interleaved_parts if by_pairs else parts_of
        return parts(builder, self.conversion, halves), limits

    def _widen_limits(self, bits: ir.Value, limits: list[ir.Value]) -> list[ir.Value]:
        """The limits with 16 float32 taken in."""
        builder, magnitude = self.builder, self.builder.and_(bits, e.splat(e.I32, 0x7FFFFFFF))
        if self.rough:
            some = builder.icmp_unsigned("!=", magnitude, e.zero(e.vector(e.I32)))
            above = builder.select(some, builder.sub(bits, e.splat(e.I32, _LEAST)), e.zero(e.vector(e.I32)))
            return [builder.or_(limits[0], above)]
        least, greatest = limits
        if self.greatest:
            greatest = e.call(builder, "llvm.umax.v16i32", e.vector(e.I32), greatest, magnitude)
        least = e.call(builder, "llvm.umin.v16i32", e.vector(e.I32), least, builder.sub(magnitude, e.splat(e.I32, 1)))
        return [least, greatest]

    def _seen_in_parts(self, first: ir.Value, rest: list[ir.Value], limits: list[ir.Value]) -> list[ir.Value]:
        """The rough limits with the first parts of 32 values included; parts of values next to zero are zero: what was
        cut off the last part, zero otherwise, tells them from zeros."""
        builder, kind = self.builder, e.vector(e.I16, 32)
        some = builder.icmp_unsigned("!=", builder.and_(first, e.splat(e.I16, 0x7FFF, 32)), e.zero(kind))
        above = builder.select(some, builder.sub(first, e.splat(e.I16, _LEAST >> 16, 32)), e.zero(kind))
        parts = builder.or_(builder.bitcast(limits[0], kind), above)
        low, high = (builder.bitcast(each, e.vector(e.I32)) for each in rest)
        return [builder.bitcast(parts, e.vector(e.I32)), builder.or_(limits[1], builder.or_(low, high))]

    def first_limits(self, at: ir.Value) -> list[ir.Value]:
        """What was found so far, as `split` goes on with it."""
        if self.rough:
            return [e.zero(e.vector(e.I32))] * (2 if self.by_parts else 1)
        if self.raw:
            return [e.splat(e.I16, 0xFFFF, 32), e.zero(e.vector(e.I32))]
        return [
            e.load(self.builder, e.vector(e.I32), e.offset(self.builder, at, e.LINE * line), e.LINE) for line in (0, 1)
        ]

    def keep_limits(self, at: ir.Value, limits: list[ir.Value]) -> None:
        """Write what was found: of bfloat16 bits of the upper half of a float32; a rough look leaves a least magnitude
        below all others where some are outside."""
        builder = self.builder
        if self.rough:
            outside = builder.and_(limits[0], e.splat(e.I32, _UPPER_OUTSIDE if self.by_parts else _OUTSIDE))
            if self.by_parts:
                outside = builder.or_(outside, builder.and_(limits[1], e.splat(e.I32, _LOWER)))
            inside, before = (
                builder.icmp_unsigned("==", outside, e.zero(e.vector(e.I32))),
                e.load(builder, e.vector(e.I32), at, e.LINE),
            )
            e.store(builder, builder.select(inside, before, e.zero(e.vector(e.I32))), at, e.LINE)
            return
        if self.raw:
            least = limits[0]
            before = e.load(builder, e.vector(e.I32), at, e.LINE)
            for half in (0, 1):
                lanes = ir.Constant(e.vector(e.I32), list(range(16 * half, 16 * half + 16)))
                wide = builder.zext(builder.shuffle_vector(least, least, lanes), e.vector(e.I32))
                bits = builder.sub(
                    builder.shl(builder.add(wide, e.splat(e.I32, 1)), e.splat(e.I32, 16)), e.splat(e.I32, 1)
                )
                before = e.call(builder, "llvm.umin.v16i32", e.vector(e.I32), before, bits)
            e.store(builder, before, at, e.LINE)
            return
        for line, found in enumerate(limits):
            e.store(builder, found, e.offset(builder, at, e.LINE * line), e.LINE)


@emitter
def to_tiles(  # noqa: C901
    builder, leaf: Type, operand: Constant, at: Pointer, stride, lines, depth, target: Pointer, limits_at: Pointer,
    ahead,
) -> None:  # fmt: skip
    """Write an operand (literally "a" or "b") as tiles: by steps along K, in each by 16 lines, each with its parts.

    `lines` and `depth` are its sizes, `stride` the bytes between contiguous lines, `ahead` those to the next operand.
    """
    along_k = field_class(leaf, f"order_{operand}").along_k
    wanted_along_k = operand == "a"
    how = _Lines(builder, leaf)
    size, parts = how.element.size, how.parts
    unrolled = 16 if parts == 1 else 1  # of two and three parts 16 lines at once take a fifth to two fifths longer
    groups = builder.ashr(builder.add(lines, e.I64(15)), e.I64(4))
    steps = builder.ashr(builder.add(depth, e.I64(31)), e.I64(5))

    def one_line(place: ir.Value, line: ir.Value, masks: list) -> list:
        """16 pairs of values along K of one line, whose values begin at `place`."""
        here = e.offset(builder, place, builder.mul(line, stride))
        return [how.read(e.offset(builder, here, 16 * half * size), masks[half], ahead) for half in (0, 1)]

    def one_pair(place: ir.Value, pair: ir.Value, masks: list, left: ir.Value | None) -> list:
        """A pair along K of 16 lines, which lie side by side from `place` on."""
        first, second = how.pair_places(pair)
        mask, rows = masks[0], [e.offset(builder, place, builder.mul(k, stride)) for k in (first, second)]
        if left is not None:
            mask = builder.select(builder.icmp_signed("<", second, left), mask, e.zero(e.vector(e.I1)))
        return [how.read(rows[0], masks[0], ahead), how.read(rows[1], mask, ahead)]

    def put(halves: list, limits: list, tile: ir.Value, index: ir.Value) -> list:
        words, limits = how.split(halves, limits, not along_k or how.apart)
        for part, word in enumerate(words):
            place = e.offset(builder, e.offset(builder, tile, part * e.TILE), builder.shl(index, e.I64(6)))
            e.store(builder, word, place, e.LINE)
        return limits

    def one_tile(step: ir.Value, group: ir.Value, limits: list) -> list:
        first_line, first_k = builder.shl(group, e.I64(4)), builder.shl(step, e.I64(5))
        tile = builder.mul(builder.add(builder.mul(step, groups), group), e.I64(parts * e.TILE))
        tile = e.offset(builder, target, tile)
        across, down = (first_k, first_line) if along_k else (first_line, first_k)
        place = e.offset(builder, at, builder.add(builder.mul(down, stride), builder.mul(across, e.I64(size))))
        lines_here, depth_here = builder.sub(lines, first_line), builder.sub(depth, first_k)
        whole = builder.and_(
            builder.icmp_signed(">=", lines_here, e.I64(16)), builder.icmp_signed(">=", depth_here, e.I64(32))
        )

        def some(first: ir.Value, found: list) -> list:
            for index in range(unrolled):
                at_once = builder.add(first, e.I64(index))
                halves = one_line(place, at_once, [None, None]) if along_k else one_pair(place, at_once, [None], None)
                found = put(halves, found, tile, at_once)
            return found

        def all_of_it() -> list:
            if unrolled == 16:
                return some(e.I64(0), limits)
            return e.loop(builder, e.I64(16), limits, some)

        def what_exists() -> list:
            masks, count = how.masks(depth_here if along_k else lines_here), lines_here
            if not along_k:
                count = depth_here if how.apart else builder.ashr(builder.add(depth_here, e.I64(1)), e.I64(1))
            count = builder.select(builder.icmp_signed("<", count, e.I64(16)), count, e.I64(16))
            for line in range(0 if along_k == wanted_along_k else 16 * parts):  # the last product's, transposed
                e.store(builder, e.zero(e.vector(e.I32)), e.offset(builder, tile, e.LINE * line), e.LINE)

            def by_lines(index: ir.Value, found: list) -> list:
                halves = one_line(place, index, masks) if along_k else one_pair(place, index, masks, depth_here)
                return put(halves, found, tile, index)

            return e.loop(builder, count, limits, by_lines)

        limits = e.either(builder, whole, all_of_it, what_exists)
        if along_k != wanted_along_k:
            for part in range(parts):
                _transpose_tile(builder, e.offset(builder, tile, part * e.TILE))
        return limits

    def by_steps(step: ir.Value, limits: list) -> list:
        return e.loop(builder, groups, limits, lambda group, limits: one_tile(step, group, limits))

    how.keep_limits(limits_at, e.loop(builder, steps, how.first_limits(limits_at), by_steps))


def _transpose_tile(builder: ir.IRBuilder, at: ir.Value) -> None:
    """Exchange the lines of a tile, 16 of 16 words, with its columns; in memory that is zero where nothing was put."""
    places = [e.offset(builder, at, e.LINE * line) for line in range(16)]
    square = [e.load(builder, e.vector(e.I32), place, e.LINE) for place in places]
    for line, place in zip(e.transpose(builder, square), places, strict=True):
        e.store(builder, line, place, e.LINE)
