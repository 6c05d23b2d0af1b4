"""Reading tables and clearing memory at addresses, for compiled loops."""

from __future__ import annotations

from ..block.emit import I1, I8, I32, I64, POINTER, VOID, call, load
from ..runtime.emitter import Pointer, emitter, int64


@emitter
def read32(builder, address) -> int64:
    """The int32 at an address."""
    return builder.sext(load(builder, I32, builder.inttoptr(address, POINTER), 4), I64)


@emitter
def read64(builder, address) -> int64:
    """The int64 at an address."""
    return load(builder, I64, builder.inttoptr(address, POINTER), 8)


@emitter
def clear(builder, at: Pointer, count) -> None:
    """Zero so many bytes."""
    call(builder, "llvm.memset.p0.i64", VOID, at, I8(0), count, I1(0))


@emitter
def write32(builder, address, source) -> None:
    """Copy the four bytes at one address to another."""
    to, value = (builder.inttoptr(x, I32.as_pointer()) for x in (address, source))
    builder.store(builder.load(value, align=4), to, align=4)
