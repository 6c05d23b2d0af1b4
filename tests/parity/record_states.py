"""Records states of torch's optimizers and schedules, and what follows them, as `tests/data/torch_states.json`.

python -m tests.parity.record_states
"""

import json
import warnings
from pathlib import Path
from typing import Any

import torch

from ..optim.test_lr_scheduler import CASES as SCHEDULES
from ..optim.test_lr_scheduler import make_scheduler, optimizer

TARGET = Path(__file__).parents[1] / "data" / "torch_states.json"
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.9, "centered": True},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.2},
    "Adadelta": {"lr": 0.5},
    "Adamax": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "LBFGS": {"lr": 0.3, "max_iter": 3},
}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def step(of: Any, weight: Any, times: int) -> list[float]:
    """The weight after some steps on sum(weight ** 4)."""

    def loss() -> Any:
        of.zero_grad()
        value = (weight**4).sum()
        value.backward()
        return value

    for _ in range(times):
        of.step(loss)
    return weight.tolist()


def main() -> None:
    warnings.simplefilter("ignore")
    recorded: dict[str, Any] = {"optimizers": {}, "schedules": {}}
    for name, options in OPTIMIZERS.items():
        weight = torch.tensor([1.0, -0.5], dtype=torch.float64, requires_grad=True)
        of = getattr(torch.optim, name)([weight], **options)
        before = step(of, weight, 2)
        state = plain(of.state_dict())
        recorded["optimizers"][name] = {"weight": before, "state": state, "after": step(of, weight, 2)}
    for case in SCHEDULES:
        of = optimizer(torch.optim.SGD, torch)
        schedule = make_scheduler(case, of, torch.optim.lr_scheduler)
        rates = []
        for epoch in range(6):
            of.step()
            schedule.step()
            if epoch == 2:
                states = plain(schedule.state_dict()), plain(of.state_dict())
            rates.append([group["lr"] for group in of.param_groups])
        recorded["schedules"][case] = {"state": states[0], "optimizer": states[1], "rates": rates[3:]}
    TARGET.write_text(json.dumps(recorded) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
