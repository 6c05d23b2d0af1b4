"""What every op looks at on its fast path, so that what is rare costs nothing else; `autograd` writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernels.locks import lock

__all__ = ["born", "calls", "count_calls", "counted", "duals", "went_backward"]

born: Callable[[Any], None] | None = None
"""What is called with every new tensor while some thread is in inference mode."""

calls = 0
"""How many reasons there are, in all threads, to take the general path of every op: diagnosis, dual tensors, growth."""

_lock = lock()


def count_calls(change: int) -> None:
    """Add to, or take from, the reasons to take the general path."""
    global calls
    with _lock:
        calls += change


duals: Any = None
"""Forward mode, while some thread computes with dual tensors."""

counted: Callable[[Any], None] | None = None
"""What is called with every new node while `autograd.graph.set_growth_limit` watches."""

went_backward: Callable[[], None] | None = None
"""What is called after every backward pass meanwhile."""
