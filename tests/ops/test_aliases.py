"""Other names of functions: in place, in the package's own namespace, copying; methods made of other methods."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.nn import functional as F


def image() -> mt.Tensor:
    return mt.arange(24.0, dtype=mt.float64).reshape(2, 3, 4) / 7 - 1


def test_names_of_functions_are_names_of_the_package() -> None:
    assert mt.relu_ is F.relu_
    assert F.max_pool1d_with_indices(image(), 2)[1][0, 0].tolist() == [1, 3]
    assert mt.ones(2).multiply_(3).true_divide_(2).tolist() == [1.5, 1.5]


def test_copies_of_views_share_no_memory() -> None:
    x = image()
    mt.t_copy(x[0]).zero_(), mt.unbind_copy(x)[0].zero_(), mt.view_as_real_copy(mt.complex(x, x)).zero_()
    assert x.tolist() == image().tolist()


METHODS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "fill_diagonal_": (lambda mt: mt.zeros(5, 2).fill_diagonal_(1, wrap=True)[:, 0].tolist(), [1, 0, 0, 1, 0]),
    "apply_": (lambda mt: mt.ones(2).apply_(lambda value: value + 1).tolist(), [2.0, 2.0]),
    "map_": (lambda mt: mt.ones(2).map_(mt.tensor([2.0, 3.0]), lambda a, b: a - b).tolist(), [-1.0, -2.0]),
    "is_set_to": (lambda mt: (x := mt.ones(3)).is_set_to(x[:]) and not x.is_set_to(x[1:]), True),
    "is_signed": (lambda mt: [mt.ones(1, dtype=each).is_signed() for each in (mt.int8, mt.uint8)], [True, False]),
    "empty_strided": (lambda mt: mt.empty_strided((2, 3), (1, 4)).stride(), (1, 4)),
    "empty_permuted": (lambda mt: mt.empty_permuted((2, 3, 4), (0, 2, 1)).stride(), (12, 1, 3)),
    "frombuffer": (lambda mt: mt.frombuffer(b"\x01\x02\x03\x04", dtype=mt.uint8, count=2, offset=1).tolist(), [2, 3]),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_made_of_others(name: str) -> None:
    call, expected = METHODS[name]
    assert call(mt) == expected


def test_low_rank_factors() -> None:
    mt.manual_seed(0)
    exact = mt.randn(7, 2, dtype=mt.float64) @ mt.randn(2, 5, dtype=mt.float64)
    for matrix in (exact, exact.mT):
        u, s, v = mt.svd_lowrank(matrix, 3)
        np.testing.assert_allclose((u * s @ v.mT).numpy(), matrix.numpy(), atol=1e-12)
    _, s, _ = mt.pca_lowrank(exact, 2)
    centered = exact.numpy() - exact.numpy().mean(0)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(centered, compute_uv=False)[:2], atol=1e-12)


def test_random_numbers_have_their_moments() -> None:
    mt.manual_seed(1)
    count = 20_000
    rates, trials = mt.full((count,), 3.5), mt.full((count,), 10.0)
    log_normal = mt.empty(count, dtype=mt.float64).log_normal_(0.5, 0.25).log()
    cauchy = mt.empty(count, dtype=mt.float64).cauchy_(2.0, 0.5)
    for drawn, mean, variance in (
        (mt.poisson(rates), 3.5, 3.5),
        (mt.binomial(trials, mt.tensor(0.3)), 3.0, 2.1),
        (mt.empty(count).geometric_(0.25), 4.0, 12.0),
        (log_normal, 0.5, 0.0625),
    ):
        assert abs(drawn.mean().item() - mean) < 6 * math.sqrt(variance / count)
        assert abs(drawn.var().item() / variance - 1) < 0.1
    quarters = cauchy.quantile(mt.tensor([0.25, 0.5, 0.75], dtype=mt.float64))
    np.testing.assert_allclose(quarters.numpy(), [1.5, 2.0, 2.5], atol=0.05)
