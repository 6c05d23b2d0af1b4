"""Programs of the einsums that were called, kept for the next call with the same equation, shapes, dtypes and flags."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...backends.strategies import Strategy
from ...kernels.locks import lock
from .equation import Labels
from .execute import Program
from .plan import Plan

__all__ = ["KEPT", "Cache", "cache", "program_for", "tally"]

KEPT = 4096
"""How many programs are kept. One takes 2 to 20 KB; the oldest goes first."""


class Cache(dict[Hashable, Any]):
    """Entries by key, at most `kept`.

    A dict's own operations are atomic, so that a hit takes no lock; two threads that miss at once both make the entry.
    """

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept
        self._lock = lock()

    def keep(self, key: Hashable, entry: Any) -> None:
        """Add an entry, in place of the oldest where there are too many."""
        with self._lock:
            while len(self) >= self.kept:
                del self[next(iter(self))]
            self[key] = entry


class Tally:
    """Calls that found their program, and those that made one. Counted without a lock, so that concurrent threads may
    miss a count.
    """

    __slots__ = ("hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = 0


cache = Cache(KEPT)
"""Programs by (labels, shapes, dtypes, strategy, which operands are shared)."""

tally = Tally()
"""Of the calls of einsum."""


def program_for(
    inputs: tuple[Labels, ...],
    output: Labels,
    arrays: Sequence[np.ndarray],
    strategy: Strategy,
    same: tuple[int, ...] | None = None,
) -> Program:
    """The program for operands without repeated labels."""
    shapes, dtypes = tuple(array.shape for array in arrays), tuple(array.dtype for array in arrays)
    strategy = strategy if len(arrays) > 2 else None
    key = (inputs, output, shapes, dtypes, strategy, same)
    program = cache.get(key)
    if program is None:
        program = Program(Plan(inputs, output, shapes, strategy), dtypes, same)
        tally.misses += 1
        cache.keep(key, program)
    else:
        tally.hits += 1
    return program
