"""The fused path of nn.MultiheadAttention."""

from __future__ import annotations

import sys

from ..flags import Group, assign, current
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]


def get_fastpath_enabled() -> bool:
    """Whether nn.MultiheadAttention may run as one fused kernel."""
    return current().read("mha.fastpath")


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid the fused path. Raises RuntimeError for anything but True and False."""
    assign({"mha.fastpath": value}, "mha")


Group.install(sys.modules[__name__], "mha")
