"""Rows of Jacobians: the unit vectors that select them, and their assembly into one tensor."""

from __future__ import annotations

import numpy as np

from ...tensor.registry import registry
from ...tensor.tensor import Tensor, adopt


def zeros_like(like: Tensor) -> Tensor:
    """The gradient of an output that does not matter."""
    return adopt(np.zeros_like(like._array))


def unit_vectors(like: Tensor) -> list[Tensor]:
    """For each element of a tensor, the tensor that is one there and zero elsewhere."""
    size = like.numel()
    return [adopt(row.reshape(like._array.shape)) for row in np.eye(size, dtype=like._array.dtype)]


def matrix_of(rows: list[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Assemble the rows of a Jacobian, one per element of an output of `shape`, into one tensor."""
    if not rows:
        return adopt(np.zeros((*shape, *like.shape), like._array.dtype))
    return registry["stack"].public(rows).reshape((*shape, *like.shape))
