"""Optimisers against their formulas written out step by step, and around them: groups, states, errors, training."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import manual_seed, nn, optim, randn
from minitorch_backends.kernels.arrays import updates
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.tensor import Parameter, Tensor

STEPS = 5


def parameter(values: Any, dtype: Any = np.float64) -> Parameter:
    return Parameter(mt.tensor(np.asarray(values, dtype)))


# The formulas, for one number


def sgd(
    p: complex, gradients: list[complex], lr: float, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
    nesterov: bool = False, maximize: bool = False,
) -> complex:  # fmt: skip
    buffer: complex | None = None
    for g in gradients:
        d = (-g if maximize else g) + weight_decay * p
        if momentum:
            buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        p = p - lr * d
    return p


def adam(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, amsgrad: bool = False, maximize: bool = False, decoupled: bool = False,
) -> float:  # fmt: skip
    m = v = largest = 0.0
    for step, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g += weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = max(largest, v)
        mean, square = m / (1 - betas[0] ** step), (largest if amsgrad else v) / (1 - betas[1] ** step)
        p -= lr * mean / (math.sqrt(square) + eps)
    return p


def adamw(*args: Any, weight_decay: float = 1e-2, **options: Any) -> float:
    return adam(*args, weight_decay=weight_decay, decoupled=True, **options)


def rmsprop(
    p: float, gradients: list[float], lr: float, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
    momentum: float = 0, centered: bool = False, maximize: bool = False,
) -> float:  # fmt: skip
    v = mean = buffer = 0.0
    for g in gradients:
        g = (-g if maximize else g) + weight_decay * p
        v, mean = alpha * v + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        buffer = momentum * buffer + g / (math.sqrt(v - mean * mean * centered) + eps)
        p -= lr * buffer
    return p


def adagrad(
    p: float, gradients: list[float], lr: float, lr_decay: float = 0, weight_decay: float = 0,
    initial_accumulator_value: float = 0, eps: float = 1e-10, maximize: bool = False,
) -> float:  # fmt: skip
    s = initial_accumulator_value
    for step, g in enumerate(gradients):
        g = (-g if maximize else g) + weight_decay * p
        s += g * g
        p -= lr / (1 + step * lr_decay) * g / (math.sqrt(s) + eps)
    return p


def adadelta(
    p: float, gradients: list[float], lr: float, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
    maximize: bool = False,
) -> float:  # fmt: skip
    v = u = 0.0
    for g in gradients:
        g = (-g if maximize else g) + weight_decay * p
        v = rho * v + (1 - rho) * g * g
        move = math.sqrt(u + eps) / math.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * move * move
        p -= lr * move
    return p


def adamax(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, maximize: bool = False,
) -> float:  # fmt: skip
    m = u = 0.0
    for step, g in enumerate(gradients, 1):
        g = (-g if maximize else g) + weight_decay * p
        m, u = betas[0] * m + (1 - betas[0]) * g, max(betas[1] * u, abs(g) + eps)
        p -= lr / (1 - betas[0] ** step) * m / u
    return p


def radam(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, decoupled_weight_decay: bool = False, maximize: bool = False,
) -> float:  # fmt: skip
    m = v = 0.0
    longest = 2 / (1 - betas[1]) - 1
    for step, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p *= 1 - lr * weight_decay
        else:
            g += weight_decay * p
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        power = betas[1] ** step
        length = longest - 2 * step * power / (1 - power)
        move = m / (1 - betas[0] ** step)
        if length > 5:
            rest = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            move *= math.sqrt(rest) * math.sqrt(1 - power) / (math.sqrt(v) + eps)
        p -= lr * move
    return p


def nadam(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, maximize: bool = False,
) -> float:  # fmt: skip
    m, v, product = 0.0, 0.0, 1.0
    for step, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p *= 1 - lr * weight_decay
        else:
            g += weight_decay * p
        mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (each * momentum_decay)) for each in (step, step + 1))
        product *= mu
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        mean = after * m / (1 - product * after) + (1 - mu) * g / (1 - product)
        p -= lr * mean / (math.sqrt(v / (1 - betas[1] ** step)) + eps)
    return p


def rprop(
    p: float, gradients: list[float], lr: float, etas: tuple[float, float] = (0.5, 1.2),
    step_sizes: tuple[float, float] = (1e-6, 50), maximize: bool = False,
) -> float:  # fmt: skip
    before, size = 0.0, lr
    for g in gradients:
        g = -g if maximize else g
        if g * before < 0:
            size, g = max(size * etas[0], step_sizes[0]), 0.0
        elif g * before > 0:
            size = min(size * etas[1], step_sizes[1])
        p -= size * ((g > 0) - (g < 0))
        before = g
    return p


def asgd(
    p: float, gradients: list[float], lr: float, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
    weight_decay: float = 0, maximize: bool = False,
) -> float:  # fmt: skip
    for step, g in enumerate(gradients):
        eta = lr / (1 + lambd * lr * step) ** alpha
        p = p * (1 - lambd * eta) - eta * ((-g if maximize else g) + weight_decay * p)
    return p


CASES: list[tuple[type[optim.Optimizer], Callable[..., Any], dict[str, Any]]] = [
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "weight_decay": 0.3}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.2, "maximize": True}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.2}),
    (optim.Adam, adam, {"lr": 0.1}),
    (optim.Adam, adam, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 0.01, "weight_decay": 0.3}),
    (optim.Adam, adam, {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5), "maximize": True}),
    (optim.AdamW, adamw, {"lr": 0.1}),
    (optim.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True}),
    (optim.RMSprop, rmsprop, {"lr": 0.1}),
    (optim.RMSprop, rmsprop, {"lr": 0.1, "alpha": 0.5, "eps": 0.1, "centered": True, "weight_decay": 0.2}),
    (optim.RMSprop, rmsprop, {"lr": 0.1, "momentum": 0.9, "centered": True, "eps": 0.01, "maximize": True}),
    (optim.Adagrad, adagrad, {"lr": 0.1}),
    (optim.Adagrad, adagrad, {"lr": 0.1, "lr_decay": 0.2, "initial_accumulator_value": 0.3, "weight_decay": 0.2}),
    (optim.Adadelta, adadelta, {"lr": 1.0}),
    (optim.Adadelta, adadelta, {"lr": 0.5, "rho": 0.5, "eps": 0.01, "weight_decay": 0.2, "maximize": True}),
    (optim.Adamax, adamax, {"lr": 0.1}),
    (optim.Adamax, adamax, {"lr": 0.1, "betas": (0.5, 0.6), "weight_decay": 0.2, "maximize": True}),
    (optim.RAdam, radam, {"lr": 0.1}),
    (optim.RAdam, radam, {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.2, "decoupled_weight_decay": True}),
    (optim.RAdam, radam, {"lr": 0.1, "betas": (0.5, 0.99), "weight_decay": 0.2, "maximize": True}),
    (optim.NAdam, nadam, {"lr": 0.1}),
    (optim.NAdam, nadam, {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.2, "decoupled_weight_decay": True}),
    (optim.Rprop, rprop, {"lr": 0.1}),
    (optim.Rprop, rprop, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.05, 0.2), "maximize": True}),
    (optim.ASGD, asgd, {"lr": 0.1}),
    (optim.ASGD, asgd, {"lr": 0.1, "lambd": 0.3, "alpha": 0.5, "t0": 2, "weight_decay": 0.2, "maximize": True}),
]
every_case = pytest.mark.parametrize(
    ("make", "formula", "options"), CASES, ids=[f"{c[0].__name__} {c[2]}" for c in CASES]
)


def gradients_for(values: np.ndarray) -> list[np.ndarray]:
    """Different at every step and element, of both signs, and large first (which amsgrad remembers)."""
    number = np.arange(values.size).reshape(values.shape)
    return [np.cos(1.0 + 3 * step + number).astype(values.dtype) / (1 + step) for step in range(STEPS)]


def train(optimizer: optim.Optimizer, target: Tensor, gradients: list[np.ndarray]) -> np.ndarray:
    for g in gradients:
        target.grad = mt.tensor(g)
        optimizer.step()
    return target.detach()._array


def reference(
    formula: Callable[..., Any], values: np.ndarray, gradients: list[np.ndarray], options: dict[str, Any]
) -> np.ndarray:
    columns = zip(*(g.reshape(-1).tolist() for g in gradients), strict=True)
    results = [
        formula(p, list(column), **options) for p, column in zip(values.reshape(-1).tolist(), columns, strict=True)
    ]
    return np.array(results, values.dtype).reshape(values.shape)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda p: optim.SGD(p, lr="a"), TypeError, "invalid lr: 'a'"),
        (lambda p: optim.Adam(p, eps=None), TypeError, "'eps' must be number, not NoneType None"),
        (lambda p: optim.Adam(p, betas=0.9), TypeError, "invalid betas: 0.9"),
        (lambda p: optim.Adam(p, betas=(0.9,)), TypeError, "expected two numbers"),
        (lambda p: optim.SGD(None), TypeError, "params is None"),
        (lambda p: optim.SGD([{"lr": 1}]), ValueError, r"must have 'params'.*\['lr'\]"),
        (lambda p: optim.SGD(p).load_state_dict({}), ValueError, "a dict with 'state' and 'param_groups'"),
        (lambda p: optim.SGD(p).load_state_dict(None), ValueError, "got NoneType"),
    ],
)
def test_what_is_no_option_is_refused_by_name(call: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        call([mt.ones(2, requires_grad=True)])


@every_case
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_follow_the_formula(make: Any, formula: Any, options: dict[str, Any], dtype: Any) -> None:
    values = np.linspace(-1, 1, 6, dtype=dtype).reshape(2, 3)
    gradients = gradients_for(values)
    expected = reference(formula, values, gradients, options)
    target = parameter(values.copy(), dtype)
    array, version = target._array, target._version
    result = train(make([target], **options), target, gradients)
    assert np.allclose(result, expected, rtol=0, atol=1e-12 if dtype is np.float64 else 2e-6)
    assert result is array or np.shares_memory(result, array)
    assert target._version == version + STEPS


@every_case
def test_layout_does_not_matter(make: Any, formula: Any, options: dict[str, Any]) -> None:
    """Transposed, 0-dim and empty ones: the same numbers."""
    values = np.linspace(-1, 1, 12).reshape(3, 4)
    gradients = gradients_for(values)
    expected = train(make([plain := parameter(values.copy())], **options), plain, gradients)
    apart = parameter(0)
    apart.data = mt.tensor(np.empty(0)).data
    apart._array = np.repeat(values.T.copy(), 2, axis=1).T[::2]
    assert not apart._array.flags.c_contiguous
    assert np.array_equal(train(make([apart], **options), apart, [np.asfortranarray(g) for g in gradients]), expected)
    single = parameter(values[0, 0])
    assert train(make([single], **options), single, [g[0, 0] for g in gradients]) == expected[0, 0]
    empty = parameter(np.empty((0, 2)))
    assert train(make([empty], **options), empty, [np.empty((0, 2))] * STEPS).shape == (0, 2)


@every_case
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_ones_are_updated_by_loops_with_the_same_bits(make: Any, formula: Any, options: dict, dtype: Any) -> None:
    values = np.linspace(-1, 1, 12, dtype=dtype)
    values[3:6] = np.nan, np.inf, 1e-38
    gradients = gradients_for(values)
    count = updates.LARGE + 7
    with np.errstate(invalid="ignore"):
        expected = train(make([plain := parameter(values.copy(), dtype)], **options), plain, gradients)
    large = parameter(np.resize(values, count), dtype)
    result = train(make([large], **options), large, [np.resize(g, count) for g in gradients])
    assert np.array_equal(result, np.resize(expected, count), equal_nan=True)


@every_case
@pytest.mark.parametrize("laid_out", [np.asfortranarray, np.ascontiguousarray])
def test_large_ones_of_another_layout_have_the_same_bits(make: Any, formula: Any, options: dict, laid_out: Any) -> None:
    values = np.random.default_rng(0).standard_normal((400, 200))
    gradients = gradients_for(values)
    expected = train(make([plain := parameter(values.copy())], **options), plain, gradients)
    other = parameter(0)
    other._array = np.asfortranarray(values)
    assert np.array_equal(train(make([other], **options), other, [laid_out(each) for each in gradients]), expected)
    assert other._array.flags.f_contiguous


SHAPES = [(3, 4), (), (0, 2), (7,), (updates.LARGE + 7,)] * 8


def some_of_every_kind() -> list[Parameter]:
    """Parameters of several shapes and dtypes, in rows and not."""
    numbers = [np.random.default_rng(seed).standard_normal(shape) for seed, shape in enumerate(SHAPES)]
    dtypes = [np.float32, np.float64, np.float16, np.complex64]
    found = [parameter(x, dtypes[seed % 7 % 4]) for seed, x in enumerate(numbers)]
    found[0]._array = np.asfortranarray(found[0]._array)
    for seed, each in enumerate(found):
        each.grad = mt.tensor(np.cos(np.arange(each._array.size) + seed).reshape(each.shape).astype(each._array.dtype))
    return found


@every_case
def test_many_together_have_the_bits_of_each_alone(make: Any, formula: Any, options: dict[str, Any]) -> None:
    together, alone = some_of_every_kind(), some_of_every_kind()
    optimizers = [make(together, **options)], [make([each], **options) for each in alone]
    for optimizer in [*optimizers[0] * 2, *optimizers[1] * 2]:
        optimizer.step()
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({}, True),
        ({"foreach": True}, True),
        ({"fused": True, "foreach": False}, True),
        ({"foreach": False}, False),
        ({"fused": False}, False),
    ],
)
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_foreach_and_fused_choose_whether_one_launch_updates_all(
    make: Any, options: dict[str, bool], together: bool, monkeypatch: Any
) -> None:
    from minitorch_backends.kernels.arrays import updates_loops

    def launch(formula: Any, table: np.ndarray, *rest: Any) -> None:
        launches.append(len(table))
        run(formula, table, *rest)

    launches, run = list[int](), updates_loops.run
    monkeypatch.setattr(updates_loops, "run", launch)
    targets, others = ([parameter(np.linspace(-1, 1, 50), np.float32) for _ in range(40)] for _ in range(2))
    for each in (*targets, *others):
        each.grad = mt.tensor(np.cos(np.arange(50)).astype(np.float32))
    make(targets, lr=0.1, **options).step()
    assert launches == ([40] if together else [])
    make(others, lr=0.1).step()
    np.testing.assert_array_equal(targets[7].detach().numpy(), others[7].detach().numpy())


def test_parameters_that_share_memory_are_updated_one_after_the_other() -> None:
    count = 300_000
    memory = np.zeros(2 * count, np.float32)
    shared = [Parameter(mt.from_numpy(memory[begin : begin + count])) for begin in (0, count // 2, count)]
    for each in shared:
        each.grad = mt.ones(count)
    for _ in range(20):
        optim.SGD(shared, lr=1.0).step()
    expected = np.full(2 * count, -20.0)
    expected[count // 2 : count + count // 2] = -40
    np.testing.assert_array_equal(memory, expected)


def test_a_view_and_its_base_are_updated_in_the_order_of_the_list() -> None:
    memory = np.ones((4, 4), np.float32)
    base, turned = Parameter(mt.from_numpy(memory)), Parameter(mt.from_numpy(memory).T)
    others = [parameter(np.ones(3)) for _ in range(40)]
    for each, gradient in ((base, 10.0), (turned, 1.0), *((each, 0.0) for each in others)):
        each.grad = mt.full(each.shape, gradient, dtype=each.dtype)
    optim.SGD([base, turned, *others], lr=1.0, weight_decay=0.5).step()
    np.testing.assert_array_equal(memory, (1 - (10 + 0.5)) - (1 + 0.5 * (1 - (10 + 0.5))))


@every_case
def test_options_may_be_numbers_of_numpy_and_tensors(make: Any, formula: Any, options: dict[str, Any]) -> None:
    """Loops and NumPy give the same float32 results."""
    given = {name: np.float64(value) if type(value) is float else value for name, value in options.items()}
    results = []
    for lr, count in ((0.1, 1), (np.float64(0.1), 1), (np.float64(0.1), 40), (mt.tensor([0.1]).double(), 40)):
        targets = [parameter(np.linspace(-1, 1, 2000), np.float32) for _ in range(count)]
        for each in targets:
            each.grad = mt.tensor(np.cos(np.arange(2000)).astype(np.float32))
        optimizer = make(targets, **{**(options if count == 1 else given), "lr": lr})
        optimizer.step()
        results.append(targets[-1].detach().numpy())
    for each in results[1:3]:
        np.testing.assert_array_equal(each, results[0])
    np.testing.assert_allclose(results[3], results[0], rtol=1e-6)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_step_that_is_refused_changes_no_parameter(make: Any, groups: int) -> None:
    memory = np.ones(5, np.float32)
    memory.flags.writeable = False
    parameters = [Parameter(mt.ones(5)), Parameter(mt.from_numpy(memory))]
    for each in parameters:
        each.grad = mt.ones(5)
    optimizer = make(parameters if groups == 1 else [{"params": each} for each in parameters], lr=0.5)
    with pytest.raises(ValueError, match=r"shape \[5\].* lies in read-only memory; clone"):
        optimizer.step()
    assert optimizer.state == {}
    assert mt.equal(parameters[0], mt.ones(5))
    assert parameters[0]._version == 0


@pytest.mark.parametrize("count", [10, updates.LARGE + 7])
def test_parameters_of_integers_are_refused(count: int) -> None:
    target = mt.ones(count, dtype=mt.int32)
    target.grad = mt.ones(count, dtype=mt.int32)
    with pytest.raises(RuntimeError, match="floating and complex parameters, and one is of int32"):
        optim.SGD([target], lr=0.5).step()
    assert target.sum().item() == count


def test_a_step_that_is_interrupted_counts_as_a_write(monkeypatch: Any) -> None:
    target = Parameter(mt.ones(5))
    target.grad = mt.ones(5)
    monkeypatch.setattr(updates, "step", lambda moves, together: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        optim.SGD([target], lr=0.5).step()
    assert target._version == 1


@every_case
@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_half_types_round_once_a_step(make: Any, formula: Any, options: dict[str, Any], dtype: Any) -> None:
    half = parameter(np.linspace(-1, 1, 6), dtype.dtype)
    wide = parameter(half.detach()._array.astype(np.float32), np.float32)
    g = np.cos(np.arange(6)).astype(dtype.dtype)
    train(make([half], **options), half, [g])
    expected = train(make([wide], **options), wide, [g.astype(np.float32)])
    assert half.dtype is dtype
    assert np.array_equal(half.detach()._array, expected.astype(dtype.dtype))


def test_complex_numbers_count_as_two_real_ones() -> None:
    values, gradients = np.array([1 + 2j, -3j]), [np.array([1j, 2 - 1j]), np.array([3.0 + 0j, -1j])]
    for make, _, options in CASES:
        target, parts = parameter(values.copy(), np.complex128), parameter(values.view(np.float64).copy())
        train(make([target], **options), target, gradients)
        train(make([parts], **options), parts, [g.view(np.float64) for g in gradients])
        assert np.array_equal(target.detach()._array.view(np.float64), parts.detach()._array)
        spread = parameter(0, np.complex128)
        spread._array = np.repeat(values, 2)[::2]
        train(make([spread], **options), spread, gradients)
        assert np.array_equal(spread.detach()._array, target.detach()._array)


def test_nan_and_inf_pass_without_warnings() -> None:
    for make, _, options in CASES:
        target = parameter([1.0, 1.0, 1.0], np.float32)
        train(make([target], **options), target, [np.float32([math.inf, math.nan, 3e38])] * 3)
        places = slice(1, 2) if make is optim.Rprop else slice(2)  # which takes the sign of Inf
        assert not np.isfinite(target.detach()._array[places]).any()


# Groups and gradients


def test_half_types_overflow_without_warnings() -> None:
    parameter = Parameter(mt.full((4,), 60000.0, dtype=mt.float16))
    parameter.grad = -parameter.detach()
    optim.SGD([parameter], lr=1.0).step()
    assert parameter.isinf().all()


LARGE = 70_000
"""Numbers that loops would take."""


def test_a_parameter_that_changed_its_dtype_steps_on() -> None:
    """Buffers of the first step are of another type and size in bytes than the parameter."""
    parameter = Parameter(mt.ones(LARGE))
    optimizer = optim.Adam([parameter], lr=0.5)
    for dtype in (mt.float32, mt.float64):
        parameter.data = parameter.data.to(dtype)
        parameter.grad = mt.ones(LARGE, dtype=dtype)
        optimizer.step()
    assert parameter.dtype is mt.float64
    np.testing.assert_allclose(parameter.detach().numpy(), 0, atol=1e-6)


def test_what_does_not_fit_its_parameter_is_refused() -> None:
    parameter = Parameter(mt.ones(LARGE))
    optimizer = optim.SGD([parameter], lr=0.5, momentum=0.9)
    parameter.grad = mt.ones(LARGE)
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["momentum_buffer"] = mt.ones(5)
    before = parameter.detach().clone()
    with pytest.raises(ValueError, match=r"momentum_buffer has the shape \[5\], and its parameter \[70000\]"):
        optimizer.load_state_dict(state)
    optimizer.state[parameter]["momentum_buffer"] = mt.ones(5)
    with pytest.raises(ValueError, match=r"shape \[70000\] has .* of shape \[5\]; they must agree"):
        optimizer.step()
    assert mt.equal(parameter, before)


@pytest.mark.parametrize("count", [10, LARGE])
def test_read_only_memory_is_not_written(count: int) -> None:
    memory = np.ones(count, np.float32)
    memory.flags.writeable = False
    parameter = mt.from_numpy(memory).requires_grad_()
    parameter.grad = mt.ones(count)
    optimizers = optim.SGD([parameter], lr=0.5, momentum=0.5, dampening=0.5), optim.Adam([parameter], lr=0.5)
    for optimizer in optimizers:
        with pytest.raises(ValueError, match="read-only"):
            optimizer.step()
        assert optimizer.state == {}
    assert (memory == 1).all()


def test_groups_have_options_of_their_own() -> None:
    one, other, frozen = parameter(1.0), parameter(1.0), parameter(1.0)
    optimizer = optim.SGD([{"params": [one, frozen]}, {"params": other, "lr": 0.5}], lr=0.1)
    one.grad = other.grad = mt.tensor(np.asarray(1.0))
    optimizer.step()
    assert (one.item(), other.item(), frozen.item()) == (0.9, 0.5, 1.0)
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    assert one.item() == pytest.approx(-0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.5]
    assert optimizer.defaults["lr"] == 0.1
    late = parameter(2.0)
    optimizer.add_param_group({"params": [late], "momentum": 0.5})
    assert optimizer.param_groups[2]["momentum"] == 0.5


def test_zero_grad_and_closure() -> None:
    target = parameter([3.0])
    optimizer = optim.SGD([target], lr=0.25)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (target * target).sum()
        loss.backward()
        return loss

    with mt.no_grad():
        losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses == [9.0, 2.25, 0.5625]
    held = target.grad
    held.fill_(math.nan)
    optimizer.zero_grad(set_to_none=False)
    assert target.grad is held
    assert held.tolist() == [0.0]
    (target**3).sum().backward(create_graph=True)
    held = target.grad
    optimizer.zero_grad(set_to_none=False)  # which leaves what has a graph to that
    assert target.grad.tolist() == [0.0]
    assert held.item() != 0
    optimizer.zero_grad()
    assert target.grad is None


def test_a_step_spoils_what_the_graph_has_saved() -> None:
    target = parameter([2.0])
    loss = (target * target).sum()
    target.grad = mt.tensor(np.ones(1))
    optim.SGD([target], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# States


def resumed_by_state_dict(
    make: Any, options: dict[str, Any], target: Parameter, optimizer: optim.Optimizer
) -> tuple[Any, Any]:
    fresh = parameter(target.detach()._array.copy())
    other = make([fresh], **options | {"lr": 77.0})
    other.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    return fresh, other


def resumed_by_copy(
    make: Any, options: dict[str, Any], target: Parameter, optimizer: optim.Optimizer
) -> tuple[Any, Any]:
    return copy.deepcopy((target, optimizer))


@every_case
@pytest.mark.parametrize("resumed", [resumed_by_state_dict, resumed_by_copy])
def test_training_goes_on_from_a_saved_state(make: Any, formula: Any, options: dict[str, Any], resumed: Any) -> None:
    values = np.linspace(-1, 1, 4)
    gradients = gradients_for(values)
    target = parameter(values)
    optimizer = make([target], **options)
    train(optimizer, target, gradients[:3])
    other_target, other = resumed(make, options, target, optimizer)
    assert not np.shares_memory(other_target._array, target._array)
    one, two = train(optimizer, target, gradients[3:]), train(other, other_target, gradients[3:])
    assert np.array_equal(one, two)
    for state, mine in zip(other.state.values(), optimizer.state.values(), strict=True):
        tensors = [name for name, value in state.items() if isinstance(value, Tensor)]
        assert not any(np.shares_memory(state[name]._array, mine[name]._array) for name in tensors)


def test_state_dict_has_the_form_of_torch() -> None:
    one, other = parameter([1.0, 2.0]), parameter(1.0)
    optimizer = optim.Adam([{"params": [one]}, {"params": [other], "lr": 0.5}])
    other.grad = mt.tensor(np.asarray(1.0))
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert list(state["state"]) == [1]
    assert set(state["state"][1]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["state"][1]["step"] == 1
    with pytest.raises(ValueError, match=r"sizes \[1, 1\], and this optimizer \[2\]"):
        optim.Adam([one, other]).load_state_dict(state)


def test_repr_lists_the_groups() -> None:
    text = repr(optim.SGD([parameter(1.0)], lr=0.5))
    assert text.startswith(
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
    )
    assert text.endswith("\n)")


# Errors

BAD = [
    (TypeError, "one Tensor", lambda: optim.SGD(parameter(1.0))),
    (ValueError, "empty parameter list", lambda: optim.Adam([])),
    (TypeError, "only optimize Tensors, got int", lambda: optim.SGD([3])),
    (ValueError, "non-leaf", lambda: optim.SGD([parameter(1.0) * 2])),
    (ValueError, "more than one parameter group", lambda: optim.SGD([(p := parameter(1.0)), p])),
    (ValueError, "invalid lr: -1", lambda: optim.SGD([parameter(1.0)], lr=-1)),
    (ValueError, "invalid lr: nan", lambda: optim.SGD([parameter(1.0)], lr=math.nan)),
    (ValueError, "invalid momentum: -0.5", lambda: optim.SGD([parameter(1.0)], momentum=-0.5)),
    (ValueError, "invalid weight_decay: -2", lambda: optim.AdamW([parameter(1.0)], weight_decay=-2)),
    (ValueError, "Nesterov", lambda: optim.SGD([parameter(1.0)], nesterov=True)),
    (ValueError, "at index 1: 1.0", lambda: optim.Adam([parameter(1.0)], betas=(0.9, 1.0))),
    (ValueError, "invalid eps: -1", lambda: optim.Adam([{"params": [parameter(1.0)], "eps": -1}])),
    (RuntimeError, "cannot be `True` together", lambda: optim.Adam([parameter(1.0)], fused=True, foreach=True)),
    (TypeError, "invalid fused: 'yes'", lambda: optim.SGD([parameter(1.0)], fused="yes")),
    (TypeError, "must be a dict", lambda: optim.SGD([parameter(1.0)]).add_param_group([parameter(1.0)])),
]


@pytest.mark.parametrize(("error", "says", "call"), BAD, ids=[each[1] for each in BAD])
def test_bad_arguments(error: Any, says: str, call: Any) -> None:
    with pytest.raises(error) as raised:
        call()
    assert says in str(raised.value)


# Training


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.3),
        lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        lambda p: optim.Adam(p, lr=0.02),
        lambda p: optim.AdamW(p, lr=0.02),
    ],
    ids=["SGD", "SGD with momentum", "Adam", "AdamW"],
)
def test_a_small_network_learns_two_rings(make: Any) -> None:
    """Two classes that no line separates: a disc, and the ring around it."""
    manual_seed(0)
    x = randn(200, 2)
    radius = np.linalg.norm(x._array, axis=1)
    target = mt.tensor((radius > np.median(radius)).astype(np.int64))
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 2))
    optimizer = make(model.parameters())
    first = F.cross_entropy(model(x), target).item()
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    with mt.no_grad():
        answers = model(x).argmax(1)
    assert loss.item() < first / 3
    assert (answers == target).float().mean().item() > 0.9


def test_a_step_inside_allow_mutation_keeps_what_backward_needs() -> None:
    weight = mt.tensor([1.0, 2.0], requires_grad=True)
    with mt.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (weight * weight).sum()
        weight.grad = mt.ones(2)
        optim.SGD([weight], lr=1.0).step()
        assert weight.tolist() == [0.0, 1.0]
        (gradient,) = mt.autograd.grad(loss, weight)
    assert gradient.tolist() == [2.0, 4.0]


def test_rates_in_tensors_stay_the_users() -> None:
    rate, x = mt.tensor(0.1, dtype=mt.float64), parameter([1.0, 2.0, 3.0])
    optimizer = optim.LBFGS([x], lr=rate)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert rate.item() == 0.1
    other = parameter([1.0, 2.0, 3.0])
    optimizer = optim.LBFGS([other], lr=0.1)
    x = other
    optimizer.step(closure)
    assert x.tolist() == pytest.approx([0.1328, 0.2657, 0.3985], abs=1e-4)
    first, second = optim.SGD([x], lr=mt.tensor(0.1)), optim.SGD([x], lr=0.5)
    second.load_state_dict(first.state_dict())
    first.param_groups[0]["lr"].fill_(9.0)
    assert float(second.param_groups[0]["lr"]) == pytest.approx(0.1)


def test_an_optimizer_of_the_users_own() -> None:
    class Averaging(optim.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1) -> None:
            super().__init__(params, {"lr": lr})

        @mt.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for each in group["params"]:
                    state = self.state[each]
                    state["n"] = state.get("n", 0) + 1
                    state["mean"] = state.get("mean", mt.zeros(())) + each.grad.mean()
                    state["step"] = mt.tensor(float(state["n"]))
                    each.add_(each.grad, alpha=-group["lr"])

    x = parameter([1.0, 1.0])
    optimizer = Averaging([x])
    (x * x).sum().backward()
    optimizer.step()
    assert x.tolist() == pytest.approx([0.8, 0.8])
    loaded = Averaging([x])
    loaded.load_state_dict(optimizer.state_dict())
    optimizer.state[x]["mean"].zero_()
    assert (loaded.state[x]["n"], loaded.state[x]["mean"].item()) == (1, 2.0)
    assert isinstance(loaded.state[x]["step"], Tensor)


def test_states_that_were_looked_at_before_a_step() -> None:
    for kind in (optim.LBFGS, optim.SGD, optim.Adam):
        x = parameter([1.0])
        optimizer = kind([x], lr=0.1)
        assert optimizer.state[x] == {}

        def closure(x: Any = x, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (x * x).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        assert x.item() < 1


def test_buffers_of_another_shape_are_refused_whatever_the_group_says() -> None:
    """amsgrad's too, by an optimiser that has none until the loaded options say so."""
    x, other = parameter([1.0, 2.0]), parameter([1.0, 2.0])
    with_buffer, without = optim.Adam([x], amsgrad=True), optim.Adam([other])
    (x * x).sum().backward()
    with_buffer.step()
    state = with_buffer.state_dict()
    without.load_state_dict(state)
    assert without.state[other]["max_exp_avg_sq"].tolist() == with_buffer.state[x]["max_exp_avg_sq"].tolist()
    state["state"][0]["max_exp_avg_sq"] = mt.ones(3)
    with pytest.raises(ValueError, match=r"the loaded max_exp_avg_sq has the shape \[3\]"):
        optim.Adam([other]).load_state_dict(state)


def test_options_without_effect_must_be_false() -> None:
    for name in ("capturable", "differentiable"):
        with pytest.raises(RuntimeError, match=rf"Adam: {name} must be False, got True"):
            optim.Adam([parameter(1.0)], **{name: True})


def test_states_that_torch_saved_are_loaded() -> None:
    """The state of torch 2.13 after three steps, as plain data, and the result of the fourth step."""
    weight = parameter([1.0, 2.0])
    adam = optim.AdamW([weight], lr=0.5)
    state = {"step": 3.0, "exp_avg": [0.271, -0.271], "exp_avg_sq": [0.002997001, 0.002997001]}
    group = adam.state_dict()["param_groups"][0] | {"lr": 0.1, "decoupled_weight_decay": True}
    arrays = {name: np.array(value, np.float32) for name, value in state.items()}
    adam.load_state_dict({"state": {0: arrays}, "param_groups": [group]})
    weight.grad = mt.tensor([1.0, -1.0], dtype=weight.dtype)
    adam.step()
    assert adam.state[weight]["step"] == 4
    np.testing.assert_allclose(weight.tolist(), [1.0 * 0.999 - 0.1, 2.0 * 0.999 + 0.1], rtol=1e-5)
