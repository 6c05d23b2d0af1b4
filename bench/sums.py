"""Sums over every memory layout: time and error beside NumPy's and torch's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from timeit import Timer
from typing import Any, NamedTuple

import numpy as np

import minitorch_backends as mt

from . import peers
from .presentation import Table, number, paragraphs, ratio, seconds
from .session import Session
from .timing import OPENMP_REST, time_interleaved

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Sums over memory layouts"

COUNTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
QUICK_COUNTS = (1_000, 100_000)

_UNIT = 2.0**-23


class Case(NamedTuple):
    """A float32 array, and the dimensions to sum over, None for all."""

    layout: str
    array: np.ndarray
    axes: tuple[int, ...] | None


def cases(count: int, seed: int) -> Iterator[Case]:
    """Arrays of about so many numbers from 0 to 1 in each layout."""
    random = np.random.default_rng([seed, count])
    side, third, pixels = (max(2, round(size)) for size in (count**0.5, count ** (1 / 3), (count / 16) ** 0.5))

    def numbers(*shape: int) -> np.ndarray:
        return random.random(shape, dtype=np.float32)

    yield Case("contiguous", numbers(count), None)
    yield Case("last axis", numbers(side, side), (1,))
    yield Case("first axis", numbers(side, side), (0,))
    yield Case("middle axis", numbers(third, third, third), (1,))
    yield Case("channels last", np.moveaxis(numbers(1, pixels, pixels, 16), -1, 1), (2, 3))
    yield Case("channels last, 3", np.moveaxis(numbers(1, pixels, pixels * 5, 3), -1, 1), (0, 2, 3))
    yield Case("batch and image", numbers(4, max(1, count // 256), 8, 8), (0, 2, 3))
    yield Case("transposed", numbers(side, side).T, None)
    yield Case("expanded", np.lib.stride_tricks.as_strided(numbers(side), (side, side), (4, 0)), (0,))
    yield Case("stepped", numbers(side, 2 * side)[:, ::2], (1,))
    yield Case("rows of 8", numbers(count // 8, 8), (1,))


def run(session: Session) -> dict[str, Any]:
    """Time every case beside the peers, and measure the errors."""
    measured = []
    with session.progress(TITLE) as report, mt.no_grad():
        counts = session.choose(QUICK_COUNTS, COUNTS, COUNTS)
        for done, count in enumerate(counts):
            for case in cases(count, session.seed):
                report(done / len(counts), f"{case.layout}, {case.array.size}")
                measured.append(_measure(session, case))
    return {"compared_with_torch": peers.torch_is_installed(), "cases": measured}


def _candidates(case: Case) -> dict[str, Callable[[], Any]]:
    array, axes = case.array, case.axes
    found = {"mt": functools.partial(mt.from_numpy(array).sum, axes), "NumPy": functools.partial(array.sum, axes)}
    torch = peers.torch_if_installed()
    if torch is not None:
        found["torch"] = functools.partial(torch.from_numpy(array).sum, axes)
    return found


def _measure(session: Session, case: Case) -> dict[str, Any]:
    candidates = _candidates(case)
    timers = {name: Timer(candidate) for name, candidate in candidates.items()}
    rests = {"torch": OPENMP_REST} if case.array.size > 1 << 15 else None  # where torch wakes its threads
    taken = time_interleaved(timers, seconds=0.05 if session.quick else 0.2, shortest=1e-4, rounds=7, rests=rests)
    medians = {name: timing.median for name, timing in taken.items()}
    exact = case.array.sum(case.axes, np.float64)
    return {
        "layout": case.layout,
        "count": case.array.size,
        "median_seconds": medians,
        "units": {
            name: float(np.max(np.abs(np.asarray(candidate()) - exact) / exact)) / _UNIT
            for name, candidate in candidates.items()
        },
        "best_other_over_mt": min(value for name, value in medians.items() if name != "mt") / medians["mt"],
    }


def tables(result: dict[str, Any]) -> list[Table]:
    names = ("mt", "NumPy", "torch")
    rows = []
    for entry in result["cases"]:
        times = [seconds(entry["median_seconds"].get(name)) for name in names]
        errors = [number(entry["units"].get(name)) for name in names]
        rows.append((entry["layout"], f"{entry['count']:,}", *times, ratio(entry["best_other_over_mt"]), *errors))
    columns = ("layout", "numbers", *names, "best other / mt", *(f"{name} error" for name in names))
    return [Table("Time of sums, and errors in units of the last place of the sum", columns, rows, names=2)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    others = "NumPy and torch" if result["compared_with_torch"] else "NumPy"
    ratios = [entry["best_other_over_mt"] for entry in result["cases"]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    worst = {
        name: max(entry["units"].get(name, 0.0) for entry in result["cases"]) for name in result["cases"][0]["units"]
    }
    return paragraphs(
        f"""
        The better of {others} takes {mean:.2f} times as long (geometric mean).

        Numbers are float32, from 0 to 1. Times are medians of interleaved samples of the method `sum`. Errors are the
        largest of all results, at most {"; ".join(f"{name} {number(value)}" for name, value in worst.items())} units.
        """
    )
