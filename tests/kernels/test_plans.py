"""The cache of plans against what it is said to do: the least recently used goes first, and every call is counted."""

from __future__ import annotations

import functools
import random
from collections import OrderedDict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.kernels.runtime.plan_cache import MOST_BYTES, PlanCache

from ..memory import codes, unbounded_caches

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


def test_large_plans_are_dropped_by_their_bytes() -> None:
    cache = PlanCache()
    for number in range(40):
        cache.get(number, functools.partial(np.empty, MOST_BYTES // 64, np.uint16), 100)
        assert (cache.size, cache.nbytes) == (min(number + 1, 32), min(number + 1, 32) * MOST_BYTES // 32)
    for number in range(40, 60):
        cache.get(number, functools.partial(np.empty, MOST_BYTES, np.uint8), 100)
    assert cache.size == 8
    cache.clear()
    assert cache.nbytes == 0


def test_no_unbounded_cache_grows_with_the_sizes_of_transforms_and_products() -> None:
    """What is cached for each of them has room for a number of them."""

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
    assert not {name: count for name, count in (unbounded_caches() - before).items() if count > 60}


def test_code_and_caches_are_bounded_over_shapes_of_convolutions() -> None:
    """Sizes and numbers of channels make no code. `python -m tests.memory` goes on for thousands of shapes."""
    draw = random.Random(0)

    def convolve(images: int) -> None:
        x = mt.ones(draw.randint(1, 3), draw.randint(1, 40), draw.randint(3, 40), draw.randint(3, 40))
        x = x.requires_grad_() if images % 4 == 0 else x
        weight = mt.ones(draw.randint(1, 40), x.shape[1], 3, 3, requires_grad=images % 4 == 0)
        out = mt.nn.functional.conv2d(x, weight, padding=draw.randint(0, 1))
        if out.requires_grad:
            out.sum().backward()

    for images in range(60):
        convolve(images)
    before, kinds = unbounded_caches(), codes()
    for images in range(120):
        convolve(images)
    assert codes() - kinds < 12
    assert not {name: count for name, count in (unbounded_caches() - before).items() if count > 12}
