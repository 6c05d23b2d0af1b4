"""The microkernel of AVX512_BF16: blocks of 32 x 32 results from the same packed parts as `tiles.py`, by VDPBF16PS.

VDPBF16PS adds to each of 16 sums the products of two places along K, which lie side by side in a word of either
operand: twice the products of a fused multiply-add. It takes the odd place first, rounds to nearest, and flushes
subnormal operands and results to zero as tiles do, so that `ranges.py` holds for it too. (Intel's Software Developer's
Manual; AMD's "AMD64 Architecture Programmer's Manual", volume 4.)
"""

from __future__ import annotations

from ..runtime.jit import ir
from . import tiles
from .avx512 import instruction
from .emit import BF16, F32, I32, I64, LINE, TILE, broadcast, load, loop, offset, prefetch_to_l2, vector, zero
from .tags import tag_class
from .vectors import Avx512Float32, result_places, store_sums

_UNROLLED = 8
"""Pairs in a turn of the loop over those of 32 places. With 4 it is level; all 16 of the three terms of bf16x3 are more
instructions than the CPU keeps decoded: 39 GFLOP/s on one thread of a Zen 4 in place of 72."""


class Pairs1(tiles.Tiles1):
    """One part of each operand. Sums of a step along K are added to those before at its end, as in `vectors.py`."""

    groups = range(11), range(11, 22), range(22, 32)
    """Rows whose sums are in registers at a time: 22 of 32, with two vectors of B and one of A."""
    lanes, subtracts = 16, True
    add_before, emit_begin, emit_end = (
        staticmethod(each) for each in (Avx512Float32.add_before, Avx512Float32.emit_begin, Avx512Float32.emit_end)
    )

    @classmethod
    def emit(
        cls, builder: ir.IRBuilder, depth, a, b, c, accumulate, out, out_stride, ahead_a, ahead_b, less=False
    ) -> None:
        steps, step_bytes = builder.ashr(depth, I64(5)), 32 * cls.a_bytes
        for rows in cls.groups:

            def step(index: ir.Value, sums: list[ir.Value], rows: range = rows) -> list[ir.Value]:
                if rows.start == 0:
                    for ahead, lines in ((ahead_a, cls.ahead_a), (ahead_b, cls.ahead_b)):
                        soon = lines * cls.a_bytes
                        prefetch_to_l2(builder, offset(builder, ahead, builder.mul(index, I64(soon))), soon // LINE)
                moved = builder.mul(index, I64(step_bytes))
                of_a, of_b = offset(builder, a, moved), offset(builder, b, moved)
                return add_terms(builder, cls.walk, of_a, I64(2 * TILE), of_b, I64(2 * TILE), rows, sums)

            places = result_places(builder, cls, rows, out, out_stride, c)
            sums = loop(builder, steps, [zero(vector(F32))] * len(places), step)
            store_sums(builder, cls, sums, places, accumulate, less)


def add_terms(
    builder: ir.IRBuilder, walk: tuple[tuple[int, int], ...], a: ir.Value, a_part: ir.Value, b: ir.Value,
    b_part: ir.Value, rows: range, sums: list[ir.Value],
) -> list[ir.Value]:  # fmt: skip
    """The sums, of some rows and 32 columns each, with the products of the parts in `walk` over 32 places along K.

    A row of A is a line of 32 values; parts are `a_part` and `b_part` bytes apart. A line of B is a pair of places of
    16 columns: those of the other 16 are a tile further on, the next pair a line.
    """
    for part_a, part_b in walk:
        of_a = offset(builder, a, builder.mul(a_part, I64(part_a)))
        of_b = offset(builder, b, builder.mul(b_part, I64(part_b)))

        def turn(index: ir.Value, sums: list[ir.Value], of_a: ir.Value = of_a, of_b: ir.Value = of_b) -> list[ir.Value]:
            here_a = offset(builder, of_a, builder.mul(index, I64(4 * _UNROLLED)))
            here_b = offset(builder, of_b, builder.mul(index, I64(LINE * _UNROLLED)))
            for pair in range(_UNROLLED):
                at = pair * LINE
                halves = [load(builder, vector(I32), offset(builder, here_b, at + half), LINE) for half in (0, TILE)]
                after: list[ir.Value] = []
                for row in rows:
                    word = broadcast(builder, load(builder, I32, offset(builder, here_a, row * LINE + 4 * pair), 4))
                    for half in halves:
                        after.append(_add_pairs(builder, sums[len(after)], word, half))
                sums = after
            return sums

        sums = loop(builder, I64(16 // _UNROLLED), sums, turn)
    return sums


def _add_pairs(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    """The factors are exchanged: the last one of the instruction may be read from memory."""
    factors = [builder.bitcast(each, vector(BF16, 32)) for each in (b, a)]
    return instruction(builder, "avx512bf16.dpbf16ps.512", vector(F32), total, *factors)


class Pairs3(Pairs1):
    """bf16x3."""

    walk = tiles.Tiles3.walk
    a_bytes = b_bytes = 128


class Avx512Pairs(Avx512Float32):
    """The blocks of float32 for panels whose values are words of two bf16, neighbours along K."""

    @classmethod
    def add_product(cls, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        return _add_pairs(builder, total, a, b)


Avx512PairsNarrow = tag_class("Avx512PairsNarrow", __name__, Avx512Pairs, nr=16, b_bytes=64)
"""Blocks of one vector of columns, for few of them."""
