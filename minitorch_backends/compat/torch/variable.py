"""`torch.autograd.Variable`, which was a class of its own before torch 0.4."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor

NAMES = ["Variable"]


class _VariableType(type):
    """The class of `Variable`: Tensors are its instances."""

    def __call__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        return (Tensor() if data is None else data.detach()).requires_grad_(requires_grad)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_VariableType):
    """`Variable(tensor, requires_grad=False)` is a leaf on the memory of the tensor, as `tensor.detach()`."""
