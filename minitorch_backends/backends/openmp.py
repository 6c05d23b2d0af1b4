"""OpenMP: whether Numba can run its parallel loops by it. The engine's own kernels have a pool of their own."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from ..flags import Group

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether Numba's OpenMP layer can be loaded on this machine."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        importlib.import_module("numba.np.ufunc.omppool")
    except ImportError:
        return False
    return True


Group.install(sys.modules[__name__], "openmp")
