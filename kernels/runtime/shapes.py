"""Shapes of arrays that meet, and what loops expect of arrays before they read memory at an address."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """`np.broadcast_shapes`, which ends at 32 dimensions where arrays have 64. Raises ValueError where it does."""
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        return tuple(shapes[0])
    found = []
    for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            raise ValueError(f"shapes {', '.join(map(str, map(tuple, shapes)))} could not be broadcast together")
        found.append(wanted.pop() if wanted else 1)
    return tuple(reversed(found))


def strided_view(array: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """`as_strided`, as writable as the array is, and also of types whose names NumPy cannot read (float8_e5m2)."""
    numbers = array.view(np.uint8) if array.itemsize == 1 else array
    found = np.lib.stride_tricks.as_strided(numbers, shape, strides, writeable=array.flags.writeable)
    return found.view(array.dtype)


def windows(array: np.ndarray, size: int, dim: int) -> np.ndarray:
    """`sliding_window_view` along a dimension, writable, of the same types."""
    numbers = array.view(np.uint8) if array.itemsize == 1 else array
    return np.lib.stride_tricks.sliding_window_view(numbers, size, dim, writeable=True).view(array.dtype)


def expect(name: str, array: np.ndarray, shape: Sequence[int], dtype: Any) -> None:
    """Raise ValueError unless an array has the shape and type as which loops read the memory at its address."""
    if array.shape != tuple(shape) or array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)}{list(shape)}, got {array.dtype}{list(array.shape)}")


def expect_indices(name: str, index: np.ndarray, count: int) -> None:
    """Raise ValueError unless these are integers of 64 bits from 0 to count - 1."""
    if index.dtype != np.int64:
        raise ValueError(f"{name} must be int64, got {index.dtype}")
    if index.size and not (index.min() >= 0 and index.max() < count):
        raise ValueError(f"{name} must be from 0 to {count - 1}, got {index.min()} to {index.max()}")
