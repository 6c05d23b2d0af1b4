"""Paths, which name operands by their places in a list that shrinks, as pairs of numbered values, and back."""

from __future__ import annotations

from collections.abc import Sequence

Path = tuple[tuple[int, ...], ...]


def pairs_of(path: Path, count: int) -> list[tuple[int, int]]:
    """The path as pairs of value numbers: operands have the first numbers, and each result the next one.

    A contraction of several operands goes from left to right; one of a single operand is dropped.
    """
    values, made, pairs = list(range(count)), count, []
    for step in path:
        taken = [values[place] for place in sorted(step)]
        values = [value for place, value in enumerate(values) if place not in step]
        result = taken[0]
        for other in taken[1:]:
            pairs.append((result, other))
            result, made = made, made + 1
        values.append(result)
    return pairs


def path_of(pairs: Sequence[tuple[int, ...]], count: int) -> Path:
    """Pairs of values, numbered as by `pairs_of`, as a path."""
    values, path = list(range(count)), []
    for number, pair in enumerate(pairs):
        path.append(tuple(sorted(values.index(value) for value in pair)))
        values = [value for value in values if value not in pair] + [count + number]
    return tuple(path)
