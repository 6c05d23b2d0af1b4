"""Rows of int64 in memory, as compiled loops read them: tables, jobs, the fields of Python objects; and pointers.

They are passed as addresses: all threads would change the reference count of an array in a job at once, which takes
longer than the work of the job.
"""

from __future__ import annotations

from .jit import carray, external, intrinsic, ir, subroutine, types


def _word(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
    return builder.gep(builder.inttoptr(address, ir.IntType(64).as_pointer()), [index])


@intrinsic
def get(typingctx, address, index):
    """The int64 at an index from an address on."""

    def codegen(context, builder, signature, arguments):
        return builder.load(_word(builder, *arguments))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def put(typingctx, address, index, value):
    """Write the int64 at an index from an address on."""

    def codegen(context, builder, signature, arguments):
        builder.store(arguments[2], _word(builder, *arguments[:2]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def pointer(typingctx, address, like):
    """An address as a pointer to numbers of the type of `like`, for `numba.carray`."""

    def codegen(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(types.int64, like), codegen


_malloc, _free = external("malloc", "int64", "int64"), external("free", "void", "int64")


@subroutine
def allocate(count, zero):
    """Memory for so many numbers of the type of `zero`, not set, until `free`: arrays are not counted in kernels."""
    return carray(pointer(_malloc(8 * count), zero), count)


@intrinsic
def address(typingctx, array):
    """Where the numbers of an array begin."""

    def codegen(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), codegen


@subroutine
def free(array):
    """Give the memory of `allocate` back."""
    _free(address(array))


@intrinsic
def record_at(typingctx, kind, address):
    """The record of a class without tags whose fields lie at an address, which a leaf takes as a number."""
    from .record_types import Pointer

    def codegen(context, builder, signature, arguments):
        return arguments[1]

    return Pointer(kind.record)(kind, types.int64), codegen


@intrinsic
def behind(typingctx, record, index):
    """The record that many records behind another one in memory."""
    size = ir.IntType(64)(8 * record.record.words())

    def codegen(context, builder, signature, arguments):
        return builder.add(arguments[0], builder.mul(arguments[1], size))

    return record(record, types.int64), codegen
