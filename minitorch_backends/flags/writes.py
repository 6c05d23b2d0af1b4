"""Writes of flags: validate every value, then replace one reference. Scopes, freezing, and guards."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from .rows import public_name, rows
from .scopes import Scope
from .state import Override, override, store

_PACKAGE = __name__.partition(".")[0]
_frozen_at: str | None = None


def expand_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the values of the named paths, and return the values to store."""
    stored: dict[str, Any] = {}
    for path, value in values.items():
        row = rows[path]
        value = row.validate(value)
        if row.wakes is not None and value != row.default:
            row.wakes()
        stored.update({path: value} if row.writes is None else row.writes(value))
    return stored


def assign(values: Mapping[str, Any], group: str = "") -> None:
    """Set flags like plain assignments: process-wide, or until the end of the block that overrides them.

    Raises RuntimeError after `disable_global_flags`, and inside `guard` for flags that no inner scope overrides.
    """
    if _frozen_at is not None:
        public = public_name(group)
        raise RuntimeError(
            f"not allowed to set {public} flags after disable_global_flags (called at {_frozen_at}); "
            f"use {public}.flags() as a context manager instead"
        )
    stored = expand_paths(values)
    levels = override.get()
    if levels is None:
        store(stored)
        return
    reach = {path: _reach(levels, path) for path in stored}
    guarded = [path for path, where in reach.items() if where == "guarded"]
    if guarded:
        raise _refusal(f"to set {guarded[0]} = {stored[guarded[0]]!r}")
    for path, where in reach.items():
        if where == "override":
            levels = levels.with_value(path, stored.pop(path))
    override.set(levels)
    if stored:
        store(stored)


def _reach(level: Override | None, path: str) -> str:
    """Where an assignment to `path` lands: in an "override", at a guard ("guarded"), or in the "process"."""
    while level is not None:
        if path in level.named:
            return "override"
        if level.guards:
            return "guarded"
        level = level.parent
    return "process"


class Flags(Scope):
    """Overrides the named flags for the current thread or task while a block runs.

    Attributes:
        stored: the values by path.
    """

    __slots__ = ("stored",)

    def __init__(self, stored: dict[str, Any]) -> None:
        self.stored = stored

    def __enter__(self) -> Any:
        override.set(Override(override.get(), self.stored, self))

    def __exit__(self, *exception: object) -> None:
        leave(self)


def leave(owner: Scope) -> None:
    """Drop the innermost level that this scope entered, and all levels above it.

    Levels above can be left over: closing a generator in another thread or task runs its exits there, where they have
    no effect.
    """
    level = override.get()
    while level is not None and level.owner is not owner:
        level = level.parent
    if level is not None:
        override.set(level.parent)


class guard(Scope):
    """Forbid this thread or task to set a flag beyond the end of the block: `with guard():`.

    Use it around code that must not change flags as a side effect. An assignment raises RuntimeError with the offending
    line. `flags()` scopes inside the block work, and so do assignments to the flags that they override.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        override.set(Override(override.get(), {}, self, guards=True))

    def __exit__(self, *exception: object) -> None:
        leave(self)


def refuse_global_writes(attempt: str) -> None:
    """Raise RuntimeError if this thread or task is inside a guard."""
    level = override.get()
    while level is not None:
        if level.guards:
            raise _refusal(attempt)
        level = level.parent


def _refusal(attempt: str) -> RuntimeError:
    return RuntimeError(
        f"{caller()} tried {attempt} inside backends.guard(), which forbids permanent changes of flags; use "
        "flags() as a context manager there"
    )


def disable_global_flags() -> None:
    """Make every plain assignment to a flag raise from now on. `flags()` scopes still work. This cannot be undone."""
    global _frozen_at
    refuse_global_writes("to call disable_global_flags()")
    _frozen_at = _frozen_at or caller()


def flags_frozen() -> bool:
    """Whether `disable_global_flags` has been called."""
    return _frozen_at is not None


def caller() -> str:
    """The file and line outside this package that made the current call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
