"""Intel MKL: whether NumPy's BLAS is MKL, and traces of products in MKL's format."""

from __future__ import annotations

import sys

from ..compat.verbose import MklVerbose as verbose
from ..flags import Group
from ..kernels.runtime.blas_library import blas_library

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether the BLAS that NumPy uses is MKL."""
    return blas_library().name == "mkl"


Group.install(sys.modules[__name__], "mkl")
