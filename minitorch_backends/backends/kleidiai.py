"""Arm's library of kernels, which is not used."""

from __future__ import annotations

import sys

from ..flags import Group

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether KleidiAI is used: False."""
    return False


Group.install(sys.modules[__name__], "kleidiai")
