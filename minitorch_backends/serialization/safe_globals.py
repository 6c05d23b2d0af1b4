"""The classes and functions that `load(weights_only=True)` may use beside tensors and containers, as the user lists
them. The table is one for the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

Global = Callable[..., Any] | tuple[Callable[..., Any], str]
"""A class or function, or one with the full name that files have for it."""

_listed: dict[str, Global] = {}
_own: dict[str, type] = {}


def add_safe_globals(safe_globals: Iterable[Global]) -> None:
    """Let `load(weights_only=True)` call these classes and functions, and set the state of their instances.

    A file that names one calls it with any arguments: list only what is harmless whatever it is called with. Raises
    TypeError unless `safe_globals` is an iterable of such.
    """
    if not isinstance(safe_globals, Iterable):
        raise TypeError(
            f"add_safe_globals(): safe_globals must be a list of classes and functions, got {safe_globals!r}"
        )
    _listed.update({_full_name(each): each for each in safe_globals})


def get_safe_globals() -> list[Global]:
    """What `add_safe_globals` has listed."""
    return list(_listed.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has listed."""
    _listed.clear()


class safe_globals:
    """A block that adds these to the listed ones."""

    def __init__(self, safe_globals: Iterable[Global]) -> None:
        self._added = list(safe_globals)

    def __enter__(self) -> Self:
        self._before = dict(_listed)
        add_safe_globals(self._added)
        return self

    def __exit__(self, *exception: object) -> None:
        _listed.clear()
        _listed.update(self._before)


def always_safe(kind: type) -> type:
    """Decorate a class of this package that modules hold, has no state and needs no listing."""
    _own[_full_name(kind)] = kind
    return kind


def _full_name(listed: Any) -> str:
    """Raises TypeError for objects other than classes and functions."""
    value, name = listed if isinstance(listed, tuple) and len(listed) == 2 else (listed, None)
    if not callable(value) or not isinstance(name, str | None):
        raise TypeError(
            f"add_safe_globals(): safe_globals must be classes, functions or pairs of one and a name, got {listed!r}"
        )
    return name or f"{value.__module__}.{value.__qualname__}"


def safe_global(name: str) -> Any:
    """What is listed under the full name; None where nothing is."""
    found = _listed.get(name, _own.get(name))
    return found[0] if isinstance(found, tuple) else found


def is_safe(value: Any) -> bool:
    """Whether the class or function is listed."""
    listed = (*_listed.values(), *_own.values())
    return any(value is (each[0] if isinstance(each, tuple) else each) for each in listed)
