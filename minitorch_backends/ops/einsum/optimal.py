"""The cheapest pairwise order, by dynamic programming over sets of operands.

The labels of a set's result follow from the set alone: those that the output or another operand has. The least cost of
a set is therefore that of its best division in two, outer products included. Sets are made in order of their number of
operands; those above a bound are dropped, at first a 16th of the cost of a known order and then all of it.

A. Hartono et al., "Performance optimization of tensor contraction expressions for many-body methods in quantum
chemistry", J. Phys. Chem. A 113, 12715 (2009); R. Pfeifer, J. Haegeman, F. Verstraete, "Faster identification of
optimal contraction sequences for tensor networks", Phys. Rev. E 90, 033315 (2014).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

MOST_PAIRS = 12_000_000
"""Pairs of sets that one search may try, about ten seconds."""


class Found(NamedTuple):
    """The pairs of values of an order, numbered as by `paths.pairs_of`, or None where no cheaper one was found; and
    whether the search came to its end."""

    pairs: list[tuple[int, int]] | None
    is_complete: bool


class _Sets:
    """Labels as bits of integers: those of the result of a set of operands, and the product of the sizes of labels."""

    def __init__(self, inputs: Sequence[frozenset[int]], output: frozenset[int], sizes: dict[int, int]) -> None:
        bits = {label: 1 << place for place, label in enumerate(sorted(frozenset().union(output, *inputs)))}
        self.sizes = {bit: sizes[label] for label, bit in bits.items()}
        self.inputs = [sum(bits[label] for label in term) for term in inputs]
        self.output = sum(bits[label] for label in output)
        self._volumes: dict[int, int] = {}

    def result(self, operands: int) -> int:
        inside, outside = 0, self.output
        for place, term in enumerate(self.inputs):
            if operands >> place & 1:
                inside |= term
            else:
                outside |= term
        return inside & outside

    def volume(self, labels: int) -> int:
        found = self._volumes.get(labels)
        if found is None:
            found = self._volumes[labels] = math.prod(size for bit, size in self.sizes.items() if labels & bit)
        return found


def cheapest_order(
    inputs: Sequence[frozenset[int]], output: frozenset[int], sizes: dict[int, int], known: float
) -> Found:
    """The pairwise order with the fewest FLOPs, if it has at most `known`: two for each product that is summed, and one
    for each that is not."""
    sets, tried = _Sets(inputs, output, sizes), 0
    for bound in (known / 16, known):
        found, count = _search(sets, len(inputs), bound, MOST_PAIRS - tried)
        tried += count
        if found or tried >= MOST_PAIRS:
            return Found(found, tried < MOST_PAIRS)
    return Found(None, True)


def _search(sets: _Sets, count: int, bound: float, most: int) -> tuple[list[tuple[int, int]] | None, int]:
    """The cheapest order of at most `bound` FLOPs, or None; and the number of pairs of sets that were tried."""
    labels = {1 << place: term for place, term in enumerate(sets.inputs)}
    costs: dict[int, float] = dict.fromkeys(labels, 0.0)
    parts: dict[int, tuple[int, int]] = {}
    by_size: list[list[int]] = [[], list(labels)]
    tried = 0
    for size in range(2, count + 1):
        made: list[int] = []
        for left in range(1, size // 2 + 1):
            right = size - left
            for place, a in enumerate(by_size[left]):
                others = by_size[right][place + 1 :] if left == right else by_size[right]
                tried += len(others)
                for b in others:
                    if a & b:
                        continue
                    both, own = a | b, costs[a] + costs[b]
                    least = costs.get(both, bound)
                    if own > least:
                        continue
                    result = labels.get(both)
                    if result is None:
                        result = sets.result(both)
                    involved = labels[a] | labels[b]
                    cost = own + sets.volume(involved) * (2 if result != involved else 1)
                    if cost < least or (cost == least and both not in costs):
                        if both not in costs:
                            made.append(both)
                            labels[both] = result
                        costs[both], parts[both] = cost, (a, b)
                if tried >= most:
                    return None, tried
        by_size.append(made)
    whole = (1 << count) - 1
    return (_pairs(parts, whole, count) if whole in parts else None), tried


def _pairs(parts: dict[int, tuple[int, int]], whole: int, count: int) -> list[tuple[int, int]]:
    numbers = {1 << place: place for place in range(count)}
    order, left = [], [whole]
    while left:
        here = left.pop()
        if here in parts:
            order.append(here)
            left += parts[here]
    pairs = []
    for each in reversed(order):
        first, second = parts[each]
        pairs.append((numbers[first], numbers[second]))
        numbers[each] = count + len(pairs) - 1
    return pairs
