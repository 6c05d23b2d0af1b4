"""A setting that NumPy's OpenBLAS reads when it is loaded; so this module imports the standard library only."""

from __future__ import annotations

import os
import sys

VARIABLE = "OPENBLAS_THREAD_TIMEOUT"


def stop_spinning() -> bool:
    """Set OpenBLAS's idle threads to sleep at once; True if the setting takes effect.

    Otherwise they spin for about 0.1 s after a product, and slow down other thread pools by a factor of two to three.
    The setting has no effect once NumPy is loaded, and never overrides a user's own value.
    """
    if "numpy" in sys.modules or VARIABLE in os.environ:
        return False
    os.environ[VARIABLE] = "4"  # 2**4 clock ticks, the least that OpenBLAS takes
    return True
