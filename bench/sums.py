"""Sums over every memory layout: time and error beside NumPy's and torch's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minitorch_backends as mt
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .presentation import number, paragraphs
from .session import Session

TITLE = "Sums over memory layouts"

COUNTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
QUICK_COUNTS = (1_000, 100_000)

THREADED = 1 << 15
"""Numbers from which torch wakes its threads."""

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


def _cell(case: Case) -> speed.Cell:
    array, axes = case.array, case.axes
    contestants = [
        Contestant("mt", partial(mt.from_numpy(array).sum, axes)),
        Contestant("NumPy", partial(array.sum, axes)),
        *peers.by_torch(lambda torch: partial(torch.from_numpy(array).sum, axes), wakes_threads=array.size > THREADED),
    ]
    exact = array.sum(axes, np.float64)
    facts = {"numbers": f"{array.size:,}"}
    for contestant in contestants:
        off = np.max(np.abs(np.asarray(contestant.call()) - exact) / exact)  # type: ignore[operator]
        facts[f"error of {contestant.name}"] = number(float(off) / _UNIT)
    return speed.Cell(TITLE, case.layout, contestants, facts=facts)


def run(session: Session) -> dict[str, Any]:
    """Time every case beside the peers, and measure the errors."""
    counts = session.choose(QUICK_COUNTS, COUNTS, COUNTS)
    every = [case for count in counts for case in cases(count, session.seed)]
    return speed.run(session, TITLE, {f"{case.layout}, {case.array.size}": partial(_cell, case) for case in every})


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Numbers are float32, from 0 to 1, summed by the method `sum`. Errors are the largest of all results, in units of
        the last place of the sum.
    """
    return [*paragraphs(text), *speed.sentences(result)]
