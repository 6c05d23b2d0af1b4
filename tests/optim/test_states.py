"""States of optimizers and schedules that torch 2.13 saved, as plain data: the next steps are those of torch."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.optim import SGD

from .test_lr_scheduler import make_scheduler, optimizer

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "torch_states.json").read_text(encoding="utf-8"))


def restore(value: Any) -> Any:
    """Vectors as arrays, and numbers as keys, which JSON writes as text."""
    if isinstance(value, dict):
        numbered = {int(key) if key.isdecimal() else key: each for key, each in value.items()}
        return {key: each if key == "ro" else restore(each) for key, each in numbered.items()}
    if isinstance(value, list) and value and all(isinstance(each, float) for each in value):
        return np.array(value)
    return [restore(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", RECORDED["optimizers"])
def test_optimizers_go_on(name: str) -> None:
    recorded = RECORDED["optimizers"][name]
    weight = mt.tensor(recorded["weight"], dtype=mt.float64, requires_grad=True)
    of = getattr(mt.optim, name)([weight])
    state = recorded["state"]
    of.load_state_dict({"state": restore(state["state"]), "param_groups": state["param_groups"]})

    def loss() -> Any:
        of.zero_grad()
        value = (weight**4).sum()
        value.backward()
        return value

    for _ in range(2):
        of.step(loss)
    np.testing.assert_allclose(weight.tolist(), recorded["after"], rtol=1e-9)
    own = set(of.state_dict()["state"][0])
    assert own == {key for key, value in state["state"]["0"].items() if value is not None and key != "al"}


@pytest.mark.parametrize("case", RECORDED["schedules"])
def test_schedules_go_on(case: str) -> None:
    recorded = RECORDED["schedules"][case]
    of = optimizer(SGD)
    schedule = make_scheduler(case, of)
    state = recorded["state"]
    if "milestones" in state:
        state = state | {"milestones": Counter({int(key): times for key, times in state["milestones"].items()})}
    of.load_state_dict({"state": {}, "param_groups": recorded["optimizer"]["param_groups"]})
    schedule.load_state_dict(state)
    for wanted in recorded["rates"]:
        of.step()
        schedule.step()
        assert [group["lr"] for group in of.param_groups] == pytest.approx(wanted, rel=1e-12)
