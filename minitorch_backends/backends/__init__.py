"""Live backend flags under the names of `torch.backends` (and of `torch_xla.backends`, as `backends.xla`).

Setting an attribute changes the whole process at once. `with backends.flags(name=value)` and each family's `flags`
change the current thread or task only, and restore the previous values.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..flags import (
    Group,
    Snapshot,
    assign,
    current,
    disable_global_flags,
    flags_frozen,
    guard,
    read_environment,
    restore,
    snapshot,
)
from . import operands, small_families
from .foreign_env import MEANINGS
from .recipes import RECIPES

__all__ = [
    "Snapshot", "cpu", "cuda", "cudnn", "cusparselt", "disable_global_flags", "flags_frozen",
    "get_float32_matmul_precision", "guard", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp",
    "operands", "opt_einsum", "python_native", "quantized", "recipes", "restore", "set_flags",
    "set_float32_matmul_precision", "snapshot", "xla", "xnnpack",
]  # fmt: skip


def set_flags(_fp32_precision: str | None = None) -> tuple[str]:
    """Set the generic precision and return the previous one; None leaves it unchanged."""
    before = current().read("fp32_precision")
    if _fp32_precision is not None:
        assign({"fp32_precision": _fp32_precision})
    return (before,)


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 products as torch does: "highest" (ieee), "high" (tf32) or "medium" (bf16)."""
    assign({"float32_matmul_precision": precision})


def get_float32_matmul_precision() -> str:
    """The name ("highest", "high", "medium") nearest to the current matmul flags; never raises."""
    return current().read("float32_matmul_precision")


recipes = RECIPES
"""Named sets of formats of operands, each a scope: `with backends.recipes["te-mxfp8"]:`."""

small_families.install(sys.modules[__name__])
Group.install(sys.modules[__name__], "")
read_environment(MEANINGS)
if any(os.environ.get(name) for name in ("MKL_VERBOSE", "ONEDNN_VERBOSE", "DNNL_VERBOSE")):
    import_module("..compat.verbose", __name__).read_environment()

if TYPE_CHECKING:
    from . import cpu, cuda, cudnn, mkl, mkldnn, opt_einsum, python_native, xla

    def __getattr__(name: str) -> Any:
        """Declares the families of `small_families`, whose modules mypy cannot read."""
