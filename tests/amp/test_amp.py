"""Mixed precision: which inputs autocast casts, gradients through casts, and the scaling of losses."""

from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.registry import registry

x = mt.arange(6.0).reshape(2, 3) / 7


def test_declarations_name_what_autocast_casts_to():
    classes = {each.autocast for each in registry.values()}
    assert classes == {"lower", "float32", "widest", "unchanged", None}


def test_products_compute_in_half_and_losses_in_float32():
    with mt.autocast("cpu"):
        product = x @ x.mT
        assert product.dtype is mt.bfloat16
        assert product.equal(x.bfloat16() @ x.bfloat16().mT)
        found = F.mse_loss(product, product), mt.cat([product, x[:, :2]]), (product + 1).relu(), mt.mv(x, x[0])
        assert [each.dtype for each in found] == [mt.float32, mt.float32, mt.bfloat16, mt.float32]
        assert mt.einsum("ij,kj->ik", x, x).dtype is mt.bfloat16
        assert (x.double() @ x.double().mT).dtype is mt.float64
        with mt.autocast("cpu", enabled=False):
            assert (x @ x.mT).dtype is mt.float32
    with mt.autocast("cpu", dtype=mt.float16):
        assert F.linear(x, x).dtype is mt.float16
        assert mt.get_autocast_dtype("cpu") is mt.float16
    assert not mt.is_autocast_enabled("cpu")
    assert (x @ x.mT).dtype is mt.float32


def test_gradients_reach_parameters_in_their_own_dtype():
    mt.manual_seed(0)  # a gradient near zero would have a large relative error
    layer = mt.nn.Linear(3, 3)
    with mt.autocast("cpu"):
        loss = layer(layer(x)).float().sum()
    loss.backward()
    assert layer.weight.grad.dtype is mt.float32
    weight = layer.weight.detach().bfloat16().float()
    reference = mt.ones(2, 3) @ weight
    assert mt.allclose(layer.bias.grad, reference.sum(0) + 2, rtol=2e-2)


def test_functions_made_of_products_are_cast_as_one():
    with mt.autocast("cpu"):
        assert mt.cdist(x, x).dtype is mt.float32
        assert mt.nn.MultiheadAttention(3, 1)(x, x, x)[0].dtype is mt.bfloat16


def test_devices_that_are_not_there_are_warned_of():
    with pytest.warns(UserWarning, match="cuda devices are not available"):
        block = mt.autocast("cuda")
    with block:
        assert (x @ x.mT).dtype is mt.float32
    with pytest.raises(RuntimeError, match="'tpu'"):
        mt.autocast("tpu")


def test_scaler_leaves_out_steps_that_overflow():
    weight = mt.tensor([1.0], requires_grad=True)
    optimizer, scaler = mt.optim.SGD([weight], lr=1.0), mt.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for factor, scale, value in ((2.0, 4.0, -1.0), (float("inf"), 2.0, -1.0), (1.0, 2.0, -2.0), (1.0, 4.0, -3.0)):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (scaler.get_scale(), weight.item()) == (scale, value)
    assert scaler.state_dict()["_growth_tracker"] == 0
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"since the last update\(\)"):
        scaler.unscale_(optimizer)


@pytest.mark.parametrize("mode", [mt.no_grad, mt.inference_mode])
def test_a_pass_without_history_leaves_none_to_a_recorded_one(mode: Callable[[], Any]):
    """In one block: validation, then training."""
    for layer, x in ((nn.Linear(8, 4), mt.ones(2, 8)), (nn.Conv2d(3, 4, 3), mt.ones(2, 3, 8, 8))):
        with mt.autocast("cpu", dtype=mt.bfloat16):
            with mode():
                layer(x)
            loss = layer(x).float().sum()
            with mode():
                layer(x)
            second = layer(x).float().sum()
        (loss + second).backward()
        assert layer.weight.grad.abs().sum() > 0


def test_a_written_weight_is_cast_again():
    layer, x = nn.Linear(8, 4, bias=False), mt.ones(2, 8)

    def write_version() -> None:
        with mt.no_grad():
            layer.weight.add_(1)

    def write_data() -> None:
        layer.weight.data.mul_(3)

    def replace_data() -> None:
        layer.weight.data = layer.weight.detach() * -2

    with mt.autocast("cpu", dtype=mt.bfloat16):
        for write in (write_version, write_data, replace_data):
            before = layer(x)
            write()
            after = layer(x)
            assert not mt.equal(before, after)
            assert mt.equal(after, F.linear(x, layer.weight.clone()))


@pytest.mark.parametrize("cast_inputs", [None, mt.float32])
def test_backward_of_custom_functions_runs_as_their_forward_did(cast_inputs: Any):
    """torch documents it so: with autocast on in backward if it was on in forward, whichever block backward is in."""
    seen: list[Any] = []

    class Product(mt.autograd.Function):
        @staticmethod
        @mt.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx: Any, a: mt.Tensor, b: mt.Tensor) -> mt.Tensor:
            ctx.save_for_backward(a, b)
            seen.append((mt.is_autocast_enabled("cpu"), a.dtype))
            return a @ b

        @staticmethod
        @mt.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: mt.Tensor) -> Any:
            a, b = ctx.saved_tensors
            seen.append((mt.is_autocast_enabled("cpu"), (g @ b.mT).dtype))
            return g @ b.mT, a.mT @ g

    a, b = mt.randn(3, 4, requires_grad=True), mt.randn(4, 5)
    with mt.autocast("cpu", dtype=mt.bfloat16):
        y = Product.apply(a.half() if cast_inputs else a, b)
    y.float().sum().backward()
    on = cast_inputs is None
    assert seen == [(on, mt.float32), (on, mt.bfloat16 if on else mt.float32)]
    seen.clear()
    y = Product.apply(a, b)
    with mt.autocast("cpu", dtype=mt.bfloat16):
        y.sum().backward()
    assert seen == [(False, mt.float32), (False, mt.float32)]
    with pytest.raises(ValueError, match="device_type must be a str, got int"):
        mt.amp.custom_bwd(device_type=3)
