"""Types and values of the compiled code that `code_functions` emits without Numba.

A value is a type and its *parts*: numbers in LLVM's language. A tuple has the parts of its items, an array its address,
its lengths and its strides in bytes, and a record is its address. A tag has none, and neither have modules, classes and
functions (`Static`). So fields and items are selected while code is emitted, and functions take and return parts.

Functions that emit code (`jit.intrinsic`) ask these types for what they ask Numba's types for, by the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .jit import ir
from .record import Record, Tag


class UnsupportedError(Exception):
    """A function is outside the subset of Python that is translated; Numba compiles it."""

    place = ""
    """The function and the line."""

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}" if self.place else super().__str__()


class Type:
    """Two types are equal where their keys are."""

    parts: Sequence[ir.Type] = ()

    def __init__(self, *key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.key == other.key

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.key}"

    def __call__(self, *arguments: Type) -> Signature:
        """The signature of a function that emits code, and returns this type."""
        return Signature(self, arguments)


class Signature(NamedTuple):
    return_type: Type
    args: tuple


_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
_NUMBERS: dict[str, ir.Type] = {
    **{f"{sign}int{bits}": ir.IntType(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": ir.IntType(1),
    "float32": _FLOAT,
    "float64": _DOUBLE,
    "complex64": ir.LiteralStructType([_FLOAT] * 2),
    "complex128": ir.LiteralStructType([_DOUBLE] * 2),
}


class Number(Type):
    """A number by the name of its type in NumPy; `ir` is how it is worked with, and `stored` how it lies in memory."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        dtype = np.dtype(name)
        self.name, self.kind, self.bits, self.size = name, dtype.kind, 8 * dtype.itemsize, dtype.itemsize
        if name not in _NUMBERS:
            raise UnsupportedError(f"numbers of type {name}")
        self.ir = _NUMBERS[name]
        self.stored = ir.IntType(8) if self.kind == "b" else self.ir
        self.parts = [self.ir]

    is_integer = property(lambda self: self.kind in "iu")


class Literal(Number):
    """The type of one integer, which selects code."""

    def __init__(self, value: int) -> None:
        super().__init__("int64")
        self.literal_value = value


INT64, UINT64, FLOAT32, FLOAT64, BOOLEAN = map(Number, ("int64", "uint64", "float32", "float64", "bool"))


class _Nothing(Type):
    """The type of None."""


NOTHING = _Nothing()


class Text(Type):
    """The type of one string, which selects code."""

    literal_value = property(lambda self: self.key[0])


class Static(Type):
    """The type of one object of Python: a module, a class, a function."""

    of = property(lambda self: self.key[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


class Items(Type):
    """The type of a tuple, by its class and the types of its items."""

    def __init__(self, instance_class: type, types: tuple[Type, ...]) -> None:
        super().__init__(instance_class, tuple(types))
        self.instance_class, self.types = instance_class, tuple(types)
        self.fields: tuple[str, ...] = getattr(instance_class, "_fields", ())
        self.parts = [part for each in types for part in each.parts]

    def __len__(self) -> int:
        return len(self.types)

    def __iter__(self) -> Any:
        return iter(self.types)

    def item(self, value: Value, index: int) -> Value:
        start = sum(len(each.parts) for each in self.types[:index])
        kind = self.types[index]
        return Value(kind, value.parts[start : start + len(kind.parts)])


class Pointer(Type):
    """The type of a record of a class (`record`)."""

    parts = (ir.IntType(64),)
    record = property(lambda self: self.key[0])

    def field(self, name: str) -> Type:
        if name not in self.record.places():
            raise UnsupportedError(f"{self.record.__name__} has no field {name!r}")
        kind = self.record.places()[name][1]
        if kind is Tag:
            return type_of(self.record.tags[name])
        return Pointer(kind) if isinstance(kind, type) and issubclass(kind, Record) else INT64


class CPointer(Type):
    """The type of the address of numbers of a type, for `carray`."""

    def __init__(self, number: Number) -> None:
        super().__init__(number)
        self.number, self.parts = number, [number.stored.as_pointer()]


class Array(Type):
    """The type of an array: of numbers, its dimensions, whether it is contiguous in the order of C."""

    def __init__(self, number: Number, ndim: int, contiguous: bool) -> None:
        super().__init__(number, ndim, contiguous)
        self.number, self.ndim, self.contiguous = number, ndim, contiguous
        self.parts = [number.stored.as_pointer(), *[ir.IntType(64)] * (2 * ndim)]


class Range(Type):
    """The type of a range: start, end, step."""

    parts = (ir.IntType(64),) * 3


class _OfTag(Type):
    tag = property(lambda self: self.key[0])


class Lanes(_OfTag):
    """The type of a vector of a tag (`linalg.lanes`)."""

    def __init__(self, tag: Any) -> None:
        super().__init__(tag)
        self.parts = [ir.VectorType(tag.element, tag.lanes)]


class Mask(_OfTag):
    """The type of one truth value for each lane."""

    def __init__(self, tag: Any) -> None:
        super().__init__(tag)
        self.parts = [ir.VectorType(ir.IntType(1), tag.lanes)]


class Value:
    """A type with its parts."""

    __slots__ = ("parts", "type")

    def __init__(self, kind: Type, parts: list[ir.Value]) -> None:
        self.type, self.parts = kind, list(parts)

    @property
    def number(self) -> Any:
        """The number that this is while code is emitted, or None."""
        found = self.parts[0] if isinstance(self.type, Number) else None
        return found.constant if isinstance(found, ir.Constant) and isinstance(found.constant, (int, float)) else None


def constant(value: Any) -> Value:
    """An object of Python as a value."""
    if isinstance(value, (bool, np.bool_)):
        return Value(BOOLEAN, [ir.IntType(1)(int(value))])
    if isinstance(value, Record):
        raise UnsupportedError("a record that is a global")
    if isinstance(value, np.generic):
        kind = Number(value.dtype.name)
        return Value(kind, [kind.ir(value.item())])
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UnsupportedError(f"the integer {value}")
        return Value(INT64, [INT64.ir(value)])
    if isinstance(value, float):
        return Value(FLOAT64, [FLOAT64.ir(value)])
    if value is None:
        return Value(NOTHING, [])
    if isinstance(value, str):
        return Value(Text(value), [])
    if isinstance(value, tuple):
        items = [constant(item) for item in value]
        return Value(
            Items(type(value), tuple(item.type for item in items)), [part for item in items for part in item.parts]
        )
    return Value(Static(value), [])


def type_of(value: Any) -> Type:
    """The type of an object of Python."""
    return constant(value).type


class _Names:
    """What functions that emit code ask for by name, of types and of `cgutils`."""

    int64, float64, float32, boolean, void = INT64, FLOAT64, FLOAT32, BOOLEAN, NOTHING
    CPointer, Lanes, Mask = CPointer, Lanes, Mask

    @staticmethod
    def alloca_once(builder: ir.IRBuilder, kind: ir.Type) -> ir.Value:
        with builder.goto_entry_block():
            return builder.alloca(kind)

    @staticmethod
    def unpack_tuple(builder: ir.IRBuilder, found: ir.Value, count: int | None = None) -> list[ir.Value]:
        return [builder.extract_value(found, place) for place in range(len(found.type.elements))]

    @staticmethod
    def get_or_insert_function(module: ir.Module, kind: ir.FunctionType, name: str) -> ir.Function:
        return module.globals.get(name) or ir.Function(module, kind, name)

    @staticmethod
    def UniTuple(kind: Type, count: int) -> Items:
        return Items(tuple, (kind,) * count)

    @staticmethod
    def NamedUniTuple(kind: Type, count: int, instance_class: type) -> Items:
        return Items(instance_class, (kind,) * count)


names = _Names()
