"""The AMX microkernel: a block of 32 x 32 results from bf16 parts, in the eight tile registers of a core.

Registers 0 to 3 hold the results, 4 and 5 two tiles of A (16 rows x 32 bf16), 6 and 7 two tiles of B (16 lines of 16
columns x 2 bf16). Intel's Software Developer's Manual says what TDPBF16PS computes; it flushes subnormal operands and
results, which `ranges.py` keeps away from it.

A precision is a *walk* through the products of parts, in which each step changes the part of A or that of B, never
both: a step loads two tiles for its four products, where independent steps would load four.
"""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.jit import ir
from .amx import tile
from .emit import I8, I64, LINE, POINTER, TILE, loop, offset, prefetch_to_l2
from .tags import tag_class

_C_ROW = 32 * 4


def _corners(builder: ir.IRBuilder, at: ir.Value, stride: ir.Value) -> list[ir.Value]:
    """Where the four tiles of a block begin that has `stride` bytes from row to row."""
    below = offset(builder, at, builder.mul(stride, I64(16)))
    return [at, offset(builder, at, LINE), below, offset(builder, below, LINE)]


def _multiply_parts(builder: ir.IRBuilder, before: tuple, now: tuple, a: ir.Value, b: ir.Value) -> None:
    """Add the product of A's part now[0] and B's part now[1], loading only the tiles that the step before had not."""

    def load(register: int, base: ir.Value, part: int, half: int) -> None:
        tile(builder, "tileloadd64", register, offset(builder, base, (2 * part + half) * TILE), I64(LINE))

    new_a, new_b = before[0] != now[0], before[1] != now[1]
    if new_a:
        load(4, a, now[0], 0)
    if new_b:
        load(6, b, now[1], 0)
    tile(builder, "tdpbf16ps", 0, 4, 6)
    if new_b:
        load(7, b, now[1], 1)
    tile(builder, "tdpbf16ps", 1, 4, 7)
    if new_a:
        load(5, a, now[0], 1)
    tile(builder, "tdpbf16ps", 2, 5, 6)
    tile(builder, "tdpbf16ps", 3, 5, 7)


class Tiles1(NamedTuple):
    """One part of each operand. The class has what the loops must know of a microkernel (see `microkernels.py`)."""

    mr = nr = 32
    step = turn = 32
    size = 4
    ahead_a, ahead_b = 2, 4
    subtracts = False
    walk = ((0, 0),)
    a_bytes = b_bytes = 64

    @classmethod
    def emit(cls, builder: ir.IRBuilder, depth, a, b, c, accumulate, out, out_stride, ahead_a, ahead_b) -> None:
        parts = cls.a_bytes // 64
        corners = _corners(builder, c, I64(_C_ROW))
        with builder.if_else(accumulate) as (resume, start):
            with resume:
                for register, at in enumerate(corners):
                    tile(builder, "tileloadd64", register, at, I64(_C_ROW))
            with start:
                for register in range(4):
                    tile(builder, "tilezero", register)

        def step(index: ir.Value, pointers: list[ir.Value]) -> list[ir.Value]:
            a, b, ahead_a, ahead_b = pointers
            prefetch_to_l2(builder, ahead_a, cls.ahead_a * parts)
            prefetch_to_l2(builder, ahead_b, cls.ahead_b * parts)
            before = (None, None)
            for now in cls.walk:
                _multiply_parts(builder, before, now, a, b)
                before = now
            moves = 2 * TILE * parts, 2 * TILE * parts, 64 * cls.ahead_a * parts, 64 * cls.ahead_b * parts
            return [offset(builder, pointer, move) for pointer, move in zip(pointers, moves, strict=True)]

        loop(builder, builder.ashr(depth, I64(5)), [a, b, ahead_a, ahead_b], step)
        for register, at in enumerate(_corners(builder, out, out_stride)):
            tile(builder, "tilestored64", register, at, out_stride)

    @staticmethod
    def emit_begin(builder: ir.IRBuilder) -> None:
        """Give all eight tile registers 16 rows of 64 bytes."""
        configuration = bytearray(64)
        configuration[0] = 1  # palette
        for register in range(8):
            configuration[16 + 2 * register] = LINE
            configuration[48 + register] = 16
        constant = ir.Constant(ir.ArrayType(I8, 64), configuration)
        with builder.goto_entry_block():
            slot = builder.alloca(constant.type)
        builder.store(constant, slot)
        tile(builder, "ldtilecfg", builder.bitcast(slot, POINTER))

    @staticmethod
    def emit_end(builder: ir.IRBuilder) -> None:
        """Leave no tile state behind, which the operating system would save at each context switch."""
        tile(builder, "tilerelease")


Tiles3 = tag_class("Tiles3", __name__, Tiles1, walk=((1, 0), (0, 0), (0, 1)), a_bytes=128, b_bytes=128)
"""bf16x3: two parts, without the product of the small ones."""

Tiles4 = tag_class("Tiles4", __name__, Tiles1, walk=((1, 1), (1, 0), (0, 0), (0, 1)), a_bytes=128, b_bytes=128)
"""tf32 and fp16: a significand of 11 bits is exactly two bf16 parts, and all four products are exact."""

Tiles6 = tag_class(
    "Tiles6", __name__, Tiles1, walk=((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2)), a_bytes=192, b_bytes=192,
)  # fmt: skip
"""bf16x6."""

Tiles8 = tag_class(
    "Tiles8", __name__, Tiles1, walk=((2, 1), (1, 1), (1, 2), (0, 2), (0, 1), (0, 0), (1, 0), (2, 0)), a_bytes=192,
    b_bytes=192,
)  # fmt: skip
"""bf16x9: the products of fp32 values but for that of the last parts, at most 2**-30 of it where sums in fp32 round
2**-24 away each time. Products that are fp32 numbers themselves lose nothing: one of their factors has no last
part."""
