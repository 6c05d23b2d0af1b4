"""Machine code of the store as Python functions: loaded by llvmlite alone, called without a dispatcher.

An object file of the store has one function, `ENTRY`, with CPython's calling convention METH_FASTCALL. It compares the
types of its arguments with those in the tuple that it is bound to, and returns NotImplemented if one differs. Otherwise
it reads the numbers in them, releases the interpreter lock, and runs. The last item of the tuple is the exception of a
failing kernel. From NumPy's arrays and scalars it reads the same fields as the inline functions of NumPy's C interface,
which are stable for extension modules.

The kind of an argument says how it is read: the name of a scalar type, an `Array`, or the class of a tuple with the
kinds of its items, or a `Pointer`.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .first_use import importing

with importing("llvmlite"):
    from llvmlite import binding

ENTRY = "minitorch_entry"
"""The symbol of the function that Python calls."""

TUPLE_ITEMS = "minitorch_tuple_items"
"""The symbol of the offset of a tuple's items in this version of Python."""

_METH_FASTCALL = 0x80
_tuple_items = ctypes.c_int64(tuple.__basicsize__)
binding.add_symbol(TUPLE_ITEMS, ctypes.addressof(_tuple_items))
_SCALARS = {int: "int64", float: "float64", bool: "bool", type(None): "none"}
_NUMPY_SCALARS = {
    getattr(np, name): f"numpy.{name}"
    for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "float32", "complex64", "complex128")
}
_TYPES: dict[str, type] = {kind: scalar for scalar, kind in (_SCALARS | _NUMPY_SCALARS).items()}


class Array(NamedTuple):
    """The kind of an array: its dtype's name, its dimensions, whether it is contiguous in the order of C."""

    dtype: str
    ndim: int
    contiguous: bool


class Items(NamedTuple):
    """The kind of a tuple."""

    of: type
    kinds: tuple


class Pointer(NamedTuple):
    """The kind of a record (`record`): its class, and the kinds of the tags in its type."""

    of: type
    kinds: tuple


def plain(argument: Any) -> Any:
    """An argument of a type that machine code compares with: not a subclass, not an equal dtype."""
    kind = type(argument)
    if kind is np.int64:
        return int(argument)
    if kind is np.float64:
        return float(argument)
    if kind is np.bool_:
        return bool(argument)
    if isinstance(argument, np.ndarray):
        dtype, array = np.dtype(argument.dtype.str), argument.view(np.ndarray)
        return array if array.dtype is dtype else array.view(dtype)
    if isinstance(argument, tuple):
        items = tuple(map(plain, argument))
        if any(item is not before for item, before in zip(items, argument, strict=True)):
            return kind(*items) if hasattr(kind, "_fields") else items
    return argument


def kind_of(argument: Any) -> Any:
    """The kind of an argument, of those that `plain` returns."""
    kind = type(argument)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind is np.ndarray:
        return Array(argument.dtype.name, argument.ndim, bool(argument.flags.c_contiguous))
    if isinstance(argument, tuple):
        return Items(kind, tuple(map(kind_of, argument)))
    if kind in _NUMPY_SCALARS:
        return _NUMPY_SCALARS[kind]
    if isinstance(argument, int):
        return kind.pointer
    raise TypeError(f"compiled code takes no {kind.__name__}: {argument!r}")


def expected_types(kinds: Iterable[Any]) -> Iterator[Any]:
    """The objects that machine code compares the types of its arguments with, in its order."""
    for kind in kinds:
        if isinstance(kind, Array):
            yield from (np.ndarray, np.dtype(kind.dtype))
        elif isinstance(kind, Items):
            yield kind.of
            yield from expected_types(kind.kinds)
        elif isinstance(kind, Pointer):
            yield kind.of
        else:
            yield _TYPES[kind]


def text(kinds: Iterable[Any]) -> str:
    """Kinds as a text that is the same in all processes."""
    parts = [
        f"{kind.of.__module__.partition('.kernels.')[2]}.{kind.of.__qualname__}({text(kind.kinds)})"
        if isinstance(kind, (Items, Pointer))
        else str(kind)
        for kind in kinds
    ]
    return ", ".join(parts)


def modules_of(kinds: Iterable[Any]) -> set[Path]:
    """The files that define the classes of tuples among kinds: tags, and what they hold, emit code."""
    found: set[Path] = set()
    for kind in kinds:
        if isinstance(kind, (Items, Pointer)):
            if kind.of is not tuple:
                found.add(Path(inspect.getfile(kind.of)).resolve())
            found |= modules_of(kind.kinds)
    return found


@functools.cache
def target_machine(cpu: str = "", features: str = "") -> Any:
    """LLVM's description of a CPU, as its compilers of running processes take it."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    relocations = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=cpu, features=features, opt=3, reloc=relocations, codemodel="jitdefault", jit=True
    )


_engines: list[Any] = []
"""Which hold the code of the process, to its end."""


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)
    )  # fmt: skip


_methods: list[_Method] = []
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p


def machine_code(text: str) -> bytes:
    """The object file of functions in LLVM's language, which is made machine code as it is."""
    return target_machine().emit_object(binding.parse_assembly(text))


def addresses(content: bytes, names: Iterable[str]) -> list[int]:
    """Where functions of an object file are, to the end of the process."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(content))
    engine.finalize_object()
    _engines.append(engine)
    return [engine.get_function_address(name) for name in names]


def function(content: bytes, kinds: tuple) -> Callable[..., Any]:
    """The function of an object file for arguments of these kinds."""
    (address,) = addresses(content, (ENTRY,))
    _methods.append(_Method(ENTRY.encode(), address, _METH_FASTCALL, None))
    return _new_function(_methods[-1], (*expected_types(kinds), RuntimeError), None)
