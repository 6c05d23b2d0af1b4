"""Shapes of arrays that meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

__all__ = ["broadcast_shapes"]


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
