"""Values of `opt_einsum.strategy`: names, explicit paths, and functions that find a path; checked on assignment."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

STRATEGIES = (
    "auto",
    "greedy",
    "eager",
    "opportunistic",
    "optimal",
    "branch-all",
    "branch-2",
    "branch-1",
    "dp",
    "dynamic-programming",
    "auto-hq",
    "random-greedy",
    "random-greedy-128",
)
"""Every strategy that opt_einsum 3.4 names; torch's set_flags accepts the first three."""

COTENGRA = "cotengra"
"""The strategy of the optional package of this name."""

SLICES = ("auto", COTENGRA)
"""How to find labels to slice: by the engine's search, or by the package cotengra."""

Strategy = str | None | Callable[..., Any] | tuple[tuple[int, ...], ...]


def check_strategy(strategy: Any) -> Strategy:
    """Return the strategy, a path as a tuple of tuples. Raises ValueError for an invalid one, TypeError for an
    unhashable one.

    A path lists the operands of each contraction by position; the result goes to the end of the list (as in
    `numpy.einsum_path`, whose leading word is accepted). A contraction tree of cotengra or quimb, or opt_einsum's
    `PathInfo`, may also give it. A function has opt_einsum's signature `(inputs, output, sizes, memory_limit) -> path`,
    with sets of indices as inputs and output.
    """
    strategy = _path_inside(strategy)
    if isinstance(strategy, str):
        if strategy in STRATEGIES:
            return str(strategy)
        if strategy == COTENGRA:
            _need_cotengra(f"opt_einsum.strategy = {strategy!r}")
            return COTENGRA
    elif strategy is None:
        return None
    elif callable(strategy) and not isinstance(strategy, type):
        try:
            hash(strategy)
        except TypeError as error:
            raise TypeError(
                f"opt_einsum.strategy = {strategy!r} cannot be hashed ({error}), but plans are cached by "
                "strategy; expected a function or an object with a __hash__ (a dataclass has one with eq=False)"
            ) from None
        return strategy
    elif isinstance(strategy, Sequence):
        path = _path(strategy)
        if path is not None:
            return path
    from ..flags import nearest

    names = ", ".join(map(repr, (*STRATEGIES, COTENGRA)))
    raise ValueError(
        f"opt_einsum.strategy = {strategy!r} is unknown{nearest(strategy, STRATEGIES)}; expected one of None, "
        f"{names}, a path like [(0, 2), (0, 1)], whose steps name different places starting at 0, or a function "
        "(inputs, output, sizes, memory_limit) -> path"
    )


def checked_slices(slices: Any) -> str | None:
    """Return the method that finds labels to slice. Raises TypeError or ValueError for values outside `SLICES`."""
    if slices is not None and slices not in SLICES:
        error = ValueError if isinstance(slices, str) else TypeError
        mapping = ", or in einsum_plan a mapping of subscripts to numbers of parts"
        raise error(f"slices must be None or one of {', '.join(map(repr, SLICES))}{mapping}, got {slices!r}")
    if slices == COTENGRA:
        _need_cotengra(f"slices = {slices!r}")
    return slices


def _need_cotengra(what: str) -> None:
    if importlib.util.find_spec(COTENGRA) is None:
        raise ValueError(
            f"{what} needs the package cotengra, which is not installed; run: pip install minitorch-backends[cotengra]"
        )


def _path_inside(strategy: Any) -> Any:
    """The path of a contraction tree or of a `PathInfo`; other values are returned unchanged."""
    if isinstance(strategy, type):
        return strategy
    if hasattr(strategy, "get_path") and hasattr(strategy, "sliced_inds"):  # cotengra.ContractionTree
        return strategy.get_path()
    if hasattr(strategy, "path") and hasattr(strategy, "opt_cost"):  # opt_einsum.contract.PathInfo
        return strategy.path
    return strategy


def _path(steps: Sequence[Any]) -> tuple[tuple[int, ...], ...] | None:
    """An explicit path as a tuple of tuples, or None."""
    if len(steps) and steps[0] == "einsum_path":
        steps = steps[1:]
    path = []
    for step in steps:
        if not isinstance(step, (tuple, list)) or not step or any(step.count(place) > 1 for place in step):
            return None
        if not all(type(place) is int and place >= 0 for place in step):
            return None
        path.append(tuple(step))
    return tuple(path) or None
