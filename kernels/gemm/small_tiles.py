"""Products too small for panels, by AMX: both operands become tiles in memory of the worker, several products in a row.

Where `tiles.py` multiplies blocks of 32 x 32 results in steps of panels, this goes by single tiles of 16 x 16, so that
products of 8 or 16 rows take no time for 32, and asks nothing at run time that the shape decides: rows of A and pairs
of rows of B are read as whole vectors with masks made outside of the loops. The tile registers are configured once for
a segment of products. A result that is not whole tiles of float32 leaves through memory: a product later, since vectors
read what tiles have stored only once it is in the cache.
"""

from __future__ import annotations

from ..block import emit as e
from ..block.amx import tile
from ..block.microkernels import begin, end
from ..block.packing import to_bf16
from ..block.tags import constant
from ..runtime.emitter import Class, Constant, Pointer, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from ..runtime.raw_memory import get
from .small_batch import HEADER, SegmentArguments
from .small_packing import to_tiles

FIELDS = (*HEADER, "m", "n", "k", "a_stride", "b_stride", "c_row")
"""The int64 of a job: the sizes, and the bytes from one contiguous line of an operand to the next."""


def workspace_bytes(m: int, n: int, k: int, parts: int) -> int:
    """Memory for magnitudes, both operands as tiles, and the result."""
    high, wide, deep = -(-m // 16), -(-n // 16), -(-k // 32)
    return 320 + e.TILE * ((high + wide) * deep * parts + high * wide)


@emitter
def _block(
    builder, kernel: Class, high: Constant, wide: Constant, a: Pointer, a_step, b: Pointer, b_step, steps,
    c: Pointer, c_row,
) -> None:  # fmt: skip
    """`height` x `width` tiles of the result (1 or 2 each) from tiles of the operands; registers as in `tiles.py`."""
    walk, parts = kernel.walk, kernel.a_bytes // e.LINE
    for row in range(high):
        for column in range(wide):
            tile(builder, "tilezero", 2 * row + column)

    def step(index: ir.Value, _: list) -> list:
        starts = e.offset(builder, a, builder.mul(index, a_step)), e.offset(builder, b, builder.mul(index, b_step))
        before: tuple = (None, None)
        for now in walk:
            for side, (start, count) in enumerate(zip(starts, (high, wide), strict=True)):
                for half in range(count if now[side] != before[side] else 0):
                    place = e.offset(builder, start, (half * parts + now[side]) * e.TILE)
                    tile(builder, "tileloadd64", 4 + 2 * side + half, place, e.I64(e.LINE))
            for row in range(high):
                for column in range(wide):
                    tile(builder, "tdpbf16ps", 2 * row + column, 4 + row, 6 + column)
            before = now
        return []

    e.loop(builder, steps, [], step)
    for row in range(high):
        for column in range(wide):
            place = e.offset(builder, c, builder.mul(c_row, e.I64(16 * row)))
            tile(builder, "tilestored64", 2 * row + column, e.offset(builder, place, e.LINE * column), c_row)


@emitter
def _clear(builder, at: Pointer, lines) -> None:
    """Zeros for so many lines of 64 bytes."""

    def one_line(index: ir.Value, _: list) -> list:
        e.store(builder, e.zero(e.vector(e.I32)), e.offset(builder, at, builder.shl(index, e.I64(6))), e.LINE)
        return []

    e.loop(builder, lines, [], one_line)


@emitter
def _copy_out(builder, target: Class, sums, sums_row, out, out_row, rows, columns) -> None:
    """Round float32 sums to the element's type, into the first `rows` x `columns` of a result."""
    sums, out = builder.inttoptr(sums, e.POINTER), builder.inttoptr(out, e.POINTER)

    def one_chunk(chunk: ir.Value, _: list) -> list:
        first = builder.shl(chunk, e.I64(5))
        mask = e.first_lanes(builder, builder.sub(columns, first), 32)
        source = e.offset(builder, sums, builder.shl(chunk, e.I64(7)))
        place = e.offset(builder, out, builder.mul(first, e.I64(target.size)))

        def one_row(row: ir.Value, _: list) -> list:
            here = e.offset(builder, source, builder.mul(row, sums_row))
            halves = [
                e.load(builder, e.vector(e.F32), e.offset(builder, here, e.LINE * half), e.LINE) for half in (0, 1)
            ]
            if target.stored is e.I16:
                value = to_bf16(builder, *halves)
            else:
                value = builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, 32), list(range(32))))
                value = builder.fptrunc(value, e.vector(e.F16, 32)) if target.stored is e.F16 else value
            e.masked_store(builder, value, e.offset(builder, place, builder.mul(row, out_row)), target.size, mask)
            return []

        e.loop(builder, rows, [], one_row)
        return []

    e.loop(builder, builder.ashr(builder.add(columns, e.I64(31)), e.I64(5)), [], one_chunk)


@subroutine
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


@subroutine
def _in_a_row(leaf, segment):
    """The products of a segment."""
    job, kernel, size = segment.job, leaf.kernel, constant(leaf.element, "size")
    step_a, step_b, step_c = get(job, 3), get(job, 4), get(job, 5)
    m, n, k = get(job, 7), get(job, 8), get(job, 9)
    a_stride, b_stride, c_row = get(job, 10), get(job, 11), get(job, 12)
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
            to_tiles(leaf, "a", a, a_stride, m, k, tiles_a, limits, step_a)
        if item == 0 or step_b != 0:
            to_tiles(leaf, "b", b, b_stride, n, k, tiles_b, limits + 128, step_b)
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


TilesInARow = leaf_class(
    "TilesInARow", "kernel conversion element order_a order_b looks ahead", _in_a_row, SegmentArguments
)
"""Leaf: a segment of products. Fields: a microkernel of `tiles.py`, for its walk; a conversion of `packing.py`; the
operands' element type, and the orders in which they lie; how magnitudes are looked for, and whether another product
follows."""
