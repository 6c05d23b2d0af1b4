"""Groups of flags: objects and modules whose attributes are flags."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from .rows import ReadOnly, nearest, public_name, read_only, rows
from .state import current, reader
from .writes import Flags, assign, expand_paths


class _Flagged:
    """Common base of groups and flag modules. Each path has a class with one property per row directly below it, so
    that a read costs one property call and two lookups."""

    __slots__ = ()

    _path: str
    _prefix: str
    _names: tuple[str, ...]

    def flags(self, *values: Any, **named: Any) -> Flags:
        """Override flags of this group for the current thread or task, as a context manager or a decorator.

        Flags of a nested group are named by their path from here: `flags(**{"cuda.matmul.allow_tf32": True})`. None
        leaves a flag unchanged, unless None is a value of that flag. Flags that are not named are unchanged too.
        """
        return Flags(expand_paths(_named_values(self, "flags", values, named)))

    def set_flags(self, *values: Any, **named: Any) -> tuple:
        """Set flags of this group like assignments, all or none of them. Return the previous values of all its flags.

        As in torch, names have a leading underscore: `set_flags(_enabled=False)`. None leaves a flag unchanged.
        """
        for name in named:
            if not name.startswith("_") or "." in name:
                raise TypeError(f"set_flags(): names must have a leading underscore, _{name}, got {name!r}")
        given = _named_values(self, "set_flags", values, {name[1:]: value for name, value in named.items()})
        before = tuple(getattr(self, name) for name in self._names)
        assign(given, self._path)
        return before

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        lines = ((name, repr(getattr(self, name)), rows[self._prefix + name].doc) for name in self._names)
        return as_html(public_name(self._path), Rows([("flag", "value", "meaning"), *lines], names=3))


_groups: dict[tuple[type, str], Group] = {}


class Group(_Flagged):
    """An object whose attributes are flags: `Group("cuda.matmul").allow_tf32`. No other attribute can be set."""

    __slots__ = ()

    def __new__(cls, path: str) -> Any:
        group = _groups.get((cls, path))
        if group is None:
            group = _groups[cls, path] = object.__new__(_class(path, (cls,)))
        return group

    def __reduce__(self) -> tuple:
        return type(self).__bases__[0], (self._path,)  # there is one group of a path: copies and pickles are it

    @staticmethod
    def install(module: ModuleType, path: str) -> None:
        """Make the flags below `path` attributes of `module`."""
        module.__class__ = _class(path, (_FlagModule,))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names and self._prefix + name not in read_only:
            raise AttributeError(_unknown(self, name))
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self, name))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"<{public_name(self._path)}: {values}>"


class _FlagModule(_Flagged, ModuleType):
    """A module with flags among its attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        known = name in self._names or self._prefix + name in read_only
        if not known and not submodule and not name.startswith("__"):
            raise AttributeError(_unknown(self, name))
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self, name))

    def __reduce__(self) -> tuple:
        return import_module, (self.__name__,)


def _class(path: str, bases: tuple[type, ...]) -> type:
    prefix = path + "." if path else ""

    def below(paths: Mapping[str, Any]) -> list[str]:
        return [p[len(prefix) :] for p in paths if p.startswith(prefix) and "." not in p[len(prefix) :]]

    names = below(rows)
    namespace: dict[str, Any] = {name: _property(prefix + name, path) for name in names}
    namespace |= {name: _read_only_property(read_only[prefix + name]) for name in below(read_only)}
    namespace |= {"_path": path, "_prefix": prefix, "_names": tuple(names), "__slots__": ()}
    return type(path.rpartition(".")[2] or "backends", bases, namespace)


def _property(path: str, group: str) -> property:
    def write(_: Any, value: Any) -> None:
        assign({path: value}, group)

    return property(reader(path), write, doc=rows[path].doc)


def _read_only_property(row: ReadOnly) -> property:
    def refuse(_: Any, value: Any) -> None:
        raise row.error(f"{public_name(row.path)} cannot be set: {row.doc}")

    return property(lambda _: row.reads(current()), refuse, doc=row.doc)


def _named_values(group: _Flagged, function: str, values: tuple, named: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a call sets, by path. Names given as None are left out."""
    names = group._names
    if values:
        if len(values) > len(names):
            legal = ", ".join(names)
            raise TypeError(f"{function}() takes at most {len(names)} values, for {legal}, got {len(values)}")
        positional = dict(zip(names, values, strict=False))
        if twice := positional.keys() & named.keys():
            raise TypeError(f"{function}() got two values for {twice.pop()!r}")
        named = {**positional, **named}
    given = {}
    for name, value in named.items():
        path = group._prefix + name
        if path not in rows:
            raise TypeError(f"{function}(): unexpected name {name!r}: {_unknown(group, name)}")
        if value is not None or rows[path].takes_none:
            given[path] = value
    return given


def _unknown(group: _Flagged, name: str) -> str:
    names = [n for n in dir(type(group)) if not n.startswith("_")]
    if "." in name:
        names += [path.removeprefix(group._prefix) for path in rows if path.startswith(group._prefix)]
    if isinstance(group, ModuleType):
        names += [n for n in vars(group) if not n.startswith("_")]
    if name in names:
        flags = ", ".join(group._names) or "none"
        return f"{public_name(group._path)}.{name} is not a flag and cannot be assigned; the flags here: {flags}"
    return f"{public_name(group._path)} has no attribute {name!r}{nearest(name, names)}"
