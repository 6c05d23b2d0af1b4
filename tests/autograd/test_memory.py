"""Memory of training: only what backward needs is kept alive, and nothing after backward."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.graph import statistics

from ..support.autograd import leaf, leaf_of, values

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
@pytest.mark.parametrize("way", ["views", "writes", "hooks", "function", "dirty", "second", "checkpoint", "failed"])
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

    class Written(Double):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x.mul_(2)

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
        mt.autograd.graph.register_multi_grad_hook((y,), lambda grads: None)
        z = y.exp()
    elif way == "function":
        z = Double.apply(y)
    elif way == "dirty":
        Written.apply(y[0])
        z = Written.apply(y).exp()
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


@pytest.mark.usefixtures("without_collector")
def test_modes_leave_nothing_for_the_collector() -> None:
    x = leaf([1.0, 2.0])
    for _ in range(2):
        gc.collect()
        with mt.set_grad_enabled(False), mt.no_grad(), mt.inference_mode(False), mt.enable_grad():
            mt.func.grad(lambda x: (x * x).sum())(x)
        with mt.set_grad_enabled(True):
            (x * x).sum().backward()
    assert gc.collect() == 0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(16, 520), (2, 8, 520)])
def test_the_gradient_of_a_layers_weight_is_the_memory_that_its_product_wrote(shape: tuple, bias: bool) -> None:
    layer, x = mt.nn.Linear(520, 530, bias=bias), mt.ones(shape)
    layer(x).sum().backward()
    layer.zero_grad()
    loss = layer(x).sum()
    tracemalloc.start()
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert layer.weight.grad.stride() == layer.weight.stride()
    assert peak < 1.5 * 4 * layer.weight.numel()


def test_a_gradient_that_somebody_else_sees_is_copied() -> None:
    w, seen = leaf(np.ones((530, 520)), np.float32), []
    y = w.t()
    y.register_hook(seen.append)
    (mt.ones(16, 520) @ y).sum().backward()
    assert not np.shares_memory(w.grad._array, seen[0]._array)
    w.grad.zero_()
    assert seen[0].ne(0).all()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_that_a_user_gave_is_copied(create_graph: bool) -> None:
    w = mt.ones(3, 4, requires_grad=True)
    given = mt.ones(12)
    w.view(12).backward(given, create_graph=create_graph)
    assert not np.shares_memory(w.grad._array, given._array)
    (w * 2).backward(mt.ones(3, 4))
    assert given.eq(1).all()
    assert w.grad.eq(3).all()


def test_a_gradient_of_one_number_for_all_is_not_kept_as_such() -> None:
    x = mt.ones(3, requires_grad=True)
    x.sum().backward(create_graph=True)
    (x * mt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2, 3, 4]


def test_a_gradient_of_a_transposed_factor_lies_as_that_factor_does() -> None:
    x, w = leaf(np.ones((6, 20)), np.float32), leaf(np.ones((7, 20)), np.float32)
    for turned in (w.t(), w.t().contiguous()):
        turned.retain_grad()
        (x @ turned).sum().backward()
        assert turned.grad.stride() == turned.stride()
    left = leaf(np.ones((20, 6)), np.float32).t()
    left.retain_grad()
    (left @ w.t()).sum().backward()
    assert left.grad.stride() == left.stride()


def test_a_chain_of_200_000_operations() -> None:
    x = leaf_of(1, dtype=np.float64)
    y = x
    for _ in range(200_000):
        y = y + 1.0
    y.backward()
    assert values(x.grad) == [1.0]
    del y


@pytest.mark.usefixtures("without_collector")
def test_a_graph_is_freed_without_the_collector() -> None:
    x = leaf_of(3)
    y = x * x
    z = y.exp().sum()
    watched = [weakref.ref(each) for each in (y, y.grad_fn, z, z.grad_fn)]
    z.backward(retain_graph=True)
    del y, z
    assert all(ref() is None for ref in watched)
    leaf_ref = weakref.ref(x)
    del x
    assert leaf_ref() is None


@pytest.mark.usefixtures("without_collector")
def test_inplace_and_views_make_no_cycles() -> None:
    x = leaf_of(4)
    y = x * 1
    view = y[1:]
    view.mul_(2)
    y.exp_()
    watched = [weakref.ref(each) for each in (y, y.grad_fn, view)]
    del y, view
    assert all(ref() is None for ref in watched)


@pytest.mark.usefixtures("without_collector")
def test_backward_releases_saved_tensors() -> None:
    x, w = leaf_of(3), mt.tensor(np.ones(3, np.float32))
    y = (x * w).sum()
    watched = weakref.ref(w._array)
    del w
    assert watched() is not None
    y.backward()
    assert watched() is None


@pytest.mark.usefixtures("without_collector")
def test_only_what_gradients_need_is_saved() -> None:
    x, w = leaf_of(3), mt.tensor(np.ones(3, np.float32))
    y, watched = x + w, weakref.ref(w._array)
    del w
    assert watched() is None
    assert y.requires_grad
