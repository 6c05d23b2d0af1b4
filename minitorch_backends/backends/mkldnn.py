"""The oneDNN family, under torch's older name for it."""

from __future__ import annotations

import sys

from ..flags import Group
from . import table as _table  # noqa: F401  (declares the flags)
from . import table as _table  # noqa: F401  (declares the flags before they are installed)

__all__ = ["is_available", "matmul"]

matmul = Group("mkldnn.matmul")


def is_available() -> bool:
    """Whether oneDNN itself is used: False, its flags steer this engine's own kernels."""
    return False


Group.install(sys.modules[__name__], "mkldnn")
