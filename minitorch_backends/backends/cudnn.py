"""The cuDNN flags: the backend level of the CUDA family."""

from __future__ import annotations

import sys

from ..flags import Group

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether cuDNN itself is used: False. The flags act all the same."""
    return False


Group.install(sys.modules[__name__], "cudnn")
