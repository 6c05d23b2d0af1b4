"""The switch of the Winograd and FFT convolutions, under the name of the library that has them in torch."""

from __future__ import annotations

import sys

from ..flags import Group, assign, current
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = ["is_available", "set_flags"]


def is_available() -> bool:
    """Whether NNPACK itself is used: False, its flag steers this engine's own kernels."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Allow or forbid Winograd and FFT convolutions, and return the value from before."""
    before = current().read("nnpack.enabled")
    assign({"nnpack.enabled": _enabled}, "nnpack")
    return (before,)


Group.install(sys.modules[__name__], "nnpack")
