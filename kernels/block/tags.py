"""Tags: small NamedTuple classes whose type selects code while a kernel is compiled.

Numba keeps compiled kernels between processes when code is selected by the type of an argument. Closures over kernels
are compiled anew in every process, and string literals cost milliseconds a call. A tag's fields are run-time numbers or
further tags; its class has the constants and the functions that emit code.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..runtime.jit import intrinsic, types


def tag_class(name: str, module: str, *bases: Any, **constants: Any) -> Any:
    """The class of a tag with these constants, without fields, or like others but for these."""
    made: Any = type(name, bases, {"__module__": module}) if bases else namedtuple(name, (), module=module)
    for each, value in constants.items():
        setattr(made, each, value)
    return made


def instance(tag: Any) -> type:
    """The class of a tag, given Numba's type of it."""
    return tag.instance_class


def field_class(tag: Any, name: str) -> type:
    """The class of the tag in field `name` of a tag, given Numba's type of the latter."""
    return tag.types[tag.fields.index(name)].instance_class


@intrinsic(prefer_literal=True)
def constant(typingctx, tag, name):
    """The integer `name` of the tag's class, as a constant that the compiler sees; a function there is asked with
    Numba's type of the tag."""
    value = getattr(tag.instance_class, name.literal_value)
    value = int(value(tag) if callable(value) else value)

    def codegen(context, builder, signature, arguments):
        return context.get_constant(types.int64, value)

    return types.int64(tag, name), codegen
