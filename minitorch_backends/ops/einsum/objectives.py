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
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...backends.opt_einsum import get_opt_einsum
from ...backends.strategies import COTENGRA
from .optimal import MOST_PAIRS, cheapest_order
from .pairs import path_of

OBJECTIVES = ("flops", "size", "write", "combo")
COMBO_FACTOR = 64

DYNAMIC = ("dp", "dynamic-programming")
RANDOM = {"random-greedy": 32, "random-greedy-128": 128, "auto": 32, "auto-hq": 128}
"""Strategies that try random greedy orders, and the number of orders."""

MOST_DYNAMIC = 12
"""The largest number of operands for which "auto" and "auto-hq" find the optimum by dynamic programming."""

MOST_OPTIMAL = 8
"""The largest number of operands for which "auto" and "auto-hq" find the fewest FLOPs by `optimal`."""

Search = Callable[..., Any]


def named_search(strategy: str, minimize: str) -> Search:
    """The search of a named strategy for an objective, which never returns a dearer order than greedy's.

    It depends on the problem alone: random numbers come from a generator with a fixed seed, labels are integers, whose
    sets have the same order in every process, and its length is a number of trials rather than a time. Raises
    ValueError for a strategy that cannot minimize the objective.
    """
    find = _search_of(strategy, minimize)

    def search(inputs: Any, output: Any, sizes: Any, limit: Any = None) -> Any:
        state = random.getstate()  # the packages draw from the generator of the process
        try:
            random.seed(0)
            plain = get_opt_einsum().paths.greedy(inputs, output, sizes)
            path = find(inputs, output, sizes, plain)
        finally:
            random.setstate(state)
        return min((path, plain), key=lambda each: _score(minimize, each, inputs, output, sizes))

    return search


def _search_of(strategy: str, minimize: str) -> Search:
    if strategy == COTENGRA:
        return functools.partial(_cotengra, minimize)
    if minimize == "flops" and strategy == "optimal":
        return _optimal
    if minimize == "flops" and strategy not in RANDOM:
        found = get_opt_einsum().paths.get_path_fn(strategy)
        return lambda inputs, output, sizes, _: found(inputs, output, sizes, None)
    if strategy in DYNAMIC:
        return lambda inputs, output, sizes, _: _dynamic(minimize)(inputs, output, sizes, None)
    if strategy in RANDOM:
        return functools.partial(_auto, minimize, strategy)
    raise cannot_minimize(strategy, minimize)


def cannot_minimize(strategy: Any, minimize: str) -> ValueError:
    names = ", ".join(map(repr, (*RANDOM, *DYNAMIC, COTENGRA)))
    return ValueError(
        f"einsum_plan(): minimize={minimize!r} needs a strategy that can minimize it, {names}, got "
        f"strategy={strategy!r}"
    )


def _dynamic(minimize: str) -> Search:
    return get_opt_einsum().paths.DynamicProgramming(minimize=minimize)


def _optimal(inputs: Any, output: Any, sizes: Any, known: Any) -> Any:
    found = cheapest_order(inputs, output, sizes, _score("flops", known, inputs, output, sizes))
    if not found.is_complete:
        message = (
            f"einsum(): strategy 'optimal' stopped after {MOST_PAIRS:,} pairs of sets of {len(inputs)} operands; "
            "the order is the best of greedy's and of 'auto-hq'"
        )
        warnings.warn(message, stacklevel=2)
        return _auto("flops", "auto-hq", inputs, output, sizes, known)
    return known if found.pairs is None else path_of(found.pairs, len(inputs))


def _auto(minimize: str, strategy: str, inputs: Any, output: Any, sizes: Any, known: Any) -> Any:
    if strategy.startswith("auto") and minimize == "flops" and len(inputs) <= MOST_OPTIMAL:
        return _optimal(inputs, output, sizes, known)
    if strategy == "auto" and minimize == "flops":
        return get_opt_einsum().paths.auto(inputs, output, sizes)
    if strategy.startswith("auto") and len(inputs) <= MOST_DYNAMIC:
        return _dynamic(minimize)(inputs, output, sizes, None)
    return _random_greedy(minimize, RANDOM[strategy], inputs, output, sizes)


def _cotengra(minimize: str, inputs: Any, output: Any, sizes: Any, known: Any) -> Any:
    """Cotengra's search, for about as long as the contraction by the known order would take at a GFLOP/s: a trial takes
    a millisecond for each operand."""
    seconds = _score("flops", known, inputs, output, sizes) / 1e9
    trials = min(max(int(seconds / (1e-3 * len(inputs))), 4), 128)
    package, terms = importlib.import_module(COTENGRA), [tuple(sorted(term)) for term in inputs]
    optimizer = package.AutoOptimizer(
        minimize=minimize, max_repeats=trials, max_time=None, parallel=False, optlib="random", cache=False
    )
    return optimizer(terms, tuple(sorted(output)), sizes)


def _random_greedy(minimize: str, count: int, inputs: Any, output: Any, sizes: Any) -> Any:
    """The best of several greedy orders; all but the first choose at random among good pairs."""
    package = get_opt_einsum()
    options = {"choose_fn": package.path_random.thermal_chooser, "cost_fn": "memory-removed-jitter"}
    paths = [package.paths.greedy(inputs, output, sizes, **options) for _ in range(count - 1)]
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
