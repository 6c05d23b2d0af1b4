"""Module attribution: the module that computes, forward or backward, while kernel calls are recorded; and scopes by
module name.

Nodes are numbered in order of creation. The module of a node therefore follows from the numbers at which modules began
and ended. Nothing is stored with a node, and calls are unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple

from ...flags.scopes import Scope
from ...kernels.locks import lock
from ..nodes import Node, next_sequence

following = 0
"""The number of blocks, in all threads, that attribute modules or give them scopes. A call of a module checks it."""

following_changed: list[Callable[[], None]] = []
"""Callbacks after each change of `following`. Bridges to modules of other libraries install their hooks there."""

_lock = lock()


class _Trail(NamedTuple):
    """The sequence numbers from which another module computes, with its name (None: no module)."""

    numbers: list[int]
    names: list[str | None]

    def note(self, name: str | None) -> None:
        self.numbers.append(next_sequence())
        self.names.append(name)


class _Running:
    """A module whose forward runs, its name, and (once needed) the names of its submodules."""

    __slots__ = ("module", "name", "names")

    def __init__(self, name: str, module: Any) -> None:
        self.name, self.module = name, module
        self.names: dict[Any, str] | None = None

    def name_of(self, module: Any) -> str | None:
        """The full name of a submodule."""
        if self.names is None or module not in self.names:  # modules may be added during the forward
            self.names = {held: name for name, held in named_parts(self.module, self.name)}
        return self.names.get(module)


_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""The classes of torch that wrap a module, with the attribute that holds it."""


def named_parts(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`named_modules` under the names that the modules have without torch's wrappers; a wrapper comes before what it
    wraps, under the same name."""
    names: dict[str, str] = {}
    wrappers = dict[str, str]()
    for raw, each in module.named_modules(prefix=prefix):
        holder, _, last = raw.rpartition(".")
        base = names.get(holder, "")
        wrapped = raw != prefix and wrappers.get(holder) == last
        names[raw] = name = raw if raw == prefix else base if wrapped else f"{base}.{last}" if base else last
        if type(each).__name__ in _WRAPPERS:
            wrappers[raw] = _WRAPPERS[type(each).__name__]
        yield name, each


_trail: ContextVar[_Trail | None] = ContextVar("trail", default=None)
_running: ContextVar[tuple[_Running, ...]] = ContextVar("running_modules", default=())
"""The modules whose forwards run, innermost last."""
_module: ContextVar[str | None] = ContextVar("computing_module", default=None)


def _count(change: int) -> None:
    global following
    with _lock:
        following += change
    for changed in tuple(following_changed):
        changed()


@contextmanager
def follow_modules() -> Iterator[None]:
    """Attribute computations of this thread or task to modules while the block runs."""
    token = _trail.set(_trail.get() or _Trail([], []))
    _count(1)
    try:
        yield
    finally:
        _count(-1)
        _trail.reset(token)


def is_followed() -> bool:
    """Whether this thread or task attributes modules."""
    return following > 0 and _trail.get() is not None


def current_module() -> str | None:
    """The name of the current module if attribution is on; "" for the outermost."""
    return _module.get()


@contextmanager
def as_module(name: str | None) -> Iterator[None]:
    """Attribute the block to the module of this name."""
    token = _module.set(name)
    try:
        yield
    finally:
        _module.reset(token)


class ModuleScopes:
    """One level of scopes for called modules, selected by their names.

    Attributes:
        scope_of: the scope of a name, or None.
        owner: the scope that entered this level.
        note: called with each module that no other one calls.
    """

    __slots__ = ("note", "owner", "parent", "scope_of")

    def __init__(
        self,
        owner: Scope,
        scope_of: Callable[[str], Scope | None],
        note: Callable[[Any], None],
        parent: ModuleScopes | None,
    ) -> None:
        self.owner, self.scope_of, self.note, self.parent = owner, scope_of, note, parent

    @staticmethod
    def enter(owner: Scope, scope_of: Callable[[str], Scope | None], note: Callable[[Any], None]) -> None:
        """Enter a level of scopes for the modules that this thread or task calls, inside those of outer levels."""
        _scopes.set(ModuleScopes(owner, scope_of, note, _scopes.get()))
        _count(1)

    @staticmethod
    def leave(owner: Scope) -> ModuleScopes | None:
        """Drop the innermost level that `owner` entered, and all levels above it, whose exits may have been lost."""
        level = _scopes.get()
        while level is not None and level.owner is not owner:
            level = level.parent
        if level is not None:
            _scopes.set(level.parent)
        _count(-1)
        return level

    def of(self, name: str) -> ExitStack:
        """Enter the scopes of a module in all levels, outer ones first."""
        entered = ExitStack() if self.parent is None else self.parent.of(name)
        scope = self.scope_of(name)
        if scope is not None:
            entered.enter_context(scope)
        return entered


def is_inside_module() -> bool:
    """Whether the forward of a followed module runs."""
    return bool(_running.get())


_scopes: ContextVar[ModuleScopes | None] = ContextVar("module_scopes", default=None)


@contextmanager
def enter(module: Any) -> Iterator[None]:
    """Attribute the block to a module, and run it in the scopes of the module's name."""
    trail, scopes = _trail.get(), _scopes.get()
    if trail is None and scopes is None:
        yield
        return
    running, before = _running.get(), _module.get()
    level = None if running else scopes
    while level is not None:
        level.note(module)
        level = level.parent
    name = _name_of(module, running)
    token = _running.set((*running, _Running(name, module)))
    if trail is not None:
        trail.note(name)
    try:
        with as_module(name), nullcontext() if scopes is None else scopes.of(name):
            yield
    finally:
        if trail is not None:
            trail.note(before)
        _running.reset(token)


def _name_of(module: Any, running: tuple[_Running, ...]) -> str:
    """The module's name within the innermost running module that contains it, after that module's own name. The
    outermost module is "". A module outside of every running module has its class name."""
    for holder in reversed(running):
        name = holder.name_of(module)
        if name is not None:
            return name
    return f"{running[-1].name}.{type(module).__name__}".lstrip(".") if running else ""


def computing_for(node: Node) -> AbstractContextManager[None]:
    """Attribute the block to the module that made a node; it computes that node's gradients."""
    trail = _trail.get()
    if trail is None:
        return nullcontext()
    place = bisect_right(trail.numbers, node.sequence)
    return as_module(trail.names[place - 1] if place else None)
