"""What every op looks at on its fast path, so that what is rare costs nothing else; `autograd` writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["born", "calls", "duals"]

born: Callable[[Any], None] | None = None
"""What is called with every new tensor while some thread is in inference mode."""

calls = 0
"""How many reasons there are, in all threads, to take the general path of every op: diagnosis, dual tensors."""

duals: Any = None
"""Forward mode, while some thread computes with dual tensors."""
