"""Activations and dropout, and pooling by norms."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import manual_seed, nn, randn
from minitorch_backends.nn import functional as F

from ..support.arrays import tensor


@pytest.mark.parametrize("slope", [2.0, np.float64(2), np.float32(2), -0.5, mt.tensor(2.0)], ids=repr)
def test_leaky_relu_takes_every_kind_of_number_at_every_size(slope: Any) -> None:
    for size in (3, 10_000, 70_000):
        x = mt.linspace(-1, 1, size)
        found = F.leaky_relu(x, slope)
        assert found.dtype is mt.float32
        assert (found - mt.where(x > 0, x, x * float(slope))).abs().max() == 0


def test_dropout_in_training_and_not() -> None:
    manual_seed(1)
    layer, x = nn.Dropout(0.25), mt.tensor(np.ones((200, 200), np.float32)).requires_grad_()
    out = layer(x)
    values, counts = np.unique(out.detach()._array, return_counts=True)
    assert np.allclose(values, [0, 1 / 0.75])
    assert abs(counts[0] / x.numel() - 0.25) < 0.01
    out.sum().backward()
    assert np.array_equal(x.grad._array, out.detach()._array)
    assert not np.array_equal(layer(x).detach()._array, out.detach()._array)
    assert layer.eval()(x) is x
    for dtype in (mt.float16, mt.bfloat16, mt.float64):
        assert F.dropout(x.to(dtype)).dtype is dtype
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            nn.Dropout(bad)
        with pytest.raises(ValueError, match="between 0 and 1"):
            F.dropout(x, bad)


@pytest.mark.parametrize(
    "name",
    ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid"],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_inplace_argument_has_the_values_and_gradients_of_the_function(name: str, recorded: bool) -> None:
    function = getattr(F, name)
    leaf = randn(3, 4, dtype=mt.float64).requires_grad_(recorded)
    wanted = function(leaf)
    target = leaf * 1
    out = function(target, inplace=True)
    assert out is target
    assert np.array_equal(out.detach()._array, wanted.detach()._array)
    if recorded:
        (one,) = mt.autograd.grad(wanted.sum(), leaf)
        (other,) = mt.autograd.grad(out.sum(), leaf)
        assert np.array_equal(one._array, other._array)
        with pytest.raises(RuntimeError, match="leaf"):
            function(leaf, inplace=True)


def test_inplace_by_position() -> None:
    x = tensor([-1.0, 2.0])
    assert F.leaky_relu(x, 0.5, True) is x
    assert F.threshold(x, 0.0, 7.0, True) is x
    assert F.relu(x, True) is x
    assert x.tolist() == [7.0, 2.0]


def test_subgradients_and_special_values() -> None:
    """torch's: relu has 0 at 0, passes gradients at NaN, stops infinite ones; hardtanh has 0 on its border."""
    x = tensor([math.nan, 0.0, -0.0, -1.0, 2.0]).requires_grad_()
    out = x.relu()
    assert math.isnan(out[0].item())
    out.backward(tensor([5.0, math.inf, math.inf, math.inf, math.inf]))
    assert x.grad.tolist() == [5.0, 0.0, 0.0, 0.0, math.inf]
    x = tensor([-1.0, 0.5, 1.0]).requires_grad_()
    F.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    x = tensor([-3.0, 2.998, 3.0]).half().requires_grad_()  # 2.998 + 3 is rounded to 6
    F.hardsigmoid(x).sum().backward()
    assert x.grad.tolist() == [0.0, pytest.approx(1 / 6, rel=1e-3), 0.0]
    weight = tensor([0.25]).requires_grad_()
    F.prelu(tensor([math.inf, 1.0, -2.0]), weight).sum().backward()
    assert weight.grad.tolist() == [-2.0]
    places = F.affine_grid(mt.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 3, 3), align_corners=True).requires_grad_()
    F.grid_sample(
        mt.arange(9.0).reshape(1, 1, 3, 3), places, padding_mode="border", align_corners=True
    ).sum().backward()
    assert places.grad[..., 0].tolist() == [[[0.0, 1.0, 0.0]] * 3]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (5,), (3, 1)])
def test_relu_backward_of_broadcast_gradients(dtype: Any, shape: tuple[int, ...]) -> None:
    x = mt.tensor(np.linspace(-1, 1, math.prod(shape)).reshape(shape).astype(dtype)).requires_grad_()
    x.relu().sum().backward()
    assert np.array_equal(x.grad._array, (x.detach()._array > 0).astype(dtype))


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_of_extremes(function: Any) -> None:
    x = tensor([[1e30, 0.0, -1e30], [1000.0, 1000.0, -math.inf]], np.float32)
    out = function(x, 1)._array
    probabilities = out if function is F.softmax else np.exp(out)
    assert np.allclose(probabilities, [[1, 0, 0], [0.5, 0.5, 0]])
    assert function(tensor([1, 2]), 0, dtype=mt.float64).dtype is mt.float64
    with pytest.raises(RuntimeError, match="int64"):
        function(tensor([1, 2]), 0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        function(x, 2)


@pytest.mark.parametrize("x", [-1e4, -200.0, -30.0, 30.0, 200.0, 1e4])
def test_smooth_activations_do_not_overflow(x: float) -> None:
    inputs = tensor([x], np.float32).requires_grad_()
    for function in (F.gelu, F.silu, F.softplus, F.elu, F.celu, F.mish, lambda t: F.gelu(t, "tanh")):
        out = function(inputs)
        (slope,) = mt.autograd.grad(out, inputs, create_graph=True)
        (curvature,) = mt.autograd.grad(slope, inputs, allow_unused=True, materialize_grads=True)
        assert out.item() == pytest.approx(max(x, 0), abs=1.01)
        assert slope.item() == pytest.approx(float(x > 0), abs=1e-6)
        assert curvature.item() == pytest.approx(0, abs=1e-6)
    assert F.logsigmoid(inputs).item() == pytest.approx(min(x, 0), abs=1e-6)


def test_second_derivatives_where_the_first_is_zero() -> None:
    for loss in (F.huber_loss, F.smooth_l1_loss):
        hessian = mt.func.hessian(lambda x, loss=loss: loss(x, mt.zeros(3), reduction="sum"))(
            mt.tensor([0.0, 0.5, 2.0])
        )
        assert hessian.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    for function in (F.elu, F.selu, F.celu):
        x = mt.tensor([0.0, 1.0], requires_grad=True)
        (first,) = mt.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = mt.autograd.grad(first.sum(), x)
        assert second.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("order", "value", "place"), [(math.inf, 4.0, (1, 1)), (-math.inf, 1.0, (0, 1))])
def test_pooling_by_the_norms_of_order_infinity(order: float, value: float, place: tuple[int, int]) -> None:
    x = mt.tensor([[[-3.0, 1.0], [2.0, -4.0]]], requires_grad=True)
    out = nn.functional.lp_pool2d(x, order, 2)
    out.sum().backward()
    assert out.item() == value
    assert [tuple(each) for each in x.grad[0].nonzero().tolist()] == [place]
    assert x.grad[0][place].item() == math.copysign(1.0, x[0][place].item())


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_by_the_norm_of_order_zero_is_refused(dims: int) -> None:
    with pytest.raises(ValueError, match="norm_type must be a number other than 0"):
        getattr(nn.functional, f"lp_pool{dims}d")(mt.ones((1,) * (dims + 1)), 0, 1)


def test_padding_keeps_the_sign_of_zero() -> None:
    assert F.pad(mt.ones(1), (1, 0), value=-0.0).signbit().tolist() == [True, False]


def test_places_that_are_infinite_are_outside_and_those_that_are_no_number_give_none() -> None:
    image = mt.arange(6.0).reshape(1, 1, 2, 3)
    grid = mt.tensor([[[[float("inf"), 0.0], [0.0, -float("inf")], [float("nan"), 0.0], [0.0, 0.0]]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        zeros = F.grid_sample(image, grid, mode).numpy().ravel()
        assert zeros[:2].tolist() == [0, 0]
        assert np.isnan(zeros).tolist() == [False, False, True, False]
        border = F.grid_sample(image, grid, mode, "border", align_corners=True).numpy().ravel()
        assert np.isfinite(border).tolist() == [True, True, False, True]
    assert F.grid_sample(image, grid, "nearest", "border").numpy().ravel()[1] == 1
