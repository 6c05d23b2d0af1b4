"""Starts a measurement anew where the environment holds a peer back.

`OPENBLAS_CORETYPE` and `OPENBLAS_L2_SIZE` hold NumPy's BLAS to the kernels and blocks of another CPU, which on AVX-512
halves its speed. OpenBLAS reads them when it is loaded, so that the process is replaced by one without them.
"""

from __future__ import annotations

import os
import sys

HOLDING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def restart_where_held() -> None:
    """Replace this process, a module that runs as a program, by the same without the variables of `HOLDING`. They stay
    where our own capability is capped, with which they are a fair peer."""
    held = [f"{name}={os.environ[name]}" for name in HOLDING if name in os.environ]
    if not held or "MINITORCH_CPU_CAPABILITY" in os.environ:
        return
    print(
        f"Starting anew without {' and '.join(held)}, which would hold NumPy's BLAS back", file=sys.stderr, flush=True
    )
    spec = sys.modules["__main__"].__spec__
    assert spec is not None
    module = spec.name.removesuffix(".__main__")
    environment = {name: value for name, value in os.environ.items() if name not in HOLDING}
    os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environment)
