"""The XLA family: `torch_xla.backends.set_mat_mul_precision`, which sets the number of bf16 passes on a TPU."""

from __future__ import annotations

import sys

from ..flags import Group, assign, current
from . import table as _table

__all__ = ["get_mat_mul_precision", "set_mat_mul_precision"]


def set_mat_mul_precision(precision: str) -> None:
    """Set the number of bf16 passes of products: "default" one, "high" three, "highest" six. Raises ValueError for
    another value."""
    if precision not in _table.XLA_PRECISIONS:
        names = ", ".join(repr(name) for name in _table.XLA_PRECISIONS)
        raise ValueError(f"set_mat_mul_precision(): precision must be one of {names}, got {precision!r}")
    assign({"xla.mat_mul_precision": precision}, "xla")


def get_mat_mul_precision() -> str:
    """The precision set last; "default" if it was never set."""
    return current().read("xla.mat_mul_precision")


Group.install(sys.modules[__name__], "xla")
