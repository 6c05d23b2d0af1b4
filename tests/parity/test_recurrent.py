"""Recurrent layers beside torch's: values, states and every gradient, from the same state dict."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from .peer import torch


def _tuple(states: Any) -> tuple[Any, ...]:
    return states if isinstance(states, tuple) else (states,)


def _loss(output: Any, states: Any) -> Any:
    return (output * output).sum() + sum((each**3).sum() for each in _tuple(states))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}], ids=str
)
def test_layers(kind: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    theirs, ours = getattr(torch.nn, kind)(5, 7, **options), getattr(mt.nn, kind)(5, 7, **options)
    ours.load_state_dict({name: mt.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    assert repr(ours) == repr(theirs)
    rng = np.random.default_rng(0)
    x, batch = rng.standard_normal((4, 3, 5)).astype(np.float32), 4 if ours.batch_first else 3
    rows = ours.num_layers * (1 + ours.bidirectional)
    starts = [rng.standard_normal((rows, batch, 7)).astype(np.float32) for _ in range(1 + (kind == "LSTM"))]
    inputs = [torch.tensor(x, requires_grad=True), mt.tensor(x, requires_grad=True)]
    before = [tuple(make(each, requires_grad=True) for each in starts) for make in (torch.tensor, mt.tensor)]
    calls = [
        lambda module=module, x=x, hx=hx: module(x, hx if kind == "LSTM" else hx[0])
        for module, x, hx in zip((theirs, ours), inputs, before, strict=True)
    ]
    for call in calls:
        _loss(*call()).backward()
    (wanted, wanted_states), (output, states) = (call() for call in calls)
    pairs = [(wanted, output), *zip(_tuple(wanted_states), _tuple(states), strict=True)]
    pairs += [(inputs[0].grad, inputs[1].grad)]
    pairs += [(one.grad, other.grad) for one, other in zip(*before, strict=True)]
    pairs += [(one.grad, other.grad) for one, other in zip(theirs.parameters(), ours.parameters(), strict=True)]
    for one, other in pairs:
        assert np.allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(kind: str) -> None:
    theirs, ours = getattr(torch.nn, kind)(5, 7), getattr(mt.nn, kind)(5, 7)
    ours.load_state_dict({name: mt.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    for one, other in zip(_tuple(theirs(torch.tensor(x))), _tuple(ours(mt.tensor(x))), strict=True):
        assert np.allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-6)
