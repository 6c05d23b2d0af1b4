"""Gradients at points without a derivative."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import minitorch_backends as mt

from ..support.autograd import leaf, values


def gradient(function: Callable[[mt.Tensor], mt.Tensor], at: Any) -> Any:
    x = leaf(at)
    function(x).sum().backward()
    return values(x.grad)


def test_zero_where_there_is_a_kink() -> None:
    for function in (mt.abs, mt.relu, lambda x: x.norm(), mt.sign, mt.round):
        assert gradient(function, [0.0]) == [0.0]


def test_the_root_of_zero() -> None:
    assert gradient(mt.sqrt, [0.0]) == [math.inf]


def test_ties_share() -> None:
    assert gradient(lambda x: x.max(), [2.0, 1.0, 2.0]) == [0.5, 0.0, 0.5]
    assert gradient(lambda x: x.amax(0), [2.0, 1.0, 2.0]) == [0.5, 0.0, 0.5]
    assert gradient(lambda x: x.min(), [1.0, 1.0, 2.0]) == [0.5, 0.5, 0.0]
    assert gradient(lambda x: mt.maximum(x, mt.ones(1, dtype=mt.float64)), [1.0]) == [0.5]
    assert gradient(lambda x: mt.minimum(x, mt.ones(1, dtype=mt.float64)), [1.0]) == [0.5]


def test_the_chosen_element_takes_all() -> None:
    assert gradient(lambda x: x.max(0).values, [2.0, 1.0, 2.0]) == [1.0, 0.0, 0.0]
    assert gradient(lambda x: x.min(0).values, [2.0, 1.0, 1.0]) == [0.0, 1.0, 0.0]
    x = leaf([1.0, 1.0, 1.0])
    chosen = x.median(0)
    chosen.values.backward()
    assert values(x.grad) == np.eye(3)[chosen.indices.item()].tolist()


def test_the_bounds_of_clamp_are_inside() -> None:
    assert gradient(lambda x: x.clamp(0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_products_and_powers_at_zero() -> None:
    assert gradient(lambda x: x.prod(), [0.0, 2.0]) == [2.0, 0.0]
    assert gradient(lambda x: x**2, [0.0]) == [0.0]
    assert gradient(lambda x: x**0, [0.0]) == [0.0]
