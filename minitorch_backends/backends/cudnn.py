"""The cuDNN flags: convolutions, and the backend level of the CUDA family."""

from __future__ import annotations

import sys
from typing import Any

from ..flags import Group
from ..kernels.conv.tuner import benchmark_cache
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = ["benchmark_cache", "conv", "is_acceptable", "is_available", "rnn", "version"]

conv, rnn = Group("cudnn.conv"), Group("cudnn.rnn")


def is_available() -> bool:
    """Whether cuDNN itself is used: False. The flags take effect nevertheless."""
    return False


def version() -> None:
    """cuDNN's version: None, since it is not used."""
    return


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would take the tensor: False, since cuDNN is not used."""
    return False


Group.install(sys.modules[__name__], "cudnn")
