"""The values of flags: one immutable state for the process, and overrides of the current thread or task on top.

The current state is found by following the overrides. Each state memoises functions of it (`per_state`). States are
interned: assignments of equal values share one state, so switching a flag back and forth recomputes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from ..kernels.runtime.context import restorable
from ..kernels.runtime.locks import lock
from .rows import NO_OPINION, rows


class _Unset:
    """The stored value of a flag that is not set."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"  # copies and pickles are this object


UNSET = _Unset()

_PLAIN = (str, int, float, bool, type(None))
"""Types whose equal values are interchangeable."""


class Resolved(NamedTuple):
    """A flag's effective value, and the path of the flag that holds it (None if the default applies)."""

    value: Any
    decided_by: str | None


class State:
    """An immutable assignment of values to paths, with the memoised results of functions of it."""

    __slots__ = ("effective", "memos", "stored")

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.stored = stored
        self.memos: dict[Callable[..., Any], dict[Any, Any]] = {}
        self.effective: dict[str, Any] = {}

    def read(self, path: str) -> Any:
        """The effective value of the flag at `path`."""
        if path not in self.effective:
            self.effective[path] = self.resolve(path).value
        return self.effective[path]

    def resolve(self, path: str) -> Resolved:
        """The effective value of the flag at `path`, and the flag that it comes from.

        As in torch, an inherited value that is not among a flag's own choices reads as "none" (an inherited "bf16" on
        torch's CUDA flags, for example). A flag set to "none" reads as "none" where an unset flag reads its default.
        """
        row = rows[path]
        if row.reads is not None:
            return Resolved(row.reads(self), self.resolve(row.of).decided_by if row.of else None)
        own = self.stored.get(path, UNSET)
        if row.inherits is None:
            return Resolved(row.default, None) if own is UNSET else Resolved(own, path)
        holder: str | None = path
        while holder is not None:
            value = self.stored.get(holder, UNSET)
            if value is not UNSET and value != NO_OPINION:
                return Resolved(value, holder) if row.choices.has(value) else Resolved(NO_OPINION, None)
            holder = rows[holder].inherits
        return Resolved(row.default if own is UNSET else NO_OPINION, None)


_STATES_KEPT = 64
"""The number of interned states. Without them, every flag switch would resolve each decision again."""

_states: dict[tuple, State] = {}


def _state_of(stored: Mapping[str, Any]) -> State:
    """Intern the state of these stored values, in this order."""
    key = tuple((path, type(value), value if type(value) in _PLAIN else id(value)) for path, value in stored.items())
    state = _states.get(key)
    if state is None:
        if len(_states) >= _STATES_KEPT:
            _states.clear()
        state = _states[key] = State(stored)  # the state keeps its values alive, so their ids stay valid
    return state


class Override:
    """One level of overrides of the current thread or task, above its parent level and the process's state.

    A level with `guards` overrides nothing; writes may not pass through it to the levels below. `owner` is the scope
    that entered the level.
    """

    __slots__ = ("guards", "named", "owner", "parent", "_seen")

    def __init__(self, parent: Override | None, named: dict[str, Any], owner: Any, guards: bool = False) -> None:
        self.parent, self.named, self.owner, self.guards = parent, named, owner, guards
        self._seen: tuple[State | None, State | None] = (None, None)

    def state(self) -> State:
        """The state below, with this level's values."""
        below = _process if self.parent is None else self.parent.state()
        over, state = self._seen  # read and replaced as one tuple, since threads may share a level
        if over is not below or state is None:
            state = _state_of({**below.stored, **self.named}) if self.named else below
            self._seen = below, state
        return state

    def with_value(self, path: str, value: Any) -> Override:
        """This level with the innermost override of `path` replaced. Some level must override `path`."""
        if path in self.named:
            return Override(self.parent, {**self.named, path: value}, self.owner)
        return Override(self.parent.with_value(path, value), self.named, self.owner, self.guards)  # type: ignore[union-attr]


_process = _state_of({})
_lock = lock()
override: ContextVar[Override | None] = ContextVar("flag_overrides", default=None)
restorable(override)


def current() -> State:
    """The state of the current thread or task."""
    level = override.get()
    return _process if level is None else level.state()


_Arguments = ParamSpec("_Arguments")
_Result_co = TypeVar("_Result_co", covariant=True)


class PerState(Protocol[_Arguments, _Result_co]):
    """A pure function of the flags and further arguments, memoised by each state."""

    def __call__(self, *arguments: _Arguments.args, **_: _Arguments.kwargs) -> _Result_co:
        """The result for the current state."""

    def recall(self, *arguments: _Arguments.args, **_: _Arguments.kwargs) -> _Result_co | None:
        """The memoised result for these arguments in the current state, or None."""


def per_state(
    *, key: Callable[..., Hashable] | None = None, most: int = 512
) -> Callable[[Callable[Concatenate[State, _Arguments], _Result_co]], PerState[_Arguments, _Result_co]]:
    """Decorate a pure function of (state, *arguments). Callers omit the state, and each state memoises the results.

    `key` maps the arguments to the memo's key. It is needed where they are not hashable, or hold more than the result
    depends on. A state clears a memo of `most` results. Arguments are positional.
    """
    overridden = override.get

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            level = overridden()
            state = _process if level is None else level.state()
            signature = arguments if key is None else key(*arguments)
            try:
                return state.memos[call][signature]
            except KeyError:
                pass
            result = function(state, *arguments)
            memo = state.memos.setdefault(call, {})
            if len(memo) >= most:
                memo.clear()
            memo[signature] = result
            return result

        def recall(*arguments: Any) -> Any:
            memo = current().memos.get(call)
            return None if memo is None else memo.get(arguments if key is None else key(*arguments))

        call.recall = recall  # type: ignore[attr-defined]
        return call

    return decorate


def store(values: Mapping[str, Any], others_stay: bool = True) -> None:
    """Replace the process's state by one with these values, on top of its other values or (`others_stay=False`)
    alone."""
    global _process
    with _lock:
        _process = _state_of({**(_process.stored if others_stay else {}), **values})


def renew() -> None:
    """Replace all states by new ones with the same values: a row of a table that memos were computed from changed."""
    global _process
    with _lock:
        _states.clear()
        _process = _state_of(_process.stored)


def reader(path: str) -> Callable[[Any], Any]:
    """The getter of a flag's property, twice as fast as `current().read(path)`."""
    inherited = override.get

    def read(_: Any) -> Any:
        level = inherited()
        state = _process if level is None else level.state()
        try:
            return state.effective[path]
        except KeyError:
            return state.read(path)

    return read
