"""The search for the cheapest precision of each product within a budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Levels = dict[Any, str]
"""The precision of each product, by any hashable name."""

_PATIENCE = 8
"""Products in a row that take no cheaper precision, after which the others are not asked."""

_LARGEST = 1e9
"""Shares of a budget are finite, so that they can be subtracted."""


class Option(NamedTuple):
    """A precision of one product: its cost, and the square of the share of the budget that its error takes alone."""

    cost: float
    square: float


Options = Mapping[Any, Mapping[str, Option]]
"""The options of each product by precision. All have the exact one, at which the error is 0."""


def option(cost: float, share: float) -> Option:
    return Option(cost, min(share, _LARGEST) ** 2)


def cheapest_levels(options: Options, exact: str, holds: Callable[[Levels], bool]) -> Levels | None:
    """The cheapest precision of each product that was found with `holds` true; None where not even `exact` holds.

    Each subset of the offered precisions is searched, so that a further offer never makes the result more expensive. A
    subset whose least cost is not below the best is left out. Within one, errors are taken to add in quadrature: moves
    from the exact precision along each product's convex hull of cost and squared error, best ratio first, form a chain
    (the greedy solution of the multiple-choice knapsack problem; Sinha and Zoltners, 1979). Bisection by `holds` finds
    its last element within the budget. Then each product takes the cheapest precision that still holds, best ratio
    first, until several in a row take none: a language model has hundreds, and each question is a run of it.
    """
    offers = [*dict.fromkeys(level for each in options.values() for level in each if level != exact)]
    best, least = None, math.inf
    for levels in _subsets(offers):
        allowed = {name: {at: each[at] for at in (*levels, exact) if at in each} for name, each in options.items()}
        if sum(min(each.values()).cost for each in allowed.values()) >= least:
            continue
        found = _descend(_chain(allowed, exact), allowed, holds)
        if found is not None and (cost := cost_of(found, options)) < least:
            best, least = found, cost
    return best


def cost_of(levels: Levels, options: Options) -> float:
    return sum(options[name][level].cost for name, level in levels.items())


def _subsets(offers: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All of them, largest first."""
    for count in range(len(offers), -1, -1):
        yield from itertools.combinations(offers, count)


def _chain(options: Options, exact: str) -> list[Levels]:
    """Levels of all products, from all exact to all at their cheapest."""
    moves: list[tuple[float, int, Hashable, str]] = []
    for name, each in options.items():
        for place, (slope, level) in enumerate(_hull(each, exact)):
            moves.append((slope, place, name, level))
    levels = dict.fromkeys(options, exact)
    chain = [levels]
    for _, _, name, level in sorted(moves, key=lambda move: move[:2]):
        levels = {**levels, name: level}
        chain.append(levels)
    return chain


def _hull(options: Mapping[str, Option], exact: str) -> Iterable[tuple[float, str]]:
    """The levels on the lower convex hull of squared error over saved cost, with the slopes towards them."""
    at, left = exact, set(options)
    while True:
        left = {level for level in left if options[level].cost < options[at].cost}
        if not left:
            return
        here = options[at]
        slope, _, at = min(
            ((options[to].square - here.square) / (here.cost - options[to].cost), options[to].cost, to) for to in left
        )
        yield slope, at


def _last_moves(options: Options, levels: Levels) -> Iterator[tuple[Hashable, float]]:
    """The products with cheaper options, with the squared error over the saved cost of their cheapest one."""
    for name, each in options.items():
        here, cheapest = each[levels[name]], min(each.values())
        if cheapest.cost < here.cost:
            yield name, (cheapest.square - here.square) / (here.cost - cheapest.cost)


def _descend(chain: list[Levels], options: Options, holds: Callable[[Levels], bool]) -> Levels | None:
    if holds(chain[-1]):
        return chain[-1]
    low, high = -1, len(chain) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(chain[middle]) else (low, middle)
    if low < 0:
        return None
    levels = chain[low]
    ratios, failures = dict(_last_moves(options, levels)), 0
    for name in sorted(ratios, key=ratios.__getitem__):
        own = options[name]
        cheaper = [level for level in own if own[level].cost < own[levels[name]].cost and own[level].square <= 1]
        for level in sorted(cheaper, key=lambda level: own[level]):
            if holds({**levels, name: level}):
                levels, failures = {**levels, name: level}, 0
                break
        else:
            failures += bool(cheaper)
        if failures == _PATIENCE:
            break
    return levels
