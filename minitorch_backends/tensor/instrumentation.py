"""Global instrumentation. Every op checks one integer, so that inactive features cost nothing; `autograd` sets the
hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernels.runtime.locks import lock as make_lock

active = 0
"""0 while no thread uses instrumentation.

Bit 0: some thread is in inference mode, and new tensors are reported to `note_birth`. The other bits: twice the number
of observers of calls. While there is an observer, every op runs its definition.
"""

lock = make_lock()


def is_observed() -> bool:
    """Whether calls are observed: by anomaly detection, forward mode, a growth limit, or kept originals."""
    return active > 1


def observe_calls(change: int) -> None:
    """Change the number of observers of calls."""
    global active
    with lock:
        active += 2 * change


def ignore(tensor: Any) -> None:
    """Do nothing."""


note_birth: Callable[[Any], None] = ignore
"""Called with every new tensor while `active` is nonzero."""


duals: Any = None
"""Forward mode, while some thread computes with dual tensors; otherwise None."""

autocast: Callable[[str, Callable[..., Any], Any, dict[str, Any]], Any] | None = None
"""Set while some thread is inside `amp.autocast`.

Calls the function of this name with its inputs cast, or returns NotImplemented if they stay unchanged.
"""

batching: Callable[..., Any] | None = None
"""Set while some thread is inside a function that `vmap` maps.

Calls an op, or a function of ops, with batched operands, or returns NotImplemented if no operand is batched.
"""

drawing: Callable[[], None] | None = None
"""Called before random numbers are drawn, while `vmap` is active."""


class ValuesNeeded(RuntimeError):
    """Raised where a function needs numbers that differ between the samples of a batch.

    `values_needed(error, function, args, named)` then calls the innermost public function for each sample.
    """

    level: Any = None


values_needed: Any = None

counted: Callable[[Any], None] | None = None
"""Called with every new node while `autograd.graph.set_growth_limit` has set a limit."""

went_backward: Callable[[], None] | None = None
"""Called after every backward pass while such a limit is set."""
