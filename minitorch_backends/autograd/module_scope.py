"""Which module of a model computes, forward or backward, while kernel calls are recorded.

Nodes are numbered in the order in which they are made. So which module made one is known from the numbers at which
modules began and ended, and nothing is kept with a node, nor done otherwise than without a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple

from ..kernels.locks import lock
from .nodes import Node, next_sequence

__all__ = ["computing_for", "current_module", "entered", "follow_modules", "following", "is_followed"]

following = 0
"""How many blocks, in all threads, follow modules: what a call of a module looks at."""

_lock = lock()


class _Trail(NamedTuple):
    """The numbers of nodes from which on another module computes, and its name (None: no module)."""

    numbers: list[int]
    names: list[str | None]

    def note(self, name: str | None) -> None:
        self.numbers.append(next_sequence())
        self.names.append(name)


_trail: ContextVar[_Trail | None] = ContextVar("trail", default=None)
_running: ContextVar[tuple[tuple[str, Any], ...]] = ContextVar("running_modules", default=())
"""The modules whose forwards run, with their names; the innermost is the last."""
_module: ContextVar[str | None] = ContextVar("computing_module", default=None)


def _count(change: int) -> None:
    global following
    with _lock:
        following += change


@contextmanager
def follow_modules() -> Iterator[None]:
    """Know the module of what this thread or task computes while the block runs."""
    token = _trail.set(_trail.get() or _Trail([], []))
    _count(1)
    try:
        yield
    finally:
        _count(-1)
        _trail.reset(token)


def is_followed() -> bool:
    """Whether this thread or task knows the module."""
    return following > 0 and _trail.get() is not None


def current_module() -> str | None:
    """The name of the module that computes here and now, where that is known; "" for the outermost."""
    return _module.get()


@contextmanager
def _named(name: str | None) -> Iterator[None]:
    token = _module.set(name)
    try:
        yield
    finally:
        _module.reset(token)


@contextmanager
def entered(module: Any) -> Iterator[None]:
    """Have a module compute while the block runs."""
    trail = _trail.get()
    if trail is None:
        yield
        return
    running, before = _running.get(), _module.get()
    name = _name_of(module, running)
    token = _running.set((*running, (name, module)))
    trail.note(name)
    try:
        with _named(name):
            yield
    finally:
        trail.note(before)
        _running.reset(token)


def _name_of(module: Any, running: tuple[tuple[str, Any], ...]) -> str:
    """The name in the innermost of the running modules that holds it, behind that one's own; the outermost has none.
    One that nobody holds is named by its class."""
    for prefix, holder in reversed(running):
        for name, held in holder.named_modules(prefix=prefix):
            if held is module:
                return name
    return f"{running[-1][0]}.{type(module).__name__}".lstrip(".") if running else ""


def computing_for(node: Node) -> AbstractContextManager[None]:
    """Have the module that made a node compute while a block runs: its gradients."""
    trail = _trail.get()
    if trail is None:
        return nullcontext()
    place = bisect_right(trail.numbers, node.sequence)
    return _named(trail.names[place - 1] if place else None)
