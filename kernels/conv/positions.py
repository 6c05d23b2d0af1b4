"""Sixteen neighbouring positions, read from where they lie and written to where they belong (`geometry.Spots`).

What is read comes as one vector of float32 or float64 values for one channel; a mask of a run says which positions
exist, and these are expanded from neighbouring values in memory, or gathered where they are no neighbours. What is
written is compressed or scattered in the same way.
"""

from __future__ import annotations

from typing import Any

from ..gemm.emit import F16, F32, F64, I1, I16, I32, I64, POINTER, VOID, broadcast, call, offset, splat, vector, zero
from ..gemm.microkernels import convert
from ..jit import ir
from .geometry import GROUP, NOWHERE

__all__ = ["existing", "gathered", "read_neighbours", "suffix", "widened", "write_positions"]


def suffix(kind: ir.Type, lanes: int) -> str:
    """How LLVM's intrinsics name a vector of these."""
    return f"v{lanes}" + {F32: "f32", F64: "f64", F16: "f16", I16: "i16"}[kind]


def widened(builder: ir.IRBuilder, found: ir.Value, element: Any) -> ir.Value:
    """Values of an element as the float32 or float64 that is worked with."""
    if element.stored is F16:
        return builder.fpext(found, vector(F32, found.type.count))
    if element.stored is I16:
        lanes = found.type.count
        wide = builder.shl(builder.zext(found, vector(I32, lanes)), splat(I32, 16, lanes))
        return builder.bitcast(wide, vector(F32, lanes))
    return found


def existing(builder: ir.IRBuilder, offsets_at: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The offsets of 16 positions, and which of them exist."""
    offsets = builder.load(builder.bitcast(offsets_at, vector(I32, GROUP).as_pointer()), align=4)
    return offsets, builder.icmp_signed("!=", offsets, splat(I32, NOWHERE, GROUP))


def read_neighbours(builder: ir.IRBuilder, element: Any, at: ir.Value, mask: ir.Value) -> ir.Value:
    """The values at `at` and after it, each at the next position of the mask (16 x i1); zero elsewhere."""
    kind = vector(element.stored, GROUP)
    name = f"llvm.masked.expandload.{suffix(element.stored, GROUP)}"
    return widened(builder, call(builder, name, kind, at, mask, zero(kind)), element)


def gathered(builder: ir.IRBuilder, element: Any, at: ir.Value, offsets: ir.Value, mask: ir.Value) -> ir.Value:
    """The values at `at` + each offset, where the mask says that there is one; zero elsewhere."""
    kind = vector(element.stored, GROUP)
    places = _places(builder, at, offsets, element)
    name = f"llvm.masked.gather.{suffix(element.stored, GROUP)}.v{GROUP}p0"
    return widened(builder, call(builder, name, kind, places, I32(element.size), mask, zero(kind)), element)


def _places(builder: ir.IRBuilder, at: ir.Value, offsets: ir.Value, element: Any) -> ir.Value:
    start = broadcast(builder, builder.ptrtoint(at, I64), GROUP)
    places = builder.add(start, builder.sext(offsets, vector(I64, GROUP)))
    return builder.inttoptr(places, vector(element.stored.as_pointer(), GROUP))


def write_positions(
    builder: ir.IRBuilder, element: Any, value: ir.Value, at: ir.Value, run: ir.Value, offsets_at: ir.Value
) -> None:
    """Store accumulators of 16 positions: those of the mask `run` (i32) one after the other from `at` on, or, where
    `run` is -1, each at `at` + its offset."""
    kind, size = vector(element.stored, GROUP), I32(element.size)
    with builder.if_else(builder.icmp_signed("==", run, I32(0xFFFF))) as (whole, partial):
        with whole:
            builder.store(convert(builder, value, element), builder.bitcast(at, kind.as_pointer()), align=element.size)
        with partial, builder.if_else(builder.icmp_signed("<", run, I32(0))) as (apart, together):
            with apart:
                offsets, mask = existing(builder, offsets_at)
                name = f"llvm.masked.scatter.{suffix(element.stored, GROUP)}.v{GROUP}p0"
                places = _places(builder, at, offsets, element)
                call(builder, name, VOID, convert(builder, value, element), places, size, mask)
            with together:
                mask = builder.bitcast(builder.trunc(run, I16), vector(I1, GROUP))
                name = f"llvm.experimental.vector.compress.{suffix(F64 if element.stored is F64 else F32, GROUP)}"
                dense = call(builder, name, value.type, value, mask, zero(value.type))
                count = call(builder, "llvm.ctpop.i32", I32, run)
                some = builder.sub(builder.shl(I32(1), count), I32(1))
                some = builder.bitcast(builder.trunc(some, I16), vector(I1, GROUP))
                target = builder.bitcast(at, kind.as_pointer())
                name = f"llvm.masked.store.{suffix(element.stored, GROUP)}.p0"
                call(builder, name, VOID, convert(builder, dense, element), target, size, some)


def pointer(builder: ir.IRBuilder, address: ir.Value, byte: ir.Value | int = 0) -> ir.Value:
    """The pointer to an address, so many bytes on."""
    return offset(builder, builder.inttoptr(address, POINTER), byte)
