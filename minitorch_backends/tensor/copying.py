"""Deep copies of tensors, in which those that share memory do so again."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .tensor import Tensor, _rebuild

__all__ = ["deep_copy"]


def deep_copy(tensor: Tensor, memo: dict[int, Any]) -> Any:
    """A copy for `copy.deepcopy` without its gradient; copies that share memory count writes to it together."""
    result = memo[id(tensor)] = _rebuild(type(tensor), _memory_copied(tensor._array, memo), tensor.requires_grad)
    if type(tensor._cell) is list:
        result._cell = copy.deepcopy(tensor._cell, memo)
    return result


def _memory_copied(array: np.ndarray, memo: dict[int, Any]) -> np.ndarray:
    memory = array
    while type(memory.base) is np.ndarray:
        memory = memory.base
    if not memory.flags.owndata:  # a file's, or another library's
        return array.copy("K")
    copied = copy.deepcopy(memory, memo)
    if copied.strides != memory.strides:
        return array.copy("K")
    places = [each.__array_interface__["data"][0] for each in (array, memory)]
    return np.ndarray(array.shape, array.dtype, copied.ravel("K").view(np.uint8), places[0] - places[1], array.strides)
