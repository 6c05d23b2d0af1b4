"""Optimizers of matrices, averages of models over training, and hooks of optimizers."""

import copy
import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn, optim
from minitorch_backends.optim import swa_utils
from minitorch_backends.optim.optimizer import register_optimizer_step_pre_hook


def one_step(make: Any, values: np.ndarray, gradient: np.ndarray, **options: Any) -> tuple[np.ndarray, Any]:
    weight = mt.tensor(values, requires_grad=True)
    optimizer = make([weight], **options)
    weight.grad = mt.tensor(gradient)
    optimizer.step()
    return weight.detach().numpy(), optimizer


def test_adafactor_keeps_means_of_rows_and_columns() -> None:
    values, gradient = np.arange(6.0).reshape(2, 3), np.arange(1.0, 7).reshape(2, 3)
    found, optimizer = one_step(optim.Adafactor, values, gradient, lr=0.5)
    rows, columns = (gradient**2).mean(1, keepdims=True), (gradient**2).mean(0, keepdims=True)
    move = gradient / np.sqrt(rows * columns / rows.mean())
    move /= max(1, math.sqrt((move**2).mean()))
    np.testing.assert_allclose(found, values - 0.5 * math.sqrt((values**2).mean()) * move, rtol=1e-12)
    other = optim.Adafactor([mt.zeros(2, 3, dtype=mt.float64, requires_grad=True)])
    other.load_state_dict(optimizer.state_dict())
    assert [each.shape for each in (next(iter(other.state.values()))[name] for name in ("row_var", "col_var"))] == [
        (2, 1), (1, 3)
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_moves_of_muon_are_nearly_orthogonal(shape: tuple[int, int]) -> None:
    gradient = np.random.default_rng(0).normal(size=shape)
    found, _ = one_step(optim.Muon, np.zeros(shape), gradient, lr=1.0)
    sizes = np.linalg.svd(found, compute_uv=False) / math.sqrt(max(1, shape[0] / shape[1]))
    assert ((sizes > 0.6) & (sizes < 1.3)).all()
    with pytest.raises(ValueError, match="must be real matrices"):
        optim.Muon([mt.zeros(3, requires_grad=True)])


def model_of(value: float) -> nn.Module:
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    with mt.no_grad():
        for each in model.parameters():
            each.fill_(value)
    return model


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 2.0),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 2.25),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5), "use_buffers": True}, 2.25),
    ],
    ids=["mean", "exponential", "exponential, of all"],
)
def test_averaged_models(options: dict[str, Any], expected: float) -> None:
    averaged = swa_utils.AveragedModel(model_of(9.0), **options)
    for value in (1.0, 2.0, 3.0):
        averaged.update_parameters(model_of(value))
    assert {each.flatten()[0].item() for each in averaged.module.parameters()} == {expected}
    assert averaged.n_averaged.item() == 3
    assert set(copy.deepcopy(averaged).state_dict()) == set(averaged.state_dict())


def test_statistics_of_an_average_are_computed_anew() -> None:
    model, batches = nn.Sequential(nn.BatchNorm1d(1)), [mt.tensor([[0.0], [2.0]]), mt.tensor([[4.0], [8.0]])]
    swa_utils.update_bn([(each, 0) for each in batches], model.eval())
    assert model[0].running_mean.item() == (1 + 6) / 2
    assert not model.training
    assert model[0].momentum == 0.1


def test_rates_go_to_the_averages_rate() -> None:
    optimizer = optim.SGD([mt.zeros(1, requires_grad=True)], lr=1.0)
    schedule, rates = swa_utils.SWALR(optimizer, 0.2, anneal_epochs=2), []
    for _ in range(4):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(rates, [1.0, 0.6, 0.2, 0.2])


def test_hooks_run_around_steps_and_states() -> None:
    weight, seen = mt.ones(1, requires_grad=True), list[str]()
    optimizer = optim.SGD([weight], lr=0.5)
    weight.grad = mt.ones(1)
    handles = [
        optimizer.register_step_pre_hook(lambda each, args, kwargs: seen.append(f"before {weight.item()}")),
        optimizer.register_step_post_hook(lambda each, args, kwargs: seen.append(f"after {weight.item()}")),
        register_optimizer_step_pre_hook(lambda each, args, kwargs: seen.append("any")),
        optimizer.register_state_dict_post_hook(lambda each, state: state | {"extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda each, state: seen.append(f"load {state['extra']}")),
    ]
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["any", "before 1.0", "after 0.5", "load 1"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_a_step_that_calls_its_base_runs_hooks_once() -> None:
    class Counting(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    weight, seen = mt.ones(1, requires_grad=True), list[int]()
    optimizer = Counting([weight], lr=0.5)
    optimizer.register_step_post_hook(lambda *given: seen.append(1))
    optimizer.step()
    assert seen == [1]
