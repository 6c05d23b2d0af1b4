"""Deep copies of tensors. Copies of tensors that share memory share memory too."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .tensor import Tensor, _rebuild


def deep_copy(tensor: Tensor, memo: dict[int, Any]) -> Any:
    """Copy a tensor for `copy.deepcopy`, without its gradient.

    `memo` maps ids to copies. Copies that share memory also share a version counter.
    """
    result = memo[id(tensor)] = _rebuild(type(tensor), _memory_copied(tensor._array, memo), tensor.requires_grad)
    if type(tensor._cell) is list:
        result._cell = copy.deepcopy(tensor._cell, memo)
    return result


def _memory_copied(array: np.ndarray, memo: dict[int, Any]) -> np.ndarray:
    memory = array
    while type(memory.base) is np.ndarray:
        memory = memory.base
    if not memory.flags.owndata:  # memory of a file or of another library
        return array.copy("K")
    copied = copy.deepcopy(memory, memo)
    if copied.strides != memory.strides:
        return array.copy("K")
    places = [each.__array_interface__["data"][0] for each in (array, memory)]
    return np.ndarray(array.shape, array.dtype, copied.ravel("K").view(np.uint8), places[0] - places[1], array.strides)
