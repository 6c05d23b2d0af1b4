"""Products too small for panels, by AMX: both operands become tiles in memory of the worker, several products in a row.

Where `tiles.py` multiplies blocks of 32 x 32 results in steps of panels, this goes by single tiles of 16 x 16, so that
products of 8 or 16 rows take no time for 32, and asks nothing at run time that the shape decides: rows of A and pairs
of rows of B are read as whole vectors with masks made outside of the loops. The tile registers are configured once for
a segment of products. A result that is not whole tiles of float32 leaves through memory: a product later, since vectors
read what tiles have stored only once it is in the cache.

Tiles hold at A: 16 rows of 32 values; at B: 16 pairs of rows of 16 columns. Seen as 32-bit words both are 16 lines of
16 pairs along K, one the transpose of the other, so that an operand that lies the other way round is transposed in
registers.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import intrinsic, ir, njit, types
from .emit import (
    F16,
    F32,
    I1,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    broadcast,
    call,
    either,
    lane_numbers,
    load,
    loop,
    offset,
    splat,
    store,
    transpose,
    vector,
    zero,
)  # fmt: skip
from .microkernels import begin, end
from .packing import PAIRS, _parts, _to_bf16, interleaved_parts
from .segments import HEADER, SegmentArguments, read
from .tags import constant, field_class, instance

__all__ = ["DEPTH", "FIELDS", "SIDE", "TilesInARow", "workspace_bytes"]

SIDE, DEPTH = 128, 256
"""The most rows or columns, and the greatest depth."""

FIELDS = (*HEADER, "m", "n", "k", "a_stride", "b_stride", "c_row")
"""The int64 of a job: the sizes, and the bytes from one contiguous line of an operand to the next."""

_TILE, _LINE = 1024, 64


def workspace_bytes(m: int, n: int, k: int, parts: int) -> int:
    """Memory for magnitudes, both operands as tiles, and the result."""
    high, wide, deep = -(-m // 16), -(-n // 16), -(-k // 32)
    return 320 + _TILE * ((high + wide) * deep * parts + high * wide)


class _Lines:
    """Emits the reading of 32 values along a contiguous line as bf16 parts, and remembers magnitudes.

    Numbers of bfloat16 operands are their own only part. Of others the parts are those of the conversion.
    """

    def __init__(self, builder: ir.IRBuilder, conversion: type, element: type) -> None:
        self.builder, self.conversion, self.element = builder, conversion, element
        self.raw = element.stored is I16
        self.parts = 1 if self.raw else conversion.tile_parts
        self.greatest = not self.raw and conversion.target != "bf16"

    def masks(self, left: ir.Value) -> list[ir.Value]:
        """Which of two times 16 lanes exist where `left` values do."""
        least = self.builder.select(self.builder.icmp_signed("<", left, I64(64)), left, I64(64))
        left = broadcast(self.builder, self.builder.trunc(least, I32))
        return [self.builder.icmp_signed("<", lane_numbers(16, first), left) for first in (0, 16)]

    def read(self, at: ir.Value, mask: ir.Value | None) -> ir.Value:
        """16 stored values, zero where the mask says so; all without one."""
        kind, size = self.element.stored, self.element.size
        suffix, values = {F32: "f32", F16: "f16", I16: "i16"}[kind], vector(kind)
        if mask is None:
            return load(self.builder, values, at, size)
        at = self.builder.bitcast(at, values.as_pointer())
        return call(
            self.builder, f"llvm.masked.load.v16{suffix}.p0", values, at, I32(size), mask, zero(values)
        )  # fmt: skip

    def split(
        self, halves: list[ir.Value], limits: list[ir.Value], by_pairs: bool
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Two stored vectors as parts (32 bf16 each, of both vectors in turn or side by side), and the limits with them
        taken in."""
        builder, (least, greatest) = self.builder, limits
        if self.raw:
            order = PAIRS if by_pairs else list(range(32))
            both = builder.shuffle_vector(*halves, ir.Constant(vector(I32, 32), order))
            magnitude = builder.and_(both, splat(I16, 0x7FFF, 32))
            least = call(
                builder, "llvm.umin.v32i16", vector(I16, 32), least, builder.sub(magnitude, splat(I16, 1, 32))
            )  # fmt: skip
            return [both], [least, greatest]
        if self.element.stored is F16:
            halves = [builder.fpext(half, vector(F32)) for half in halves]
        for half in halves:
            magnitude = builder.and_(builder.bitcast(half, vector(I32)), splat(I32, 0x7FFFFFFF))
            if self.greatest:
                greatest = call(builder, "llvm.umax.v16i32", vector(I32), greatest, magnitude)
            least = call(builder, "llvm.umin.v16i32", vector(I32), least, builder.sub(magnitude, splat(I32, 1)))
        parts = interleaved_parts if by_pairs else _parts
        return parts(builder, self.conversion, halves), [least, greatest]

    def first_limits(self, at: ir.Value) -> list[ir.Value]:
        """What was found so far, as `split` goes on with it."""
        if self.raw:
            return [splat(I16, 0xFFFF, 32), zero(vector(I32))]
        return [load(self.builder, vector(I32), offset(self.builder, at, _LINE * line), _LINE) for line in (0, 1)]

    def keep_limits(self, at: ir.Value, limits: list[ir.Value]) -> None:
        """Write what was found. Of bfloat16 the bits are the upper half of a float32's."""
        builder, (least, greatest) = self.builder, limits
        if self.raw:
            before = load(builder, vector(I32), at, _LINE)
            for half in (0, 1):
                lanes = ir.Constant(vector(I32), list(range(16 * half, 16 * half + 16)))
                wide = builder.zext(builder.shuffle_vector(least, least, lanes), vector(I32))
                bits = builder.sub(builder.shl(builder.add(wide, splat(I32, 1)), splat(I32, 16)), splat(I32, 1))
                before = call(builder, "llvm.umin.v16i32", vector(I32), before, bits)
            store(builder, before, at, _LINE)
            return
        for line, found in enumerate((least, greatest)):
            store(builder, found, offset(builder, at, _LINE * line), _LINE)


@intrinsic(prefer_literal=True)
def _to_tiles(typingctx, leaf, operand, at, stride, lines, depth, target, limits):
    """Write an operand (literally "a" or "b") as tiles: by steps along K, in each by 16 lines, each with its parts.

    `lines` and `depth` are its sizes, `stride` the bytes between contiguous lines.
    """
    along_k = field_class(leaf, f"order_{operand.literal_value}").along_k
    wanted_along_k = operand.literal_value == "a"

    def codegen(context, builder, signature, arguments):
        _, _, at, stride, lines, depth, target, limits_at = arguments
        at, target, limits_at = (builder.inttoptr(x, POINTER) for x in (at, target, limits_at))
        how = _Lines(builder, field_class(leaf, "conversion"), field_class(leaf, "element"))
        size, parts = how.element.size, how.parts
        unrolled = 16 if parts == 1 else 1  # of two and three parts 16 lines at once take a fifth to two fifths longer
        groups = builder.ashr(builder.add(lines, I64(15)), I64(4))
        steps = builder.ashr(builder.add(depth, I64(31)), I64(5))

        def one_line(place: ir.Value, line: ir.Value, masks: list) -> list:
            """16 pairs of values along K of one line, whose values begin at `place`."""
            here = offset(builder, place, builder.mul(line, stride))
            return [how.read(offset(builder, here, 16 * half * size), masks[half]) for half in (0, 1)]

        def one_pair(place: ir.Value, pair: ir.Value, masks: list, left: ir.Value | None) -> list:
            """The pairs (2 pair, 2 pair + 1) along K of 16 lines, which lie side by side from `place` on."""
            k = builder.shl(pair, I64(1))
            here = offset(builder, place, builder.mul(k, stride))
            mask = masks[0]
            if left is not None:
                mask = builder.select(builder.icmp_signed("<", builder.add(k, I64(1)), left), mask, zero(vector(I1)))
            return [how.read(here, masks[0]), how.read(offset(builder, here, stride), mask)]

        def put(halves: list, limits: list, tile: ir.Value, index: ir.Value) -> list:
            words, limits = how.split(halves, limits, not along_k)
            for part, word in enumerate(words):
                place = offset(builder, offset(builder, tile, part * _TILE), builder.shl(index, I64(6)))
                store(builder, word, place, _LINE)
            return limits

        def one_tile(step: ir.Value, group: ir.Value, limits: list) -> list:
            first_line, first_k = builder.shl(group, I64(4)), builder.shl(step, I64(5))
            tile = builder.mul(builder.add(builder.mul(step, groups), group), I64(parts * _TILE))
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
                    count = builder.ashr(builder.add(depth_here, I64(1)), I64(1))
                count = builder.select(builder.icmp_signed("<", count, I64(16)), count, I64(16))
                for line in range(0 if along_k == wanted_along_k else 16 * parts):  # the last product's, transposed
                    store(builder, zero(vector(I32)), offset(builder, tile, _LINE * line), _LINE)

                def by_lines(index: ir.Value, found: list) -> list:
                    halves = one_line(place, index, masks) if along_k else one_pair(place, index, masks, depth_here)
                    return put(halves, found, tile, index)

                return loop(builder, count, limits, by_lines)

            limits = either(builder, whole, all_of_it, what_exists)
            if along_k != wanted_along_k:
                for part in range(parts):
                    _transpose_tile(builder, offset(builder, tile, part * _TILE))
            return limits

        def by_steps(step: ir.Value, limits: list) -> list:
            return loop(builder, groups, limits, lambda group, limits: one_tile(step, group, limits))

        how.keep_limits(limits_at, loop(builder, steps, how.first_limits(limits_at), by_steps))
        return context.get_dummy_value()

    return types.void(leaf, operand, *[types.int64] * 6), codegen


def _transpose_tile(builder: ir.IRBuilder, at: ir.Value) -> None:
    """Exchange the lines of a tile, 16 of 16 words, with its columns; in memory that is zero where nothing was put."""
    places = [offset(builder, at, _LINE * line) for line in range(16)]
    square = [load(builder, vector(I32), place, _LINE) for place in places]
    for line, place in zip(transpose(builder, square), places, strict=True):
        store(builder, line, place, _LINE)


def _tile(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    call(builder, f"llvm.x86.{name}", VOID, *[ir.IntType(8)(x) if isinstance(x, int) else x for x in arguments])


@intrinsic(prefer_literal=True)
def _block(typingctx, kernel, height, width, a, a_step, b, b_step, steps, c, c_row):
    """`height` x `width` tiles of the result (1 or 2 each) from tiles of the operands; registers as in `tiles.py`."""
    walk, parts = instance(kernel).walk, instance(kernel).a_bytes // _LINE
    high, wide = height.literal_value, width.literal_value

    def codegen(context, builder, signature, arguments):
        _, _, _, a, a_step, b, b_step, steps, c, c_row = arguments
        a, b, c = (builder.inttoptr(x, POINTER) for x in (a, b, c))
        for row in range(high):
            for column in range(wide):
                _tile(builder, "tilezero", 2 * row + column)

        def step(index: ir.Value, _: list) -> list:
            starts = offset(builder, a, builder.mul(index, a_step)), offset(builder, b, builder.mul(index, b_step))
            before: tuple = (None, None)
            for now in walk:
                for side, (start, count) in enumerate(zip(starts, (high, wide), strict=True)):
                    for half in range(count if now[side] != before[side] else 0):
                        place = offset(builder, start, (half * parts + now[side]) * _TILE)
                        _tile(builder, "tileloadd64", 4 + 2 * side + half, place, I64(_LINE))
                for row in range(high):
                    for column in range(wide):
                        _tile(builder, "tdpbf16ps", 2 * row + column, 4 + row, 6 + column)
                before = now
            return []

        loop(builder, steps, [], step)
        for row in range(high):
            for column in range(wide):
                place = offset(builder, c, builder.mul(c_row, I64(16 * row)))
                _tile(builder, "tilestored64", 2 * row + column, offset(builder, place, _LINE * column), c_row)
        return context.get_dummy_value()

    return types.void(kernel, height, width, *[types.int64] * 7), codegen


@intrinsic
def _clear(typingctx, at, lines):
    """Zeros for so many lines of 64 bytes."""

    def codegen(context, builder, signature, arguments):
        at = builder.inttoptr(arguments[0], POINTER)

        def one_line(index: ir.Value, _: list) -> list:
            store(builder, zero(vector(I32)), offset(builder, at, builder.shl(index, I64(6))), _LINE)
            return []

        loop(builder, arguments[1], [], one_line)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def _copy_out(typingctx, element, sums, sums_row, out, out_row, rows, columns):
    """Round float32 sums to the element's type, into the first `rows` x `columns` of a result."""
    target = instance(element)

    def codegen(context, builder, signature, arguments):
        _, sums, sums_row, out, out_row, rows, columns = arguments
        sums, out = builder.inttoptr(sums, POINTER), builder.inttoptr(out, POINTER)
        suffix, kind = {F32: "f32", F16: "f16", I16: "i16"}[target.stored], vector(target.stored, 32)

        def one_chunk(chunk: ir.Value, _: list) -> list:
            first = builder.shl(chunk, I64(5))
            left = broadcast(builder, builder.trunc(builder.sub(columns, first), I32), 32)
            mask = builder.icmp_signed("<", lane_numbers(32), left)
            source = offset(builder, sums, builder.shl(chunk, I64(7)))
            place = offset(builder, out, builder.mul(first, I64(target.size)))

            def one_row(row: ir.Value, _: list) -> list:
                here = offset(builder, source, builder.mul(row, sums_row))
                halves = [load(builder, vector(F32), offset(builder, here, _LINE * half), _LINE) for half in (0, 1)]
                if target.stored is I16:
                    value = _to_bf16(builder, *halves)
                else:
                    value = builder.shuffle_vector(*halves, ir.Constant(vector(I32, 32), list(range(32))))
                    value = builder.fptrunc(value, kind) if target.stored is F16 else value
                at = builder.bitcast(offset(builder, place, builder.mul(row, out_row)), kind.as_pointer())
                call(builder, f"llvm.masked.store.v32{suffix}.p0", VOID, value, at, I32(target.size), mask)
                return []

            loop(builder, rows, [], one_row)
            return []

        loop(builder, builder.ashr(builder.add(columns, I64(31)), I64(5)), [], one_chunk)
        return context.get_dummy_value()

    return types.void(element, *[types.int64] * 6), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _blocks(kernel, a, b, high, wide, steps, tile, c, c_row):
    """The whole result, tile after tile; `tile` is the bytes of one tile with its parts."""
    for i in range(0, high, 2):
        for j in range(0, wide, 2):
            of_a, of_b, place = a + i * tile, b + j * tile, c + i * 16 * c_row + j * 64
            if high - i > 1:
                if wide - j > 1:
                    _block(kernel, 2, 2, of_a, high * tile, of_b, wide * tile, steps, place, c_row)
                else:
                    _block(kernel, 2, 1, of_a, high * tile, of_b, wide * tile, steps, place, c_row)
            elif wide - j > 1:
                _block(kernel, 1, 2, of_a, high * tile, of_b, wide * tile, steps, place, c_row)
            else:
                _block(kernel, 1, 1, of_a, high * tile, of_b, wide * tile, steps, place, c_row)


@njit(cache=False, no_cpython_wrapper=True)
def _in_a_row(leaf, segment):
    """The products of a segment."""
    job, kernel, size = segment.job, leaf.kernel, constant(leaf.element, "size")
    step_a, step_b, step_c = read(job, 3), read(job, 4), read(job, 5)
    m, n, k = read(job, 7), read(job, 8), read(job, 9)
    a_stride, b_stride, c_row = read(job, 10), read(job, 11), read(job, 12)
    high, wide, steps, tile = (m + 15) // 16, (n + 15) // 16, (k + 31) // 32, 16 * constant(kernel, "a_bytes")
    limits, tiles_a = segment.workspace, segment.workspace + 256
    tiles_b = tiles_a + high * steps * tile
    sums, whole = tiles_b + wide * steps * tile, size == 4 and m % 16 == 0 and n % 16 == 0
    begin(kernel)
    if m % 16 != 0 or n % 16 != 0 or k % 32 != 0:
        _clear(tiles_a, (sums - tiles_a) // 64)
    a, b, c = segment.a, segment.b, segment.c
    for item in range(segment.count):
        if item == 0 or step_a != 0:
            _to_tiles(leaf, "a", a, a_stride, m, k, tiles_a, limits)
        if item == 0 or step_b != 0:
            _to_tiles(leaf, "b", b, b_stride, n, k, tiles_b, limits + 128)
        if whole:
            _blocks(kernel, tiles_a, tiles_b, high, wide, steps, tile, c, c_row)
        else:
            if item > 0:
                _copy_out(leaf.element, sums, wide * 64, c - step_c, c_row, m, n)
            _blocks(kernel, tiles_a, tiles_b, high, wide, steps, tile, sums, wide * 64)
        a, b, c = a + step_a, b + step_b, c + step_c
    end(kernel)
    if not whole:
        _copy_out(leaf.element, sums, wide * 64, c - step_c, c_row, m, n)


class TilesInARow(NamedTuple):
    """Leaf: a segment of products. Fields: a microkernel of `tiles.py`, for its walk; a conversion of `packing.py`; the
    operands' element type, and the orders in which they lie."""

    kernel: NamedTuple
    conversion: NamedTuple
    element: NamedTuple
    order_a: NamedTuple
    order_b: NamedTuple
    run = _in_a_row
    arguments = SegmentArguments
