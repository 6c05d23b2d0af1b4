"""Optimisers beside torch's: parameters after some steps, and what the state holds under which names."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..support.optimizers import CASES, gradients_for
from .peer import torch

OF_MATRICES = [
    (mt.optim.Adafactor, {}),
    (mt.optim.Adafactor, {"lr": 0.3, "eps": (1e-5, 0.1), "d": 1.5, "weight_decay": 0.2, "maximize": True}),
]


@pytest.mark.parametrize(("make", "options"), [*((case[0], case[2]) for case in CASES), *OF_MATRICES], ids=str)
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
    rtol = 1e-6 if make._numbers.keys() > {"step"} else 1e-10  # torch keeps numbers of the state in float32
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)
    expected = {name: value for name, value in expected.items() if value.dtype != object}
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(state[name], value, rtol=rtol, atol=1e-12)
    assert group.keys() <= their_group.keys()


@pytest.mark.parametrize("shape", [(2, 3), (4, 3)])
@pytest.mark.parametrize("options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "lr": 0.1}], ids=str)
def test_muon_within_bfloat16(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    values, found = np.linspace(-1, 1, 12).reshape(-1)[: shape[0] * shape[1]].reshape(shape), []
    for module in (mt, torch):
        weight = module.tensor(values.copy(), requires_grad=True)
        optimizer = module.optim.Muon([weight], **options)
        for seed in range(3):
            weight.grad = module.tensor(np.random.default_rng(seed).normal(size=shape))
            optimizer.step()
        found.append(weight.detach().numpy())
    np.testing.assert_allclose(found[0] - values, found[1] - values, atol=0.06 * np.abs(found[1] - values).max())


def test_averaging_schedule() -> None:
    for options in ({}, {"anneal_epochs": 4, "anneal_strategy": "linear"}, {"anneal_epochs": 0}):
        rates = []
        for module in (mt, torch):
            optimizer = module.optim.SGD([module.zeros(1, requires_grad=True)], lr=0.5)
            schedule = module.optim.swa_utils.SWALR(optimizer, 0.05, **options)
            for _ in range(12):
                rates.append(schedule.get_last_lr()[0])
                optimizer.step()
                schedule.step()
        np.testing.assert_allclose(rates[:12], rates[12:], rtol=1e-12)
