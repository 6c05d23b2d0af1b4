"""Reading tables and clearing memory at addresses, for compiled loops."""

from __future__ import annotations

from ..block.emit import I1, I8, I32, I64, POINTER, VOID, call, load
from ..runtime.jit import intrinsic, types


@intrinsic
def read32(typingctx, address):
    """The int32 at an address."""

    def codegen(context, builder, signature, arguments):
        return builder.sext(load(builder, I32, builder.inttoptr(arguments[0], POINTER), 4), I64)

    return types.int64(types.int64), codegen


@intrinsic
def read64(typingctx, address):
    """The int64 at an address."""

    def codegen(context, builder, signature, arguments):
        return load(builder, I64, builder.inttoptr(arguments[0], POINTER), 8)

    return types.int64(types.int64), codegen


@intrinsic
def clear(typingctx, address, count):
    """Zero so many bytes."""

    def codegen(context, builder, signature, arguments):
        at = builder.inttoptr(arguments[0], POINTER)
        call(builder, "llvm.memset.p0.i64", VOID, at, I8(0), arguments[1], I1(0))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def write32(typingctx, address, source):
    """Copy the four bytes at one address to another."""

    def codegen(context, builder, signature, arguments):
        to, value = (builder.inttoptr(x, I32.as_pointer()) for x in arguments)
        builder.store(builder.load(value, align=4), to, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen
