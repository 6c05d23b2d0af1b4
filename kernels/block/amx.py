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
from . import emit as e
from .avx512 import flush_subnormals, fma, pairs_of
from .emit import zero as nothing

_REGISTERS = 8
_ROWS = e.TILE // e.LINE


def tile(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    """Emit the tile instruction `name`, by LLVM's name of it; an `int` is a register."""
    if cpu.is_emulated("amx"):
        _emulate(builder, name, *arguments)
    else:
        e.call(builder, f"llvm.x86.{name}", e.VOID, *[e.I8(a) if isinstance(a, int) else a for a in arguments])


def _emulate(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    if name in _NOT_NEEDED:
        return
    registers = _registers(builder)
    given = [e.offset(builder, registers, e.TILE * a) if isinstance(a, int) else a for a in arguments]
    e.call_outlined(builder, f"emulated_{name}", e.VOID, given, _EMULATED[name])


def _registers(builder: ir.IRBuilder) -> ir.Value:
    """The tile registers of the function that is emitted: all of its intrinsics find the same ones."""
    entry = builder.function.entry_basic_block
    with builder.goto_entry_block():
        for made in entry.instructions:
            if made.name == "tile_registers":
                return builder.bitcast(made, e.POINTER)
        slot = builder.alloca(ir.ArrayType(e.I8, _REGISTERS * e.TILE), name="tile_registers")
        slot.align = e.LINE
        return builder.bitcast(slot, e.POINTER)


def _copy(builder: ir.IRBuilder, target: ir.Value, target_row: ir.Value, source: ir.Value, source_row: ir.Value):
    """The rows of a tile, so many bytes apart."""

    def row(_: ir.Value, places: list[ir.Value]) -> list[ir.Value]:
        e.store(builder, e.load(builder, e.vector(e.I32), places[1], 1), places[0], 1)
        return [e.offset(builder, place, step) for place, step in zip(places, (target_row, source_row), strict=True)]

    e.loop(builder, e.I64(_ROWS), [target, source], row)


def _load_tile(builder: ir.IRBuilder, register: ir.Value, at: ir.Value, stride: ir.Value) -> None:
    _copy(builder, register, e.I64(e.LINE), at, stride)


def _store_tile(builder: ir.IRBuilder, register: ir.Value, at: ir.Value, stride: ir.Value) -> None:
    _copy(builder, at, stride, register, e.I64(e.LINE))


def _clear_tile(builder: ir.IRBuilder, register: ir.Value) -> None:
    def row(_: ir.Value, place: list[ir.Value]) -> list[ir.Value]:
        e.store(builder, nothing(e.vector(e.I32)), place[0], e.LINE)
        return [e.offset(builder, place[0], e.LINE)]

    e.loop(builder, e.I64(_ROWS), [register], row)


def _multiply_tiles(builder: ir.IRBuilder, sums: ir.Value, a: ir.Value, b: ir.Value) -> None:
    """TDPBF16PS: pairs along K are words of 32 bits, the even element in the lower half."""

    def row(_: ir.Value, places: list[ir.Value]) -> list[ir.Value]:
        at, of_a = places

        def pair(index: ir.Value, chains: list[ir.Value]) -> list[ir.Value]:
            word = e.load(builder, e.I32, e.offset(builder, of_a, builder.shl(index, e.I64(2))), 4)
            words = e.load(builder, e.vector(e.I32), e.offset(builder, b, builder.mul(index, e.I64(e.LINE))), e.LINE)
            factors = pairs_of(builder, e.broadcast(builder, word)), pairs_of(builder, words)
            return [fma(builder, *each) for each in zip(*factors, chains, strict=True)]

        even, odd = e.loop(builder, e.I64(_ROWS), [nothing(e.vector(e.F32))] * 2, pair)
        before = flush_subnormals(builder, e.load(builder, e.vector(e.F32), at, e.LINE))
        both = flush_subnormals(builder, builder.fadd(even, odd))
        e.store(builder, flush_subnormals(builder, builder.fadd(before, both)), at, e.LINE)
        return [e.offset(builder, place, e.LINE) for place in places]

    e.loop(builder, e.I64(_ROWS), [sums, a], row)


_NOT_NEEDED = ("ldtilecfg", "tilerelease")
_EMULATED = {
    "tileloadd64": _load_tile,
    "tileloaddt164": _load_tile,
    "tilestored64": _store_tile,
    "tilezero": _clear_tile,
    "tdpbf16ps": _multiply_tiles,
}
