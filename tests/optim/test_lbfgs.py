"""L-BFGS: where it arrives, how it goes on from a state, what it refuses; and the line search, of one number."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.optim import LBFGS, lr_scheduler
from minitorch_backends.optim.lbfgs import Point, strong_wolfe

SEARCHES = (None, "strong_wolfe")
every_search = pytest.mark.parametrize("search", SEARCHES)


def rosenbrock(x: Any) -> Any:
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def closure_of(optimizer: Any, loss: Callable[[], Any], calls: list[float] | None = None) -> Callable[[], Any]:
    def closure() -> Any:
        optimizer.zero_grad()
        found = loss()
        found.backward()
        if calls is not None:
            calls.append(float(found.detach()))
        return found

    return closure


@every_search
@pytest.mark.parametrize("dtype", [mt.float64, mt.float32])
def test_the_valley(search: str | None, dtype: Any) -> None:
    x = mt.tensor([-1.2, 1.0, -0.5, 2.0], dtype=dtype, requires_grad=True)
    optimizer = LBFGS([x], max_iter=60, line_search_fn=search)
    calls: list[float] = []
    first = optimizer.step(closure_of(optimizer, lambda: rosenbrock(x), calls))
    optimizer.step(closure_of(optimizer, lambda: rosenbrock(x)))
    assert float(first) == calls[0]
    assert np.allclose(x.detach().numpy(), 1, rtol=0, atol=3e-5 if dtype is mt.float64 else 5e-3)


@every_search
def test_a_quadratic_of_several_parameters_needs_few_iterations(search: str | None) -> None:
    """Parameters of several shapes, one without a gradient, one complex."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((7, 7))
    matrix = mt.tensor(a @ a.T / 7 + np.eye(7))
    target = mt.tensor(rng.standard_normal(7))
    x, y = (mt.tensor(rng.standard_normal(n), requires_grad=True) for n in (3, 4))
    z = mt.tensor(np.array([1 + 2j, -1j]), requires_grad=True)
    unused = mt.ones(2, dtype=mt.float64, requires_grad=True)
    optimizer = LBFGS([x, unused, y, z], max_iter=50, tolerance_change=1e-14, line_search_fn=search)

    def loss() -> Any:
        both = mt.cat([x, y]) - target
        return both @ matrix @ both / 2 + (z - 3j).abs().square().sum()

    optimizer.step(closure_of(optimizer, loss))
    assert np.allclose(mt.cat([x, y]).detach().numpy(), target.numpy(), rtol=0, atol=1e-6)
    assert np.allclose(z.detach().numpy(), 3j, rtol=0, atol=1e-6)
    assert np.array_equal(unused.detach().numpy(), [1, 1])
    assert optimizer.state[x]["n_iter"] < 30


@every_search
def test_a_state_goes_on_where_it_was(search: str | None) -> None:
    def begin(values: Any) -> Any:
        x = mt.tensor(values, dtype=mt.float64, requires_grad=True)
        return x, LBFGS([x], max_iter=4, history_size=3, line_search_fn=search)

    x, optimizer = begin([-1.2, 1.0, 0.3])
    optimizer.step(closure_of(optimizer, lambda: rosenbrock(x)))
    y, resumed = begin(x.detach().numpy())
    resumed.load_state_dict(optimizer.state_dict())
    assert len(optimizer.state[x]["old_dirs"]) == 3
    for _ in range(2):
        optimizer.step(closure_of(optimizer, lambda: rosenbrock(x)))
        resumed.step(closure_of(resumed, lambda: rosenbrock(y)))
        assert np.array_equal(x.detach().numpy(), y.detach().numpy())
    assert resumed.state[y]["func_evals"] == optimizer.state[x]["func_evals"]
    _, other = begin([1.0, 2.0])
    with pytest.raises(ValueError, match="vectors of 3 numbers, and the parameters 2"):
        other.load_state_dict(optimizer.state_dict())
    assert not other.state


def test_what_a_search_may_not_enter_is_too_high() -> None:
    """A barrier: infinite, or NaN, beyond a wall."""
    for outside in (-math.inf, math.inf, math.nan):
        x = mt.tensor([5.0], dtype=mt.float64, requires_grad=True)
        optimizer = LBFGS([x], lr=100, max_iter=50, line_search_fn="strong_wolfe")

        def loss(x: Any = x, outside: float = outside) -> Any:
            return (x - x.log()).sum() if float(x) > 0 else x.sum() * 0 + outside

        optimizer.step(closure_of(optimizer, loss))
        assert float(x) == pytest.approx(1, abs=1e-6)


def test_a_schedule_sets_its_rate() -> None:
    x = mt.tensor([-1.2, 1.0], dtype=mt.float64, requires_grad=True)
    optimizer = LBFGS([x], lr=0.5, max_iter=1)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step(closure_of(optimizer, lambda: rosenbrock(x)))
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_limits_end_a_step() -> None:
    x = mt.tensor([-1.2, 1.0], dtype=mt.float64, requires_grad=True)
    calls: list[float] = []
    optimizer = LBFGS([x], max_iter=100, max_eval=7)
    optimizer.step(closure_of(optimizer, lambda: rosenbrock(x), calls))
    assert (len(calls), optimizer.state[x]["func_evals"]) == (7, 7)
    optimizer = LBFGS([x], tolerance_grad=1e9)
    before = x.detach().numpy().copy()
    optimizer.step(closure_of(optimizer, lambda: rosenbrock(x)))
    assert np.array_equal(x.detach().numpy(), before)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda p: LBFGS([p], line_search_fn="x"), ValueError, "invalid line_search_fn: 'x'; expected 'strong_wolfe'"),
        (lambda p: LBFGS([p], history_size=0), ValueError, "invalid history_size: 0"),
        (lambda p: LBFGS([p], max_iter=float("inf")), ValueError, "invalid max_iter: inf; expected a finite number"),
        (lambda p: LBFGS([{"params": [p]}, {"params": [mt.ones(1)]}]), ValueError, "one group"),
        (lambda p: LBFGS([p]).step(), TypeError, "needs a closure"),
        (lambda p: LBFGS([mt.arange(3)]).step(lambda: 0), RuntimeError, "floating and complex parameters"),
        (lambda p: LBFGS([p]).load_state_dict(None), ValueError, "got NoneType"),
    ],
)
def test_wrong_uses_are_named(call: Any, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call(mt.ones(2, requires_grad=True))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.floats(0.3, 4), st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_the_line_search_meets_the_conditions(waves: list[float], width: float, first: float) -> None:
    """On parabolas with waves."""

    def function(t: float) -> tuple[float, float]:
        value = (t - 3) ** 2 / width + sum(a * math.sin((k + 1) * t) for k, a in enumerate(waves))
        slope = 2 * (t - 3) / width + sum(a * (k + 1) * math.cos((k + 1) * t) for k, a in enumerate(waves))
        return value, slope

    def at(t: float) -> Point:
        value, slope = function(t)
        return Point(t, value, np.array([slope]), slope)

    start = at(0.0)
    if start.slope > -1e-3:
        return
    found, tried = strong_wolfe(at, start, first, 1e-12, most=60)
    assert tried <= 60
    assert found.value <= start.value + 1e-4 * found.step * start.slope
    assert abs(found.slope) <= -0.9 * start.slope


def test_steps_that_diverge_do_so_without_a_word() -> None:
    p = mt.nn.Parameter(mt.tensor([-1.2, 1.0]))
    optimizer = mt.optim.LBFGS([p], lr=50.0)

    def closure() -> mt.Tensor:
        optimizer.zero_grad()
        with np.errstate(all="ignore"):
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
