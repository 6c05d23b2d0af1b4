"""Writes that version counters do not count."""

from __future__ import annotations

from typing import Any

from ...flags.scopes import Scope
from ...tensor.tensor import Tensor, kind_of
from ..versions import cell_of


class _unsafe_preserve_version_counter(Scope):
    """Restore the versions of a tensor, or of a tuple of tensors, when the block ends: its writes are not counted.

    The versions are those at construction. Raises AssertionError for other values, RuntimeError for inference tensors.
    """

    __slots__ = ("_versions",)

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        given = (tensors,) if isinstance(tensors, Tensor) else tensors
        if not isinstance(given, tuple) or not all(isinstance(each, Tensor) for each in given):
            raise AssertionError(f"expected a Tensor or a tuple of Tensors, got {kind_of(tensors)}")
        self._versions = [(cell, cell[0]) for cell in map(cell_of, given)]

    def __call__(self, function: Any) -> Any:
        raise TypeError("_unsafe_preserve_version_counter cannot decorate a function; use it as a context manager")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        for cell, version in self._versions:
            cell[0] = version
