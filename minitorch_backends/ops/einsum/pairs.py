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


def pairs_from(place: int, pairs: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The pairs of an operand's gradient, whose operands are the result's gradient and then the other ones.

    They are the same tree, seen from that operand. At each of its nodes three edges meet, and the labels of all three
    make the cost, whichever of them is the result: the gradient takes about as many FLOPs as the contraction, and there
    is nothing to search. Values beside the way down from the result are contracted just before they are taken.
    """
    takers = {value: number for number, pair in enumerate(pairs) for value in pair}
    beside, value = list[int](), place
    while value in takers:
        first, second = pairs[takers[value]]
        beside.append(first + second - value)
        value = count + takers[value]
    numbers = {value: value + (value < place) for value in range(count)}
    found, gradient = list[tuple[int, int]](), 0
    for value in reversed(beside):
        below = [value]
        for each in below:
            below += pairs[each - count] if each >= count else ()
        for each in sorted(below):
            if each >= count:
                first, second = pairs[each - count]
                numbers[each] = count + len(found)
                found.append((numbers[first], numbers[second]))
        found.append((gradient, numbers[value]))
        gradient = count + len(found) - 1
    return found
