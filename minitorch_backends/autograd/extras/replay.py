"""How a computation runs, captured so that it can run again later in the same way.

Checkpoints and linearized functions compute in a backward pass, or after it, what belongs to an earlier call. By then
its scopes may have ended: flags and profiles, policies by module name, autocast. `Conditions` holds them, whichever
scope or assignment they come from, and enters them again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...flags.rows import rows
from ...flags.state import UNSET, Override, State, current, override
from ...kernels.runtime.context import Restorable, restore_on_failure
from ..modes import grad_mode
from . import module_scope

replayed: list[tuple[Restorable, Callable[[Any], Any]]] = [
    (each, lambda value: value) for each in module_scope.restorable_variables
]
"""The variables besides flags, and for each what makes the value of a replay from the captured one. `amp.autocast` adds
its own."""


@functools.lru_cache(maxsize=16)
def _overrides(state: State) -> dict[str, Any]:
    """What makes every flag that of a state, whichever are in force."""
    return {path: UNSET for path, row in rows.items() if row.reads is None} | dict(state.stored)


class Conditions:
    """The flags, policies, autocast state and modules of the current thread or task."""

    __slots__ = ("_flags", "_values")

    def __init__(self) -> None:
        self._flags = current()
        self._values = tuple([each.variable.get() for each, _ in replayed])

    @restore_on_failure
    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function(*args)` under these conditions, recorded for gradients, as part of a forward pass."""
        mode, flags = grad_mode.get(), override.get()
        values = [*self._values, *(each.default for each, _ in replayed[len(self._values) :])]  # since imported
        before = [(each, each.variable.get()) for each, _ in replayed]
        grad_mode.set(mode.with_fields(mode, enabled=True, inference=False, backward=False))
        override.set(Override(flags, _overrides(self._flags), self))
        for (each, renew), value in zip(replayed, values, strict=True):
            each.assign(renew(value))
        result = function(*args)
        for each, value in before:
            each.assign(value)
        override.set(flags)
        grad_mode.set(mode)
        return result
