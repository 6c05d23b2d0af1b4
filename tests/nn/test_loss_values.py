"""Losses and distances: values where they are undefined, broadcasts, labels."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn import functional as F

from ..support.arrays import tensor, zeros


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_warn_of_broadcasts(loss: Any) -> None:
    with pytest.warns(UserWarning, match=r"\[3\] is different from the input's size \[3, 1\]") as caught:
        loss(zeros(3, 1), zeros(3))
    assert caught[0].filename == __file__


def test_cosine_similarity_of_short_vectors() -> None:
    x, y = tensor([[3.0, 4.0], [0.0, 0.0]]), tensor([[0.0, 1.0], [1.0, 1.0]])
    assert F.cosine_similarity(x, y).tolist() == [0.8, 0.0]
    assert F.cosine_similarity(x, y, eps=8.0).tolist() == [0.0625, 0.0]


def test_mean_over_ignored_targets_alone_is_nan() -> None:
    for target in (tensor([-100, -100]), tensor([], np.int64)):
        assert math.isnan(F.cross_entropy(zeros(len(target), 3), target).item())


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss, F.mse_loss])
def test_a_loss_of_nan_has_a_gradient_of_nan(loss: Any) -> None:
    x = mt.tensor([math.nan, 0.5, 3.0], requires_grad=True)
    loss(x, mt.zeros(3)).backward()
    assert x.grad.isnan().tolist() == [True, False, False]


def test_gradients_of_extrema_reach_nan() -> None:
    x, y = mt.tensor([math.nan, 1.0, math.nan, 2.0], requires_grad=True), mt.tensor([1.0, math.nan, math.nan, 2.0])
    y.requires_grad_()
    for extremum in (mt.maximum, mt.minimum):
        x.grad = y.grad = None
        extremum(x, y).sum().backward()
        assert x.grad.tolist() == [1.0, 1.0, 1.0, 0.5]
        assert y.grad.tolist() == [1.0, 1.0, 1.0, 0.5]
    zero = mt.zeros(1, requires_grad=True)
    mt.xlogy(zero, mt.tensor([math.nan])).sum().backward()
    assert zero.grad.isnan()


def test_losses_of_other_labels_than_one_and_minus_one() -> None:
    assert F.hinge_embedding_loss(mt.tensor([0.5, 0.5, 0.5]), mt.tensor([1, 0, -1]), reduction="none").tolist() == [
        0.5, 1.0, 0.5,
    ]  # fmt: skip
    assert F.cosine_embedding_loss(mt.eye(2), mt.eye(2), mt.tensor([1, 0]), reduction="none").tolist() == [0.0, 0.0]


def test_losses_of_short_vectors_and_wrong_variances() -> None:
    found = F.cosine_embedding_loss(mt.tensor([[1e-6, 0.0]]), mt.tensor([[1.0, 0.0]]), mt.tensor([1.0]))
    assert found.item() == pytest.approx(1 - 0.5**0.5, rel=1e-4)
    for variance in (mt.ones(4, 1), mt.ones(5, 4)):
        with pytest.raises(ValueError, match="var is of incorrect size"):
            F.gaussian_nll_loss(mt.zeros(4), mt.zeros(4), variance)
    two = F.gaussian_nll_loss(mt.zeros(4, 2), mt.ones(4, 2), mt.arange(1.0, 5.0))
    assert two.item() == pytest.approx(
        F.gaussian_nll_loss(mt.zeros(4, 2), mt.ones(4, 2), mt.arange(1.0, 5.0)[:, None]).item()
    )


def test_weighted_distances() -> None:
    x, y, w = mt.zeros(2), mt.tensor([1.0, 3.0]), mt.tensor([3.0, 1.0])
    assert F.mse_loss(x, y, weight=w).item() == 12 / 4
    assert F.l1_loss(x, y, weight=w).item() == 6 / 4
    assert F.huber_loss(x, y, weight=w).item() == (1.5 + 2.5) / 2
    assert F.mse_loss(x, y, reduction="none", weight=w).tolist() == [3.0, 9.0]
    with pytest.raises(ValueError, match=r"weight must have shape \[2\], got \[1\]"):
        F.l1_loss(x, y, weight=w[:1])
    norm = nn.GroupNorm(1, 2, bias=False)
    assert norm.bias is None
    assert norm(mt.ones(1, 2)).tolist() == [[0.0, 0.0]]
