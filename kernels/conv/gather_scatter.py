"""Sixteen neighbouring positions, read from where they lie and written to where they belong (`geometry.Spots`).

What is read comes as one vector of float32 or float64 values for one channel; a mask of a run says which positions
exist, and these are expanded from neighbouring values in memory, or gathered if they are not adjacent. What is written
is compressed or scattered in the same way.
"""

from __future__ import annotations

from typing import Any

from ..block import emit as e
from ..block.avx512 import instruction
from ..block.microkernels import convert
from ..runtime import cpu
from ..runtime.jit import ir
from .expand_avx2 import gather_and_store, spread
from .geometry import GROUP, NOWHERE


def widen(builder: ir.IRBuilder, found: ir.Value, element: Any) -> ir.Value:
    """Values of an element as the float32 or float64 that is worked with."""
    if element.stored is e.F16:
        return builder.fpext(found, e.vector(e.F32, found.type.count))
    if element.stored is e.I16:
        lanes = found.type.count
        wide = builder.shl(builder.zext(found, e.vector(e.I32, lanes)), e.splat(e.I32, 16, lanes))
        return builder.bitcast(wide, e.vector(e.F32, lanes))
    return found


_INTEGERS = {e.F64: e.I64, e.F32: e.I32, e.I16: e.I16}


def existing(builder: ir.IRBuilder, offsets_at: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The offsets of 16 positions, and which of them exist."""
    offsets = builder.load(builder.bitcast(offsets_at, e.vector(e.I32, GROUP).as_pointer()), align=4)
    return offsets, builder.icmp_signed("!=", offsets, e.splat(e.I32, NOWHERE, GROUP))


def read_positions(
    builder: ir.IRBuilder, element: Any, at: ir.Value, run: ir.Value, offsets: ir.Value, exists: ir.Value,
    slot: ir.Value,
) -> None:  # fmt: skip
    """Read 16 positions of a channel into `slot`: `at` is where its period begins, `run` and `offsets` point to rows of
    `Spots`. All zero if the channel does not exist."""
    base = builder.sext(e.load(builder, e.I32, run, 4), e.I64)
    mask = e.load(builder, e.I32, e.offset(builder, run, 4), 4)
    mask = builder.select(exists, mask, e.I32(0))
    here, kind = e.offset(builder, at, base), e.vector(element.stored, GROUP)
    with builder.if_else(builder.icmp_unsigned("<=", mask, e.I32(0xFFFF))) as (together, apart):
        with together:
            if element.size > 2 and cpu.refusal("avx512") is not None:
                with builder.if_else(builder.icmp_unsigned("==", mask, e.I32(0xFFFF))) as (whole, partial):
                    with whole:
                        builder.store(e.load(builder, kind, here, element.size), slot)
                    with partial:
                        builder.store(spread(builder, element, here, mask), slot)
            else:
                lanes = builder.bitcast(builder.trunc(mask, e.I16), e.vector(e.I1, GROUP))
                name = f"llvm.masked.expandload.{e.suffix(element.stored, GROUP)}"
                found = e.call(builder, name, kind, here, lanes, e.zero(kind))
                builder.store(widen(builder, found, element), slot)
        with apart:
            # Without AVX-512 masks of every other value take longer than a gather.
            gathers = e.I1(1) if cpu.refusal("avx512") is not None else builder.icmp_signed("<", mask, e.I32(0))
            with builder.if_else(gathers) as (anywhere, every_other):
                with anywhere:
                    places, there = existing(builder, offsets)
                    builder.store(gather(builder, element, at, places, there), slot)
                with every_other:
                    builder.store(widen(builder, _every_other(builder, element, at, run), element), slot)


def _every_other(builder: ir.IRBuilder, element: Any, at: ir.Value, run: ir.Value) -> ir.Value:
    """Every second value, in one piece or in two, where they exist."""
    kind, pieces = e.vector(element.stored, GROUP), []
    for piece in (0, 8):
        here = e.offset(builder, at, builder.sext(e.load(builder, e.I32, e.offset(builder, run, piece), 4), e.I64))
        lanes = e.load(builder, e.I32, e.offset(builder, run, piece + 4), 4)
        mask = e.call(builder, "llvm.x86.bmi.pdep.32", e.I32, lanes, e.I32(0x55555555))
        halves = []
        for half in (0, 1):
            bits = builder.trunc(builder.lshr(mask, e.I32(GROUP * half)), e.I16)
            where = e.offset(builder, here, GROUP * half * element.size)
            halves.append(
                e.masked_load(builder, kind, where, element.size, builder.bitcast(bits, e.vector(e.I1, GROUP)))
            )
        pieces.append(builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, GROUP), list(range(0, 32, 2)))))
    second = builder.bitcast(builder.trunc(lanes, e.I16), e.vector(e.I1, GROUP))
    return builder.select(second, pieces[1], pieces[0])


def gather(builder: ir.IRBuilder, element: Any, at: ir.Value, offsets: ir.Value, mask: ir.Value) -> ir.Value:
    """The values at `at` + each offset, where the mask says that there is one; zero elsewhere."""
    if element.size == 8:
        kind, places = e.vector(element.stored, GROUP), e.pointers(builder, at, offsets, element.stored)
        name = f"llvm.masked.gather.{e.suffix(element.stored, GROUP)}.v{GROUP}p0"
        return e.call(builder, name, kind, places, e.I32(8), mask, e.zero(kind))
    # One instruction gathers 32 bits at offsets of 32 bits. (LLVM makes two of places of 64 bits, and branches for
    # values of 16.) Values of 16 bits are halves of aligned 32, which lie in one page.
    kind, upper = e.vector(e.I32, GROUP), e.splat(e.I32, 0, GROUP)
    if element.size == 2:
        address = e.broadcast(builder, builder.trunc(builder.ptrtoint(at, e.I64), e.I32), GROUP)
        upper = builder.and_(builder.add(address, offsets), e.splat(e.I32, 2, GROUP))
        offsets = builder.sub(offsets, upper)
    if cpu.refusal("avx512") is None:
        found = instruction(builder, "avx512.mask.gather.dpi.512", kind, e.zero(kind), at, offsets, mask, e.I32(1))
    else:
        found = _gathered_by_halves(builder, at, offsets, mask)
    if element.size == 4:
        return builder.bitcast(found, e.vector(e.F32, GROUP))
    halves = builder.lshr(found, builder.shl(upper, e.splat(e.I32, 3, GROUP)))
    halves = builder.trunc(halves, e.vector(e.I16, GROUP))
    return widen(builder, builder.bitcast(halves, e.vector(element.stored, GROUP)), element)


def _gathered_by_halves(builder: ir.IRBuilder, at: ir.Value, offsets: ir.Value, mask: ir.Value) -> ir.Value:
    """The 32 bits at `at` + each of 16 offsets where the mask says so, zero elsewhere, by two instructions of AVX2."""
    eight, halves = e.vector(e.I32, GROUP // 2), []
    lanes = builder.sext(mask, e.vector(e.I32, GROUP))
    for half in (0, 1):
        order = ir.Constant(eight, list(range(8 * half, 8 * half + 8)))
        some, wanted = (builder.shuffle_vector(each, each, order) for each in (offsets, lanes))
        halves.append(e.call(builder, "llvm.x86.avx2.gather.d.d.256", eight, e.zero(eight), at, some, wanted, e.I8(1)))
    return builder.shuffle_vector(*halves, ir.Constant(e.vector(e.I32, GROUP), list(range(GROUP))))


def write_together(builder: ir.IRBuilder, element: Any, value: ir.Value, at: ir.Value, lanes: ir.Value) -> None:
    """Store accumulators of the positions in `lanes` one after the other from `at` on."""
    if cpu.refusal("avx512") is not None:
        gather_and_store(builder, element, value, at, lanes)
        return
    if value.type.element is e.F64 and value.type.count == GROUP:
        # One register at a time: LLVM 22 splits a compression over two with an aligned store to an unaligned address.
        for half in (0, 1):
            order = ir.Constant(e.vector(e.I32, 8), list(range(8 * half, 8 * half + 8)))
            mask = builder.shuffle_vector(lanes, lanes, order)
            write_together(builder, element, builder.shuffle_vector(value, value, order), at, mask)
            count = builder.zext(e.call(builder, "llvm.ctpop.i8", e.I8, builder.bitcast(mask, e.I8)), e.I64)
            at = e.offset(builder, at, builder.mul(count, e.I64(element.size)))
        return
    count = value.type.count
    # Of numbers LLVM 22 compiles this with AVX-512 only, of integers for every CPU.
    bits, words = ir.IntType(count), e.vector(_INTEGERS[value.type.element], count)
    name = f"llvm.experimental.vector.compress.{e.suffix(words.element, count)}"
    dense = e.call(builder, name, words, builder.bitcast(value, words), lanes, e.zero(words))
    dense = builder.bitcast(dense, value.type)
    found = e.call(builder, f"llvm.ctpop.i{count}", bits, builder.bitcast(lanes, bits))
    some = builder.sub(builder.shl(e.I32(1), builder.zext(found, e.I32)), e.I32(1))
    some = builder.bitcast(builder.trunc(some, bits), e.vector(e.I1, count))
    e.masked_store(builder, convert(builder, dense, element), at, element.size, some)


def write_all(builder: ir.IRBuilder, element: Any, value: ir.Value, at: ir.Value) -> None:
    """Store accumulators of 16 positions one after the other from `at` on."""
    value = convert(builder, value, element)
    builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=element.size)


def write_apart(builder: ir.IRBuilder, element: Any, value: ir.Value, at: ir.Value, offsets_at: ir.Value) -> None:
    """Store accumulators of 16 positions, each at `at` + its offset, where there is one."""
    offsets, mask = existing(builder, offsets_at)
    name = f"llvm.masked.scatter.{e.suffix(element.stored, GROUP)}.v{GROUP}p0"
    places = e.pointers(builder, at, offsets, element.stored)
    e.call(builder, name, e.VOID, convert(builder, value, element), places, e.I32(element.size), mask)


def pointer(builder: ir.IRBuilder, address: ir.Value, byte: ir.Value | int = 0) -> ir.Value:
    """The pointer to an address, so many bytes on."""
    return e.offset(builder, builder.inttoptr(address, e.POINTER), byte)
