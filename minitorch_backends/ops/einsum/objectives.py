"""Objectives for the order of contractions, and searches that minimize them.

"flops" is the number of multiplications and additions, "size" the elements of the largest intermediate, "write" those
of all intermediates, and "combo" flops + 64 * write, an estimate of time under memory bounds (J. Gray and S. Kourtis,
"Hyper-optimized tensor network contraction", Quantum 5, 410, 2021; opt_einsum's dynamic programming).
"""

from __future__ import annotations

import functools
import importlib
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from ...backends.opt_einsum import get_opt_einsum
from ...backends.strategies import COTENGRA, Strategy

OBJECTIVES = ("flops", "size", "write", "combo")
COMBO_FACTOR = 64

DYNAMIC = ("dp", "dynamic-programming")
RANDOM = {"random-greedy": 32, "random-greedy-128": 128, "auto": 32, "auto-hq": 128}
"""Strategies that try random greedy orders, and the number of orders."""

MOST_DYNAMIC = 12
"""The largest number of operands for which "auto" and "auto-hq" find the optimum by dynamic programming."""

Search = Callable[..., Any]


def minimizing(strategy: Strategy, minimize: str) -> Search:
    """The search of a strategy for an objective. Raises ValueError for a strategy that minimizes nothing, or only
    FLOPs."""
    if isinstance(strategy, str):
        if strategy == COTENGRA:
            search = importlib.import_module(COTENGRA).AutoOptimizer(minimize=minimize)
            return lambda inputs, output, sizes, _: search(inputs, output, sizes)
        if strategy in DYNAMIC:
            return _dynamic(minimize)
        if strategy in RANDOM:
            return functools.partial(_auto, minimize, strategy)
    names = ", ".join(map(repr, (*RANDOM, *DYNAMIC, COTENGRA)))
    raise ValueError(
        f"einsum_plan(): minimize={minimize!r} needs a strategy that can minimize it, {names}, got "
        f"strategy={strategy!r}"
    )


def _dynamic(minimize: str) -> Search:
    return get_opt_einsum().paths.DynamicProgramming(minimize=minimize)


def _auto(minimize: str, strategy: str, inputs: Any, output: Any, sizes: Any, _: Any) -> Any:
    if strategy.startswith("auto") and len(inputs) <= MOST_DYNAMIC:
        return _dynamic(minimize)(inputs, output, sizes, None)
    return _random_greedy(minimize, RANDOM[strategy], inputs, output, sizes)


def _random_greedy(minimize: str, count: int, inputs: Any, output: Any, sizes: Any) -> Any:
    """The best of several greedy orders; all but the first choose at random among good pairs."""
    package = get_opt_einsum()
    greedy = package.paths.greedy
    state = random.getstate()  # opt_einsum draws from the generator of the process
    try:
        random.seed(0)
        options = {"choose_fn": package.path_random.thermal_chooser, "cost_fn": "memory-removed-jitter"}
        paths = [greedy(inputs, output, sizes), *(greedy(inputs, output, sizes, **options) for _ in range(count - 1))]
    finally:
        random.setstate(state)
    return min(paths, key=lambda path: _score(minimize, path, inputs, output, sizes))


def _score(minimize: str, path: Sequence[Sequence[int]], inputs: Any, output: Any, sizes: Any) -> float:
    """FLOPs, largest intermediate or writes of a path; each contraction takes operands from the end of a list."""
    terms, flops, largest, write = list(inputs), 0, 0, 0
    for step in path:
        taken = [terms[place] for place in step]
        terms = [term for place, term in enumerate(terms) if place not in step]
        involved = frozenset().union(*taken)
        result = involved & output.union(*terms)
        size = math.prod(sizes[symbol] for symbol in result)
        flops += math.prod(sizes[symbol] for symbol in involved) * (2 if result != involved else 1)
        largest, write = max(largest, size), write + size
        terms.append(result)
    return {"flops": flops, "size": largest, "write": write, "combo": flops + COMBO_FACTOR * write}[minimize]
