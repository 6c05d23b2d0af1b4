"""Live backend flags under the names of `torch.backends` (and of `torch_xla.backends`, as `backends.xla`).

Setting an attribute acts on the whole process at once; `with backends.flags(name=value)` and each family's `flags`
act on the current thread or task only, and put back what they changed.
"""

from __future__ import annotations

import sys

from ..flags import Group, Snapshot, assign, current, disable_global_flags, flags_frozen, read_environment, restore, snapshot
from . import cuda, cudnn, mkldnn, xla
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = [
    "Snapshot",
    "cuda",
    "cudnn",
    "disable_global_flags",
    "flags_frozen",
    "get_float32_matmul_precision",
    "mkldnn",
    "restore",
    "set_float32_matmul_precision",
    "snapshot",
    "xla",
]


def set_float32_matmul_precision(precision: str) -> None:
    """Let float32 products run at "highest" (ieee), "high" (tf32) or "medium" (bf16) precision, as torch's function
    does.
    """
    assign({"float32_matmul_precision": precision})


def get_float32_matmul_precision() -> str:
    """The name in "highest", "high", "medium" that is nearest to the matmul flags in force; never raises."""
    return current().read("float32_matmul_precision")


Group.install(sys.modules[__name__], "")
read_environment()
