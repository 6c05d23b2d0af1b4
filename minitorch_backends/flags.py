"""The mechanism of flags: rows, the state they live in, scopes, freezing, the environment, snapshots.

A flag is one row, `Flag(path, default, choices, doc, ...)`. Attributes under torch's names, `flags()` scopes,
freezing, the environment variable, snapshots, the documentation table and the tests are all derived from the rows.

Values live in one immutable `State` for the process, plus overrides that belong to the current thread or asyncio
task. Writes are slow and total: everything is validated, then one reference is replaced. Reads are a lookup in the
state in force.
"""

from __future__ import annotations

import difflib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple

from .scopes import Scope

__all__ = ["Flag", "Group", "Resolved", "Snapshot", "State", "current", "disable_global_flags", "flags_frozen", "rows"]

UNSET = None
"""Stored where nobody has set a flag. No flag takes None as a value that differs from being unset."""

NO_OPINION = "none"
"""The value of an inheriting flag that leaves the decision to its parent."""


class Resolved(NamedTuple):
    """A flag's effective value, and the path of the flag that holds it (None: nobody set one; the default answers)."""

    value: Any
    decided_by: str | None


class Flag:
    """One row of the table of flags.

    Arguments:
        path: the name below `minitorch_backends.backends`, with dots.
        default: the effective value while neither this flag nor one it inherits from is set.
        choices: the legal values: a tuple, or `bool` for exactly True and False.
        doc: what it acts on, in one line.
        inherits: the path that answers while this flag is unset or "none".
        aliases: other spellings of legal values, each with the value that is stored.
        reads, writes: for a flag that is a view of others: `reads(state)` gives the value, and `writes(value)` the
        paths
            and values to store.
    """

    __slots__ = ("aliases", "choices", "default", "doc", "inherits", "path", "reads", "writes")

    def __init__(
        self,
        path: str,
        default: Any,
        choices: tuple | type[bool],
        doc: str,
        *,
        inherits: str | None = None,
        aliases: Mapping[str, Any] | None = None,
        reads: Callable[[State], Any] | None = None,
        writes: Callable[[Any], dict[str, Any]] | None = None,
    ) -> None:
        self.path, self.default, self.choices, self.doc, self.inherits = path, default, choices, doc, inherits
        self.aliases, self.reads, self.writes = dict(aliases or {}), reads, writes
        rows[path] = self

    @property
    def environment(self) -> str:
        """The environment variable that sets this flag when the package is imported."""
        return "MINITORCH_" + self.path.upper().replace(".", "_")

    def validated(self, value: Any) -> Any:
        """`value` as it is stored; raises what torch raises for a value of the wrong type or out of the choices."""
        if self.choices is bool:
            if value is not True and value is not False:
                raise RuntimeError(f"{self.path} takes exactly True or False, and got {value!r}")
            return value
        value = value.decode() if isinstance(value, bytes) else value
        if _hashable(value) and value in self.choices:
            return value
        if isinstance(value, str) and value in self.aliases:
            return self.aliases[value]
        legal = ", ".join(repr(choice) for choice in (*self.choices, *self.aliases))
        if isinstance(value, str):
            raise RuntimeError(
                f"{self.path} = {value!r} is unknown{_nearest(value, self.choices)}; expected one of {legal}"
            )
        raise TypeError(f"{self.path} takes one of {legal}, and got {value!r} of type {type(value).__name__}")

    def parsed(self, text: str) -> Any:
        """The value that an environment variable's text stands for."""
        words: dict[str, Any] = {"1": True, "true": True, "0": False, "false": False} if self.choices is bool else {}
        try:
            return self.validated(words.get(text.strip().lower(), text.strip()))
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                f"the environment variable {self.environment}={text!r} is not understood: {error}"
            ) from None

    def __repr__(self) -> str:
        return f"<flag {self.path} = {current().read(self.path)!r}>"


rows: dict[str, Flag] = {}
"""Every flag by path, in the order of declaration."""


def _hashable(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float, type(None)))


def _nearest(name: str, names: Iterable[Any]) -> str:
    close = difflib.get_close_matches(name, [n for n in names if isinstance(n, str)], 1, 0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


class State:
    """An immutable assignment of stored values to paths, with what has been derived from it so far."""

    __slots__ = ("derived", "effective", "stored")

    def __init__(self, stored: dict[str, Any]) -> None:
        self.stored = stored
        self.derived: dict[Any, Any] = {}
        self.effective: dict[str, Any] = {}

    def read(self, path: str) -> Any:
        """The effective value of the flag at `path`."""
        if path not in self.effective:
            self.effective[path] = self.resolve(path).value
        return self.effective[path]

    def resolve(self, path: str) -> Resolved:
        """The effective value of the flag at `path`, and which flag decided.

        An inherited value that is not among a flag's own choices is no opinion (as torch reads an inherited "bf16" on
        its CUDA flags).
        """
        row = rows[path]
        if row.reads is not None:
            return Resolved(row.reads(self), None)
        own = self.stored.get(path, UNSET)
        if row.inherits is None or own not in (UNSET, NO_OPINION):
            return Resolved(row.default, None) if own is UNSET else Resolved(own, path)
        inherited = self.resolve(row.inherits)
        if inherited.value == NO_OPINION:
            return Resolved(row.default if own is UNSET else NO_OPINION, None)
        if inherited.value not in row.choices:  # type: ignore[operator]
            return Resolved(NO_OPINION, None)
        return inherited


class _Override:
    """One level of overrides of the current thread or task, above its parent level and the process's state."""

    __slots__ = ("parent", "named", "_over", "_state")

    def __init__(self, parent: _Override | None, named: dict[str, Any]) -> None:
        self.parent, self.named = parent, named
        self._over: State | None = None
        self._state: State | None = None

    def state(self) -> State:
        below = _process if self.parent is None else self.parent.state()
        if self._over is not below:
            self._state = State({**below.stored, **self.named})
            self._over = below
        return self._state  # type: ignore[return-value]

    def names(self, path: str) -> bool:
        return path in self.named or (self.parent is not None and self.parent.names(path))

    def with_value(self, path: str, value: Any) -> _Override:
        """This level with the innermost override of `path` replaced."""
        if path in self.named:
            return _Override(self.parent, {**self.named, path: value})
        return _Override(self.parent.with_value(path, value), self.named)  # type: ignore[union-attr]


_process = State({})
_lock = threading.Lock()
_override: ContextVar[_Override | None] = ContextVar("flag_overrides", default=None)
_frozen = False


def current() -> State:
    """The state in force in this thread or task."""
    override = _override.get()
    return _process if override is None else override.state()


def _expanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values to store for the paths that a user named, all of them validated."""
    stored: dict[str, Any] = {}
    for path, value in values.items():
        row = rows[path]
        value = row.validated(value)
        stored.update({path: value} if row.writes is None else row.writes(value))
    return stored


def assign(values: Mapping[str, Any], group: str = "") -> None:
    """Set flags as a bare assignment does: process-wide, or until the end of the block that overrides them."""
    global _process
    if _frozen:
        raise RuntimeError(
            f"not allowed to set {_public_name(group)} flags after disable_global_flags; "
            f"use {_public_name(group)}.flags() as a context manager instead"
        )
    stored = _expanded(values)
    override = _override.get()
    for path in [path for path in stored if override is not None and override.names(path)]:
        override = override.with_value(path, stored.pop(path))  # type: ignore[union-attr]
    _override.set(override)
    if stored:
        with _lock:
            _process = State({**_process.stored, **stored})


def _public_name(group: str) -> str:
    return "minitorch_backends.backends" + (f".{group}" if group else "")


def disable_global_flags() -> None:
    """From now on every bare assignment to a flag raises; `flags()` scopes still work. There is no way back."""
    global _frozen
    _frozen = True


def flags_frozen() -> bool:
    """Whether `disable_global_flags` has been called."""
    return _frozen


class _Flags(Scope):
    """Overrides the named flags for the current thread or task while a block runs, and nothing else."""

    __slots__ = ("_stored",)

    def __init__(self, stored: dict[str, Any]) -> None:
        self._stored = stored

    def __enter__(self) -> None:
        _override.set(_Override(_override.get(), self._stored))

    def __exit__(self, *exception: object) -> None:
        override = _override.get()
        _override.set(override.parent if override is not None else None)


class Snapshot(Scope):
    """The stored values of all flags at one moment: hashable, picklable, and JSON by `to_json` and `from_json`.

    `with snapshot:` puts them in force for the current thread or task; `restore(snapshot)` for the process. This is
    how flags travel to worker processes.
    """

    __slots__ = ("values",)

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        self.values = tuple(sorted((path, value) for path, value in values if value is not UNSET))
        _expanded(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        return dict(self.values)

    def to_json(self) -> str:
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        return cls(json.loads(text).items())

    def _complete(self) -> dict[str, Any]:
        return {**{path: UNSET for path, row in rows.items() if row.reads is None}, **self.as_dict()}

    def __enter__(self) -> None:
        _override.set(_Override(_override.get(), self._complete()))

    __exit__ = _Flags.__exit__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __reduce__(self) -> tuple:
        return Snapshot, (self.values,)

    def __repr__(self) -> str:
        values = ", ".join(f"{path}={value!r}" for path, value in self.values)
        return f"Snapshot({values or 'all flags at their defaults'})"


def snapshot() -> Snapshot:
    """The flags as they are in force here and now."""
    return Snapshot(current().stored.items())


def restore(saved: Snapshot) -> None:
    """Put every flag of the process back to what `saved` holds."""
    global _process
    if not isinstance(saved, Snapshot):
        raise TypeError(f"restore takes a Snapshot, and got {type(saved).__name__}")
    if _frozen:
        raise RuntimeError("not allowed to restore flags after disable_global_flags; use `with snapshot:` instead")
    with _lock:
        _process = State(saved.as_dict())


class Group:
    """An object or module whose attributes are flags: `Group("cuda.matmul").allow_tf32`.

    A class is made for each group, with a property for each row directly below its path, so that a read costs a
    property and two lookups. Any other attribute that is assigned is an AttributeError with the nearest name.
    """

    def __new__(cls, path: str) -> Any:
        return object.__new__(cls._class(path, (cls,)))

    @classmethod
    def _class(cls, path: str, bases: tuple[type, ...]) -> type:
        prefix = path + "." if path else ""
        names = [p[len(prefix) :] for p in rows if p.startswith(prefix) and "." not in p[len(prefix) :]]
        namespace: dict[str, Any] = {name: _property(prefix + name, path) for name in names}
        namespace |= {"_path": path, "_names": tuple(names), "__slots__": ()}
        return type(path.rpartition(".")[2] or "backends", bases, namespace)

    @classmethod
    def install(cls, module: ModuleType, path: str) -> None:
        """Make the attributes of `module` the flags below `path`."""
        module.__class__ = cls._class(path, (_FlagModule,))

    def flags(self, **values: Any) -> _Flags:
        """A scope, and decorator, that overrides the named flags of this group for the current thread or task."""
        return _scope(self, values)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(_unknown(self, name))
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self, name))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"<{_public_name(self._path)}: {values}>"


class _FlagModule(ModuleType):
    """A module some of whose attributes are flags."""

    _path: str
    _names: tuple[str, ...]

    def flags(self, **values: Any) -> _Flags:
        """A scope, and decorator, that overrides the named flags of this module for the current thread or task."""
        return _scope(self, values)

    def __setattr__(self, name: str, value: Any) -> None:
        submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if name not in self._names and not submodule and not name.startswith("__"):
            raise AttributeError(_unknown(self, name))
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self, name))


def _property(path: str, group: str) -> property:
    inherited = _override.get

    def read(_: Any) -> Any:
        override = inherited()
        state = _process if override is None else override.state()
        try:
            return state.effective[path]
        except KeyError:
            return state.read(path)

    def write(_: Any, value: Any) -> None:
        assign({path: value}, group)

    return property(read, write, doc=rows[path].doc)


def _scope(group: Any, values: Mapping[str, Any]) -> _Flags:
    prefix = group._path + "." if group._path else ""
    for name in values:
        if name not in group._names:
            raise TypeError(f"flags() got {name!r}: {_unknown(group, name)}")
    return _Flags(_expanded({prefix + name: value for name, value in values.items()}))


def _unknown(group: Any, name: str) -> str:
    names = [n for n in dir(type(group)) if not n.startswith("_")]
    if isinstance(group, ModuleType):
        names += [n for n in vars(group) if not n.startswith("_")]
    if name in names:
        flags = ", ".join(group._names) or "none"
        return f"{_public_name(group._path)}.{name} is not a flag and cannot be assigned; the flags here: {flags}"
    return f"{_public_name(group._path)} has no attribute {name!r}{_nearest(name, names)}"


def read_environment() -> None:
    """Set each flag whose environment variable is present; called once, when the table is complete."""
    present = {p: row.parsed(os.environ[row.environment]) for p, row in rows.items() if row.environment in os.environ}
    if present:
        assign(present)
