"""Optimisers beside torch's: parameters after some steps, and what the state holds under which names."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..test_optim import CASES, gradients_for
from .peer import torch


@pytest.mark.parametrize(("make", "options"), [(case[0], case[2]) for case in CASES], ids=str)
def test_steps_and_states(make: Any, options: dict[str, Any]) -> None:
    values = np.linspace(-1, 1, 6).reshape(2, 3)
    found = []
    for module, kind in ((mt, make), (torch, getattr(torch.optim, make.__name__))):
        weight = module.tensor(values.copy(), requires_grad=True)
        optimizer = kind([weight], **options)
        for gradient in gradients_for(values):
            weight.grad = module.tensor(gradient)
            optimizer.step()
        state = {name: np.asarray(value) for name, value in optimizer.state_dict()["state"].get(0, {}).items()}
        found.append((weight.detach().numpy(), state, optimizer.param_groups[0]))
    (ours, state, group), (theirs, expected, their_group) = found
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    expected = {name: value for name, value in expected.items() if value.dtype != object}
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(state[name], value, rtol=1e-10, atol=1e-12)
    assert group.keys() <= their_group.keys()
