"""Deep copies of tensors: `Tensor.__deepcopy__`. Copies of tensors that share memory share memory too."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..tensor.tensor import Parameter, Tensor, _rebuild


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


def _copy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise RuntimeError(
            "only leaf tensors can be deep-copied, since the graph cannot be copied; use tensor.detach().clone()"
        )
    result = deep_copy(self, memo)
    if self._state is not None and self._state.grad is not None:
        result.state.grad = copy.deepcopy(self._state.grad, memo)
    return result


Tensor.__deepcopy__ = _copy  # type: ignore[assignment, method-assign]
Parameter.__deepcopy__ = deep_copy  # type: ignore[assignment, method-assign]  # without the gradient, as in torch
