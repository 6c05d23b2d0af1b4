"""Stacks for `backends.emulate`: the family of flags that each uses, the defaults of those flags, and the device.

    backends.emulate = "mlx"  # float32 products in TF32, truncated, except matrix-vector products

An explicitly set flag, `profile` included, overrides the stack's default. A default profile applies to the formats of
the device; other formats use float32 sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Stack(NamedTuple):
    """A row of `STACKS`.

    Attributes:
        name: the value of the flag `emulate`.
        family: the only family of flags that applies.
        source: where the defaults come from.
        follows: the version of the software whose behaviour this is.
        defaults: values of the family's unset flags, where they differ from torch's.
        profile: the device that sums products and rounds operands to TF32, unless the flag `profile` is set.
        exact_vectors: why products with a vector are exact, where the routines for them have no TF32.
    """

    name: str
    family: str
    source: str
    follows: str
    defaults: Mapping[str, str] = MappingProxyType({})
    profile: str | None = None
    exact_vectors: str = ""


_LEVELS = "TF32 is a mode of products of matrices; {} of vectors have none"
_CUBLAS = _LEVELS.format("cuBLAS's gemv and dot")

_PRODUCTS = ("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision")

STACKS: dict[str, Stack] = {
    row.name: row
    for row in (
        Stack(
            "cuda",
            "cuda",
            "torch on NVIDIA GPUs: the defaults of torch.backends.cuda and cudnn; cuBLAS's "
            "documentation of tensor cores (2.1.11) and math modes",
            "PyTorch 2.13, cuBLAS 13",
            exact_vectors=_CUBLAS,
        ),
        Stack("mkldnn", "mkldnn", "torch on CPUs with oneDNN: the defaults of torch.backends.mkldnn", "PyTorch 2.13"),
        Stack("xla", "xla", "torch_xla on TPUs: one bf16 pass by default", "OpenXLA, commit 827aca0"),
        Stack(
            "ort-cuda",
            "cuda",
            "ONNX Runtime: the CUDA execution provider's option use_tf32 is 1 by default",
            "ONNX Runtime, as documented in 2026",
            dict.fromkeys(_PRODUCTS, "tf32"),
        ),
        Stack(
            "mlx",
            "cuda",
            "MLX on Apple's M5: MLX_ENABLE_TF32 is 1 by default, for products, convolutions and attention "
            "(ml-explore/mlx, issues 3860 and 4411, pull request 3894)",
            "MLX after pull request 3894",
            dict.fromkeys(_PRODUCTS, "tf32"),
            "apple_m5",
        ),
        Stack(
            "rocm",
            "cuda",
            "torch on AMD GPUs: TF32 needs HIPBLASLT_ALLOW_TF32=1, in products alone, and truncates "
            "(ROCm/rocm-libraries issue 9176)",
            "PyTorch 2.13, hipBLASLt as of issue 9176",
            {"cudnn.conv.fp32_precision": "ieee", "cudnn.rnn.fp32_precision": "ieee"},
            "mi300",
            _LEVELS.format("rocBLAS's gemv and dot"),
        ),
        Stack(
            "jax-tpu",
            "xla",
            "JAX on TPUs: products are one bf16 pass by default, of operands rounded to nearest even (docs.jax.dev, "
            "Matmul precision; cloud.google.com/tpu, bfloat16)",
            "JAX, as documented in 2026",
            profile="tpu",
        ),
    )
}
"""Every stack by name; torch's own first."""
