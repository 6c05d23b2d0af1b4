"""Tensors of torch as tensors of ours, and back, in the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...tensor.dtypes import bfloat16, dtypes
from ...tensor.tensor import Tensor, adopt

_WITHOUT_NAME = {getattr(torch, each.name): each for each in dtypes.values() if each is bfloat16 or each.letter in "np"}
"""Types that torch's arrays have no name for in NumPy, and ours."""


def to_ours(x: torch.Tensor) -> Tensor:
    """A tensor of ours over the memory of a plain CPU tensor; conjugate and negative views are computed first."""
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    if (dtype := _WITHOUT_NAME.get(x.dtype)) is not None:
        integers = torch.int16 if dtype.itemsize == 2 else torch.uint8
        return adopt(x.detach().view(integers).numpy().view(dtype.dtype))
    return adopt(x.detach().numpy())


def to_torch(x: Any) -> Any:
    """A tensor of torch over the memory of one of ours; tuples become tuples, None stays None."""
    if isinstance(x, Tensor):
        array = x._array
        steps = array.strides
        if not array.flags.writeable or any(step < 0 or step % array.itemsize for step in steps):  # torch has no such
            array = array.copy()
        if x.dtype in _WITHOUT_NAME.values():
            integers = np.int16 if x.dtype.itemsize == 2 else np.uint8
            return torch.from_numpy(array.view(integers)).view(getattr(torch, x.dtype.name))
        return torch.from_numpy(array)
    if isinstance(x, (tuple, list)):
        return tuple(map(to_torch, x))
    return x
