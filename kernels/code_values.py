"""Fields and items of values of compiled code: of records, tuples and arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .code_numbers import cast, convert
from .code_types import (
    BOOLEAN,
    INT64,
    NOTHING,
    Array,
    CPointer,
    Items,
    Number,
    Pointer,
    Static,
    UnsupportedError,
    Value,
    constant,
)
from .jit import ir

if TYPE_CHECKING:
    from .code_functions import Function


def _word(builder: ir.IRBuilder, record: Value, name: str) -> ir.Value:
    assert isinstance(record.type, Pointer)
    return builder.add(record.parts[0], INT64.ir(8 * record.type.record.places()[name][0]))


def attribute(function: Function, value: Value, name: str) -> Value:
    """A field of a record or of a tuple, a property of an array, what a module or a class has."""
    kind, builder = value.type, function.builder
    if isinstance(kind, Static):
        return constant(getattr(kind.of, name))
    if isinstance(kind, Pointer):
        found = kind.field(name)
        if found == INT64:
            return Value(INT64, [builder.load(builder.inttoptr(_word(builder, value, name), INT64.ir.as_pointer()))])
        return Value(found, [_word(builder, value, name)] if found.parts else [])
    if isinstance(kind, Items):
        if name in kind.fields:
            return kind.item(value, kind.fields.index(name))
        return constant(getattr(kind.instance_class, name))
    if isinstance(kind, Array):
        if name == "shape":
            return function.tuple_of(tuple, lengths(value))
        if name == "size" and kind.ndim == 1:
            return lengths(value)[0]
        if name == "dtype":
            return constant(np.dtype(kind.number.name))
        if name == "ctypes":
            return value
        if name == "data":
            return Value(INT64, [builder.ptrtoint(value.parts[0], INT64.ir)])
    raise UnsupportedError(f"{name} of {kind}")


def store_attribute(function: Function, record: Value, name: str, value: Value) -> None:
    builder = function.builder
    if not isinstance(record.type, Pointer) or record.type.field(name) != INT64:
        raise UnsupportedError(f"the target {name} of {record.type}")
    at = builder.inttoptr(_word(builder, record, name), INT64.ir.as_pointer())
    builder.store(convert(builder, value, INT64).parts[0], at)


def load(builder: ir.IRBuilder, at: ir.Value, kind: Number) -> Value:
    """The number at a pointer."""
    found = builder.load(at)
    return Value(kind, [builder.icmp_unsigned("!=", found, kind.stored(0)) if kind == BOOLEAN else found])


def store(builder: ir.IRBuilder, value: Value, at: ir.Value, kind: Number) -> None:
    (number,) = cast(builder, value, kind).parts
    builder.store(builder.zext(number, kind.stored) if kind == BOOLEAN else number, at)


def view(builder: ir.IRBuilder, value: Value, kind: Number) -> Value:
    """The bits of a number, or of those of an array, as a type of the same size."""
    own = value.type.number if isinstance(value.type, Array) else value.type
    if not isinstance(own, Number) or own.size != kind.size or BOOLEAN in (own, kind):
        raise UnsupportedError(f"{value.type} as {kind}")
    if isinstance(value.type, Array):
        at = builder.bitcast(value.parts[0], kind.stored.as_pointer())
        return Value(Array(kind, value.type.ndim, value.type.contiguous), [at, *value.parts[1:]])
    return Value(kind, [builder.bitcast(value.parts[0], kind.ir)])


def lengths(array: Value) -> list[Value]:
    assert isinstance(array.type, Array)
    return [Value(INT64, [part]) for part in array.parts[1 : 1 + array.type.ndim]]


def array_at(builder: ir.IRBuilder, place: Value, shape: list[ir.Value]) -> Value:
    """The array of a shape at an address, contiguous in the order of C."""
    assert isinstance(place.type, CPointer)
    steps = [INT64.ir(place.type.number.size)]
    for length in reversed(shape[1:]):
        steps.insert(0, builder.mul(steps[0], length))
    return Value(Array(place.type.number, len(shape), True), [place.parts[0], *shape, *steps])


def _place(builder: ir.IRBuilder, bound: Value, length: ir.Value, default: ir.Value) -> ir.Value:
    """A bound of a slice as a place in an array."""
    if bound.type == NOTHING:
        return default
    at, zero = convert(builder, bound, INT64).parts[0], INT64.ir(0)
    if bound.number is None or bound.number < 0:
        at = builder.select(builder.icmp_signed("<", at, zero), builder.add(at, length), at)
        at = builder.select(builder.icmp_signed("<", at, zero), zero, at)
    if bound.number == 0:
        return zero
    return builder.select(builder.icmp_signed(">", at, length), length, at)


def _view(builder: ir.IRBuilder, array: Value, indices: list[Value]) -> Value | ir.Value:
    """What an array has at indices and slices: a pointer, or an array of what the slices leave."""
    kind = array.type
    assert isinstance(kind, Array)
    steps, at, shape, left = array.parts[1 + kind.ndim :], array.parts[0], [], []
    full = True
    indices = indices + [Value(Items(slice, (NOTHING, NOTHING)), [])] * (kind.ndim - len(indices))
    if len(indices) != kind.ndim:
        raise UnsupportedError("more indices than dimensions")
    contiguous = kind.contiguous
    moved = INT64.ir(0)
    for dim, index in enumerate(indices):
        length, step = array.parts[1 + dim], steps[dim]
        if isinstance(index.type, Items):
            assert index.type.instance_class is slice
            first = _place(builder, index.type.item(index, 0), length, INT64.ir(0))
            last = _place(builder, index.type.item(index, 1), length, length)
            whole = index.type.types == (NOTHING, NOTHING)
            contiguous = contiguous and (whole or not shape)
            if not whole:
                count = builder.sub(last, first)
                length = builder.select(builder.icmp_signed("<", count, INT64.ir(0)), INT64.ir(0), count)
            shape.append(length)
            left.append(step)
        else:
            first = convert(builder, index, INT64).parts[0]
            if index.number is None or index.number < 0:
                below = builder.icmp_signed("<", first, INT64.ir(0))
                first = builder.select(below, builder.add(first, length), first)
            contiguous = contiguous and not shape
        if kind.contiguous and dim == kind.ndim - 1:
            at = _move(builder, at, moved)
            at = builder.gep(at, [first])
            full = False
        else:
            moved = builder.add(moved, builder.mul(first, step))
    if full:
        at = _move(builder, at, moved)
    return Value(Array(kind.number, len(shape), contiguous), [at, *shape, *left]) if shape else at


def _move(builder: ir.IRBuilder, at: ir.Value, by: ir.Value) -> ir.Value:
    if isinstance(by, ir.Constant):
        return at
    bytes_at = builder.bitcast(at, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(bytes_at, [by]), at.type)


def _indices(index: Value) -> list[Value]:
    if isinstance(index.type, Items) and index.type.instance_class is tuple:
        return [index.type.item(index, place) for place in range(len(index.type))]
    return [index]


def element(function: Function, value: Value, index: Value) -> Value:
    """An item of a tuple, or what an array has at an index."""
    if isinstance(value.type, Items):
        place = index.number
        if not isinstance(place, int):
            return _any_item(function, value, index)
        return value.type.item(value, place % len(value.type))
    if not isinstance(value.type, Array):
        raise UnsupportedError(f"an item of {value.type}")
    found = _view(function.builder, value, _indices(index))
    return found if isinstance(found, Value) else load(function.builder, found, value.type.number)


def _any_item(function: Function, value: Value, index: Value) -> Value:
    """An item of a tuple of values of one type, which are stored for that."""
    kind, builder = value.type, function.builder
    if not isinstance(kind, Items) or len(set(kind.types)) != 1 or len(kind.parts) != len(kind):
        raise UnsupportedError(f"an item of {kind} at an index that is not constant")
    place, zero = function.alloca(ir.ArrayType(kind.parts[0], len(kind))), INT64.ir(0)
    for item, part in enumerate(value.parts):
        builder.store(part, builder.gep(place, [zero, INT64.ir(item)]))
    at = builder.gep(place, [zero, convert(builder, index, INT64).parts[0]])
    return Value(kind.types[0], [builder.load(at)])


def store_element(function: Function, array: Value, index: Value, value: Value) -> None:
    if not isinstance(array.type, Array):
        raise UnsupportedError(f"an item of {array.type} as a target")
    at = _view(function.builder, array, _indices(index))
    if isinstance(at, Value):
        _fill(function, at, value)
        return
    store(function.builder, value, at, array.type.number)


def _fill(function: Function, array: Value, value: Value) -> None:
    """Set all numbers of an array."""
    kind, builder = array.type, function.builder
    if not isinstance(kind, Array) or not kind.contiguous or not isinstance(value.type, Number):
        raise UnsupportedError(f"{value.type} for {kind}")
    count = INT64.ir(1)
    for length in lengths(array):
        count = builder.mul(count, length.parts[0])
    repeat(function, count, lambda index: store(builder, value, builder.gep(array.parts[0], [index]), kind.number))


def repeat(function: Function, count: ir.Value, body: Callable[[ir.Value], object]) -> None:
    """Emit a loop over range(count)."""
    builder, before = function.builder, function.builder.block
    test, again, end = (function.function.append_basic_block(name) for name in ("test", "again", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(INT64.ir)
    index.add_incoming(INT64.ir(0), before)
    builder.cbranch(builder.icmp_signed("<", index, count), again, end)
    builder.position_at_end(again)
    body(index)
    index.add_incoming(builder.add(index, INT64.ir(1), flags=["nsw"]), again)
    builder.branch(test)
    builder.position_at_end(end)
