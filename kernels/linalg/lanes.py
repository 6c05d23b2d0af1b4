"""Vectors as values of compiled code, for many small matrices at once: lane l belongs to matrix l of a group.

A group of matrices is interleaved: the vector at `address + 64 * e` holds element e of all of them (`pack`, `unpack`).
Arithmetic that treats every matrix alike is then arithmetic on whole vectors, whatever the size of the matrices, and
what is decided for one matrix (a pivot, the end of an iteration) is a mask. Lanes never see each other, so that the
bits of a result do not depend on the place of a matrix in its batch.

A vector is 64 bytes for every CPU; LLVM splits it where registers are narrower.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..block.emit import (
    F32,
    F64,
    I1,
    I32,
    I64,
    POINTER,
    broadcast,
    call,
    load,
    masked_bits,
    offset,
    store,
    transpose,
    vector,
)
from ..block.tags import constant, instance, tag_class
from ..runtime.emitter import Class, emitter, float64, int64
from ..runtime.jit import intrinsic, ir, subroutine, types, when_compiling

VECTOR_BYTES = 64


class Float32(NamedTuple):
    """Tag: 16 float32, with a fused multiply-add. The smallest normal number is `tiny`, the unit of rounding `eps`."""

    element, integer, size, lanes, fused = F32, I32, 4, 16, True
    exponent_mask, sign_mask = 0x7F800000, 0x7FFFFFFF
    tiny, eps, big_power = 2.0**-126, 2.0**-23, 2.0**120


PlainFloat32 = tag_class(
    "PlainFloat32", __name__, element=F32, integer=I32, size=4, lanes=16, fused=False, exponent_mask=2139095040,
    sign_mask=2147483647, tiny=2.0 ** (-126), eps=2.0 ** (-23), big_power=2.0 ** 120,
)  # fmt: skip
"""The same for a CPU where a fused multiply-add would be a call of the C library."""


class Float64(NamedTuple):
    """Tag: 8 float64, with a fused multiply-add."""

    element, integer, size, lanes, fused = F64, I64, 8, 8, True
    exponent_mask, sign_mask = 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF
    tiny, eps, big_power = 2.0**-1022, 2.0**-52, 2.0**1000


PlainFloat64 = tag_class(
    "PlainFloat64", __name__, element=F64, integer=I64, size=8, lanes=8, fused=False,
    exponent_mask=9218868437227405312, sign_mask=9223372036854775807, tiny=2.0 ** (-1022), eps=2.0 ** (-52),
    big_power=2.0 ** 1000,
)  # fmt: skip


@when_compiling
def _define_types() -> None:
    from . import lane_types  # noqa: F401


def lanes_of(kind: Any) -> Any:
    """Numba's type of a vector with this tag."""
    from .lane_types import Lanes

    return Lanes(kind)


@intrinsic
def load_lanes(typingctx, tag, address):
    kind = instance(tag)

    def codegen(context, builder, signature, arguments):
        at = builder.inttoptr(arguments[1], POINTER)
        return load(builder, vector(kind.element, kind.lanes), at, VECTOR_BYTES)

    return lanes_of(kind)(tag, types.int64), codegen


@intrinsic
def store_lanes(typingctx, address, value):
    def codegen(context, builder, signature, arguments):
        store(builder, arguments[1], builder.inttoptr(arguments[0], POINTER), VECTOR_BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, value), codegen


@intrinsic
def splat(typingctx, tag, value):
    """The number in every lane."""
    kind = instance(tag)

    def codegen(context, builder, signature, arguments):
        scalar = arguments[1] if kind.element is F64 else builder.fptrunc(arguments[1], F32)
        return broadcast(builder, scalar, kind.lanes)

    return lanes_of(kind)(tag, types.float64), codegen


def _product_sum(builder: ir.IRBuilder, tag: Any, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    if tag.fused:
        return call(builder, f"llvm.fma.v{tag.lanes}f{8 * tag.size}", a.type, a, b, c)
    return builder.fadd(builder.fmul(a, b), c)


@intrinsic
def fma(typingctx, a, b, c):
    """a * b + c"""

    def codegen(context, builder, signature, arguments):
        return _product_sum(builder, a.tag, *arguments)

    return a(a, a, a), codegen


@intrinsic
def fnma(typingctx, a, b, c):
    """c - a * b"""

    def codegen(context, builder, signature, arguments):
        x, y, z = arguments
        return _product_sum(builder, a.tag, builder.fneg(x), y, z)

    return a(a, a, a), codegen


@intrinsic
def root(typingctx, a):
    def codegen(context, builder, signature, arguments):
        return call(builder, f"llvm.sqrt.v{a.tag.lanes}f{8 * a.tag.size}", arguments[0].type, arguments[0])

    return a(a), codegen


@intrinsic
def exponent_part(typingctx, a):
    """The largest power of two that is at most |a|; 0 for zero and for subnormal numbers, Inf for Inf and NaN."""

    def codegen(context, builder, signature, arguments):
        return masked_bits(builder, arguments[0], a.tag.integer, a.tag.exponent_mask)

    return a(a), codegen


@intrinsic
def select(typingctx, mask, a, b):
    """Lane by lane, a where the mask is true, and b elsewhere."""

    def codegen(context, builder, signature, arguments):
        return builder.select(*arguments)

    return a(mask, a, a), codegen


@intrinsic
def any_lane(typingctx, mask):
    def codegen(context, builder, signature, arguments):
        bits = ir.IntType(mask.tag.lanes)
        return builder.icmp_unsigned("!=", builder.bitcast(arguments[0], bits), bits(0))

    return types.boolean(mask), codegen


def _places(builder: ir.IRBuilder, tag: Any, base: ir.Value, rows: ir.Value, stride: ir.Value) -> ir.Value:
    """For every lane the address of its own element in the vector at `base + rows[lane] * stride`."""
    wide = vector(I64, tag.lanes)
    numbers = builder.mul(builder.fptosi(rows, wide), broadcast(builder, stride, tag.lanes))
    own = ir.Constant(wide, [tag.size * lane for lane in range(tag.lanes)])
    places = builder.add(builder.add(numbers, own), broadcast(builder, base, tag.lanes))
    return builder.inttoptr(places, ir.VectorType(POINTER, tag.lanes))


@intrinsic
def gather(typingctx, base, rows, stride):
    """For every lane its element of the vector at `base + rows[lane] * stride`."""
    tag = rows.tag

    def codegen(context, builder, signature, arguments):
        places, kind = _places(builder, tag, *arguments), arguments[1].type
        everywhere = ir.Constant(vector(I1, tag.lanes), [1] * tag.lanes)
        name = f"llvm.masked.gather.v{tag.lanes}f{8 * tag.size}.v{tag.lanes}p0"
        return call(builder, name, kind, places, I32(tag.size), everywhere, ir.Constant(kind, ir.Undefined))

    return rows(types.int64, rows, types.int64), codegen


@intrinsic
def scatter(typingctx, base, rows, stride, value):
    """Write, for every lane, its element of the vector at `base + rows[lane] * stride`."""
    tag = rows.tag

    def codegen(context, builder, signature, arguments):
        places = _places(builder, tag, *arguments[:3])
        everywhere = ir.Constant(vector(I1, tag.lanes), [1] * tag.lanes)
        name = f"llvm.masked.scatter.v{tag.lanes}f{8 * tag.size}.v{tag.lanes}p0"
        call(builder, name, ir.VoidType(), arguments[3], places, I32(tag.size), everywhere)
        return context.get_dummy_value()

    return types.void(types.int64, rows, types.int64, rows), codegen


@emitter
def read(builder, kind: Class, address) -> float64:
    """The one number at an address, as float64."""
    value = load(builder, kind.element, builder.inttoptr(address, POINTER), kind.size)
    return value if kind.element is F64 else builder.fpext(value, F64)


@emitter
def write(builder, kind: Class, address, value: float64) -> None:
    """Write one number, rounded to the tag's type."""
    value = value if kind.element is F64 else builder.fptrunc(value, F32)
    store(builder, value, builder.inttoptr(address, POINTER), kind.size)


@emitter
def read_int32(builder, address) -> int64:
    return builder.sext(load(builder, I32, builder.inttoptr(address, POINTER), 4), I64)


@emitter
def write_int32(builder, address, value) -> None:
    store(builder, builder.trunc(value, I32), builder.inttoptr(address, POINTER), 4)


@intrinsic(prefer_literal=True)
def number(typingctx, tag, name):
    """The number `name` of the tag's class, as a float64 constant."""
    value = float(getattr(instance(tag), name.literal_value))

    def codegen(context, builder, signature, arguments):
        return context.get_constant(types.float64, value)

    return types.float64(tag, name), codegen


def _line_addresses(
    builder: ir.IRBuilder, tag: Any, base: ir.Value, stride: ir.Value, last: ir.Value
) -> list[ir.Value]:
    """Where the matrices of a group lie. Lanes beyond the last matrix repeat it, and so write the same bits again."""
    places = []
    for lane in range(tag.lanes):
        index = builder.select(builder.icmp_signed("<", I64(lane), last), I64(lane), last)
        places.append(builder.inttoptr(builder.add(base, builder.mul(index, stride)), POINTER))
    return places


@emitter
def _pack_square(builder, kind: Class, base, stride, last, target) -> None:
    """Interleave as many neighbouring elements of the matrices as a vector has lanes."""
    whole, to = vector(kind.element, kind.lanes), builder.inttoptr(target, POINTER)
    lines = [load(builder, whole, at, kind.size) for at in _line_addresses(builder, kind, base, stride, last)]
    for index, line in enumerate(transpose(builder, lines)):
        store(builder, line, offset(builder, to, VECTOR_BYTES * index), VECTOR_BYTES)


@emitter
def _unpack_square(builder, kind: Class, base, stride, last, source) -> None:
    whole, at = vector(kind.element, kind.lanes), builder.inttoptr(source, POINTER)
    lines = [load(builder, whole, offset(builder, at, VECTOR_BYTES * i), VECTOR_BYTES) for i in range(kind.lanes)]
    places = _line_addresses(builder, kind, base, stride, last)
    for line, to in zip(transpose(builder, lines), places, strict=True):
        store(builder, line, to, kind.size)


@subroutine
def pack(tag, base, last, elements, target):
    """Interleave matrices of so many elements, which lie one after the other; `last` is the number of the last one."""
    lanes, size = constant(tag, "lanes"), constant(tag, "size")
    stride = elements * size
    if elements < lanes:
        for lane in range(lanes):
            for element in range(elements):
                value = read(tag, base + min(lane, last) * stride + element * size)
                write(tag, target + element * VECTOR_BYTES + lane * size, value)
        return
    for step in range(0, elements, lanes):  # the last square overlaps the one before
        first = min(step, elements - lanes)
        _pack_square(tag, base + first * size, stride, last, target + first * VECTOR_BYTES)


@subroutine
def unpack(tag, source, elements, base, last):
    """The inverse of `pack`."""
    lanes, size = constant(tag, "lanes"), constant(tag, "size")
    stride = elements * size
    if elements < lanes:
        for lane in range(last + 1):
            for element in range(elements):
                value = read(tag, source + element * VECTOR_BYTES + lane * size)
                write(tag, base + lane * stride + element * size, value)
        return
    for step in range(0, elements, lanes):
        first = min(step, elements - lanes)
        _unpack_square(tag, base + first * size, stride, last, source + first * VECTOR_BYTES)
