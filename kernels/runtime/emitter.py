"""Functions that emit instructions, which compiled code calls as its own.

    @emitter
    def add_row(builder, kernel: Class, row: Pointer, count, scale: float64) -> None:
        ...

Annotations are read as text (`from __future__ import annotations`). An argument is an int64 unless its annotation says
otherwise:

    boolean, float64    a value of that type
    Value               a value of any type
    Pointer             an address, which the function receives as a pointer to bytes
    Fields              a tuple, received as a list of its values; a named one as one of values
    Type, Class         a tag, received as Numba's type, or as its class
    Constant            a literal, received as Python's value

The result is of the type that is named, none for `None`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .jit import cgutils, intrinsic, ir, types

boolean = Any
float64 = Any
int64 = Any
Value = Any
Pointer = Any
Fields = Any
Type = Any
Class = Any
Constant = Any

_OF_TYPE = {
    "Type": lambda kind: kind,
    "Class": lambda kind: kind.instance_class,
    "Constant": lambda kind: kind.literal_value,
}
_AS_GIVEN = {"Value", "Fields", *_OF_TYPE}


def _receive(builder: ir.IRBuilder, wanted: str, kind: Any, value: ir.Value) -> Any:
    if wanted in _OF_TYPE:
        return _OF_TYPE[wanted](kind)
    if wanted == "Fields":
        values = cgutils.unpack_tuple(builder, value, len(kind))
        return kind.instance_class(*values) if hasattr(kind, "instance_class") else values
    return builder.inttoptr(value, ir.IntType(8).as_pointer()) if wanted == "Pointer" else value


def emitter(function: Callable) -> Any:
    """Have compiled code call a function that emits instructions."""
    result = function.__annotations__["return"].replace("None", "void")
    names = list(inspect.signature(function).parameters)[1:]
    wanted = [function.__annotations__.get(name, "int64") for name in names]

    def define(typingctx: Any, *kinds: Any) -> tuple[Any, Callable]:
        named = [each.replace("Pointer", "int64") for each in wanted]
        taken = [kind if name in _AS_GIVEN else getattr(types, name) for name, kind in zip(named, kinds, strict=True)]

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, values: list[ir.Value]) -> Any:
            received = [_receive(builder, *each) for each in zip(wanted, kinds, values, strict=True)]
            found = function(builder, *received)
            return context.get_dummy_value() if result == "void" else found

        return getattr(types, result)(*taken), codegen

    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in ("typingctx", *names)]
    functools.update_wrapper(define, function).__signature__ = inspect.Signature(parameters)
    return intrinsic(prefer_literal="Constant" in wanted)(define)
