"""The oneDNN family, under torch's older name for it."""

from __future__ import annotations

import sys

from ..compat.verbose import OneDnnVerbose as verbose
from ..flags import Group
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = [
    "VERBOSE_OFF", "VERBOSE_ON", "VERBOSE_ON_CREATION", "conv", "is_acl_available", "is_available", "matmul", "rnn",
    "verbose",
]  # fmt: skip

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2

matmul, conv, rnn = Group("mkldnn.matmul"), Group("mkldnn.conv"), Group("mkldnn.rnn")


def is_available() -> bool:
    """Whether oneDNN itself is used: False. Its flags control this engine's own kernels."""
    return False


def is_acl_available() -> bool:
    """Whether Arm's Compute Library is used: False."""
    return False


Group.install(sys.modules[__name__], "mkldnn")
