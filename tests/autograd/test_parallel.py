"""Backward passes in several threads: the same bits, the user's code in the user's thread, errors where they belong."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.autograd import set_multithreading_enabled
from minitorch_backends.autograd.extras import parallel
from minitorch_backends.autograd.graph import saved_tensors_hooks
from minitorch_backends.kernels.runtime import threading as kernel_threads

from ..support.autograd import leaf, make_function, values


@pytest.fixture(autouse=True)
def every_node_is_heavy() -> Iterator[None]:
    parallel._forget_pool()
    with kernel_threads.num_threads(4), parallel.thresholds.override(heavy_bytes=1):
        yield
    parallel._forget_pool()


def threads_used(function: Any) -> set[str]:
    """The names of the threads that applied the rules of `mul` while a function ran."""
    names: set[str] = set()
    op = mt.mul.op
    original = op.propagate

    def noting(*arguments: Any) -> None:
        names.add(threading.current_thread().name.split("_")[0])
        time.sleep(0.002)
        original(*arguments)

    op.propagate = noting
    try:
        function()
    finally:
        op.propagate = original
    return names


def branches(count: int = 3, depth: int = 6) -> tuple[list[mt.Tensor], mt.Tensor]:
    leaves = [leaf(np.linspace(0.1, 1 + i, 50), np.float32) for i in range(count)]
    total = leaves[0] * 0
    for x in leaves:
        y = x
        for _ in range(depth):
            y = (y * 1.1).sin() * x + leaves[0]
        total = total + y
    return leaves, total.sum()


def gradients(leaves: list[mt.Tensor], loss: mt.Tensor, threads: bool) -> list[bytes]:
    for x in leaves:
        x.grad = None
    with set_multithreading_enabled(threads):
        loss.backward(retain_graph=True)
    return [x.grad.numpy().tobytes() for x in leaves]


def test_branches_run_in_several_threads_when_that_is_enabled() -> None:
    leaves, loss = branches()
    with set_multithreading_enabled(False):
        assert threads_used(lambda: loss.backward(retain_graph=True)) == {"MainThread"}
    assert threads_used(lambda: loss.backward(retain_graph=True)) == {"MainThread", "backward"}
    with set_multithreading_enabled(False):
        one = gradients(leaves, loss, False)
    assert gradients(leaves, loss, True) == one
    kernel_threads.set_num_threads(1)
    assert threads_used(lambda: loss.backward(retain_graph=True)) == {"MainThread"}


OPS: list[Any] = [
    lambda a, b: (a + b).sin(),
    lambda a, b: (a * b).sin(),
    lambda a, b: a.sin() - b[: 1 + len(b) // 2].sum().sin(),
    lambda a, b: mt.cat([a[3:], b[:3]]),
    lambda a, b: a.unbind()[0] * b.tanh(),
    lambda a, b: (a / (b * b + 1)).tanh(),
    lambda a, b: a.view(2, 5).sort(0).values.view(10) * b.sin(),
    lambda a, b: (a.view(2, 5).T.reshape(10) @ b).sin() * b.tanh(),
]
"""Results stay small: an Inf would make NumPy warn."""


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25))
def test_any_graph_gives_the_same_bits(program: list[tuple[int, int, int]]) -> None:
    leaves = [leaf(np.linspace(0.3, 1.7, 10) * (i + 1), np.float32) for i in range(3)]
    made = list(leaves)
    for op, first, second in program:
        result = OPS[op](made[first % len(made)], made[second % len(made)])
        made.append(result if result.ndim else result.expand(10))
    loss = sum((each.tanh() for each in made[3:]), leaves[0] * 0).sum()
    wanted = [x for x in leaves if loss.requires_grad]
    loss.backward(retain_graph=True)
    filled = [x for x in wanted if x.grad is not None]
    assert gradients(filled, loss, True) == gradients(filled, loss, False)
    assert gradients(filled, loss, True) == gradients(filled, loss, False)


def test_accumulation_into_what_is_there_has_the_same_bits() -> None:
    leaves, loss = branches()
    results = []
    for threads in (True, False):
        for x in leaves:
            x.grad = mt.full((50,), 0.1)
        with set_multithreading_enabled(threads):
            loss.backward(retain_graph=True)
        results.append([x.grad.numpy().tobytes() for x in leaves])
    assert results[0] == results[1]


def test_what_the_user_wrote_runs_in_the_users_thread() -> None:
    names: list[str] = []

    def double(ctx: Any, g: mt.Tensor) -> mt.Tensor:
        names.append(threading.current_thread().name)
        return g * 2

    doubled, outputs = make_function(lambda ctx, x: x * 2, double), []
    leaves = [leaf(np.ones(50)) for _ in range(3)]
    for x in leaves:
        y = doubled.apply(x * 1.0) * 1.0
        y.register_hook(lambda g: names.append(threading.current_thread().name))
        first, second = (y.view(2, 25) * 1.0).unbind()
        first.register_hook(lambda g: g * 3)
        outputs.append((first + second) * 1.0)
    loss = (outputs[0] + outputs[1] + outputs[2]).sum()
    assert threads_used(loss.backward) == {"MainThread", "backward"}
    assert set(names) == {threading.current_thread().name}
    assert len(names) == 6
    assert values(leaves[0].grad) == [6.0] * 25 + [2.0] * 25


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_error_in_another_thread_is_raised_here(error: Any) -> None:
    leaves, loss = branches()
    op = mt.sin.op
    original = op.propagate

    def fails(*arguments: Any) -> None:
        if threading.current_thread().name.startswith("backward"):
            raise error("there")
        time.sleep(0.01)
        original(*arguments)

    op.propagate = fails
    try:
        with pytest.raises(error, match="there"):
            loss.backward(retain_graph=True)
    finally:
        op.propagate = original
    assert mt.is_grad_enabled()
    assert gradients(leaves, loss, True) == gradients(leaves, loss, False)


def test_flags_reach_the_other_threads() -> None:
    seen: set[str] = set()
    op = mt.mul.op
    original = op.propagate

    def noting(*arguments: Any) -> None:
        seen.add(f"{threading.current_thread().name.split('_')[0]} {mt.backends.fp32_precision} {mt.is_grad_enabled()}")
        time.sleep(0.002)
        original(*arguments)

    _, loss = branches()
    op.propagate = noting
    try:
        with mt.backends.flags(fp32_precision="tf32"):
            loss.backward()
    finally:
        op.propagate = original
    assert seen == {"MainThread tf32 False", "backward tf32 False"}


def test_released_and_shared_graphs() -> None:
    _, loss = branches()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_parts_that_get_no_gradient() -> None:
    blocks = make_function(lambda ctx, x: x * 1, lambda ctx, g: None)
    x = leaf(np.ones(50))
    loss = (blocks.apply(x.exp().sin()) + x * 2.0 + (x * 1.0).cos()).sum()
    loss.backward()
    assert np.allclose(x.grad.numpy(), 2 - np.sin(1.0))


def test_what_the_users_hooks_have_packed_is_unpacked_in_the_users_thread() -> None:
    names = set()

    def unpack(x: mt.Tensor) -> mt.Tensor:
        names.add(threading.current_thread().name)
        return x

    with saved_tensors_hooks(lambda x: x, unpack):
        _, loss = branches()
    loss.backward()
    assert names == {threading.current_thread().name}


def test_what_goes_wrong_where_gradients_meet_is_raised() -> None:
    """In whichever thread that is."""
    for turn in range(20):
        leaves = [leaf(np.ones(50)) for _ in range(2)]
        first, second = (w.sin().mul(w.cos()).exp() for w in leaves)
        loss = (first * second).sum()
        read_only = np.zeros(50)
        read_only.flags.writeable = False
        leaves[turn % 2].grad = [mt.from_numpy(read_only), mt.zeros(1, dtype=mt.float64).expand(50)][turn // 2 % 2]
        with pytest.raises(RuntimeError, match=r"accumulating into \.grad"):
            loss.backward()
