"""Dimensions as users give them: negative ones count from the end, and torch's errors for those out of range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from ..tensor.tensor import kind_of


def integer(name: str, argument: str, value: Any, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """An argument of the function `name` as an int. Raises TypeError for other types, RuntimeError for integers
    that are out of range."""
    if isinstance(value, bool):
        raise TypeError(f"{name}(): argument {argument!r} must be int, not bool")
    try:
        found = index(value)
    except TypeError:
        raise TypeError(f"{name}(): argument {argument!r} must be int, not {kind_of(value)}") from None
    if least <= found <= most:
        return found
    raise RuntimeError(f"{name}(): argument {argument!r} must be an integer from {least} to {most}, got {found}")


def clamp_diagonal(diagonal: Any, rows: int, columns: int) -> int:
    """The number of a diagonal, clamped to the nearest one outside a matrix of these sizes."""
    return max(min(index(diagonal), columns), -rows)


def wrap_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front. Raises IndexError out of range; a tensor without dimensions has 0 and -1."""
    limit = ndim or 1
    if type(dim) is not int:
        if isinstance(dim, bool):
            raise TypeError(f"a dimension must be an int, not bool {dim}")
        try:
            dim = index(dim)
        except TypeError:
            raise TypeError(f"a dimension must be an int, not {kind_of(dim)} {dim!r}") from None
    if -limit <= dim < limit:
        return dim if dim >= 0 else dim + limit
    raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")


def existing_dim(dim: int, ndim: int) -> int:
    """`wrap_dim` that also raises IndexError for tensors without dimensions."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions; expected at least one")
    return wrap_dim(dim, ndim)


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
    """The sizes in `f(2, 3)` or `f((2, 3))` as a tuple of ints. Raises TypeError for sizes that are not integers."""
    if sizes is None:
        raise TypeError("sizes must be integers, got None; expected (2, 3) or 2, 3, for example")
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    try:
        if bool in map(type, sizes):
            raise TypeError
        return tuple(map(index, sizes))
    except TypeError:
        raise TypeError(f"sizes must be integers, got {tuple(sizes)!r}; expected (2, 3) or 2, 3, for example") from None
