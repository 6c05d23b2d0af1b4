"""Grad modes: whether operations are recorded. They belong to the current thread or asyncio task."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ..scopes import Scope

__all__ = ["GradMode", "enable_grad", "grad_mode", "is_grad_enabled", "is_in_backward", "no_grad", "set_grad_enabled"]


class GradMode:
    """One level of the mode: whether gradients are recorded, the level to return to, whether a backward pass is
    running.

    Levels are immutable, so that one which was entered before is entered again: `inner` keeps them, for False and True.
    """

    __slots__ = ("backward", "enabled", "inner", "parent")

    def __init__(self, enabled: bool, parent: GradMode | None, backward: bool = False) -> None:
        self.enabled, self.parent, self.backward = enabled, parent, backward
        self.inner: list[GradMode | None] = [None, None]

    def made(self, enabled: bool) -> GradMode:
        """The level inside this one, made when it is first entered."""
        level = self.inner[enabled] = GradMode(enabled, self, self.backward)
        return level


_initial = GradMode(True, None)
grad_mode: ContextVar[GradMode] = ContextVar("grad_mode", default=_initial)

_get, _set = grad_mode.get, grad_mode.set


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require gradients are recorded, here and now."""
    return _get().enabled


def is_in_backward() -> bool:
    """Whether this thread or task is inside a backward pass."""
    return _get().backward


class _Mode(Scope):
    """Enters a level, and leaves it."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        _set(_get().parent or _initial)


class no_grad(_Mode):
    """Records nothing while a block or a function runs: `with no_grad():`, `@no_grad()` or `@no_grad`.

    Results of operations do not require gradients, and keep nothing alive for a backward pass.
    """

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        return _no_grad if function is None else _no_grad(function)

    def __enter__(self) -> None:
        outer = _get()
        _set(outer.inner[0] or outer.made(False))


class enable_grad(_Mode):
    """Records operations again, inside `no_grad`, while a block or a function runs."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        return _enable_grad if function is None else _enable_grad(function)

    def __enter__(self) -> None:
        outer = _get()
        _set(outer.inner[1] or outer.made(True))


_no_grad, _enable_grad = object.__new__(no_grad), object.__new__(enable_grad)
"""Scopes keep no state, so that one of each serves all blocks."""


class set_grad_enabled(_Mode):
    """Sets the mode at once, when called as a statement; as a context it puts back the mode from before the call.

    As a decorator it acts inside the calls of the function only. Raises TypeError for anything but True and False.
    """

    __slots__ = ("_before", "_pending", "mode")

    def __init__(self, mode: bool) -> None:
        if mode is not True and mode is not False:
            raise TypeError(f"set_grad_enabled takes exactly True or False, and got {mode!r}")
        self.mode, self._before, self._pending = mode, _get(), True
        _set(GradMode(mode, self._before.parent, self._before.backward))

    def __call__(self, function: Any) -> Any:
        if self._pending:
            self._pending = False
            _set(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        outer = _get()
        if self._pending:
            self._pending, outer = False, self._before
        _set(GradMode(self.mode, outer, outer.backward))

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"
