"""Shapes."""

from __future__ import annotations

import math

__all__ = ["Size"]


class Size(tuple):
    """A shape: a tuple of ints that can also count its elements."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"mt.Size({list(self)})"
