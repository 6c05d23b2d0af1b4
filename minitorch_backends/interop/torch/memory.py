"""Tensors of torch as tensors of ours, and back, in the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...tensor.dtypes import bfloat16
from ...tensor.tensor import Tensor, adopt

__all__ = ["to_ours", "to_torch"]


def to_ours(x: torch.Tensor) -> Tensor:
    """A tensor of ours over the memory of a plain CPU tensor; conjugate and negative views are computed first."""
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    if x.dtype is torch.bfloat16:  # which NumPy has no name for
        return adopt(x.detach().view(torch.int16).numpy().view(bfloat16.dtype))
    return adopt(x.detach().numpy())


def to_torch(x: Any) -> Any:
    """A tensor of torch over the memory of one of ours; tuples become tuples, None stays None."""
    if isinstance(x, Tensor):
        array = x._array
        steps = array.strides
        if not array.flags.writeable or any(step < 0 or step % array.itemsize for step in steps):  # torch has no such
            array = array.copy()
        if x.dtype is bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if isinstance(x, (tuple, list)):
        return tuple(map(to_torch, x))
    return x
