"""nn.functional beyond the usual call: integers, deprecated forms, and options of embeddings."""

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn import functional as F


def test_pools_of_integers_round_towards_zero() -> None:
    x = mt.arange(1, 13).reshape(1, 3, 4)
    assert F.avg_pool2d(x, 2).tolist() == [[[3, 5]]]
    assert F.avg_pool2d(-x, 2).tolist() == [[[-3, -5]]]
    assert F.avg_pool1d(x, 3).tolist() == [[[2], [6], [10]]]
    assert F.avg_pool2d(x, 2, padding=1, count_include_pad=False).dtype is mt.int64
    large = mt.tensor([[[2**53 + 1, 2**53 + 1]]])
    assert F.avg_pool1d(large, 2).item() == 2**53 + 1
    assert F.unfold(mt.tensor([[[[True, False], [False, True]]]]), 2).tolist() == [[[True], [False], [False], [True]]]


def test_no_window_begins_behind_the_input() -> None:
    for pool in (F.max_pool1d, F.avg_pool1d):
        assert pool(mt.ones(1, 1, 3), 2, 4, 1, ceil_mode=True).shape == (1, 1, 1), "the second begins at 3"
        assert pool(mt.ones(1, 1, 4), 2, 4, 1, ceil_mode=True).shape == (1, 1, 2), "the second begins at 3"


def test_losses_of_integers() -> None:
    one, other, sign = mt.tensor([1, 2]), mt.tensor([3, 4]), mt.tensor([1, -1])
    assert F.margin_ranking_loss(one, other, sign, margin=0.5, reduction="none").tolist() == [2.5, 0.0]
    assert F.pairwise_distance(one, other).item() == pytest.approx(8**0.5, rel=1e-6)
    assert F.cosine_embedding_loss(one[None], other[None], mt.tensor([1])).item() == pytest.approx(
        1 - 11 / 125**0.5, abs=1e-6
    )
    flags = mt.tensor([[True, False]])
    assert F.cosine_embedding_loss(flags, flags, mt.tensor([-1])).item() == pytest.approx(1.0)
    assert F.l1_loss(one, other, reduction="none").tolist() == [2, 2]
    assert F.triplet_margin_loss(one[None], other[None], one[None]).item() == pytest.approx(8**0.5 + 1, rel=1e-5)
    response = F.local_response_norm(mt.arange(1, 5).reshape(1, 4, 1), 2, alpha=1.0, beta=1.0)
    assert response.flatten().tolist() == pytest.approx([1 / 1.5, 2 / 3.5, 3 / 7.5, 4 / 13.5], rel=1e-6)


def test_bytes_are_interpolated_and_rounded_once() -> None:
    x = (mt.arange(16) * 16).reshape(1, 1, 4, 4).to(mt.uint8)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        wanted = (F.interpolate(x.double(), (6, 6), mode=mode) + 0.5).floor().clamp(0, 255)
        found = F.interpolate(x, (6, 6), mode=mode)
        assert found.dtype is mt.uint8
        assert (found == wanted).all()
    with pytest.raises(RuntimeError, match="must be a floating or uint8 tensor"):
        F.interpolate(x.int(), (6, 6))


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.softmin])
def test_softmax_without_dim_warns_and_chooses_one(function) -> None:
    for ndim, dim in enumerate((0, 0, 1, 0, 1)):
        x = mt.randn((2,) * ndim)
        with pytest.warns(UserWarning, match="implicit choice of dim"):
            assert (function(x) == function(x, dim)).all()
    with pytest.warns(UserWarning, match="implicit choice of dim") as caught:
        nn.Softmax()(x)
    assert caught[0].filename == __file__
    with pytest.raises(TypeError):
        mt.softmax(x)
    assert F.softmin(mt.tensor([1, 2]), 0, dtype=mt.float64).tolist() == pytest.approx([0.7310585, 0.2689414])


def test_dropout_of_channels_takes_matrices_with_a_warning() -> None:
    x = mt.ones(40, 8)
    for dropout in (F.dropout2d, F.dropout3d):
        with pytest.warns(UserWarning, match="other numbers are deprecated"):
            assert dropout(x, 0.5, False) is x
        with pytest.warns(UserWarning, match="got 2"):
            assert set(dropout(x, 0.5, True).unique().tolist()) == {0.0, 2.0}
        with (
            pytest.warns(UserWarning, match="got 1"),
            pytest.raises(RuntimeError, match="at least 2 dimensions, got 1"),
        ):
            dropout(x[0], 0.5, True)
    with pytest.warns(UserWarning, match="got 3"):
        rows = F.dropout3d(mt.ones(4, 5, 6), 0.5)
    assert set(rows.var(-1).unique().tolist()) == {0.0}, "channels are dropped whole"


def test_batches_without_statistics_or_elements() -> None:
    assert F.batch_norm(mt.ones(0), mt.ones(0), mt.ones(0), training=True).shape == (0,)
    x = mt.tensor([[1.0], [3.0]])
    assert F.batch_norm(x, None, None, training=True, eps=1e-12).flatten().tolist() == [-1.0, 1.0]


def test_embeddings_are_renormalised_where_they_are_named() -> None:
    weight = mt.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    rows = F.embedding(mt.tensor([0, 1, 0]), weight, max_norm=1.0)
    assert weight.detach().tolist() == [pytest.approx([0.6, 0.8]), pytest.approx([0.3, 0.4]), [6.0, 8.0]]
    assert rows[2].tolist() == weight[0].tolist()
    rows.sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0], [1.0, 1.0], [0.0, 0.0]]
    layer = nn.Embedding(3, 2, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True)
    layer(mt.tensor([1, 1, 2])).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    assert layer.weight[1:].abs().sum(1).max().item() < 2.0001
    assert repr(layer) == "Embedding(3, 2, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True)"


def test_nuclear_norms() -> None:
    x = mt.tensor([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    assert x.norm("nuc").item() == pytest.approx(7.0)
    assert mt.norm(mt.stack([x, 2 * x]), "nuc", dim=(1, 2), keepdim=True).flatten().tolist() == pytest.approx([7, 14])
    with pytest.raises(RuntimeError, match="2-tuple"):
        x.norm("nuc", dim=0)


def test_more_products_and_powers() -> None:
    flags, other = mt.tensor([True, False]), mt.tensor([True, True])
    assert mt.addr(mt.tensor([False, False]), flags, other).tolist() == [[True, True], [False, False]]
    assert mt.addr(mt.tensor([True, True]), flags, other, alpha=0).all()
    assert mt.linalg.vander(mt.tensor(2.0), N=3).tolist() == [[1.0, 2.0, 4.0]]
    assert mt.vander(flags).tolist() == [[1, 1], [0, 1]]
    z = np.array([0.3 + 0.4j, -1.2j, 0])
    assert mt.sinc(mt.tensor(z))._array == pytest.approx(np.sinc(z))
    first, last = mt.ones(2, 3), mt.ones(1, 3)
    assert mt.diff(first, 0, 0, prepend=last).shape == (2, 3), "differences of order 0 are the input"


def test_weights_do_not_widen_losses() -> None:
    x, weight = mt.tensor([[0.25, 0.75]]), mt.tensor([2.0, 4.0], dtype=mt.float64)
    found = F.binary_cross_entropy(x, x, weight)
    assert found.dtype is mt.float32
    assert found.item() == pytest.approx(3 * -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    for options in ({"weight": weight}, {"pos_weight": weight}):
        assert F.binary_cross_entropy_with_logits(x, x, **options).dtype is mt.float32
    for loss in (F.mse_loss, F.smooth_l1_loss):
        assert loss(mt.tensor([1, 2]), mt.tensor([1.5, 2.0])).dtype is mt.float32
        assert loss(mt.tensor([0.5]), mt.tensor([True])).item() in (0.25, 0.125)
        with pytest.raises(RuntimeError, match="expected a floating input or target"):
            loss(mt.tensor([1]), mt.tensor([2]))


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16])
def test_batch_norm_with_running_means_far_from_zero_keeps_the_digits(dtype: mt.dtype) -> None:
    x = (1024 + mt.tensor([[0.0, 1.0], [-2.0, 5.0]]) * 2.0**-13).to(dtype).requires_grad_()
    mean, var = mt.tensor([1024.0, 1024 + 2.0**-13]), mt.full((2,), 2.0**-24)
    wanted = (x.detach().double() - mean.double()) / (var.double() + 1e-12).sqrt()
    found = mt.nn.functional.batch_norm(x, mean, var, eps=1e-12)
    assert found.dtype is dtype
    assert mt.allclose(found.double(), wanted.to(dtype).double(), rtol=1e-6)
    (slope,) = mt.autograd.grad(found.sum(), x)
    assert mt.allclose(slope.double(), mt.full((2, 2), 4096.0, dtype=mt.float64), rtol=1e-4)


@pytest.mark.parametrize("size", [1e30, 1e-30])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.local_response_norm(x, 3, 0.5, 0.4),
        lambda x: F.lp_pool1d(x.abs(), 3.0, 2),
        lambda x: F.normalize(x, 3.0, -1, 0.0),
        lambda x: F.cosine_embedding_loss(x[0], x[1], mt.ones(2)),
        lambda x: x.renorm(3.0, 0, 1.0),
        lambda x: mt.cdist(x[0], x[1]),
        lambda x: mt.cdist(x[0], x[1], 3.0),
        lambda x: F.pairwise_distance(x[0], x[1], 3.0, 0.0),
        lambda x: F.layer_norm(x, (4,), None, None, 0.0),
        lambda x: F.rms_norm(x, (4,), None, 0.0),
        lambda x: F.group_norm(x, 2, None, None, 0.0),
        lambda x: F.instance_norm(x, eps=0.0),
        lambda x: F.batch_norm(x, None, None, None, None, True, eps=1e-300),
    ],
    ids=lambda function: " ".join(function.__code__.co_names) if callable(function) else function,
)
def test_rows_whose_squares_leave_the_range(function, size: float) -> None:
    """Values and gradients of huge and tiny float32 numbers are those of float64."""
    x = np.random.default_rng(0).uniform(-2, 2, (2, 2, 4)) * size
    seed = np.random.default_rng(1).uniform(1, 2, (2, 2, 4))
    found, slopes = [], []
    for dtype in (mt.float32, mt.float64):
        tensor = mt.tensor(x, dtype=mt.float32).to(dtype).requires_grad_()
        out = function(tensor)
        weights = mt.tensor(seed.flatten()[: out.numel()].reshape(out.shape), dtype=dtype)
        slopes.append(mt.autograd.grad((out * weights).sum(), tensor)[0].numpy())
        found.append(out.detach().numpy())
    for single, double in (found, slopes):
        np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-6 * np.abs(double).max())
