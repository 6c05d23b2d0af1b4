"""The cache of plans against what it is said to do: the least recently used goes first, and every call is counted."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from minitorch_backends.kernels.plans import PlanCache

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
