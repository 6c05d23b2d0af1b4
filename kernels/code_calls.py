"""Calls in compiled code: builtin functions, NumPy's, classes, other compiled functions, functions that emit code."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import jit
from .code_numbers import absolute, cast, convert, extreme, float_function
from .code_tasks import TASKS
from .code_types import (
    BOOLEAN,
    FLOAT64,
    INT64,
    NOTHING,
    Array,
    CPointer,
    Items,
    Literal,
    Number,
    Pointer,
    Range,
    Type,
    UnsupportedError,
    Value,
    constant,
)
from .code_values import array_at, lengths, repeat, store
from .jit import ir
from .record import Record

if TYPE_CHECKING:
    from .code_functions import Function

_I64 = ir.IntType(64)


def aggregate(builder: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    """Parts of a value as one value of LLVM."""
    found = ir.Constant(ir.LiteralStructType([part.type for part in parts]), ir.Undefined)
    for place, part in enumerate(parts):
        found = builder.insert_value(found, part, place)
    return found


def separate(builder: ir.IRBuilder, found: ir.Value, parts: Sequence[ir.Type]) -> list[ir.Value]:
    """The inverse, for parts of these types."""
    if len(parts) < 2:
        return [found] * len(parts)
    return [builder.extract_value(found, place) for place in range(len(parts))]


class _Context:
    """What functions that emit code ask Numba's context for."""

    @staticmethod
    def get_dummy_value() -> None:
        return None

    @staticmethod
    def get_constant(kind: Number, value: Any) -> ir.Value:
        return kind.ir(value)

    @staticmethod
    def get_value_type(kind: Type) -> ir.Type:
        (part,) = kind.parts
        return part


def _bind(signature: inspect.Signature, arguments: list[Value], keywords: dict[str, Value]) -> list[Value]:
    """Arguments in the order of the parameters; omitted ones have their defaults."""
    if not keywords and len(arguments) == len(signature.parameters):
        return arguments
    try:
        found = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise UnsupportedError(str(error)) from None
    found.apply_defaults()
    return [each if isinstance(each, Value) else constant(each) for each in found.arguments.values()]


def _subroutine(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A compiled function."""
    arguments = _bind(inspect.signature(callee.py_func), arguments, keywords)
    return function.module.run(callee, function.builder, arguments, function)


def _external(function: Function, callee: jit.External, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A C function."""
    kinds = [Number(name) for name in callee.arguments]
    result = NOTHING if callee.result == "void" else Number(callee.result)
    module, parts = function.module.ir, result.parts or [ir.VoidType()]
    made = module.globals.get(callee.name) or ir.Function(
        module, ir.FunctionType(parts[0], [kind.ir for kind in kinds]), callee.name
    )
    values = [convert(function.builder, x, kind).parts[0] for x, kind in zip(arguments, kinds, strict=True)]
    return Value(result, separate(function.builder, function.builder.call(made, values), result.parts))


def _intrinsic(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A function that emits code."""
    if callee in TASKS:
        return TASKS[callee](function, callee, arguments, keywords)
    kinds = [each.type for each in arguments]
    if callee.prefers_literals:
        kinds = [
            kind if each.number is None else Literal(each.number) for kind, each in zip(kinds, arguments, strict=True)
        ]
    signature, codegen = callee.__wrapped__(None, *kinds)
    if len(signature.args) != len(arguments) or keywords:
        raise UnsupportedError(f"{callee.__name__} with {len(arguments)} arguments")
    builder, values = function.builder, []
    for value, kind in zip(arguments, signature.args, strict=True):
        parts = value.parts if isinstance(kind, Literal) else convert(builder, value, kind).parts
        values.append(aggregate(builder, parts) if isinstance(kind, Items) and parts else parts[0] if parts else None)
    found = codegen(_Context, builder, signature, values)
    kind = signature.return_type
    if isinstance(kind, Items):
        return Value(kind, [builder.extract_value(found, place) for place in range(len(kind.parts))])
    return Value(kind, separate(builder, found, kind.parts))


def _tuple_class(function: Function, callee: type, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A NamedTuple."""
    return function.tuple_of(callee, _bind(inspect.signature(callee), arguments, keywords))


def _record(function: Function, callee: type[Record], arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A record, in memory of the function."""
    made, builder = Pointer(callee), function.builder
    if arguments or keywords.keys() != callee.places().keys():
        raise UnsupportedError(f"{callee.__name__} with other fields")
    place = builder.ptrtoint(function.alloca(ir.ArrayType(_I64, callee.words())), _I64)
    for name, (at, kind) in callee.places().items():
        to, field = builder.add(place, _I64(8 * at)), made.field(name)
        value = convert(builder, keywords[name], field).parts[0]
        if isinstance(field, Pointer):
            for word in range(kind.words()):
                source = builder.inttoptr(builder.add(value, _I64(8 * word)), _I64.as_pointer())
                target = builder.inttoptr(builder.add(to, _I64(8 * word)), _I64.as_pointer())
                builder.store(builder.load(source), target)
        else:
            builder.store(value, builder.inttoptr(to, _I64.as_pointer()))
    return Value(made, [place])


_ROUNDED = {
    np.floor: "floor",
    np.rint: "rint",
    np.trunc: "trunc",
    np.sqrt: "sqrt",
    np.copysign: "copysign",
    math.sqrt: "sqrt",
}


def _number(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A conversion."""
    kind = {int: INT64, float: FLOAT64, bool: BOOLEAN}.get(callee) or Number(np.dtype(callee).name)
    (value,) = arguments
    return cast(function.builder, value, kind)


def _builtin(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A function of Python or NumPy."""
    builder = function.builder
    if keywords:
        raise UnsupportedError(f"keywords of {callee.__name__}")
    if callee is abs:
        return absolute(builder, *arguments)
    if callee in (min, max):
        return extreme(builder, callee.__name__, arguments)
    if callee is enumerate:
        (items,) = arguments
        if not isinstance(items.type, Items):
            raise UnsupportedError(f"enumerate of {items.type}")
        pairs = [(constant(place), items.type.item(items, place)) for place in range(len(items.type))]
        return function.tuple_of(tuple, [function.tuple_of(tuple, list(pair)) for pair in pairs])
    if callee is len:
        kind = arguments[0].type
        return constant(len(kind)) if isinstance(kind, Items) else lengths(arguments[0])[0]
    if callee is range:
        places = [convert(builder, each, INT64).parts[0] for each in arguments]
        start, stop, step = {1: [_I64(0), *places, _I64(1)], 2: [*places, _I64(1)]}.get(len(places), places)
        return Value(Range(), [start, stop, step])
    return float_function(builder, _ROUNDED[callee], *arguments)


def _carray(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """An array at an address."""
    place, shape = arguments
    items = [shape.type.item(shape, i) for i in range(len(shape.type))] if isinstance(shape.type, Items) else [shape]
    if not isinstance(place.type, CPointer):
        raise UnsupportedError(f"an array at {place.type}")
    return array_at(function.builder, place, [convert(function.builder, each, INT64).parts[0] for each in items])


def has_arrays(kind: Type) -> bool:
    return isinstance(kind, Array) or (isinstance(kind, Items) and any(map(has_arrays, kind.types)))


def _c_call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), arguments)


def release(builder: ir.IRBuilder, memory: ir.Value) -> None:
    _c_call(builder, "free", ir.VoidType(), memory)


def _new_array(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`numpy.empty`, `zeros` of a shape and a type, and `arange` of a number."""
    shape, *rest = arguments
    kind = INT64 if callee is np.arange else Number(np.dtype(rest[0].type.key[0]).name) if rest else FLOAT64
    builder, items = function.builder, [shape]
    if isinstance(shape.type, Items):
        items = [shape.type.item(shape, index) for index in range(len(shape.type))]
    lengths_of = [convert(builder, each, INT64).parts[0] for each in items]
    count = lengths_of[0]
    for length in lengths_of[1:]:
        count = builder.mul(count, length)
    memory = _c_call(builder, "calloc", ir.IntType(8).as_pointer(), count, _I64(kind.size))
    function.own(memory)
    place = Value(CPointer(kind), [builder.bitcast(memory, kind.stored.as_pointer())])
    made = array_at(builder, place, lengths_of)
    if callee is np.arange:
        repeat(
            function,
            count,
            lambda index: store(builder, Value(INT64, [index]), builder.gep(made.parts[0], [index]), kind),
        )
    return made


def _is_class(base: type) -> Callable[[Any], bool]:
    return lambda callee: isinstance(callee, type) and issubclass(callee, base)


_BUILTINS = {abs, min, max, len, range, enumerate, *_ROUNDED}

CALLS: list[tuple[Callable[[Any], bool], Callable[..., Value]]] = [
    (lambda callee: isinstance(callee, jit.Subroutine), _subroutine),
    (lambda callee: isinstance(callee, jit.External), _external),
    (lambda callee: callee is jit.carray, _carray),
    (lambda callee: any(callee is each for each in (np.empty, np.zeros, np.arange)), _new_array),
    (lambda callee: isinstance(callee, jit.Intrinsic), _intrinsic),
    (_is_class(Record), _record),
    (lambda callee: callee in (int, float, bool) or _is_class(np.generic)(callee), _number),
    (_is_class(tuple), _tuple_class),
    (lambda callee: isinstance(callee, (type, np.ufunc, type(abs))) and callee in _BUILTINS, _builtin),
]
"""How what can be called is recognised, and emitted."""
