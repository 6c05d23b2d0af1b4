"""Version counters. The version cell of a tensor is a list with the number of writes to its memory, and on demand
details of these writes."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .inference import InferenceCell


class Writes:
    """Details of the writes to a tensor's memory.

    Attributes:
        through_data: the number of writes through `data`, which the version excludes.
        sites: the version and the line of each write made while anomaly detection was on.
    """

    __slots__ = ("__weakref__", "sites", "through_data")

    def __init__(self) -> None:
        self.through_data = 0
        self.sites: list[tuple[int, str]] = []


def details(cell: list[Any]) -> Writes:
    """The details of a cell, created on first use."""
    if len(cell) == 1:
        cell.append(Writes())
    return cell[1]


def cell_of(tensor: Tensor) -> list[Any]:
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
        origin = cell_of(tensor)
        before = (each for each in getattr(origin, "_origins", ()) if each() is not None)
        self._origins: tuple[weakref.ref[Writes], ...] = (weakref.ref(details(origin)), *before)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        for each in self._origins:
            if (known := each()) is not None:
                known.through_data += 1


def writes(tensor: Tensor) -> tuple[int, int] | None:
    """The number of writes to the memory of a tensor: its version, plus writes through `data`, which the version
    excludes. None where the contents may have changed unseen: for inference tensors, which have no version counter, and
    for memory that other processes write to."""
    if type(tensor._cell) is InferenceCell:
        return None
    base = tensor._array.base
    while isinstance(base, np.ndarray):
        base = base.base
    if getattr(base, "of_several_processes", False):
        return None
    cell = cell_of(tensor)
    return cell[0], cell[1].through_data if len(cell) > 1 else 0


def increment_version(tensor: Any) -> None:
    """Count a write to the memory of a tensor, or of each of several, that autograd did not see."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        cell_of(each)[0] += 1
