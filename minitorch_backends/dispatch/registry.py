"""The registry of ops: what `@op` and `@composite` declare, and what others look up by name."""

from __future__ import annotations

from typing import Any

__all__ = ["registry"]

registry: dict[str, Any] = {}
"""Every op (`op.Op`) and composite (`op.Composite`) by its public name, in the order of declaration. The suite runs
over it."""
