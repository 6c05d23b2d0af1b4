"""Caches of plans: the preparation of one problem, reused for the next of its kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from .locks import lock

_NONE = (object(), None)  # no key is this object

MOST_BYTES, _LEAST_PLANS = 1 << 27, 8
"""Bytes of plans beyond which only so many stay: plans of random lengths to 6,000 would take 600 MiB."""


class PlanCache:
    """Plans by key; the least recently used are dropped when there are too many, or many bytes. Safe under threads."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, Any] = OrderedDict()
        self._last_used: tuple[Hashable, Any] = _NONE
        self._lock = lock()
        self.nbytes = 0
        self.hits = self.misses = 0

    @property
    def size(self) -> int:
        """The number of cached plans."""
        return len(self._plans)

    def get(self, key: Hashable, make: Callable[[], Any], max_size: int) -> Any:
        """The plan of a key, made if missing, and cached with at most `max_size` - 1 others.

        Two threads that miss the same key at once both make it; one of the two is kept.
        """
        with self._lock:
            if self._last_used[0] is key and max_size > 0:
                self.hits += 1
                return self._last_used[1]
            plan = self._plans.get(key) if max_size > 0 else None
            if plan is not None:
                self.hits += 1
                self._plans.move_to_end(key)
                self._last_used = key, plan
                return plan
            self.misses += 1
        plan = make()
        with self._lock:
            if max_size > 0:
                self.nbytes += 0 if key in self._plans else getattr(plan, "nbytes", 0)
                plan = self._plans.setdefault(key, plan)
                self._plans.move_to_end(key)
                self._last_used = key, plan
        self.trim(max_size)
        return plan

    def trim(self, max_size: int) -> PlanCache:
        """Drop the least recently used plans beyond so many; this cache."""
        with self._lock:
            while len(self._plans) > (max_size if self.nbytes <= MOST_BYTES else min(max_size, _LEAST_PLANS)):
                _, dropped = self._plans.popitem(last=False)
                self.nbytes -= getattr(dropped, "nbytes", 0)
                self._last_used = _NONE
        return self

    def clear(self) -> None:
        """Drop every plan, and count from zero."""
        with self._lock:
            self._plans.clear()
            self._last_used = _NONE
            self.nbytes = self.hits = self.misses = 0


fft_plans = PlanCache()
"""The plans of Fourier transforms."""
