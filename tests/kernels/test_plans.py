"""The cache of plans against what it is said to do: the least recently used goes first, and every call is counted."""

from __future__ import annotations

import functools
import sys
from collections import Counter, OrderedDict

from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.kernels.runtime.plan_cache import PlanCache

CACHE = type(functools.cache(len))
KEYS = {name: (name,) for name in "abcd"}
STEPS = st.tuples(st.sampled_from([*KEYS, "trim", "clear"]), st.booleans(), st.integers(0, 3))


@given(st.lists(STEPS))
def test_the_least_recently_used_goes_first(steps: list[tuple[str, bool, int]]) -> None:
    """Keys are the object that was asked for before, as those of a call that is repeated are, or equal to it."""
    cache, kept = PlanCache(), OrderedDict[tuple[str], int]()
    hits = misses = 0
    for number, (name, same, most) in enumerate(steps, 1):
        key, known = KEYS.get(name), None
        if key is not None:
            known = kept.get(key) if most else None
            plan = cache.get(key if same else (name,), lambda number=number: number, most)
            if most:
                assert plan == kept.setdefault(key, number)
                kept.move_to_end(key)
            hits, misses = hits + (known is not None), misses + (known is None)
        elif name == "trim":
            cache.trim(most)
        else:
            cache.clear()
            kept.clear()
            hits = misses = 0
        while known is None and len(kept) > most:
            kept.popitem(last=False)
        assert (cache.size, cache.hits, cache.misses) == (len(kept), hits, misses)


def test_no_unbounded_cache_grows_with_the_lengths_of_transforms() -> None:
    """And with the sizes of products; what is cached for each of them has room for a number of them."""

    def unbounded_caches() -> Counter[str]:
        modules = [module for name, module in sys.modules.items() if name.startswith("minitorch_backends.")]
        of_modules = [(module.__name__, each) for module in modules for each in vars(module).items()]
        caches = {f"{module}.{name}": value for module, (name, value) in of_modules if isinstance(value, CACHE)}
        found = {name: value.cache_info() for name, value in caches.items()}
        return Counter({name: info.currsize for name, info in found.items() if info.maxsize is None})

    def call(size: int) -> None:
        x = mt.ones(size % 37 + 1, size)
        mt.fft.fft(x[0])
        mt.fft.rfftn(x)
        x @ x.mT

    for size in (8, 64, 97):  # so that what is cached once is
        call(size)
    before = unbounded_caches()
    for size in range(100, 220):
        call(size)
    grown = {name: count for name, count in (unbounded_caches() - before).items() if count > 60}
    assert not grown
