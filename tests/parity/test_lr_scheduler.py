"""Schedules of learning rates beside torch's, rate for rate."""

from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends.optim import SGD, Adam, lr_scheduler

from ..optim.test_lr_scheduler import CASES, follow, make_scheduler, optimizer
from .peer import torch


def both(kind: str = "SGD") -> list[Any]:
    """Our optimiser and torch's."""
    return [optimizer({"SGD": SGD, "Adam": Adam}[kind]), optimizer(getattr(torch.optim, kind), torch)]


PACKAGES = [lr_scheduler, torch.optim.lr_scheduler]


def assert_same_rates(rows: list[Any]) -> None:
    ours, theirs = rows
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("case", CASES)
def test_every_schedule(case: str, kind: str) -> None:
    assert_same_rates(
        [follow(of, make_scheduler(case, of, package)) for of, package in zip(both(kind), PACKAGES, strict=True)]
    )


@pytest.mark.parametrize("names", [("linear", "exponential"), ("constant", "cosine"), ("multistep", "polynomial")])
def test_two_beside_each_other(names: tuple[str, ...]) -> None:
    rows = []
    for of, package in zip(both(), PACKAGES, strict=True):
        rows.append(follow(of, package.ChainedScheduler([make_scheduler(name, of, package) for name in names])))
    assert_same_rates(rows)


@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")
@pytest.mark.parametrize("names", [("linear", "cosine"), ("constant", "exponential"), ("linear", "restarts-alike")])
def test_one_after_the_other(names: tuple[str, ...]) -> None:
    rows = []
    for of, package in zip(both(), PACKAGES, strict=True):
        parts = [make_scheduler(name, of, package) for name in names]
        rows.append(follow(of, package.SequentialLR(of, parts, milestones=[6])))
    assert_same_rates(rows)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateaus(mode: str, threshold_mode: str) -> None:
    metrics = [1.0, 0.9, 0.8999, 0.95, 0.95, 0.95, 0.96, 0.5, 0.51, 0.51, 0.52, 0.53, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7]
    rows: list[Any] = []
    for of, package in zip(both(), PACKAGES, strict=True):
        options = {"patience": 2, "cooldown": 1, "threshold": 1e-3, "min_lr": 1e-3}
        scheduler = package.ReduceLROnPlateau(of, mode, threshold_mode=threshold_mode, **options)
        rows.append([])
        for metric in metrics:
            scheduler.step(metric)
            rows[-1].append([group["lr"] for group in of.param_groups])
    assert_same_rates(rows)


def test_rates_move_parameters() -> None:
    """A schedule and an optimiser together."""
    found = []
    for module, package in ((mt, mt.optim), (torch, torch.optim)):
        weight = module.ones(3, requires_grad=True)
        of = package.SGD([weight], lr=0.3, momentum=0.9)
        scheduler = package.lr_scheduler.OneCycleLR(of, 0.5, total_steps=8)
        for _ in range(8):
            of.zero_grad()
            (weight * weight).sum().backward()
            of.step()
            scheduler.step()
        found.append(weight.detach().numpy().tolist())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
