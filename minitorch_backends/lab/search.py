"""The search for a small set of layers that must keep a higher precision."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def smallest_set(names: Sequence[Name], holds: Callable[[frozenset[Name]], bool]) -> list[Name]:
    """Find a minimal set of names that satisfies `holds`: no single name can be removed. The full set must satisfy it.

    `names` are in order of contribution, largest first. Bisection finds the shortest prefix that satisfies the
    predicate;
    then each of its names, smallest first, is removed if the others suffice.
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
