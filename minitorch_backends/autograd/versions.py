"""Version counters for users and for caches."""

from __future__ import annotations

import weakref
from typing import Any

from ..flags.scopes import Scope
from ..tensor.tensor import Tensor, kind_of
from .inference import InferenceCell
from .version_counter import Writes, details


def _cell_of(tensor: Tensor) -> list[Any]:
    if type(tensor._cell) is InferenceCell:
        raise RuntimeError("Inference tensors do not track version counter; use clone() outside inference mode")
    if tensor._cell is None:
        tensor._cell = [0]
    return tensor._cell


class DataCell(list[Any]):
    """The version cell of `tensor.data`, with a count of its own. Its writes are also noted in the details of the
    tensor's cell, and of the tensor whose `data` this is, while those exist."""

    __slots__ = ("_origins",)

    def __init__(self, tensor: Tensor) -> None:
        super().__init__([0])
        origin = _cell_of(tensor)
        before = (each for each in getattr(origin, "_origins", ()) if each() is not None)
        self._origins: tuple[weakref.ref[Writes], ...] = (weakref.ref(details(origin)), *before)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        for each in self._origins:
            if (known := each()) is not None:
                known.through_data += 1


def writes(tensor: Tensor) -> tuple[int, int] | None:
    """The number of writes to the memory of a tensor: its version, plus writes through `data`, which the version
    excludes. None for inference tensors, which have no version counter: their contents may have changed."""
    if type(tensor._cell) is InferenceCell:
        return None
    cell = _cell_of(tensor)
    return cell[0], cell[1].through_data if len(cell) > 1 else 0


def increment_version(tensor: Any) -> None:
    """Count a write to the memory of a tensor, or of each of several, that autograd did not see."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _cell_of(each)[0] += 1


class _unsafe_preserve_version_counter(Scope):
    """Restore the versions of a tensor, or of a tuple of tensors, when the block ends: its writes are not counted.

    The versions are those at construction. Raises AssertionError for other values, RuntimeError for inference tensors.
    """

    __slots__ = ("_versions",)

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        given = (tensors,) if isinstance(tensors, Tensor) else tensors
        if not isinstance(given, tuple) or not all(isinstance(each, Tensor) for each in given):
            raise AssertionError(f"expected a Tensor or a tuple of Tensors, got {kind_of(tensors)}")
        self._versions = [(cell, cell[0]) for cell in map(_cell_of, given)]

    def __call__(self, function: Any) -> Any:
        raise TypeError("_unsafe_preserve_version_counter cannot decorate a function; use it as a context manager")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        for cell, version in self._versions:
            cell[0] = version
