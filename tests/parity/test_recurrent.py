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
    x = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)
    inputs = [torch.tensor(x, requires_grad=True), mt.tensor(x, requires_grad=True)]
    for module, input in zip((theirs, ours), inputs, strict=True):
        _loss(*module(input)).backward()
    (wanted, wanted_states), (output, states) = theirs(inputs[0]), ours(inputs[1])
    pairs = [(wanted, output), *zip(_tuple(wanted_states), _tuple(states), strict=True)]
    pairs += [(inputs[0].grad, inputs[1].grad)]
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
