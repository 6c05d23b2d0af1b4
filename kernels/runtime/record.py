"""Records: named integers in memory that compiled code takes by one address.

    class Products(Record):
        tag: Tag
        threads: Count
        scratch: Address

    products = Products(tag=Float32(), threads=Count(2), scratch=Address(at))

In Python a record is the address of its fields, an int, and holds their memory. In compiled code `p.threads` is a load
from that address, and a record among the fields lies in the memory of the other and is again an address. A field `Tag`
takes no memory: it is part of the type, and selects code. Names and units of fields are checked by mypy, and names at
run time.

Compiled code makes a record as Python does, by the names of its fields. Its memory is that of the function that makes
it: others may be handed the record, but it must not be returned.

Tuples of many fields that compiled code hands on by value are taken apart and put together at every call, which took
most of the time of compiling a factorisation; and one address cannot be swapped with another unnoticed as one of thirty
positional numbers can.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NewType, Self, dataclass_transform, get_type_hints

import numpy as np

from . import native
from .workspace import address_of

Address = NewType("Address", int)
Bytes = NewType("Bytes", int)
Count = NewType("Count", int)
Tag = Any
"""A NamedTuple of a class that selects code (`block.tags`)."""

_NUMBERS = (Address, Bytes, Count, int)


class _Class(type):
    """The type of classes of records, by which compiled code takes them for what makes a record."""


@dataclass_transform(kw_only_default=True)
class Record(int, metaclass=_Class):
    """An address of int64 fields; subclasses annotate them. `memory` is the array that holds them."""

    __hash__ = None  # another record may come to lie there
    memory: ClassVar[np.ndarray]
    tags: ClassVar[dict[str, Any]] = {}
    pointer: ClassVar[native.Pointer]
    """The kind of argument that a record of this class is."""

    def __new__(cls, **fields: Any) -> Self:
        places = cls.places()
        if len(fields) != len(places) - len(cls.tags) or not fields.keys() <= places.keys():
            raise TypeError(f"{cls.__name__}(): fields must be {', '.join(places)}, got {', '.join(fields)}")
        if cls._is_flat():
            return cls.at(np.array([fields[name] for name in places], np.int64))
        numbers, tags = [], []
        for name, (_, kind) in places.items():
            if kind in _NUMBERS:
                numbers.append(fields[name])
            elif kind is not Tag:
                numbers += fields[name].memory[: kind.words()].tolist()
            elif name in fields:
                tags.append(fields[name])
        memory = np.array(numbers, np.int64)
        return cls.of(*tags).at(memory) if tags else cls.at(memory)

    @classmethod
    def at(cls, memory: np.ndarray) -> Self:
        """The record whose fields are the first items of a row of int64."""
        record = int.__new__(cls, address_of(memory))
        record.__dict__["memory"] = memory
        return record

    @classmethod
    def of(cls, *tags: Any) -> type[Self]:
        """The class of records with these values of the fields `Tag`, in their order."""
        key = cls, *map(native.kind_of, tags)
        if key not in _with_tags:
            names = [name for name, (_, kind) in cls.places().items() if kind is Tag]
            body = {"tags": dict(zip(names, tags, strict=True)), "__module__": cls.__module__}
            _with_tags[key] = type(cls.__name__, (cls,), body | {"__qualname__": cls.__qualname__})
        return _with_tags[key]

    def __init_subclass__(cls) -> None:
        if taken := vars(cls).get("__annotations__", {}).keys() & dir(Record):
            raise TypeError(f"{cls.__name__}: fields must have names that records do not use themselves, got {taken}")
        cls.pointer = native.Pointer(cls, tuple(map(native.kind_of, cls.tags.values())))

    @classmethod
    @functools.cache
    def places(cls) -> dict[str, tuple[int, Any]]:
        """Where each field is, in words, and its kind: a number, a class of records, or `Tag`."""
        found, place = {}, 0
        for name, kind in get_type_hints(cls).items():
            if name not in get_type_hints(Record):
                found[name] = place, kind
                place += _words(kind)
        return found

    @classmethod
    @functools.cache
    def words(cls) -> int:
        """The int64 of one record."""
        return sum(_words(kind) for _, kind in cls.places().values())

    @classmethod
    @functools.cache
    def _is_flat(cls) -> bool:
        """Whether all fields are numbers."""
        return all(kind in _NUMBERS for _, kind in cls.places().values())

    def __getattr__(self, name: str) -> Any:
        places = type(self).places()
        if name not in places:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        place, kind = places[name]
        if kind is Tag:
            return self.tags[name]
        return int(self.memory[place]) if kind in _NUMBERS else kind.at(self.memory[place:])


def _words(kind: Any) -> int:
    return 0 if kind is Tag else 1 if kind in _NUMBERS else kind.words()


_with_tags: dict[tuple, Any] = {}
"""Subclasses by class and kinds of tags: tags themselves are equal where their fields are."""
