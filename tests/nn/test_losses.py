"""CTC, margin losses, and what draws random numbers beside dropout: values, gradients, distributions, refusals."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn import functional as F


def logits(*shape: int, dtype: Any = mt.float64) -> mt.Tensor:
    return mt.tensor(np.random.default_rng(0).standard_normal(shape), dtype=dtype)


# CTC


def test_ctc_of_long_sequences_in_float32() -> None:
    """Against float64, whose values the reference of its declaration confirms for short ones."""
    labels = mt.tensor(np.random.default_rng(1).integers(1, 12, (3, 20)))
    found = {}
    for dtype in (mt.float32, mt.float64):
        x = logits(120, 3, 12).to(dtype).requires_grad_()
        loss = F.ctc_loss(x.log_softmax(-1), labels, (120, 90, 41), (20, 15, 20), reduction="none")
        loss.sum().backward()
        found[dtype] = loss.detach().numpy(), x.grad.numpy()
    for one, other in zip(found[mt.float32], found[mt.float64], strict=True):
        assert np.allclose(one, other, rtol=2e-6, atol=1e-4 * np.abs(other).max())


def test_ctc_where_no_alignment_fits() -> None:
    x = logits(3, 2, 4).log_softmax(-1).requires_grad_()
    arguments = mt.tensor([[1, 1], [2, 3]]), (2, 3), (2, 2)
    loss = F.ctc_loss(x, *arguments, reduction="none")
    assert loss[0].item() == math.inf
    finite = F.ctc_loss(x, *arguments, reduction="sum", zero_infinity=True)
    assert finite.item() == loss[1].item()
    finite.backward()
    assert not x.grad[:, 0].any()
    assert x.grad[:, 1].any()


def test_ctc_of_certain_and_impossible_labels() -> None:
    """A probability of zero does not give NaN."""
    certain = mt.tensor([[-math.inf, 0.0], [0.0, -math.inf]], requires_grad=True)
    loss = F.ctc_loss(certain, mt.tensor([1]), mt.tensor(2), mt.tensor(1))
    loss.backward()
    assert loss.item() == 0
    assert not certain.grad.any()


def test_ctc_of_empty_targets_and_frames() -> None:
    x = logits(3, 2, 4).log_softmax(-1)
    blanks = F.ctc_loss(x, mt.tensor([2]), (3, 3), (0, 1), reduction="none")[0]
    assert blanks.item() == pytest.approx(-x[:, 0, 0].sum().item())
    assert F.ctc_loss(x, mt.tensor([2]), (0, 0), (0, 1), reduction="none").tolist() == [0, math.inf]


@pytest.mark.parametrize(
    ("targets", "frames", "lengths", "blank", "says"),
    [
        ([[1, 2], [3, 1]], (4, 3), (2, 2), 0, "input_lengths must be from 0 to 3, got 4"),
        ([[1, 2], [3, 1]], (3,), (2, 2), 0, "input_lengths must have the batch's size 2, got 1"),
        ([[1, 2], [3, 1]], (3, 3), (2, 3), 0, r"targets must have shape \[5\] or \[2, 3 or more\]"),
        ([1, 2, 3], (3, 3), (2, 2), 0, r"targets must have shape \[4\]"),
        ([[1, 2], [3, 1]], (3, 3), (2, -2), 0, "target_lengths must be from 0"),
        ([[1, 2], [3, 4]], (3, 3), (2, 2), 0, "targets must be from 0 to 3, got 4"),
        ([[1, 2], [3, 1]], (3, 3), (2, 2), 4, "blank must be in label range"),
    ],
)
def test_ctc_refuses(targets: Any, frames: Any, lengths: Any, blank: int, says: str) -> None:
    with pytest.raises(RuntimeError, match=r"ctc_loss\(\): " + says):
        F.ctc_loss(logits(3, 2, 4), mt.tensor(targets), frames, lengths, blank)


# Margins


def test_margin_losses_refuse() -> None:
    x, labels = logits(3, 4), mt.tensor([0, 1, 2])
    for target, options, error, says in (
        (labels[:2], {}, RuntimeError, "target"),
        (mt.tensor([0, 1, 4]), {}, RuntimeError, "target must be from 0 to 3, got 4"),
        (labels.int(), {}, RuntimeError, "target must be a tensor of mt.int64"),
        (labels, {"p": 3}, ValueError, "p must be 1 or 2"),
        (labels, {"weight": mt.ones(3)}, RuntimeError, r"weight must have shape \[4\]"),
        (labels, {"weight": mt.ones(1, 4)}, ValueError, "weight must have 1 dimension"),
        (labels, {"reduction": "all"}, ValueError, "not a valid value for reduction"),
    ):
        with pytest.raises(error, match=says):
            F.multi_margin_loss(x, target, **options)
    with pytest.raises(RuntimeError, match="target must be from -1 to 3, got -2"):
        F.multilabel_margin_loss(x, mt.full((3, 4), -2))
    with pytest.raises(IndexError, match="at least 1 dimension"):
        F.multilabel_soft_margin_loss(mt.tensor(1.0), mt.tensor(1.0))


# What draws random numbers


def test_rrelu_draws_slopes_for_each_element() -> None:
    x = mt.full((20_000,), -1.0, requires_grad=True)
    module = nn.RReLU(0.1, 0.5)
    out = module(x)
    out.sum().backward()
    assert mt.equal(x.grad, -out)
    slopes = -out.detach()
    assert 0.1 <= slopes.min().item() < slopes.max().item() < 0.5
    assert slopes.mean().item() == pytest.approx(0.3, abs=0.005)
    assert module.eval()(x).unique().tolist() == pytest.approx([-0.3])
    y = mt.tensor([-1.0, 2.0])
    assert F.rrelu_(y, 0.5, 0.5) is y
    assert y.tolist() == [-0.5, 2]
    with pytest.raises(RuntimeError, match="lower and upper must be finite and in this order"):
        F.rrelu(x, 0.5, 0.2)


def test_gumbel_softmax_draws_classes_by_their_probabilities() -> None:
    x = mt.tensor([0.0, 1.0, 2.0]).expand(20_000, 3).clone().requires_grad_()
    hard = F.gumbel_softmax(x, hard=True)
    assert hard.sum(1).tolist() == pytest.approx([1] * 20_000)
    assert np.allclose(hard.mean(0).tolist(), x[0].softmax(0).tolist(), atol=0.015)
    soft = F.gumbel_softmax(x[:4], tau=0.5, dim=0)
    assert np.allclose(soft.sum(0).tolist(), 1)
    (hard * mt.arange(3)).sum().backward()
    assert x.grad.any()
    with pytest.raises(RuntimeError, match="logits must be floating"):
        F.gumbel_softmax(mt.tensor([1, 2]))


def test_fractional_pooling_covers_the_image() -> None:
    x = mt.arange(2 * 36.0).reshape(1, 2, 6, 6)
    values, indices = nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True)(x)
    assert values.shape == indices.shape == (1, 2, 3, 3)
    assert mt.equal(x.flatten(2).gather(2, indices.flatten(2)).reshape(values.shape), values)
    assert values[..., -1, -1].tolist() == [[35, 71]]  # the last window ends where the image does
    x[0, 0, 5, 5] = math.nan
    assert F.fractional_max_pool2d(x, 2, 3)[0, 0, 2, 2].isnan()
    for options, error in (
        ({}, ValueError),
        ({"output_size": 6}, RuntimeError),
        ({"output_size": -1}, RuntimeError),
        ({"output_size": 2, "_random_samples": mt.ones(1, 2, 1)}, RuntimeError),
    ):
        with pytest.raises(error, match=r"fractional_max_pool2d\(\): "):
            F.fractional_max_pool2d(x, 2, **options)
    for options in ({}, {"output_size": 3, "output_ratio": 0.5}, {"output_ratio": 1.5}):
        with pytest.raises(ValueError, match=r"FractionalMaxPool3d\(\): "):
            nn.FractionalMaxPool3d(2, **options)


@pytest.mark.parametrize("name", ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "selu_", "threshold_"])
def test_in_place_activations(name: str) -> None:
    x = logits(5)
    options = (0.1, -2.0) if name == "threshold_" else ()
    wanted = getattr(F, name.removesuffix("_"))(x, *options)
    assert getattr(F, name)(x, *options) is x
    assert mt.equal(x, wanted)
