"""What training keeps alive: no more than backward needs, and nothing once it has gone backward."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.graph import statistics

from .tools import leaf

LAYERS, WIDTH, BATCH = 50, 64, 256
STEP = 4 * (LAYERS * BATCH * WIDTH + LAYERS * WIDTH * (WIDTH + 1))
"""Bytes that a training step must hold at its end: the result of each layer, and the gradients of its weights."""


def perceptron() -> list[tuple[mt.Tensor, mt.Tensor]]:
    random = np.random.default_rng(0)
    return [
        (leaf(random.standard_normal((WIDTH, WIDTH)) / 6, np.float32), leaf(np.zeros(WIDTH), np.float32))
        for _ in range(LAYERS)
    ]


def loss_of(layers: list[tuple[mt.Tensor, mt.Tensor]], x: mt.Tensor) -> mt.Tensor:
    for w, b in layers:
        x = (x @ w + b).relu()
    return (x * x).mean()


@pytest.fixture
def without_collector() -> object:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_the_peak_of_a_training_step_is_what_must_be_kept() -> None:
    layers, x = perceptron(), mt.ones(BATCH, WIDTH)
    loss_of(layers, x).backward()
    for w, b in layers:
        w.grad = b.grad = None
    tracemalloc.start()
    loss = loss_of(layers, x)
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * STEP


@pytest.mark.usefixtures("without_collector")
def test_a_step_leaves_its_gradients_and_nothing_else() -> None:
    layers, x = perceptron()[:5], mt.ones(BATCH, WIDTH)
    before = statistics()
    loss = loss_of(layers, x)
    node = weakref.ref(loss.grad_fn)
    loss.backward()
    assert statistics().bytes == before.bytes
    del loss
    assert node() is None
    assert statistics().nodes == before.nodes
    assert all(w.grad is not None and b.grad is not None for w, b in layers)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("way", ["views", "writes", "hooks", "function", "second", "checkpoint", "failed"])
def test_graphs_of_every_kind_are_freed_without_the_collector(way: str) -> None:
    class Double(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x * 2
            ctx.save_for_backward(x, out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1.5
    if way == "views":
        z = y.T[0].view(2, 1).expand(2, 3).unbind()[1].exp()
    elif way == "writes":
        y[0].mul_(y[1].detach().clone())
        y.t_()
        z = y[:, 0].sin_()
    elif way == "hooks":
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        y.grad_fn.register_hook(lambda i, o: None)
        z = y.exp()
    elif way == "function":
        z = Double.apply(y)
    elif way == "second":
        (z,) = mt.autograd.grad((y**3).sum(), x, create_graph=True)
    elif way == "checkpoint":
        z = mt.utils.checkpoint.checkpoint(lambda v: v.exp().sin(), y, use_reentrant=False)
    else:
        z = y.exp()
        z.register_hook(lambda g: 3)
        with pytest.raises(TypeError):
            z.sum().backward()
    watched = [weakref.ref(each) for each in (y, z, z.grad_fn)]
    if way != "failed":
        z.sum().backward(retain_graph=True)
    del y, z
    assert [ref() for ref in watched] == [None] * 3
