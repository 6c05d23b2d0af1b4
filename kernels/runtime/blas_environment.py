"""Settings that OpenBLAS and GNU OpenMP read when they are loaded; so this module imports the standard library only."""

from __future__ import annotations

import os
import sys

SETTINGS = {"OPENBLAS_THREAD_TIMEOUT": "4", "GOMP_SPINCOUNT": "10000"}
"""Variables, and what they are set to: 2**4 clock ticks, the least that OpenBLAS takes, and a fraction of a second.
GNU OpenMP, which runs torch's operators, spins for 5 to 20 ms by default."""

_LOADED_BY = {"OPENBLAS_THREAD_TIMEOUT": "numpy", "GOMP_SPINCOUNT": "torch"}
_SAID_BY = {"GOMP_SPINCOUNT": "OMP_WAIT_POLICY"}


def stop_spinning() -> list[str]:
    """Set the idle threads of other libraries to sleep soon; the variables that take effect.

    OpenBLAS's spin for about 0.1 s after a product, and slow down other thread pools by a factor of two to three;
    torch's take 0.4 of the time of a Llama whose products run here. A setting has no effect once its library is loaded,
    and never overrides a user's own value.
    """
    users = {name for name in SETTINGS if name in os.environ or _SAID_BY.get(name, name) in os.environ}
    found = [name for name in SETTINGS if name not in users and _LOADED_BY[name] not in sys.modules]
    os.environ.update((name, SETTINGS[name]) for name in found)
    return found
