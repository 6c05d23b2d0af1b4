"""Environment variables of other libraries that set flags here: for each text, the flags and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
