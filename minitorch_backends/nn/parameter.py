"""Tensors that modules hold: parameters and buffers."""

from __future__ import annotations

from ..tensor.tensor import Parameter, Tensor

__all__ = ["Buffer", "Parameter"]


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module that it is assigned to, sharing the memory of `data`.

    Modules leave it out of their state dict unless `persistent`.
    """

    __slots__ = ("persistent",)

    persistent: bool

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        data = Tensor() if data is None else data
        if data._cell is None:
            data._cell = [0]
        self._array, self._cell, self._node, self._state = data._array, data._cell, None, None
        self.requires_grad_(data.requires_grad)
        self.persistent = persistent
