"""Settings by which idle threads of other libraries sleep. They are read as these are loaded, so that this module
imports the standard library only."""

from __future__ import annotations

import os
import sys

SETTINGS = {"OPENBLAS_THREAD_TIMEOUT": "4", "GOMP_SPINCOUNT": "10000"}
"""Variables, and what they are set to: 2**4 clock ticks, the least that OpenBLAS takes; and 0.2 to 0.7 ms of spinning,
where GNU OpenMP, which runs torch's operators, takes 5 to 20."""

_LOADED_BY = {"OPENBLAS_THREAD_TIMEOUT": "numpy", "GOMP_SPINCOUNT": "torch"}


def stop_spinning() -> list[str]:
    """Have idle threads of OpenBLAS and GNU OpenMP sleep soon. Returns the variables that take effect.

    OpenBLAS's spin for about 0.1 s after a product, and slow down other thread pools by a factor of two to three;
    beside torch's a Llama takes 1.4 times as long. A setting has no effect once its library is loaded, and never
    overrides a user's own value, or OMP_WAIT_POLICY.
    """
    given = {*os.environ} | ({"GOMP_SPINCOUNT"} if "OMP_WAIT_POLICY" in os.environ else set())
    found = [name for name in SETTINGS if name not in given and _LOADED_BY[name] not in sys.modules]
    os.environ.update((name, SETTINGS[name]) for name in found)
    return found
