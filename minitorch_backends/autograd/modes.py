"""Grad modes: whether operations are recorded. They belong to the current thread or asyncio task."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ..scopes import Scope

__all__ = ["GradMode", "enable_grad", "grad_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class GradMode:
    """One level of the mode: whether gradients are recorded, and the level to return to."""

    __slots__ = ("enabled", "parent")

    def __init__(self, enabled: bool, parent: GradMode | None) -> None:
        self.enabled, self.parent = enabled, parent


_initial = GradMode(True, None)
grad_mode: ContextVar[GradMode] = ContextVar("grad_mode", default=_initial)

_get, _set = grad_mode.get, grad_mode.set


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require gradients are recorded, here and now."""
    return _get().enabled


class _Mode(Scope):
    """Enters a level, and leaves it."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __exit__(self, *exception: object) -> None:
        _set(_get().parent or _initial)


class no_grad(_Mode):
    """Records nothing while a block or a function runs: `with no_grad():`, `@no_grad()` or `@no_grad`.

    Results of operations do not require gradients, and keep nothing alive for a backward pass.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        _set(GradMode(False, _get()))


class enable_grad(_Mode):
    """Records operations again, inside `no_grad`, while a block or a function runs."""

    __slots__ = ()

    def __enter__(self) -> None:
        _set(GradMode(True, _get()))


class set_grad_enabled(_Mode):
    """Sets the mode at once, when called as a statement; as a context it puts back the mode from before the call.

    As a decorator it acts inside the calls of the function only. Raises TypeError for anything but True and False.
    """

    __slots__ = ("_before", "_pending", "mode")

    def __new__(cls, mode: bool) -> Any:
        if mode is not True and mode is not False:
            raise TypeError(f"set_grad_enabled takes exactly True or False, and got {mode!r}")
        self = object.__new__(cls)
        self.mode, self._before, self._pending = mode, _get(), True
        _set(GradMode(mode, self._before.parent))
        return self

    def __call__(self, function: Any) -> Any:
        if self._pending:
            self._pending = False
            _set(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        outer = _get()
        if self._pending:
            self._pending, outer = False, self._before
        _set(GradMode(self.mode, outer))

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"
