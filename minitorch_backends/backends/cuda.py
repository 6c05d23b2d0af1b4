"""The CUDA family: how a GPU's matrix products would run. The flags act here, on the CPU; `is_built()` says there is
no GPU.
"""

from __future__ import annotations

import sys

from ..flags import Group
from . import table as _table  # noqa: F401  (declares the flags)
from . import table as _table  # noqa: F401  (declares the flags before they are installed)

__all__ = ["is_built", "matmul"]

matmul = Group("cuda.matmul")


def is_built() -> bool:
    """Whether this engine can run on CUDA: False. The flags act all the same."""
    return False


Group.install(sys.modules[__name__], "cuda")
