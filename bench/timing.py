"""Times of several candidates in one run, interleaved: a busy moment of the machine hits all of them, not one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from timeit import Timer
from typing import NamedTuple

__all__ = ["OPENMP_REST", "Timing", "time_interleaved"]

OPENMP_REST = 0.03
"""Seconds after which the threads of GNU OpenMP, torch's, have stopped to spin: 300,000 pauses by default, which take 5
to 20 ms. For OpenBLAS see `lab.race.OPENBLAS_REST`."""


class Timing(NamedTuple):
    """Seconds of one call."""

    median: float
    minimum: float
    samples: int
    calls: int
    """Calls in each sample; median and minimum are over samples, of the mean of their calls."""


def _calls_per_sample(timer: Timer, shortest: float) -> int:
    """How many calls in a row take at least `shortest` seconds even when nothing disturbs them, a power of two."""
    calls = 1
    timer.timeit(1)
    while min(timer.repeat(2, calls)) < shortest:
        calls *= 2
    return calls


def time_interleaved(
    candidates: Mapping[str, Timer],
    *,
    seconds: float,
    shortest: float = 0.0,
    rounds: int = 5,
    rests: Mapping[str, float] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Time every candidate in turn, round after round, for about `seconds` and at least `rounds` rounds.

    Arguments:
        candidates: timers by name; `timeit.Timer` takes a statement or a function, and a setup that is not timed.
        shortest: least duration of one sample, reached by calling more often; 0 makes every sample one call.
        rests: for names whose threads spin on when they are done, the seconds of sleep after a sample. Each sample then
            follows a call that is not timed, which wakes the candidate's own threads and fills its caches.
        tick: called after each round, outside of every sample.
    """
    calls = {name: _calls_per_sample(timer, shortest) for name, timer in candidates.items()}
    names = list(candidates)
    samples: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    done = 0
    while done < rounds or time.perf_counter() - start < seconds:
        turn = done % len(names)  # another neighbour each round, since a candidate leaves its caches behind
        for name in names[turn:] + names[:turn]:
            if rests:
                candidates[name].timeit(1)
            samples[name].append(candidates[name].timeit(calls[name]) / calls[name])
            if rests and name in rests:
                time.sleep(rests[name])
        done += 1
        tick()
    return {name: Timing(median(taken), min(taken), len(taken), calls[name]) for name, taken in samples.items()}
