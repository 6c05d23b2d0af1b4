"""The cuDNN flags: the backend level of the CUDA family."""

from __future__ import annotations

import sys

from ..flags import Group
from . import table as _table  # noqa: F401  (declares the flags)
from . import table as _table  # noqa: F401  (declares the flags before they are installed)

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether cuDNN itself is used: False. The flags act all the same."""
    return False


Group.install(sys.modules[__name__], "cudnn")
