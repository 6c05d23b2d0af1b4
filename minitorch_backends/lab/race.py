"""Times of several ways to do the same thing, in turns: a slow moment of the machine hits all of them, not one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from timeit import Timer
from typing import Any, NamedTuple

from ..kernels.registry import Refused

OPENBLAS_REST = 0.15
"""Seconds after which OpenBLAS's threads have stopped to spin; whatever runs sooner on another thread pool takes two to
three times as long."""

OPENMP_REST = 0.03
"""The same of GNU OpenMP's threads, torch's: 300,000 pauses by default, which take 5 to 20 ms."""

LEAST_SECONDS = 1e-2
"""A turn repeats its call until it has lasted this long."""

WARM_SECONDS = 4e-2
"""Calls before a turn, until the operands are in the shared cache again after a rest or another contestant."""

MOST_CALLS = 2000


class Contestant(NamedTuple):
    """A way to do it.

    Attributes:
        call: a function, or a timer of a statement.
        rest: seconds for which its threads spin on when it is done.
        before: called before a turn and not timed, to set flags.
    """

    name: str
    call: Callable[[], Any] | Timer
    rest: float = 0.0
    before: Callable[[], Any] = lambda: None


class Timing(NamedTuple):
    """Seconds of one call: the median of the turns, and the least."""

    median: float
    minimum: float


def turn(call: Callable[[], Any] | Timer, repeats: int) -> float:
    """Seconds of one of so many calls."""
    if isinstance(call, Timer):
        return call.timeit(repeats) / repeats
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def race(
    contestants: Iterable[Contestant], rounds: int, warm: float = WARM_SECONDS, least: float = LEAST_SECONDS
) -> dict[str, Timing]:
    """The times of each contestant over its turns, by name; one that raises `Refused` is left out.

    Arguments:
        rounds: turns of each.
        warm, least: seconds of calls before a turn, and of a turn; there is one call at the least, and 2,000 at most.
    """
    running: list[tuple[Contestant, int, int, list[float]]] = []
    for contestant in contestants:
        try:
            contestant.before()
            turn(contestant.call, 1)  # compiles
            once = max(turn(contestant.call, 1), 1e-7)
        except Refused:
            continue
        warming, repeats = (max(1, min(MOST_CALLS, int(seconds / once))) for seconds in (warm, least))
        running.append((contestant, warming, repeats, []))
        time.sleep(contestant.rest)
    for done in range(rounds):
        first = done % max(1, len(running))  # another neighbour each round, since a contestant leaves its caches behind
        for contestant, warming, repeats, seconds in running[first:] + running[:first]:
            contestant.before()
            turn(contestant.call, warming)  # the caches and the threads are this contestant's
            seconds.append(turn(contestant.call, repeats))
            time.sleep(contestant.rest)
    return {contestant.name: Timing(statistics.median(seconds), min(seconds)) for contestant, _, _, seconds in running}
