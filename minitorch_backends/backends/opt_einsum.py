"""The contraction order of einsums with three or more operands."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

from ..flags import Group
from ..kernels.runtime.first_use import load
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = ["get_opt_einsum", "is_available"]


@functools.cache
def is_available() -> bool:
    """Whether the package opt_einsum can be imported."""
    return importlib.util.find_spec("opt_einsum") is not None


def get_opt_einsum() -> Any:
    """The package opt_einsum, or None if it is not installed."""
    return load("opt_einsum") if is_available() else None


Group.install(sys.modules[__name__], "opt_einsum")
