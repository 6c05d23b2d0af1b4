"""Numba's type of the address of a record (`record`), whose attributes are loads.

Imported by the compiler alone: it defines classes on Numba's.
"""

from __future__ import annotations

import inspect
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils

from . import native
from .record import Record, Tag

_WORD = ir.IntType(64)


class Pointer(types.Type):
    """Numba's type of a record of a class."""

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        super().__init__(f"Pointer({native.text([record.pointer])})")

    def field(self, name: str) -> Any:
        """Numba's type of a field; None for an unknown field."""
        _, kind = self.record.places().get(name, (0, None))
        if kind is Tag:
            return numba.typeof(self.record.tags[name])
        return Pointer(kind) if isinstance(kind, type) and issubclass(kind, Record) else kind and types.int64

    def can_convert_to(self, context: Any, other: Any) -> Any:
        if other == types.int64 or (isinstance(other, Pointer) and issubclass(self.record, other.record)):
            return numba.core.typeconv.Conversion.safe
        return None


@numba.extending.register_model(Pointer)
class _PointerModel(numba.extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Pointer) -> None:
        super().__init__(manager, kind, _WORD)


@numba.extending.infer_getattr
class _Fields(numba.core.typing.templates.AttributeTemplate):
    key = Pointer

    def generic_resolve(self, record: Pointer, name: str) -> Any:
        return record.field(name)


@numba.extending.lower_getattr_generic(Pointer)
def _load(context: Any, builder: ir.IRBuilder, record: Pointer, address: ir.Value, name: str) -> ir.Value:
    found, (place, _) = record.field(name), record.record.places()[name]
    if found == types.int64:
        at = builder.gep(builder.inttoptr(address, ir.IntType(8).as_pointer()), [_WORD(8 * place)])
        return builder.load(builder.bitcast(at, _WORD.as_pointer()), align=8)
    return builder.add(address, _WORD(8 * place)) if isinstance(found, Pointer) else context.get_constant_undef(found)


@numba.extending.lower_setattr_generic(Pointer)
def _store(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any, name: str) -> None:
    record, address = signature.args[0].record, arguments[0]
    at = builder.add(address, _WORD(8 * record.places()[name][0]))
    builder.store(arguments[1], builder.inttoptr(at, _WORD.as_pointer()))


class _Maker(types.Callable, types.Opaque):
    """Numba's type of a class of records without tags, which compiled code calls with the names of all fields."""

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        super().__init__(f"class({native.text([record.pointer])})")

    def get_call_type(self, context: Any, arguments: tuple, keywords: dict[str, Any]) -> Any:
        if arguments or keywords.keys() != self.record.places().keys():
            return None
        made = Pointer(self.record)
        names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.record.places()]
        return made(*map(made.field, self.record.places())).replace(pysig=inspect.Signature(names))

    def get_call_signatures(self) -> tuple[tuple, bool]:
        return (), True

    def get_impl_key(self, signature: Any) -> Any:
        return type(self)


@numba.core.typing.typeof.typeof_impl.register(type(Record))
def _type_of_class(record: type[Record], context: Any) -> _Maker:
    return _Maker(record)


numba.core.datamodel.register_default(_Maker)(numba.core.datamodel.models.OpaqueModel)


@numba.extending.lower_builtin(_Maker, types.VarArg(types.Any))
def _make(context: Any, builder: ir.IRBuilder, signature: Any, values: list[ir.Value]) -> ir.Value:
    made, pointer = signature.return_type, _WORD.as_pointer()
    memory = cgutils.alloca_once(builder, ir.ArrayType(_WORD, made.record.words()))
    address = builder.ptrtoint(memory, _WORD)
    for (name, (place, kind)), value in zip(made.record.places().items(), values, strict=True):
        at = builder.inttoptr(builder.add(address, _WORD(8 * place)), pointer)
        if isinstance(made.field(name), Pointer):
            cgutils.raw_memcpy(builder, at, builder.inttoptr(value, pointer), _WORD(kind.words()), 8)
        else:
            builder.store(value, at)
    return address


@numba.extending.lower_cast(Pointer, types.int64)
@numba.extending.lower_cast(Pointer, Pointer)
def _cast(context: Any, builder: ir.IRBuilder, source: Any, target: Any, value: ir.Value) -> ir.Value:
    return value
