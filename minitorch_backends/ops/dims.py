"""Dimensions as users give them: negative ones count from the end, and torch's errors for those that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from ..size import addressable

__all__ = ["addressable", "shape_of", "wrap_dim", "wrap_dims"]


def wrap_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front. Raises IndexError out of range; a tensor without dimensions has 0 and -1."""
    limit = ndim or 1
    if isinstance(dim, bool):
        raise TypeError(f"a dimension must be an int, not bool {dim}")
    try:
        dim = index(dim)
    except TypeError:
        raise TypeError(f"a dimension must be an int, not {type(dim).__name__} {dim!r}") from None
    if -limit <= dim < limit:
        return dim + (limit if dim < 0 else 0)
    raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")


def wrap_dims(dims: int | Iterable[int], ndim: int) -> tuple[int, ...]:
    """One or several dims as a tuple counted from the front. Raises RuntimeError for one that is given twice."""
    wrapped = tuple(wrap_dim(dim, ndim) for dim in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    if len(set(wrapped)) != len(wrapped):
        twice = next(dim for dim in wrapped if wrapped.count(dim) > 1)
        raise RuntimeError(
            f"dim {twice} appears multiple times in the list of dims {list(wrapped)}; name each one once"
        )
    return wrapped


def shape_of(sizes: Sequence[Any]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` alike, as a tuple of ints. Raises TypeError for sizes that are no integers."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    try:
        return tuple(map(index, sizes))
    except TypeError:
        raise TypeError(f"sizes are integers, and got {tuple(sizes)!r}; expected (2, 3) or 2, 3, for example") from None
