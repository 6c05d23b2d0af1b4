"""Eight threads that train and infer at once, under modes and flags of their own, give the bits of each alone."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.autograd import Function, grad, set_multithreading_enabled
from minitorch_backends.autograd.forward_ad import dual_level, make_dual, unpack_dual
from minitorch_backends.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from minitorch_backends.utils.checkpoint import checkpoint

from ..support.autograd import leaf_of

INPUT = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((3, 32, 32)).astype(np.float32) / 6


def network(x: mt.Tensor, weights: list[mt.Tensor]) -> mt.Tensor:
    for w in weights:
        x = (x @ w).tanh() + x * 0.5
    return x


def train(body: Callable[..., mt.Tensor] = network, steps: int = 4) -> bytes:
    weights = [mt.tensor(w.copy()).requires_grad_() for w in WEIGHTS]
    for _ in range(steps):
        loss = (body(mt.tensor(INPUT), weights) ** 2).mean()
        loss.backward()
        with mt.no_grad():
            for w in weights:
                w.sub_(w.grad * 0.1)
                w.grad = None
    return b"".join(w.detach().numpy().tobytes() for w in weights)


def infer() -> bytes:
    weights = [mt.tensor(w) for w in WEIGHTS]
    x = mt.tensor(INPUT)
    for _ in range(4):
        x = network(x, weights)
    return x.numpy().tobytes()


class Half(Function):
    @staticmethod
    def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
        ctx.save_for_backward(x)
        return x * 0.5

    @staticmethod
    def backward(ctx: Any, g: mt.Tensor) -> mt.Tensor:
        return g * 0.5 + ctx.saved_tensors[0] * 0


def under(context: Callable[[], Any], work: Callable[[], bytes]) -> Callable[[], bytes]:
    def run() -> bytes:
        with context():
            return work()

    return run


def write() -> bytes:
    x = mt.tensor(INPUT.copy()).requires_grad_()
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        for i in range(4):
            y[i].mul_(y[i + 1].exp())
            y.sin_()
        (g,) = grad(y.sum(), x)
    return g.numpy().tobytes()


def dual() -> bytes:
    with dual_level():
        x = make_dual(mt.tensor(INPUT), mt.tensor(np.ones_like(INPUT)))
        return unpack_dual(network(x, [mt.tensor(w) for w in WEIGHTS])).tangent.numpy().tobytes()


JOBS: list[Callable[[], bytes]] = [
    train,
    under(lambda: backends.flags(fp32_precision="tf32"), train),
    under(lambda: set_multithreading_enabled(False), lambda: train(lambda x, w: Half.apply(network(x, w)))),
    under(
        lambda: saved_tensors_hooks(lambda t: t.detach().numpy().copy(), mt.Tensor),
        under(lambda: backends.flags(fp32_precision="bf16"), train),
    ),
    under(mt.inference_mode, infer),
    under(mt.no_grad, under(lambda: backends.flags(fp32_precision="bf16x3"), infer)),
    lambda: train(lambda x, w: checkpoint(network, x, w, use_reentrant=False, preserve_rng_state=False)),
    lambda: write() + dual(),
]


def test_eight_threads() -> None:
    alone = [job() for job in JOBS]
    assert len(set(alone)) == len(JOBS) - 1  # the checkpointed training is the first one
    found: list[list[bytes]] = [[] for _ in JOBS]
    barrier = threading.Barrier(len(JOBS))

    def work(index: int) -> None:
        barrier.wait(300)
        for _ in range(5):
            found[index].append(JOBS[index]())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(JOBS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[result] * 5 for result in alone]
    assert mt.is_grad_enabled()
    assert backends.fp32_precision == "none"


def test_eight_tasks() -> None:
    """The modes of asyncio tasks that take turns in one thread."""

    async def work(mode: Any, enabled: bool) -> list[bool]:
        x = mt.ones(3, requires_grad=True)
        seen = []
        with mode():
            for _ in range(20):
                seen.append((x * 2).requires_grad is enabled and mt.is_grad_enabled() is enabled)
                await asyncio.sleep(0)
        return seen

    async def main() -> list[list[bool]]:
        modes = [(mt.no_grad, False), (mt.enable_grad, True), (mt.inference_mode, False)]
        return await asyncio.gather(*(work(*modes[index % 3]) for index in range(8)))

    assert asyncio.run(main()) == [[True] * 20] * 8


def test_passes_that_share_a_leaf_lose_no_gradient() -> None:
    x = mt.ones(3, requires_grad=True)
    threads = [threading.Thread(target=lambda: [(x * 1).sum().backward() for _ in range(200)]) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert x.grad.tolist() == [800.0] * 3


def test_backward_from_eight_threads_through_one_graph() -> None:
    x = leaf_of(1000, dtype=np.float64)
    losses = [(x * x).sum() for _ in range(8)]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda loss=loss: found.append(grad(loss, x)[0])) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(np.array_equal(each._array, 2 * x._array) for each in found)
