"""Alignment of two sequences of calls with insertions and removals: a longest common subsequence.

Calls match if their keys are equal. Among all longest alignments the one that pairs most similar results is chosen, so
that an insertion into a row of equal calls does not shift the pairs. Method: D. S. Hirschberg, "A linear space
algorithm for computing maximal common subsequences", 1975. The first half of one sequence is scored against each prefix
of the other, the second half against each suffix, and the best cut divides the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

Similar = Callable[[int, np.ndarray], np.ndarray]
"""A predicate: which results of the second run, at these positions, are similar to one result of the first."""


def align(
    first: Sequence[Hashable], second: Sequence[Hashable], similar: Similar
) -> list[tuple[int | None, int | None]]:
    """Pairs of positions in both sequences, in order; None marks a call without a counterpart."""
    matches = _Aligner(first, second, similar).matches()
    pairs: list[tuple[int | None, int | None]] = []
    i = j = 0
    for a, b in [*matches, (len(first), len(second))]:
        pairs += [(place, None) for place in range(i, a)]
        pairs += [(None, place) for place in range(j, b)]
        if a < len(first):
            pairs.append((a, b))
        i, j = a + 1, b + 1
    return pairs


class _Aligner:
    """The keys as numbers, and the weights of matches."""

    def __init__(self, first: Sequence[Hashable], second: Sequence[Hashable], similar: Similar) -> None:
        numbers: dict[Hashable, int] = {}
        self._first, self._second = (
            np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64) for keys in (first, second)
        )
        self._similar = similar
        self._match = min(len(first), len(second)) + 1
        """The weight of a match: more than all similarities together."""

    def _weights(self, i: int, low: int, high: int) -> np.ndarray:
        """The weights of matching call i of the first sequence with calls low to high of the second."""
        weights = np.zeros(high - low, np.int64)
        equal = np.flatnonzero(self._second[low:high] == self._first[i])
        if equal.size:
            weights[equal] = self._match + self._similar(i, equal + low)
        return weights

    def _matches_best(self, i: int, j: int) -> bool:
        return self._weights(i, j, j + 1)[0] > self._match

    def matches(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        left = [(0, len(self._first), 0, len(self._second))]
        while left:
            a, a_end, b, b_end = left.pop()
            while a < a_end and b < b_end and self._matches_best(a, b):
                found.append((a, b))
                a, b = a + 1, b + 1
            while a < a_end and b < b_end and self._matches_best(a_end - 1, b_end - 1):
                a_end, b_end = a_end - 1, b_end - 1
                found.append((a_end, b_end))
            if a == a_end or b == b_end:
                continue
            if a_end - a == 1:
                weights = self._weights(a, b, b_end)
                if weights.any():
                    found.append((a, b + int(weights.argmax())))
                continue
            middle = (a + a_end) // 2
            before = self._scores(range(a, middle), b, b_end, 1)
            after = self._scores(range(a_end - 1, middle - 1, -1), b, b_end, -1)
            cut = b + int((before + after[::-1]).argmax())
            left += [(a, middle, b, cut), (middle, a_end, cut, b_end)]
        return sorted(found)

    def _scores(self, rows: range, low: int, high: int, step: int) -> np.ndarray:
        """The greatest weight of an alignment of these rows with each prefix (or suffix, for step -1) of the
        columns."""
        scores = np.zeros(high - low + 1, np.int64)
        for i in rows:
            weights = self._weights(i, low, high)[::step]
            scores[1:] = np.maximum.accumulate(np.maximum(scores[1:], scores[:-1] + weights))
        return scores
