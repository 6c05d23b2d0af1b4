"""States of optimizers and schedules that go to torch, and come from it: the next steps are the same."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.optim import SGD, lr_scheduler

from ..optim.test_lr_scheduler import CASES as SCHEDULES
from ..optim.test_lr_scheduler import make_scheduler, optimizer
from ..support.optimizers import CASES, gradients_for
from .peer import torch

VALUES = np.linspace(-1, 1, 6).reshape(2, 3)
DIRECTIONS = [pytest.param(torch, mt, id="from torch"), pytest.param(mt, torch, id="to torch")]
LOSSES = {"line search": "strong_wolfe", "fixed steps": None}


def carry(value: Any, module: Any) -> Any:
    """A state for another library: ours takes torch's tensors as they are, torch takes its own."""
    if isinstance(value, dict):
        return {name: carry(each, module) for name, each in value.items()}
    if isinstance(value, list):
        return [carry(each, module) for each in value]
    return torch.from_numpy(value.numpy().copy()) if module is torch and isinstance(value, mt.Tensor) else value


def step(of: Any, weight: Any, module: Any, gradients: list[np.ndarray]) -> list[float]:
    for gradient in gradients:
        weight.grad = module.tensor(gradient)
        of.step()
    return weight.detach().numpy().ravel().tolist()


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
@pytest.mark.parametrize(("make", "options"), [(case[0], case[2]) for case in CASES], ids=str)
def test_optimizers(make: Any, options: dict[str, Any], first: Any, second: Any) -> None:
    gradients = gradients_for(VALUES)
    weight = first.tensor(VALUES.copy(), requires_grad=True)
    before = getattr(first.optim, make.__name__)([weight], **options)
    step(before, weight, first, gradients[:2])
    copied = second.tensor(weight.detach().numpy().copy(), requires_grad=True)
    after = getattr(second.optim, make.__name__)([copied])
    after.load_state_dict(carry(before.state_dict(), second))
    found, wanted = step(after, copied, second, gradients[2:]), step(before, weight, first, gradients[2:])
    bound = 1e-7 if make.__name__ in ("ASGD", "NAdam") else 1e-10  # torch keeps numbers of these in float32
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound / 100)


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
@pytest.mark.parametrize("search", LOSSES.values(), ids=LOSSES)
def test_lbfgs(search: str | None, first: Any, second: Any) -> None:
    def begin(module: Any, values: np.ndarray) -> tuple[Any, Any, Any]:
        weight = module.tensor(values.copy(), requires_grad=True)
        of = module.optim.LBFGS([weight], lr=0.3, max_iter=3, history_size=4, line_search_fn=search)

        def loss() -> Any:
            of.zero_grad()
            value = ((weight - 0.3) ** 4 + (weight**2).sum() * weight**2).sum()
            value.backward()
            return value

        return weight, of, loss

    weight, before, loss = begin(first, VALUES)
    before.step(loss)
    before.step(loss)
    copied, after, same = begin(second, weight.detach().numpy())
    after.load_state_dict(carry(before.state_dict(), second))
    for _ in range(2):
        before.step(loss)
        after.step(same)
    np.testing.assert_allclose(copied.detach().numpy(), weight.detach().numpy(), rtol=1e-7, atol=1e-9)


def schedule(case: str, of: Any, module: Any) -> Any:
    """A schedule by the name of its case, or one that is made of others or looks at a loss."""
    package = {mt: lr_scheduler, torch: torch.optim.lr_scheduler}[module]
    if case in SCHEDULES:
        return make_scheduler(case, of, package)
    parts = [make_scheduler(each, of, package) for each in ("linear", "exponential")]
    return {
        "plateau": lambda: package.ReduceLROnPlateau(of, patience=1, cooldown=1),
        "chained": lambda: package.ChainedScheduler(parts),
        "sequential": lambda: package.SequentialLR(of, parts, milestones=[4]),
        "averaging": lambda: module.optim.swa_utils.SWALR(of, swa_lr=[0.01, 0.2], anneal_epochs=5),
    }[case]()


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
@pytest.mark.parametrize("case", [*SCHEDULES, "plateau", "chained", "sequential", "averaging"])
def test_schedules(case: str, first: Any, second: Any, tmp_path: Any) -> None:
    """By files, which hold the counters of milestones too."""
    kinds = {mt: SGD, torch: torch.optim.SGD}
    of, other = (optimizer(kinds[each], each) for each in (first, second))
    before, after = (schedule(case, on, each) for each, on in ((first, of), (second, other)))
    losses = {"plateau": lambda: [1.0]}.get(case, list)
    for _ in range(3):
        of.step()
        before.step(*losses())
    first.save({"optimizer": of.state_dict(), "schedule": before.state_dict()}, tmp_path / "state.pt")
    state = second.load(tmp_path / "state.pt", weights_only=True)
    other.load_state_dict(state["optimizer"])
    after.load_state_dict(state["schedule"])
    for _ in range(4):
        for on, each in ((of, before), (other, after)):
            on.step()
            each.step(*losses())
        assert [each["lr"] for each in other.param_groups] == pytest.approx([each["lr"] for each in of.param_groups])
