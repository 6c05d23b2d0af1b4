"""Shapes, and limits on the size of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_ELEMENTS = 2**58
"""The largest number of elements (of at most 16 bytes each) that can be addressed."""


class Size(tuple):
    """A shape: a tuple of ints with `numel`. Slices of it and sums with it are Sizes too."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if type(key) is slice else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"mt.Size({list(self)})"


def repeats(array: np.ndarray) -> bool:
    """Whether several elements of an array share one memory location, as in expanded tensors."""
    strides = array.strides
    return 0 in strides and any(stride == 0 and size > 1 for stride, size in zip(strides, array.shape, strict=True))


def addressable(shape: Sequence[int]) -> Sequence[int]:
    """Return `shape`. Raises RuntimeError if it has more elements than memory has addresses."""
    if math.prod(size for size in shape if size) > MOST_ELEMENTS:
        raise RuntimeError(f"a tensor of shape {list(shape)} has more elements than memory has addresses")
    return shape
