"""Schedules of learning rates: by closed forms, beside each other, from a state, and of wrong options."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends.optim import SGD, Adam, lr_scheduler

RATES = (0.5, 0.02)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lambda": ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    "multiplicative": ("MultiplicativeLR", {"lr_lambda": lambda epoch: 1 - 1 / (epoch + 2)}),
    "step": ("StepLR", {"step_size": 3, "gamma": 0.3}),
    "multistep": ("MultiStepLR", {"milestones": [7, 2, 7, 11], "gamma": 0.5}),
    "constant": ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    "linear": ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 6}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "polynomial": ("PolynomialLR", {"total_iters": 8, "power": 2.0}),
    "cosine": ("CosineAnnealingLR", {"T_max": 5, "eta_min": 1e-3}),
    "restarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 1e-3}),
    "restarts-alike": ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    "one-cycle": ("OneCycleLR", {"max_lr": [0.4, 0.1], "total_steps": 20}),
    "one-cycle-lines": (
        "OneCycleLR",
        {"max_lr": 0.4, "epochs": 5, "steps_per_epoch": 4, "three_phase": True, "anneal_strategy": "linear"},
    ),
    "triangular": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "step_size_down": 5}),
    "triangular2": ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 0.5, "step_size_up": 3, "mode": "triangular2"}),
    "exp-range": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
}
STEPS = 19
every_case = pytest.mark.parametrize("case", CASES)


def optimizer(kind: Any = SGD, module: Any = mt, **options: Any) -> Any:
    """One of two groups; `module` is the framework whose tensors it moves."""
    options = {"momentum": 0.9} | options if kind.__name__ == "SGD" else options
    groups = [{"params": [module.zeros(2, requires_grad=True)], "lr": rate} for rate in RATES]
    made = kind(groups, **options)
    made.step()
    return made


def make_scheduler(case: str, of: Any, module: Any = lr_scheduler, **more: Any) -> Any:
    name, options = CASES[case]
    return getattr(module, name)(of, **options, **more)


def follow(of: Any, *schedulers: Any, steps: int = STEPS) -> list[list[float]]:
    """The rates and momenta of each epoch."""
    rows = []
    for epoch in range(steps + 1):
        rows.append([float(group["lr"]) for group in of.param_groups])
        rows[-1] += [
            group.get("momentum", group.get("betas", [0])[0] if "betas" in group else 0) for group in of.param_groups
        ]
        of.step()
        for scheduler in schedulers if epoch < steps else ():
            scheduler.step()
    return rows


def cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def closed_form(case: str, base: float, epoch: int) -> float | None:
    """The rate by the definition of each schedule; None where it is not a function of the first rate."""
    forms: dict[str, Any] = {
        "lambda": lambda: base / (1 + epoch),
        "multiplicative": lambda: base * math.prod(1 - 1 / (k + 2) for k in range(1, epoch + 1)),
        "step": lambda: base * 0.3 ** (epoch // 3),
        "multistep": lambda: base * 0.5 ** ((epoch >= 2) + 2 * (epoch >= 7) + (epoch >= 11)),
        "constant": lambda: base * (0.25 if epoch < 4 else 1),
        "linear": lambda: base * (0.2 + 0.7 * min(epoch, 6) / 6),
        "exponential": lambda: base * 0.9**epoch,
        "polynomial": lambda: base * max(0, 1 - epoch / 8) ** 2,
        "cosine": lambda: cosine(base, 1e-3, epoch / 5),
        "restarts": lambda: next(
            cosine(base, 1e-3, (epoch - start) / length)
            for start, length in ((0, 3), (3, 6), (9, 12))
            if epoch < start + length
        ),
        "restarts-alike": lambda: cosine(base, 0, epoch % 4 / 4),
    }
    return forms[case]() if case in forms else None


@every_case
def test_rates_are_those_of_the_definition(case: str) -> None:
    of = optimizer()
    rows = follow(of, make_scheduler(case, of))
    for epoch, row in enumerate(rows):
        for rate, base in zip(row[:2], RATES, strict=True):
            wanted = closed_form(case, base, epoch)
            assert wanted is None or rate == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_one_cycle_goes_up_and_down() -> None:
    """Over its corners, and momentum the other way."""
    of = optimizer(Adam)
    rows = follow(of, make_scheduler("one-cycle", of))
    assert rows[0] == pytest.approx([0.016, 0.004, 0.95, 0.95])
    assert rows[5] == pytest.approx([0.4, 0.1, 0.85, 0.85])
    assert rows[19] == pytest.approx([0.016e-4, 0.004e-4, 0.95, 0.95])
    assert rows[2][0] == pytest.approx(cosine(0.016, 0.4, 2 / 5))
    of = optimizer()
    rows = follow(of, make_scheduler("one-cycle-lines", of))
    assert [row[0] for row in rows[:11]] == pytest.approx(
        [0.016 + (0.4 - 0.016) * (1 - abs(k - 5) / 5) for k in range(11)]
    )
    assert rows[19][0] == pytest.approx(0.016e-4)


def test_cycles_rise_and_fall_along_lines() -> None:
    of = optimizer()
    rows = follow(of, make_scheduler("triangular", of))
    height = [min(k % 8 / 3, (8 - k % 8) / 5) for k in range(20)]
    assert [row[1] for row in rows] == pytest.approx([0.1 + 0.4 * each for each in height])
    assert [row[2] for row in rows] == pytest.approx([0.9 - 0.1 * each for each in height])
    for case, shrunk in (("triangular2", lambda k: 0.5 ** (k // 6)), ("exp-range", lambda k: 0.9**k)):
        of = optimizer()
        rows = follow(of, make_scheduler(case, of))
        wanted = [0.1 + 0.4 * (1 - abs(k % 6 - 3) / 3) * shrunk(k) for k in range(20)]
        assert [row[0] for row in rows] == pytest.approx(wanted)


@every_case
def test_a_state_goes_on_where_it_was(case: str) -> None:
    of = optimizer()
    scheduler = make_scheduler(case, of)
    follow(of, scheduler, steps=7)
    other = optimizer()
    resumed = make_scheduler(case, other)
    other.load_state_dict(of.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    assert resumed.get_last_lr() == scheduler.get_last_lr()
    assert follow(other, resumed, steps=9) == follow(of, scheduler, steps=9)


@pytest.mark.parametrize("case", ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine"])
def test_a_named_epoch_is_as_if_no_other_had_been(case: str) -> None:
    of = optimizer()
    scheduler = make_scheduler(case, of)
    for epoch in (9, 2, 14):
        scheduler.step(epoch)
        assert scheduler.last_epoch == epoch
        assert scheduler.get_last_lr() == pytest.approx([closed_form(case, base, epoch) for base in RATES])


def test_restarts_take_parts_of_epochs() -> None:
    of = optimizer()
    scheduler = make_scheduler("restarts", of)
    scheduler.step(4.5)
    assert (scheduler.last_epoch, scheduler.T_cur, scheduler.T_i) == (4, 1.5, 6)
    assert scheduler.get_last_lr() == pytest.approx([cosine(base, 1e-3, 1.5 / 6) for base in RATES])


def test_schedules_beside_each_other_multiply() -> None:
    for together in (False, True):
        of = optimizer()
        parts = [make_scheduler(case, of) for case in ("linear", "step", "exponential")]
        rows = follow(of, *([lr_scheduler.ChainedScheduler(parts)] if together else parts))
        for epoch, row in enumerate(rows):
            factors = math.prod(closed_form(case, 1.0, epoch) for case in ("linear", "step", "exponential"))
            assert row[:2] == pytest.approx([base * factors for base in RATES])


def test_schedules_one_after_the_other() -> None:
    """A warm-up, then a decay from the first rate, whose epochs are its own."""
    of = optimizer()
    parts = [make_scheduler("linear", of), make_scheduler("exponential", of), make_scheduler("cosine", of)]
    scheduler = lr_scheduler.SequentialLR(of, parts, milestones=[4, 9])
    for epoch, row in enumerate(follow(of, scheduler)):
        case, begin = next(each for each in (("cosine", 9), ("exponential", 4), ("linear", 0)) if epoch >= each[1])
        assert row[:2] == pytest.approx([closed_form(case, base, epoch - begin) for base in RATES])
    state = scheduler.state_dict()
    other = optimizer()
    resumed = lr_scheduler.SequentialLR(
        other, [make_scheduler(case, other) for case in ("linear", "exponential", "cosine")], [4, 9]
    )
    other.load_state_dict(of.state_dict())
    resumed.load_state_dict(state)
    assert follow(other, resumed, steps=5) == follow(of, scheduler, steps=5)


def test_a_milestone_of_zero_skips_the_first_schedule() -> None:
    of = SGD([mt.zeros(1, requires_grad=True)], lr=1.0)
    parts = [lr_scheduler.ConstantLR(of, factor, total_iters=100) for factor in (0.1, 0.5)]
    scheduler = lr_scheduler.SequentialLR(of, parts, milestones=[0])
    for _ in range(3):
        assert scheduler.get_last_lr() == [0.5]
        of.step()
        scheduler.step()


@pytest.mark.parametrize("kind", ["sequential", "chained"])
def test_composed_schedules_nest(kind: str) -> None:
    """A composed schedule inside another one has its own rates, as the first part and as a later one."""
    expected = [0.5, 0.5, 0.2, 0.2, 0.2] if kind == "sequential" else [0.1, 0.1, 0.2, 0.2, 0.2]

    def parts(of: Any) -> Any:
        schedules = [lr_scheduler.ConstantLR(of, 0.5, total_iters=2), lr_scheduler.ConstantLR(of, 0.2, total_iters=10)]
        if kind == "chained":
            return lr_scheduler.ChainedScheduler(schedules)
        return lr_scheduler.SequentialLR(of, schedules, milestones=[2])

    def rates(wrap: Callable[[Any], Any]) -> list[float]:
        of = SGD([mt.zeros(1, requires_grad=True)], lr=1.0)
        return [row[0] for row in follow(of, wrap(of), steps=7)]

    one = rates(parts)
    assert one[:5] == pytest.approx(expected)
    assert rates(lambda of: lr_scheduler.SequentialLR(of, [parts(of)], milestones=[])) == one
    assert rates(lambda of: lr_scheduler.ChainedScheduler([parts(of)])) == one
    whole = lr_scheduler.ConstantLR
    after = rates(lambda of: lr_scheduler.SequentialLR(of, [whole(of, 0.9, total_iters=9), parts(of)], milestones=[2]))
    assert after == pytest.approx([0.9, 0.9, *one[:-2]])


def test_rates_that_are_tensors_are_written_to() -> None:
    rate = mt.tensor(0.5)
    of = SGD([mt.zeros(2, requires_grad=True)], lr=rate)
    of.step()
    scheduler = lr_scheduler.ExponentialLR(of, 0.5)
    scheduler.step()
    assert of.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25


def test_plateaus() -> None:
    """A metric that stays for more than `patience` epochs, cooldown, and the least rate."""
    of = optimizer()
    scheduler = lr_scheduler.ReduceLROnPlateau(of, factor=0.1, patience=2, cooldown=1, min_lr=[1e-2, 1e-3])
    seen = []
    for metric in [1.0, 0.5, 0.49999, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, mt.tensor(0.4), 0.4, 0.4, 0.4]:
        scheduler.step(metric)
        seen.append(of.param_groups[0]["lr"])
    assert seen == pytest.approx([0.5] * 4 + [0.05] * 4 + [0.01] * 5)
    assert of.param_groups[1]["lr"] == pytest.approx(1e-3)
    assert float(scheduler.best) == pytest.approx(0.4)
    scheduler = lr_scheduler.ReduceLROnPlateau(of, "max", threshold_mode="abs", threshold=0.1)
    assert scheduler.is_better(1.2, 1.0)
    assert not scheduler.is_better(1.05, 1.0)
    other = lr_scheduler.ReduceLROnPlateau(of)
    other.load_state_dict(scheduler.state_dict())
    assert (other.mode, other.best) == ("max", -math.inf)


def test_a_schedule_before_its_optimizer_warns() -> None:
    of = SGD([mt.zeros(2, requires_grad=True)], lr=1.0)
    scheduler = lr_scheduler.StepLR(of, 1)
    with pytest.warns(UserWarning, match="before optimizer.step"):
        scheduler.step()


def test_a_schedule_of_ones_own() -> None:
    class Halving(lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    of = optimizer()
    assert [row[0] for row in follow(of, Halving(of), steps=3)] == [0.5, 0.25, 0.125, 0.0625]


def test_going_on_needs_the_first_rates() -> None:
    of = optimizer()
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.ExponentialLR(of, 0.5, last_epoch=3)
    for group in of.param_groups:
        group["initial_lr"] = 0.8
    scheduler = lr_scheduler.ExponentialLR(of, 0.5, last_epoch=3)
    assert (scheduler.last_epoch, scheduler.get_last_lr()) == (4, [0.5, 0.02])  # that of the optimizer then


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda of: lr_scheduler.StepLR(of, 0), "step_size: 0; expected an integer of at least 1"),
        (lambda of: lr_scheduler.ConstantLR(of, 1.5), "factor: 1.5; expected a number between 0 and 1"),
        (lambda of: lr_scheduler.LinearLR(of, 0.0), "start_factor: 0.0; expected more than 0"),
        (lambda of: lr_scheduler.CosineAnnealingLR(of, 0), "T_max: 0; expected a number above 0"),
        (lambda of: lr_scheduler.CosineAnnealingWarmRestarts(of, 1.5), "T_0: 1.5; expected an integer"),
        (lambda of: lr_scheduler.OneCycleLR(of, 0.1), "expected total_steps, or epochs and steps_per_epoch"),
        (lambda of: lr_scheduler.OneCycleLR(of, [0.1], 9), "expected 2 values for max_lr"),
        (lambda of: lr_scheduler.OneCycleLR(of, 0.1, 9, anneal_strategy="x"), "anneal_strategy: 'x'; expected 'cos'"),
        (lambda of: lr_scheduler.CyclicLR(of, 0.1, 0.2, mode="x"), "mode: 'x'; expected one of triangular"),
        (lambda of: lr_scheduler.LambdaLR(of, [abs]), "expected 2 values for lr_lambda"),
        (
            lambda of: lr_scheduler.SequentialLR(of, [make_scheduler("step", of)], [3]),
            "expected one milestone between each",
        ),
        (lambda of: lr_scheduler.ChainedScheduler([]), "expected at least one scheduler"),
        (
            lambda of: lr_scheduler.ChainedScheduler([make_scheduler("step", of)], optimizer()),
            "acts on another optimizer",
        ),
        (lambda of: lr_scheduler.ReduceLROnPlateau(of, factor=1.0), "factor: 1.0; expected less than 1"),
        (lambda of: make_scheduler("step", of).step("x"), "an epoch"),
        (lambda of: make_scheduler("one-cycle", of).step(21), "step 21 is beyond the 20 steps"),
    ],
)
def test_wrong_options_are_named(make: Any, sentence: str) -> None:
    of = optimizer()
    with pytest.raises((ValueError, TypeError), match=sentence):
        make(of)


@pytest.mark.parametrize("name", [name for name in sorted(vars(lr_scheduler)) if name.endswith("LR")])
def test_what_is_no_optimizer_is_refused(name: str) -> None:
    options = dict(CASES.values()).get(name, {})
    extra = {"SequentialLR": {"schedulers": [], "milestones": []}}.get(name, {})
    with pytest.raises((TypeError, ValueError)):
        getattr(lr_scheduler, name)(mt.zeros(2), **options, **extra)


@pytest.mark.parametrize("case", [name for name in CASES if not name.startswith(("triangular", "exp-range", "one"))])
def test_going_on_begins_with_the_rates_that_the_optimizer_has(case: str) -> None:
    whole, first = optimizer(), optimizer()
    rows = follow(whole, make_scheduler(case, whole), steps=9)
    follow(first, make_scheduler(case, first), steps=4)
    second = optimizer()
    second.load_state_dict(first.state_dict())
    gone_on = follow(second, make_scheduler(case, second, last_epoch=3), steps=5)
    for row, expected in zip(gone_on, rows[4:], strict=True):
        assert row[:2] == pytest.approx(expected[:2])


def test_cycles_that_are_gone_on_with_have_the_rates_that_they_are_given() -> None:
    of = optimizer()
    for group in of.param_groups:
        group["initial_lr"] = 0.4
    make_scheduler("triangular", of, last_epoch=7)
    assert [group["lr"] for group in of.param_groups] == pytest.approx([0.1, 0.1])


def test_going_on_from_the_first_epoch_does_not_warn() -> None:
    of = SGD([mt.zeros(1, requires_grad=True)], lr=0.1)
    of.param_groups[0]["initial_lr"] = 0.1
    lr_scheduler.StepLR(of, 2, last_epoch=0)


def test_a_schedule_that_has_come_to_zero_leaves_the_rate_to_others() -> None:
    of = optimizer()
    scheduler = lr_scheduler.PolynomialLR(of, 3)
    follow(of, scheduler, steps=3)
    assert [group["lr"] for group in of.param_groups] == [0.0, 0.0]
    of.param_groups[0]["lr"] = 0.25
    scheduler.step()
    assert [group["lr"] for group in of.param_groups] == [0.25, 0.0]
