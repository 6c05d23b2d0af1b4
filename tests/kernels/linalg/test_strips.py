"""Scheduling of a blocked factorisation: strips see the blocks in order, and no block's memory is lost early."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg import strips as order
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.runtime import threading

from ...support.matrices import random

_next = order._next_strip.py_func


@given(
    some.integers(1, 9), some.integers(1, 9), some.integers(1, 4), some.booleans(), some.integers(1, 4), some.randoms()
)
def test_workers_do_every_step_once_and_in_order(strips, blocks, kept, passing, workers, chance) -> None:
    blocks = min(strips, blocks)
    state = np.zeros(order._STRIPS + 2 * strips, np.int64)
    state[order._FACTORED] = state[order._STRIPS] = 1
    done, busy, at_work = state[order._STRIPS :: 2], state[order._STRIPS + 1 :: 2], {}
    for _ in range(10_000):
        worker, level = chance.randrange(workers), chance.random() < 0.5
        strip = _next(state, strips, blocks, kept, passing, worker, level)
        if strip == -2:
            break
        assert strip >= 0 or at_work, "no thread works or receives work"
        if strip >= 0 and (not at_work or (len(at_work) < workers and chance.random() < 0.7)):
            first, factored = done[strip], state[order._FACTORED]
            assert busy[strip] <= 0
            if first == strip:  # its block takes the place of an older one
                assert strip == factored
                assert all(done[j] > strip - kept for j in range(strip, strips))
            else:
                assert first < factored
                assert first > strip or first >= factored - kept
            busy[strip], at_work[strip] = 1 + worker, first
        else:
            strip = chance.choice(sorted(at_work))
            first = at_work.pop(strip)
            done[strip], busy[strip] = first + 1, -busy[strip]
            state[order._FACTORED] += first == strip
    assert state[order._FACTORED] == blocks
    assert done.tolist() == [blocks if passing else min(j + 1, blocks) for j in range(strips)]


@pytest.mark.parametrize("kernel", ["lu_factor", "qr"])
@pytest.mark.parametrize("shape", [(700, 700), (700, 130), (130, 700), (96, 300), (33, 500), (193, 194)])
def test_strips_that_are_cut_off(shape: tuple[int, int], kernel: str) -> None:
    a, threads, found = random(*shape, dtype="float32"), threading.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            threading.set_num_threads(count)
            found.append(getattr(linalg, kernel)["magma"](a))
    finally:
        threading.set_num_threads(threads)
    assert max(residuals(kernel, (a,), {}, found[0]).values()) <= 10 + max(shape)
    for other in found[1:]:
        for one, two in zip(found[0][:2], other[:2], strict=True):
            assert np.array_equal(one, two)
