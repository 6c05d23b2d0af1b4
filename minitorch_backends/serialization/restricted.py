"""The pickle interpreter of `load(weights_only=True)`: it builds containers and tensors, and calls nothing else.

`pickletools.genops` decodes each opcode and its argument, which are never longer than the pickle. Names are looked up
in a table; nothing is imported. Opcodes that torch does not write are rejected.
"""

from __future__ import annotations

import contextlib
import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pickle import UnpicklingError
from typing import Any

from ..tensor.dtypes import DType
from ..tensor.size import Size
from .safe_globals import (
    TORCH,
    UNSUPPORTED,
    is_safe,
    rebuild_parameter,
    rebuild_tensor,
    rebuild_tensor_of_dtype,
    safe_global,
)


def _key(value: Any) -> Any:
    """A dict's key or a set's element. Nested tuples are rejected, since their hash can take exponential time."""
    scalars = (str, bytes, int, float, complex, type(None), DType)
    if isinstance(value, scalars) or (type(value) is tuple and all(isinstance(each, scalars) for each in value)):
        return value
    raise UnpicklingError(f"load(): keys must be text, numbers or flat tuples of these, got {type(value).__name__}")


def _ordered_dict(items: Any = ()) -> OrderedDict:
    return OrderedDict((_key(key), value) for key, value in items)


def _counter(counts: Any) -> Counter:
    if type(counts) is not dict:
        raise UnpicklingError(f"load(): a Counter must be made from a dict, got {type(counts).__name__}")
    return Counter(counts)


def _set(items: Any = ()) -> set:
    return set(map(_key, items))


def _frozenset(items: Any = ()) -> frozenset:
    return frozenset(map(_key, items))


def _bytes(text: Any, encoding: Any) -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise UnpicklingError("load(): bytes must be latin-1 text")
    return text.encode("latin-1")


def _bytearray(text: Any = "", encoding: Any = "latin-1") -> bytearray:
    return bytearray(text if type(text) is bytes else _bytes(text, encoding))


def _complex(real: Any, imag: Any) -> complex:
    if type(real) is not float or type(imag) is not float:
        raise UnpicklingError("load(): parts of a complex number must be floats")
    return complex(real, imag)


def _size(sizes: Any) -> Size:
    if type(sizes) is not tuple or not all(type(size) is int for size in sizes):
        raise UnpicklingError("load(): a size must be a tuple of integers")
    return Size(sizes)


_PLAIN: dict[str, Any] = {
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "_codecs.encode": _bytes,
    **{
        f"{module}.{name}": function
        for module in ("builtins", "__builtin__")
        for name, function in (
            ("set", _set),
            ("frozenset", _frozenset),
            ("bytearray", _bytearray),
            ("complex", _complex),
        )
    },
}
_ALLOWED = {**TORCH, **_PLAIN, "torch.Size": _size}
_CALLABLE = {rebuild_tensor, rebuild_tensor_of_dtype, rebuild_parameter, _size, *_PLAIN.values()}


def refuse_unsupported(name: str) -> None:
    """Raise RuntimeError for a torch name without a counterpart here."""
    if name in UNSUPPORTED:
        raise RuntimeError(
            f"load(): the file has {UNSUPPORTED[name]} ({name}), which does not exist here; convert it first"
        )


def _is_allowed(name: str) -> Any:
    refuse_unsupported(name)
    found = _ALLOWED.get(name) or safe_global(name)
    if found is None:
        raise UnpicklingError(
            f"load(): the file names {name!r}, which weights_only=True excludes; nothing of it was run. Save a "
            "state_dict instead, list it with serialization.add_safe_globals, or use weights_only=False if you trust "
            "the file with any code"
        )
    return found


def _may_call(function: Any) -> bool:
    return callable(function) and (function in _CALLABLE or is_safe(function))


def _name(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _set_state(target: Any, state: Any) -> None:
    """Give an object of a class that the user listed its state, as `pickle` does."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    vars(target).update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def restricted_load(pickled: Any, persistent_load: Callable[[Any], Any]) -> Any:
    """The object of a pickle, of bytes or from the position of a file. Raises UnpicklingError for everything but
    containers, scalars, text and tensors."""
    machine = _Machine()
    opcodes = pickletools.genops(pickled)
    while True:
        with _damage_in_words():
            opcode, argument, _ = next(opcodes)
            if opcode.name == "STOP":
                return machine.stack.pop()
            if opcode.name != "BINPERSID":
                machine.run(opcode.name, argument)
                continue
            pid = machine.stack.pop()
        machine.stack.append(persistent_load(pid))  # may run the user's map_location, whose errors propagate


@contextlib.contextmanager
def _damage_in_words() -> Iterator[None]:
    try:
        yield
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnpicklingError(f"load(): the pickle is damaged: {error}") from None


class _Machine:
    """The stack, the mark stacks and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self, name: str, argument: Any) -> None:
        """Run one opcode."""
        if name in _LITERALS:
            self.stack.append(_LITERALS[name]() if argument is None else argument)
        elif name in _CODE:
            _CODE[name](self, argument)
        else:
            raise UnpicklingError(f"load(): the pickle has the opcode {name}, which weights_only=True excludes")

    def _pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._below.pop()
        return items

    def mark(self, _: Any) -> None:
        self._below.append(self.stack)
        self.stack = []

    def _tuple_of(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) != count:
            raise IndexError("a tuple has too few items")
        self.stack[-count:] = [items]

    def tuple_of_1(self, _: Any) -> None:
        self._tuple_of(1)

    def tuple_of_2(self, _: Any) -> None:
        self._tuple_of(2)

    def tuple_of_3(self, _: Any) -> None:
        self._tuple_of(3)

    def tuple_from_mark(self, _: Any) -> None:
        items = tuple(self._pop_mark())
        self.stack.append(items)

    def put(self, index: int) -> None:
        self._memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self._memo[index])

    def name(self, argument: str) -> None:
        self.stack.append(_is_allowed(argument.replace(" ", ".")))

    def reduce(self, _: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple or not _may_call(function):
            raise UnpicklingError(
                f"load(): the pickle calls a {type(function).__name__}, which weights_only=True excludes"
            )
        self.stack.append(function(*arguments))

    def new_object(self, _: Any) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple or not isinstance(kind, type) or not is_safe(kind):
            raise UnpicklingError(f"load(): the pickle makes a {_name(kind)}, which weights_only=True excludes")
        self.stack.append(kind.__new__(kind, *arguments))

    def build(self, _: Any) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if is_safe(type(target)):
            _set_state(target, state)
            return
        if type(target) is not OrderedDict or type(state) is not dict:
            raise UnpicklingError(f"load(): the pickle sets the state of a {type(target).__name__}")
        for name, value in state.items():
            if type(name) is not str or hasattr(OrderedDict, name):
                raise UnpicklingError(f"load(): the pickle sets the attribute {name!r} of an OrderedDict")
            setattr(target, name, value)

    def _extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise TypeError(f"items are appended to a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def append(self, _: Any) -> None:
        self._extend([self.stack.pop()])

    def appends(self, _: Any) -> None:
        self._extend(self._pop_mark())

    def _update(self, items: list[Any]) -> None:
        if type(self.stack[-1]) not in (dict, OrderedDict, Counter):
            raise TypeError(f"items are set in a {type(self.stack[-1]).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack[-1][_key(key)] = value

    def set_item(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key, value])

    def set_items(self, _: Any) -> None:
        self._update(self._pop_mark())


_LITERALS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), object),
    **dict.fromkeys(("BINUNICODE", "BINSTRING", "SHORT_BINSTRING"), object),
}  # fmt: skip
"""Opcodes that push a value: their argument, or a new one."""

_CODE: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda *_: None,
    "MARK": _Machine.mark,
    "TUPLE": _Machine.tuple_from_mark,
    "TUPLE1": _Machine.tuple_of_1, "TUPLE2": _Machine.tuple_of_2, "TUPLE3": _Machine.tuple_of_3,
    "BINPUT": _Machine.put, "LONG_BINPUT": _Machine.put, "BINGET": _Machine.get, "LONG_BINGET": _Machine.get,
    "GLOBAL": _Machine.name, "REDUCE": _Machine.reduce, "NEWOBJ": _Machine.new_object, "BUILD": _Machine.build,
    "APPEND": _Machine.append, "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item, "SETITEMS": _Machine.set_items,
}  # fmt: skip
