"""The search for few layers that must keep a higher precision."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

__all__ = ["smallest_set"]

Name = TypeVar("Name", bound=Hashable)


def smallest_set(names: Sequence[Name], holds: Callable[[frozenset[Name]], bool]) -> list[Name]:
    """A set of names that holds, from which none can be spared; all of them together must hold.

    `names` stand in the order of what they contribute, most first. The shortest beginning that holds is found by
    bisection, and then each of its names is left out, the least first, where the others hold without it.
    """
    low, high = 0, len(names)
    while low < high:
        middle = (low + high) // 2
        if holds(frozenset(names[:middle])):
            high = middle
        else:
            low = middle + 1
    kept = list(names[:high])
    for name in reversed(names[:high]):
        fewer = [each for each in kept if each != name]
        if holds(frozenset(fewer)):
            kept = fewer
    return kept
