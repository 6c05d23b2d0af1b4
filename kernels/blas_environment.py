"""A setting that NumPy's OpenBLAS reads when it is loaded; so this module imports the standard library only."""

from __future__ import annotations

import os
import sys

__all__ = ["VARIABLE", "stop_spinning"]

VARIABLE = "OPENBLAS_THREAD_TIMEOUT"


def stop_spinning() -> bool:
    """Have OpenBLAS's idle threads sleep at once; True when the setting will take effect.

    They spin for about 0.1 s after a product otherwise, and whatever runs next on another thread pool runs at half to a
    third of its speed (a 1024-cube product of another library's: 15 to 22 ms instead of 6.7). Has no effect once NumPy
    is loaded, and leaves a user's own value alone.
    """
    if "numpy" in sys.modules or VARIABLE in os.environ:
        return False
    os.environ[VARIABLE] = "4"  # 2**4 clock ticks, the least that OpenBLAS takes
    return True
