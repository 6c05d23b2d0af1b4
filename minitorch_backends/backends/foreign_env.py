"""Environment variables of other libraries about compilation and threads, and their effect here."""

from __future__ import annotations

import os
import re

from ..kernels.runtime.blas_environment import VARIABLE
from ..kernels.runtime.blas_library import blas_library

_OWN_FUNCTIONS = "overridden for kernels; applies to your own Numba functions"
_RULES = (
    (r"OMP_NUM_THREADS", "applies if it is a number: an upper bound for the initial number of kernel threads"),
    (r"MKL_VERBOSE", "obeyed: products are traced"),
    (r"NUMBA_(CPU_NAME|CPU_FEATURES|ENABLE_AVX)", f"{_OWN_FUNCTIONS} (MINITORCH_CPU_CAPABILITY caps kernels)"),
    (r"NUMBA_(NUM_THREADS|THREADING_LAYER\w*)", f"{_OWN_FUNCTIONS} (kernels have their own thread pool)"),
    (r"NUMBA_CACHE_\w+", f"{_OWN_FUNCTIONS} (MINITORCH_CACHE_DIR sets the folder for kernels)"),
    (r"NUMBA_(DUMP|DEBUG(?!INFO|_NRT$)|TRACE|CHROME|LLVM_PASS|FULL_T|DEVELOPER|SHOW|COLOR|HIGHLIGHT|PARALLEL_D)\w*",
     "applies: Numba prints it for kernels, too"),
    (r"NUMBA_\w+", _OWN_FUNCTIONS),
    (r"(OMP|KMP|GOMP)_\w+", "does not apply to kernels (own thread pool); applies to libraries with OpenMP"),
)  # fmt: skip
_BLAS = {"openblas": r"(OPENBLAS|GOTO)_\w+", "mkl": r"MKL_\w+", "blis": r"BLIS_\w+", "accelerate": r"VECLIB_\w+"}


def effects() -> dict[str, str]:
    """The effect of each variable that is set, by texts such as "NUMBA_CPU_NAME=generic"."""
    return {
        f"{name}={value}": effect for name, value in sorted(os.environ.items()) if (effect := _effect(name)) is not None
    }


def _effect(name: str) -> str | None:
    for pattern, effect in _RULES:
        if re.fullmatch(pattern, name):
            return effect
    for library, pattern in _BLAS.items():
        if re.fullmatch(pattern, name):
            if library != blas_library().name:
                return f"no effect: NumPy's BLAS is {blas_library().name}"
            by = "; minitorch_backends sets it to 4 if it is not set" if name == VARIABLE else ""
            return f"applies to NumPy's BLAS, which runs what no kernel takes{by}"
    return None
