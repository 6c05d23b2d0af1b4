"""`torch.autograd.Variable`, which was a class of its own before torch 0.4."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor

NAMES = ["Variable"]


class _VariableType(type):
    """The class of `Variable`: Tensors are its instances."""

    def __call__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        return data.requires_grad_() if requires_grad else data

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_VariableType):
    """`Variable(tensor, requires_grad=False)` is the tensor itself; tensors record by themselves."""
