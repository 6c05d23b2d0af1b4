"""The order of contractions: which two operands meet next, as opt_einsum, cotengra, a function or a list of the user's
says.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from ...backends.opt_einsum import get_opt_einsum, is_available
from ...backends.strategies import COTENGRA, Strategy
from ...flags import current
from .equation import Labels

__all__ = ["BY_FLAGS", "Path", "find_path", "left_to_right", "pairs_of", "strategy_in_force"]

Path = tuple[tuple[int, ...], ...]

BY_FLAGS = "flags"
"""The strategy of a call that names none: that of the flags in force, in backward of those in force then."""


def left_to_right(count: int) -> Path:
    """The first two operands; then each result, which goes to the end, meets the operand that is now first."""
    return ((0, 1), *((0, left) for left in range(count - 2, 0, -1))) if count > 1 else ()


def find_path(inputs: Sequence[Labels], output: Labels, sizes: dict[int, int], strategy: Strategy) -> Path:
    """The places of the operands of each contraction, whose result goes to the end of the list.

    Two operands have one order only. Raises RuntimeError for a path that does not contract all operands to one.
    """
    count = len(inputs)
    if count <= 2 or strategy is None:
        return left_to_right(count)
    if isinstance(strategy, tuple):
        return _validated(strategy, count, f"the path {list(strategy)}")
    search = _search(strategy) if isinstance(strategy, str) else strategy
    sets = [frozenset(map(_symbol, term)) for term in inputs]
    symbols = {_symbol(label): max(size, 1) for label, size in sizes.items()}  # costs of 0 stop some of the searches
    path = search(sets, frozenset(map(_symbol, output)), symbols, None)
    found = tuple(tuple(map(int, step)) for step in path)
    return _validated(found, count, f"the path {list(found)} of strategy {strategy!r}")


def _symbol(label: int) -> str:
    return chr(0x100 + label)


@functools.cache
def _search(name: str) -> Any:
    """The function that searches; the packages are imported when the first search is made."""
    if name == COTENGRA:
        search = importlib.import_module(COTENGRA).AutoOptimizer()
        return lambda inputs, output, sizes, _: search(inputs, output, sizes)
    return get_opt_einsum().paths.get_path_fn(name)


def _validated(path: Path, count: int, what: str) -> Path:
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


def pairs_of(path: Path, count: int) -> list[tuple[int, int]]:
    """The path as pairs of values, where operands have the first numbers and each result the next one.

    A contraction of several operands goes from left to right; one of a single operand changes nothing.
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


def strategy_in_force() -> Strategy:
    """What the flags say for three and more operands: a strategy, or None for strictly left to right."""
    state = current()
    derived: dict[Any, Any] = state.derived
    if "einsum" not in derived:
        strategy = state.read("opt_einsum.strategy") if state.read("opt_einsum.enabled") else None
        if isinstance(strategy, str) and strategy != COTENGRA and not is_available():
            strategy = None
        derived["einsum"] = strategy
    return derived["einsum"]
