"""The instructions of AMX: emitted as they are, or as software that computes the same (`cpu.EMULATION`).

Emulated tile registers are memory of the function in which they are used: no tile outlives the code that one intrinsic
emits. Intel's Software Developer's Manual says what TDPBF16PS computes, and hardware gave the same bits: of a row of A
and a column of B one chain of fused steps over the even elements and one over the odd ones, both from zero, their sum,
and that added to the result; subnormal operands count as zero, and so does what is subnormal after any step. Which of
several NaN is kept is not emulated, nor the flushing of what rounds up to the least normal number.
"""

from __future__ import annotations

from ..runtime import cpu
from ..runtime.jit import ir
from .avx512 import flush_subnormals, fma, pairs_of
from .emit import (
    F32,
    I8,
    I32,
    I64,
    LINE,
    POINTER,
    TILE,
    VOID,
    broadcast,
    call,
    call_outlined,
    load,
    loop,
    offset,
    store,
    vector,
)
from .emit import zero as nothing

_REGISTERS = 8
_ROWS = TILE // LINE


def tile(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    """Emit the tile instruction `name`, by LLVM's name of it; an `int` is a register."""
    if cpu.is_emulated("amx"):
        _emulate(builder, name, *arguments)
    else:
        call(builder, f"llvm.x86.{name}", VOID, *[I8(a) if isinstance(a, int) else a for a in arguments])


def _emulate(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    if name in _NOT_NEEDED:
        return
    registers = _registers(builder)
    given = [offset(builder, registers, TILE * a) if isinstance(a, int) else a for a in arguments]
    call_outlined(builder, f"emulated_{name}", VOID, given, _EMULATED[name])


def _registers(builder: ir.IRBuilder) -> ir.Value:
    """The tile registers of the function that is emitted: all of its intrinsics find the same ones."""
    entry = builder.function.entry_basic_block
    with builder.goto_entry_block():
        for made in entry.instructions:
            if made.name == "tile_registers":
                return builder.bitcast(made, POINTER)
        slot = builder.alloca(ir.ArrayType(I8, _REGISTERS * TILE), name="tile_registers")
        slot.align = LINE
        return builder.bitcast(slot, POINTER)


def _copy(builder: ir.IRBuilder, target: ir.Value, target_row: ir.Value, source: ir.Value, source_row: ir.Value):
    """The rows of a tile, so many bytes apart."""

    def row(_: ir.Value, places: list[ir.Value]) -> list[ir.Value]:
        store(builder, load(builder, vector(I32), places[1], 1), places[0], 1)
        return [offset(builder, place, step) for place, step in zip(places, (target_row, source_row), strict=True)]

    loop(builder, I64(_ROWS), [target, source], row)


def _load_tile(builder: ir.IRBuilder, register: ir.Value, at: ir.Value, stride: ir.Value) -> None:
    _copy(builder, register, I64(LINE), at, stride)


def _store_tile(builder: ir.IRBuilder, register: ir.Value, at: ir.Value, stride: ir.Value) -> None:
    _copy(builder, at, stride, register, I64(LINE))


def _clear_tile(builder: ir.IRBuilder, register: ir.Value) -> None:
    def row(_: ir.Value, place: list[ir.Value]) -> list[ir.Value]:
        store(builder, nothing(vector(I32)), place[0], LINE)
        return [offset(builder, place[0], LINE)]

    loop(builder, I64(_ROWS), [register], row)


def _multiply_tiles(builder: ir.IRBuilder, sums: ir.Value, a: ir.Value, b: ir.Value) -> None:
    """TDPBF16PS: pairs along K are words of 32 bits, the even element in the lower half."""

    def row(_: ir.Value, places: list[ir.Value]) -> list[ir.Value]:
        at, of_a = places

        def pair(index: ir.Value, chains: list[ir.Value]) -> list[ir.Value]:
            word = load(builder, I32, offset(builder, of_a, builder.shl(index, I64(2))), 4)
            words = load(builder, vector(I32), offset(builder, b, builder.mul(index, I64(LINE))), LINE)
            factors = pairs_of(builder, broadcast(builder, word)), pairs_of(builder, words)
            return [fma(builder, *each) for each in zip(*factors, chains, strict=True)]

        even, odd = loop(builder, I64(_ROWS), [nothing(vector(F32))] * 2, pair)
        before = flush_subnormals(builder, load(builder, vector(F32), at, LINE))
        both = flush_subnormals(builder, builder.fadd(even, odd))
        store(builder, flush_subnormals(builder, builder.fadd(before, both)), at, LINE)
        return [offset(builder, place, LINE) for place in places]

    loop(builder, I64(_ROWS), [sums, a], row)


_NOT_NEEDED = ("ldtilecfg", "tilerelease")
_EMULATED = {
    "tileloadd64": _load_tile,
    "tileloaddt164": _load_tile,
    "tilestored64": _store_tile,
    "tilezero": _clear_tile,
    "tdpbf16ps": _multiply_tiles,
}
