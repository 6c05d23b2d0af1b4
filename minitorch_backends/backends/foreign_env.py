"""Environment variables of other libraries about compilation and threads, and their effect here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ..kernels.runtime.blas_library import blas_library
from ..kernels.runtime.idle_threads import SETTINGS

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
    by = f"; minitorch_backends sets it to {SETTINGS[name]} if it is not set" if name in SETTINGS else ""
    for pattern, effect in _RULES:
        if re.fullmatch(pattern, name):
            return effect + by
    for library, pattern in _BLAS.items():
        if re.fullmatch(pattern, name):
            if library != blas_library().name:
                return f"no effect: NumPy's BLAS is {blas_library().name}"
            return f"applies to NumPy's BLAS, which runs what no kernel takes{by}"
    return None


# Environment variables of other libraries that set flags here: for each text, the flags and their values


def _switch(path: str, value: Any) -> dict[str, dict[str, Any]]:
    return {"1": {path: value}, "0": {}}


def _jax() -> dict[str, dict[str, Any]]:
    """JAX's precision levels map to the XLA family; its algorithm presets set one precision for every family.

    Source: the configuration option `jax_default_matmul_precision` and `jax.lax.DotAlgorithmPreset`.
    """
    levels = {
        "default": ("default", "fastest", "bfloat16"),
        "high": ("high", "bfloat16_3x", "tensorfloat32"),
        "highest": ("highest", "float32"),
    }
    presets = {
        "ieee": ("F32_F32_F32",),
        "tf32": ("TF32_TF32_F32",),
        "tf32x3": ("TF32_TF32_F32_X3",),
        "bf16": ("BF16_BF16_F32",),
        "bf16x3": ("BF16_BF16_F32_X3",),
        "bf16x6": ("BF16_BF16_F32_X6",),
        "bf16x9": ("BF16_BF16_F32_X9",),
        "fp16": ("F16_F16_F32",),
    }
    meanings = {text: {"xla.mat_mul_precision": level} for level, texts in levels.items() for text in texts}
    return meanings | {text: {"fp32_precision": name} for name, texts in presets.items() for text in texts}


MEANINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": _switch("cuda.matmul.allow_tf32", True),
    "TORCH_BLAS_PREFER_CUBLASLT": _switch("cuda.blas_library", "cublaslt"),
    "TORCH_BLAS_PREFER_HIPBLASLT": _switch("cuda.blas_library", "cublaslt"),
    "TORCH_LINALG_PREFER_CUSOLVER": _switch("cuda.linalg_library", "cusolver"),
    "TORCH_LINALG_PREFER_HIPSOLVER": _switch("cuda.linalg_library", "cusolver"),
    "TORCH_ROCM_FA_PREFER_CK": _switch("cuda.rocm_fa_library", "ck"),
    "NVIDIA_TF32_OVERRIDE": {"0": {"cuda.tf32_veto": True}, "1": {}},
    "JAX_DEFAULT_MATMUL_PRECISION": _jax(),
}
