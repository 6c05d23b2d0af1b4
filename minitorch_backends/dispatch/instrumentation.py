"""Instrumentation that every op checks with one integer, so that what is rare costs nothing; `autograd` sets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernels.locks import lock

__all__ = [
    "ValuesNeeded",
    "active",
    "autocast",
    "counted",
    "duals",
    "is_observed",
    "note_birth",
    "observe_births",
    "observe_calls",
    "went_backward",
]

active = 0
"""0 while nothing is active in any thread. The lowest bit: some thread is in inference mode, and new tensors go to
`note_birth`. The rest: twice the number of observers of calls; while there is one, every op runs its definition."""

_lock = lock()


def is_observed() -> bool:
    """Whether something observes calls: anomaly detection, forward mode, a growth limit, kept originals."""
    return active > 1


def observe_calls(change: int) -> None:
    """Add to, or take from, the number of observers of calls."""
    global active
    with _lock:
        active += 2 * change


def _ignore(tensor: Any) -> None:
    pass


note_birth: Callable[[Any], None] = _ignore
"""Called with every new tensor while `active` is not 0."""


def observe_births(mark: Callable[[Any], None] | None) -> None:
    """Have `mark` called with every new tensor; None ends that."""
    global active, note_birth
    with _lock:
        note_birth, active = mark or _ignore, active & -2 | (mark is not None)


duals: Any = None
"""Forward mode, while some thread computes with dual tensors."""

autocast: Callable[[str, Callable[..., Any], Any, dict[str, Any]], Any] | None = None
"""While some thread is inside `amp.autocast`: calls a function of this name with its inputs cast, or returns
NotImplemented where they stay as they are."""

batching: Callable[..., Any] | None = None
"""While some thread is inside a function that `vmap` maps: calls an op, or a function of ops, whose operands are
batched, or returns NotImplemented where none is."""

drawing: Callable[[], None] | None = None
"""Called meanwhile before random numbers are drawn."""


class ValuesNeeded(RuntimeError):
    """Raised where a function asks for numbers that differ from sample to sample of a batch; the innermost public
    function is then called for each sample by `values_needed(error, function, args, named)`."""

    level: Any = None


values_needed: Any = None

counted: Callable[[Any], None] | None = None
"""Called with every new node while `autograd.graph.set_growth_limit` has set one."""

went_backward: Callable[[], None] | None = None
"""Called after every backward pass meanwhile."""
