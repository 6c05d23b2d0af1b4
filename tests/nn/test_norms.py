"""Normalisation by layers, groups, instances and batches."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn, randn
from minitorch_backends.nn import functional as F

from ..support.arrays import zeros


def test_layer_norm_and_rms_norm() -> None:
    x = randn(4, 6)
    wide = x._array.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    assert np.allclose(
        nn.LayerNorm(6)(x).detach()._array, centred / np.sqrt(wide.var(-1, keepdims=True) + 1e-5), atol=1e-6
    )
    assert np.allclose(nn.RMSNorm(6)(x).detach()._array, wide / np.sqrt((wide**2).mean(-1, keepdims=True)), atol=1e-6)
    assert [name for name, _ in nn.LayerNorm(6, bias=False).named_parameters()] == ["weight"]
    assert not list(nn.LayerNorm(6, elementwise_affine=False).parameters())
    for norm in (nn.LayerNorm((6, 4)), nn.RMSNorm(5)):
        with pytest.raises(RuntimeError, match="expected input with shape"):
            norm(x)


def test_group_norm() -> None:
    x, norm = randn(2, 6, 3), nn.GroupNorm(2, 6)
    groups = x._array.astype(np.float64).reshape(2, 2, 9)
    wanted = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(norm(x).detach()._array, wanted.reshape(2, 6, 3), atol=1e-6)
    norm.weight.data.fill_(2), norm.bias.data.fill_(1)
    assert np.allclose(norm(x).detach()._array, 2 * wanted.reshape(2, 6, 3) + 1, atol=1e-6)
    assert list(norm.state_dict()) == ["weight", "bias"]
    assert not list(nn.GroupNorm(2, 6, affine=False).parameters())
    with pytest.raises(ValueError, match=r"num_channels \(6\) must be divisible by num_groups \(4\)"):
        nn.GroupNorm(4, 6)


def test_instance_norm_without_momentum_keeps_its_statistics() -> None:
    norm = nn.InstanceNorm1d(2, momentum=None, track_running_stats=True)
    assert not norm(mt.ones(1, 2, 3)).any()
    assert (norm.running_mean.tolist(), norm.running_var.tolist()) == ([0.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize("norm", [nn.functional.batch_norm, nn.functional.instance_norm])
def test_a_wrong_out_leaves_running_statistics_alone(norm: Any) -> None:
    mean, var, x = mt.zeros(2), mt.ones(2), mt.tensor([[[1.0, 5.0], [2.0, 9.0]]])
    switch = {"training": True} if norm is nn.functional.batch_norm else {}
    with pytest.raises(RuntimeError, match="can't be cast"):
        norm(x, mean, var, out=x.long(), **switch)
    assert (mean.tolist(), var.tolist()) == ([0.0, 0.0], [1.0, 1.0])


def test_norms_that_overflow_do_so_without_a_word() -> None:
    p = nn.Parameter(mt.zeros(2))
    for order in (2.0, 3.0, -1.0):
        p.grad = mt.tensor([3e38, 0.0 if order < 0 else 3e38])
        nn.utils.clip_grad_norm_([p], 1.0, order)


def test_instance_norm() -> None:
    x, norm = randn(2, 3, 4, 5), nn.InstanceNorm2d(3)
    rows = x._array.astype(np.float64).reshape(2, 3, 20)
    wanted = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(norm(x)._array, wanted.reshape(2, 3, 4, 5), atol=1e-6)
    assert np.array_equal(norm(x[0])._array, norm(x)[0]._array)
    assert not list(norm.state_dict())
    norm = nn.InstanceNorm2d(3, affine=True, track_running_stats=True, momentum=0.5)
    norm(x)
    assert np.allclose(norm.running_mean._array, rows.mean(-1).mean(0) / 2, atol=1e-6)
    norm.eval()
    mean, var = (each._array[:, None, None] for each in (norm.running_mean, norm.running_var))
    assert np.allclose(norm(x).detach()._array, (x._array - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        nn.InstanceNorm1d(3)(x)


def test_batch_norm_moves_running_statistics() -> None:
    x, mean, var = randn(5, 3, 2), zeros(3), mt.tensor(np.ones(3, np.float32))
    x.requires_grad_()
    out = F.batch_norm(x, mean, var, training=True, momentum=0.3)
    wide = x.detach()._array.astype(np.float64).transpose(1, 0, 2).reshape(3, -1)
    assert np.allclose(mean._array, 0.3 * wide.mean(1), atol=1e-6)
    assert np.allclose(var._array, 0.7 + 0.3 * wide.var(1, ddof=1), atol=1e-6)
    assert not mean.requires_grad
    assert out.requires_grad
    evaluated = F.batch_norm(x, mean, var).detach()._array
    wanted = (x.detach()._array - mean._array[:, None]) / np.sqrt(var._array[:, None] + 1e-5)
    assert np.allclose(evaluated, wanted, atol=1e-6)
    F.instance_norm(x, mean, var, momentum=1.0)
    wide = x.detach()._array.astype(np.float64)
    assert np.allclose(mean._array, wide.mean(2).mean(0), atol=1e-6)
    assert np.allclose(var._array, wide.var(2, ddof=1).mean(0), atol=1e-6)
    before = mean.tolist(), var.tolist()
    F.batch_norm(zeros(0, 3, 2), mean, var, training=True)
    assert (mean.tolist(), var.tolist()) == before


def test_norms_of_half_types_round_once() -> None:
    x = randn(6, 32, dtype=mt.float64)
    weight, bias = randn(32, dtype=mt.float64), randn(32, dtype=mt.float64)
    for dtype, unit in ((mt.float16, 2.0**-11), (mt.bfloat16, 2.0**-8)):
        half = [each.to(dtype) for each in (x, weight, bias)]
        out = F.layer_norm(half[0], (32,), half[1], half[2])
        wanted = F.layer_norm(half[0].double(), (32,), half[1].double(), half[2].double())._array
        assert out.dtype is dtype
        assert (np.abs(out.double()._array - wanted) <= unit * np.abs(wanted) * 1.01 + 2e-6).all()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.LayerNorm(3), (1, 3)),
        (nn.RMSNorm(3), (3,)),
        (nn.GroupNorm(2, 4), (1, 4)),
        (nn.GroupNorm(32, 256), (1, 256, 1, 1)),
        (nn.BatchNorm1d(3).eval(), (1, 3)),
    ],
)
def test_gradients_of_scales_over_one_row(layer: Any, shape: tuple[int, ...]) -> None:
    """Nothing is summed there. The gradient is that of a scale of 1, whatever the scale."""
    mt.manual_seed(0)
    x, weights = mt.randn(*shape), mt.randn(*shape)
    found = []
    for scale in (1.0, 5.0):
        nn.init.constant_(layer.weight, scale)
        layer.zero_grad()
        (layer(x) * weights).sum().backward()
        found.append(layer.weight.grad)
    assert mt.allclose(*found)


def test_running_variances_far_below_eps() -> None:
    layer = nn.BatchNorm1d(1, momentum=1.0)
    for scale in (1e-6, 1e-8):
        layer(mt.tensor([[-1.0], [1.0], [3.0], [-3.0]]) * scale)
        assert layer.running_var.item() == pytest.approx(20 / 3 * scale**2, rel=1e-5)
    with pytest.raises(ValueError, match="eps must not be negative"):
        nn.BatchNorm1d(1, eps=-1.0)(mt.zeros(2, 1))
