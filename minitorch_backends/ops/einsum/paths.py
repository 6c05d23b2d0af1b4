"""The order of contractions, and of the dimensions in each.

A path names the pair of operands of each contraction; it comes from opt_einsum, cotengra, or a user's function or list.
`pair_of` classifies the labels of two operands as batch, rows, columns and sum, and orders them so that as little as
possible is copied before the product.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...backends.opt_einsum import get_opt_einsum, is_available
from ...backends.strategies import COTENGRA, Strategy
from ...flags import State, per_state
from ...kernels.runtime.context import warn_caller
from .equation import Labels
from .pairs import Path, path_of

# The cheapest pairwise order, by dynamic programming over sets of operands.
#
# The labels of a set's result follow from the set alone: those that the output or another operand has. The least cost
# of a set is therefore that of its best division in two, outer products included. Sets are made in order of their
# number of operands; those above a bound are dropped, at first a 16th of the cost of a known order and then all of it.
#
# A. Hartono et al., "Performance optimization of tensor contraction expressions for many-body methods in quantum
# chemistry", J. Phys. Chem. A 113, 12715 (2009); R. Pfeifer, J. Haegeman, F. Verstraete, "Faster identification of
# optimal contraction sequences for tensor networks", Phys. Rev. E 90, 033315 (2014).


MOST_PAIRS = 6_000_000
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


# Objectives for the order of contractions, and searches that minimize them.
#
# "flops" is the number of multiplications and additions, "size" the elements of the largest intermediate, "write" those
# of all intermediates, and "combo" flops + 64 * write, an estimate of time under memory bounds (J. Gray and S. Kourtis,
# "Hyper-optimized tensor network contraction", Quantum 5, 410, 2021; opt_einsum's dynamic programming).


OBJECTIVES = ("flops", "size", "write", "combo")
COMBO_FACTOR = 64

DYNAMIC = ("dp", "dynamic-programming")
RANDOM = {"random-greedy": 32, "random-greedy-128": 128, "auto": 32, "auto-hq": 128}
"""Strategies that try random greedy orders, and the number of orders."""

MOST_DYNAMIC = 12
"""The largest number of operands for which "auto" and "auto-hq" find the optimum by dynamic programming."""

BRANCHES = {"branch-all": None, "branch-2": 2, "branch-1": 1}
"""Strategies that try orders depth first, and the contractions that each tries next, best ones first; None for all."""

MOST_CANDIDATES = 1_000_000
"""Contractions that a depth-first search may weigh, about ten seconds; dynamic programming is five times as quick."""

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
    if strategy in DYNAMIC or (minimize == "flops" and strategy in BRANCHES):
        return functools.partial(_exhaustive, minimize, strategy)
    if minimize == "flops" and strategy not in RANDOM:
        found = get_opt_einsum().paths.get_path_fn(strategy)
        return lambda inputs, output, sizes, _: found(inputs, output, sizes, None)
    if strategy in RANDOM:
        return functools.partial(_auto, minimize, strategy)
    raise cannot_minimize(strategy, minimize)


def cannot_minimize(strategy: Any, minimize: str) -> ValueError:
    names = ", ".join(map(repr, (*RANDOM, *DYNAMIC, COTENGRA)))
    return ValueError(
        f"einsum_plan(): minimize={minimize!r} needs a strategy that can minimize it, {names}, got "
        f"strategy={strategy!r}"
    )


def _optimal(inputs: Any, output: Any, sizes: Any, known: Any) -> Any:
    found = cheapest_order(inputs, output, sizes, _score("flops", known, inputs, output, sizes))
    if not found.is_complete:
        message = (
            f"einsum(): strategy 'optimal' stopped after {MOST_PAIRS:,} pairs of sets of {len(inputs)} operands; "
            "the order is the best of greedy's and of 'auto-hq'"
        )
        warn_caller(message)
        return _auto("flops", "auto-hq", inputs, output, sizes, known)
    return known if found.pairs is None else path_of(found.pairs, len(inputs))


class _SearchEndedError(Exception):
    """A search has weighed as many candidates as it may."""


def _limit(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """The function, which raises _SearchEndedError after so many calls."""
    left = itertools.repeat(False, most)

    def count(*args: Any) -> Any:
        if next(left, True):
            raise _SearchEndedError
        return function(*args)

    return count


def _exhaustive(minimize: str, strategy: str, inputs: Any, output: Any, sizes: Any, known: Any) -> Any:
    """opt_einsum's depth-first searches, and its dynamic programming. Their time grows as the factorial or a power of
    the operands, so that they end with the best order that they have after so many candidates."""
    package, most = get_opt_einsum().paths, MOST_CANDIDATES * (5 if strategy in DYNAMIC else 1)
    if strategy in DYNAMIC:
        compare, _ = package._parse_minimize(minimize)
        search = package.DynamicProgramming(minimize=_limit(compare, most))
    else:
        search = package.BranchBound(nbranch=BRANCHES[strategy], cost_fn=_limit(package.cost_memory_removed, most))
    try:
        return search(inputs, output, sizes, None)
    except _SearchEndedError:
        message = (
            f"einsum(): strategy {strategy!r} stopped after {most:,} candidates of {len(inputs)} operands; "
            "the order is the best of greedy's and of those that it found"
        )
        warn_caller(message)
        return search.path if "ssa_path" in getattr(search, "best", ()) else known


def _auto(minimize: str, strategy: str, inputs: Any, output: Any, sizes: Any, known: Any) -> Any:
    if strategy.startswith("auto") and minimize == "flops" and len(inputs) <= MOST_OPTIMAL:
        return _optimal(inputs, output, sizes, known)
    if strategy == "auto" and minimize == "flops":
        return get_opt_einsum().paths.auto(inputs, output, sizes)
    if strategy.startswith("auto") and len(inputs) <= MOST_DYNAMIC:
        return get_opt_einsum().paths.DynamicProgramming(minimize=minimize)(inputs, output, sizes, None)
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


BY_FLAGS = "flags"
"""The strategy of a call that names none: that of the current flags, also in backward."""


def left_to_right(count: int) -> Path:
    """Contract the first two operands; then each result, appended at the end, with the operand that is now first."""
    return ((0, 1), *((0, left) for left in range(count - 2, 0, -1))) if count > 1 else ()


def find_path(
    inputs: Sequence[Labels], output: Labels, sizes: dict[int, int], strategy: Strategy, minimize: str = "flops"
) -> Path:
    """The positions of the operands of each contraction; each result is appended to the list.

    Two operands have only one order. Raises RuntimeError for a path that does not contract all operands to one,
    ValueError for a strategy that cannot minimize the objective.
    """
    count = len(inputs)
    if minimize != "flops" and not isinstance(strategy, str):
        raise cannot_minimize(strategy, minimize)
    if isinstance(strategy, str):
        search = named_search(strategy, minimize)
    if count <= 2 or strategy is None:
        return left_to_right(count)
    if isinstance(strategy, tuple):
        return checked_path(strategy, count, f"the path {list(strategy)}")
    if isinstance(strategy, str):
        sets: list[frozenset] = [frozenset(term) for term in inputs]
        path = search(sets, frozenset(output), {label: max(size, 1) for label, size in sizes.items()})
    else:  # costs of 0 stop some of the searches
        symbols = {_symbol(label): max(size, 1) for label, size in sizes.items()}
        sets = [frozenset(map(_symbol, term)) for term in inputs]
        path = strategy(sets, frozenset(map(_symbol, output)), symbols, None)
    found = tuple(tuple(map(int, step)) for step in path)
    return checked_path(found, count, f"the path {list(found)} of strategy {strategy!r}")


def _symbol(label: int) -> str:
    return chr(0x100 + label)


def checked_path(path: Path, count: int, what: str) -> Path:
    """The path. Raises RuntimeError where it does not contract `count` operands to one."""
    left = count
    for step in path:
        if len(set(step)) != len(step) or any(not 0 <= place < left for place in step):
            raise RuntimeError(
                f"einsum(): {what} contracts {list(step)} of {left} operands; expected different places from 0 to "
                f"{left - 1}"
            )
        left -= len(step) - 1
    if left != 1:
        raise RuntimeError(f"einsum(): {what} leaves {left} of {count} operands; expected a path to one")
    return path


@per_state()
def strategy_in_force(state: State) -> Strategy:
    """The flags' strategy for three and more operands; None contracts them strictly from left to right."""
    strategy = state.read("opt_einsum.strategy") if state.read("opt_einsum.enabled") else None
    return None if isinstance(strategy, str) and strategy != COTENGRA and not is_available() else strategy


def order_of(strategy: Strategy, count: int) -> Strategy:
    """The strategy that determines the order of the contractions of `count` operands; two have one order only."""
    return None if count < 3 else strategy_in_force() if strategy is BY_FLAGS else strategy


# Two operands


class Pair(NamedTuple):
    """One contraction of two values.

    A product reads its operands as batch x rows x sum and batch x sum x columns. Without a sum it is a multiplication
    that broadcasts, and the operands are read in the order of the result.

    Attributes:
        swapped: whether the second value is the left operand.
        left, right: the labels of the operands, in the order of their dimensions.
        batch, rows, summed, columns: the roles of labels; empty for a multiplication.
        result: the labels of the result, in the order of its dimensions.
        copies: which operands must be copied, since no strides reach their rows (columns) or sums in that order.
    """

    swapped: bool
    left: Labels
    right: Labels
    batch: Labels
    rows: Labels
    summed: Labels
    columns: Labels
    result: Labels
    copies: tuple[bool, bool]

    @property
    def kernel(self) -> str:
        """The operation that implements the contraction."""
        if not self.summed:
            return "multiply" if set(self.left) & set(self.right) else "outer"
        name = "GEMM" if self.rows and self.columns else "GEMV" if self.rows or self.columns else "dot"
        return f"batched {name}" if self.batch else name

    def elements_moved(self, sizes: dict[int, int]) -> int:
        """The number of elements that are copied."""
        sides = zip((self.left, self.right), self.copies, strict=True)
        return sum(math.prod(sizes[label] for label in side) for side, copied in sides if copied)


def pair_of(
    left: Labels, right: Labels, kept: set[int], sizes: dict[int, int], output: Labels | None,
    later: Callable[[Labels], int] | None = None,
) -> Pair:  # fmt: skip
    """The contraction of two values; later steps need the labels in `kept`.

    `output` is the order of the last result, None for earlier steps. `later` may then return the cost of an order of
    this result.
    """
    common = set(left) & set(right)
    if common <= kept:
        result = output if output is not None else _multiply_order(left, right, sizes)
        return Pair(False, left, right, (), (), (), (), result, (False, False))
    pair = _product(False, left, right, common, kept, sizes)
    if output is None and later is not None and (cost := later(pair.result)):
        other = _product(True, right, left, common, kept, sizes)
        return other if later(other.result) < cost else pair
    if output is None or pair.result == output:
        return pair
    other = _product(True, right, left, common, kept, sizes)
    if other.result == output or (output and output[-1] in pair.rows and pair.columns):
        return other
    return pair


def _multiply_order(left: Labels, right: Labels, sizes: dict[int, int]) -> Labels:
    """The order that reads the larger operand without a copy."""
    larger, smaller = sorted((left, right), key=lambda term: -math.prod(sizes[label] for label in term))
    return (*(label for label in smaller if label not in larger), *larger)


def _product(
    swapped: bool, left: Labels, right: Labels, common: set[int], kept: set[int], sizes: dict[int, int]
) -> Pair:
    batch = tuple(label for label in left if label in common and label in kept)
    rows = tuple(label for label in left if label not in common)
    columns = tuple(label for label in right if label not in common)
    options = []
    for term in (left, right):
        summed = tuple(label for label in term if label in common and label not in kept)
        copies = not _lies(left, rows, summed), not _lies(right, summed, columns)
        options.append(Pair(swapped, left, right, batch, rows, summed, columns, (*batch, *rows, *columns), copies))
    return min(options, key=lambda option: option.elements_moved(sizes))


def _lies(term: Labels, *groups: Labels) -> bool:
    """Whether each group of labels is contiguous in the term, so that strides can merge it."""
    text = "".join(map(chr, term))
    return all("".join(map(chr, group)) in text for group in groups)
