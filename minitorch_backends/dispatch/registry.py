"""The registry of ops: declarations by `@op` and `@composite`, by name."""

from __future__ import annotations

from typing import Any

registry: dict[str, Any] = {}
"""Every op (`op.Op`) and composite (`op.Composite`) by its public name, in declaration order. The suite tests all of
them by the samples of `tests/declared/`."""
