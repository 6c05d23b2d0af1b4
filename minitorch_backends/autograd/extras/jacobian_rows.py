"""Rows of Jacobians: the tensors that ask for one each, and all of them as one tensor."""

from __future__ import annotations

import numpy as np

from ...dispatch.registry import registry
from ...tensor.tensor import Tensor, adopt

__all__ = ["matrix_of", "unit_vectors", "zeros_like"]


def zeros_like(like: Tensor) -> Tensor:
    """The gradient of what does not matter."""
    return adopt(np.zeros_like(like._array))


def unit_vectors(like: Tensor) -> list[Tensor]:
    """For each element of a tensor the tensor that is one there and zero elsewhere."""
    size = like.numel()
    return [adopt(row.reshape(like._array.shape)) for row in np.eye(size, dtype=like._array.dtype)]


def matrix_of(rows: list[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """The rows of a Jacobian, in the order of the elements of an output of `shape`, as one tensor."""
    if not rows:
        return adopt(np.zeros((*shape, *like.shape), like._array.dtype))
    return registry["stack"].public(rows).reshape((*shape, *like.shape))
