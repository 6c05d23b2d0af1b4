"""Autocast beside torch's: dtypes of results, values and gradients of ops of every list and of none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from .peer import torch

rng = np.random.default_rng(0)
X, Y = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
IMAGES = rng.standard_normal((2, 2, 6, 6)).astype(np.float32)

Call = Callable[[Any, Any, Any, Any], Any]
"""A function of a library, its nn.functional, and two matrices."""

CALLS: dict[str, Call] = {
    "matmul": lambda m, F, x, y: x @ y,
    "mm": lambda m, F, x, y: m.mm(x, y),
    "addmm": lambda m, F, x, y: m.addmm(x, x, y),
    "bmm": lambda m, F, x, y: m.bmm(x[None], y[None]),
    "baddbmm": lambda m, F, x, y: m.baddbmm(x[None], x[None], y[None]),
    "addbmm": lambda m, F, x, y: m.addbmm(x, x[None], y[None]),
    "linear": lambda m, F, x, y: F.linear(x, y, x[0]),
    "conv1d": lambda m, F, x, y: F.conv1d(x[None], y[:, :, None]),
    "conv_transpose1d": lambda m, F, x, y: F.conv_transpose1d(x[None], y[:, :, None]),
    "einsum": lambda m, F, x, y: m.einsum("ij,kj->ik", x, y),
    "attention": lambda m, F, x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
    "mv": lambda m, F, x, y: m.mv(x, y[0]),
    "dot": lambda m, F, x, y: m.dot(x[0], y[0]),
    "product, sum": lambda m, F, x, y: (x @ y) + x,
    "product, relu": lambda m, F, x, y: F.relu(x @ y),
    "product, softmax": lambda m, F, x, y: F.softmax(x @ y, -1),
    "product, log_softmax": lambda m, F, x, y: F.log_softmax(x @ y, -1),
    "product, layer_norm": lambda m, F, x, y: F.layer_norm(x @ y, (4,)),
    "product, exp": lambda m, F, x, y: (x @ y).exp(),
    "product, mean": lambda m, F, x, y: (x @ y).mean(0),
    "product, cat": lambda m, F, x, y: m.cat([x @ y, x]),
    "product, stack": lambda m, F, x, y: m.stack([x @ y, x @ y]),
    "product, mse_loss": lambda m, F, x, y: F.mse_loss(x @ y, x),
    "product, l1_loss": lambda m, F, x, y: F.l1_loss(x @ y, x),
    "product, smooth_l1_loss": lambda m, F, x, y: F.smooth_l1_loss(x @ y, x),
    "product, cross_entropy": lambda m, F, x, y: F.cross_entropy(x @ y, m.tensor([0, 1, 2, 3])),
    "product, bce": lambda m, F, x, y: F.binary_cross_entropy_with_logits(x @ y, x),
    "product, prod": lambda m, F, x, y: (x @ y).prod(),
    "product, svdvals": lambda m, F, x, y: m.linalg.svdvals(x @ y),
    "float64": lambda m, F, x, y: x.double() @ y.double(),
    "integers": lambda m, F, x, y: (x > 0).long() @ (y > 0).long(),
    "switched off": lambda m, F, x, y: _off(m, x, y),
}


def _off(m: Any, x: Any, y: Any) -> Any:
    with m.autocast("cpu", enabled=False):
        return x @ y


def _run(m: Any, call: Call, dtype: str) -> tuple[str, np.ndarray, list[np.ndarray]]:
    """The dtype and the values of a result under autocast, and the gradients of its sum."""
    x, y = (m.tensor(each, requires_grad=True) for each in (X, Y))
    with m.autocast("cpu", dtype=getattr(m, dtype)):
        result = call(m, m.nn.functional, x, y)
    gradients = []
    if result.requires_grad:
        result.float().sum().backward()
        gradients = [each.grad.numpy() for each in (x, y) if each.grad is not None]
    return str(result.dtype).rpartition(".")[2], result.detach().double().numpy(), gradients


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str, dtype: str) -> None:
    theirs, ours = (_run(m, CALLS[name], dtype) for m in (torch, mt))
    assert ours[0] == theirs[0]
    tolerance = {"rtol": 0.04, "atol": 0.06} if dtype == "bfloat16" else {"rtol": 0.005, "atol": 0.01}
    np.testing.assert_allclose(ours[1], theirs[1], **tolerance)
    assert len(ours[2]) == len(theirs[2])
    for one, other in zip(ours[2], theirs[2], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(
            one, other, rtol=tolerance["rtol"], atol=tolerance["atol"] * max(np.abs(other).max(), 1)
        )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_network_and_its_gradients(dtype: str) -> None:
    losses, gradients, state = [], [], {}
    for m in (torch, mt):
        model = m.nn.Sequential(
            m.nn.Conv2d(2, 4, 3),
            m.nn.BatchNorm2d(4),
            m.nn.ReLU(),
            m.nn.MaxPool2d(2),
            m.nn.Flatten(),
            m.nn.Linear(16, 3),
        )
        state = state or {name: each.detach().numpy().copy() for name, each in model.state_dict().items()}
        model.load_state_dict({name: m.tensor(each) for name, each in state.items()})
        with m.autocast("cpu", dtype=getattr(m, dtype)):
            output = model(m.tensor(IMAGES))
            loss = m.nn.functional.cross_entropy(output, m.tensor([0, 2]))
        assert output.dtype == getattr(m, dtype)
        assert loss.dtype == m.float32
        loss.backward()
        losses.append(loss.item())
        gradients.append([each.grad.numpy() for each in model.parameters()])
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=0.06 * max(np.abs(other).max(), 0.05))
