"""Kernels in torch's Python dialects, which do not exist here. The switches are stored without any effect.

As in torch, unknown operation names never raise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..flags import Group, ReadOnly, assign, current
from ..flags.writes import Flags
from . import table as _table  # noqa: F401  (declares the flags)

__all__ = [
    "cutedsl", "disable_dispatch_keys", "disable_operations", "enable_dispatch_keys", "enable_operations",
    "get_dsl_operations", "is_dsl_disabled", "is_operation_disabled", "operations_disabled", "triton",
]  # fmt: skip

_DIALECTS = ("cutedsl", "triton")

ReadOnly("python_native.available_dsls", lambda state: [], "no kernel is written in any dialect")
ReadOnly("python_native.all_dsls", lambda state: list(_DIALECTS), "these are torch's dialects")

_disabled: set[str] = set()


class _Dialect(Group):
    """The switch of one dialect."""

    __slots__ = ()

    available = property(lambda self: False, doc="Whether a kernel is written in the dialect: False.")
    version = property(lambda self: None, doc="Its version: None.")
    name = property(lambda self: self._path.rpartition(".")[2], doc="Its name.")

    def enable(self) -> None:
        assign({f"{self._path}.enabled": True}, self._path)

    def disable(self) -> None:
        assign({f"{self._path}.enabled": False}, self._path)

    def disabled(self) -> Flags:
        """Disable the dialect for the current thread or task while a block runs."""
        return self.flags(enabled=False)


cutedsl, triton = _Dialect("python_native.cutedsl"), _Dialect("python_native.triton")


def get_dsl_operations(dsl_name: str) -> list[str]:
    """The operations with a kernel in the dialect: none."""
    return []


def is_dsl_disabled(dsl_name: str) -> bool:
    """Whether a dialect is disabled; False for an unknown one."""
    return dsl_name in _DIALECTS and not current().read(f"python_native.{dsl_name}.enabled")


def disable_operations(*op_symbols: str) -> None:
    """Disable the kernels of a dialect for these operations."""
    _disabled.update(op_symbols)


def enable_operations(*op_symbols: str) -> None:
    """Undo `disable_operations` for these."""
    _disabled.difference_update(op_symbols)


def is_operation_disabled(op_symbol: str) -> bool:
    """Whether the operation is disabled."""
    return op_symbol in _disabled


@contextmanager
def operations_disabled(*op_symbols: str) -> Iterator[None]:
    """Disable operations while a block runs; enable them again at its end, except those disabled before."""
    fresh = set(op_symbols) - _disabled
    _disabled.update(fresh)
    try:
        yield
    finally:
        _disabled.difference_update(fresh)


def disable_dispatch_keys(*dispatch_keys: str) -> None:
    """Accepted without effect: kernels here have no dispatch keys."""


def enable_dispatch_keys(*dispatch_keys: str) -> None:
    """Accepted without effect: kernels here have no dispatch keys."""


Group.install(sys.modules[__name__], "python_native")
