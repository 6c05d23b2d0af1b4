"""Times of several ways to do the same thing, in turns: a slow moment of the machine hits all of them, not one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..kernels.registry import Refused

OPENBLAS_REST = 0.15
"""Seconds after which OpenBLAS's threads have stopped to spin; whatever runs sooner on another thread pool takes two to
three times as long."""

LEAST_SECONDS = 1e-2
"""A turn repeats its call until it has lasted this long."""

WARM_SECONDS = 4e-2
"""Calls before a turn, until the operands are in the shared cache again after a rest or another contestant."""


class Contestant(NamedTuple):
    """A way to do it; `rest` is the time for which its threads spin on when it is done."""

    name: str
    call: Callable[[], Any]
    rest: float = 0.0


def turn(call: Callable[[], Any], repeats: int) -> float:
    """Seconds of one of so many calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def race(
    contestants: Iterable[Contestant], rounds: int, warm: float = WARM_SECONDS, least: float = LEAST_SECONDS
) -> dict[str, float]:
    """Median seconds of each contestant over its turns, by name; one that raises `Refused` is left out.

    Arguments:
        rounds: turns of each.
        warm, least: seconds of calls before a turn, and of a turn.
    """
    running: list[tuple[Contestant, int, int, list[float]]] = []
    for contestant in contestants:
        try:
            contestant.call()  # compiles
            once = max(turn(contestant.call, 1), 1e-7)
        except Refused:
            continue
        warming, repeats = (max(1, min(2000, int(seconds / once))) for seconds in (warm, least))
        running.append((contestant, warming, repeats, []))
        time.sleep(contestant.rest)
    for _ in range(rounds):
        for contestant, warming, repeats, seconds in running:
            turn(contestant.call, warming)  # the caches and the threads are this contestant's
            seconds.append(turn(contestant.call, repeats))
            time.sleep(contestant.rest)
    return {contestant.name: statistics.median(seconds) for contestant, _, _, seconds in running}
