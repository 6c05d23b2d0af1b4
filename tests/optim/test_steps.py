"""Steps of optimizers follow their formulas, for tensors of every size, layout and dtype, one by one or together."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import optim
from minitorch_backends.kernels.arrays import updates
from minitorch_backends.tensor.tensor import Parameter

from ..support.optimizers import CASES, STEPS, every_case, gradients_for, parameter, reference, train


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
