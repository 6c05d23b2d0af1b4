"""Apple's Metal, which this engine does not run on."""

from __future__ import annotations

import sys
from typing import NoReturn

from ..flags import Group

__all__ = ["get_core_count", "get_name", "is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """Whether this engine can run on Metal: False."""
    return False


def is_available() -> bool:
    """Whether a Metal device can be used: False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> NoReturn:
    """Raises RuntimeError: the version of macOS is asked of Metal, which is not used."""
    if type(major) is not int or type(minor) is not int:
        raise TypeError(f"is_macos_or_newer takes two ints, and got {major!r} and {minor!r}")
    raise _no_metal("is_macos_or_newer")


def is_macos13_or_newer(minor: int = 0) -> NoReturn:
    """Raises RuntimeError: the version of macOS is asked of Metal, which is not used."""
    if type(minor) is not int:
        raise TypeError(f"is_macos13_or_newer takes an int, and got {minor!r}")
    raise _no_metal("is_macos13_or_newer")


def get_name() -> NoReturn:
    """Raises RuntimeError: there is no Metal device."""
    raise _no_metal("get_name")


def get_core_count() -> NoReturn:
    """Raises RuntimeError: there is no Metal device."""
    raise _no_metal("get_core_count")


def _no_metal(function: str) -> RuntimeError:
    return RuntimeError(f"mps.{function}() asks Metal, which this engine does not use; see mps.is_available()")


Group.install(sys.modules[__name__], "mps")
