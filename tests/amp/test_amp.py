"""Mixed precision: which inputs autocast casts, gradients through casts, and the scaling of losses."""

import pytest

import minitorch_backends as mt
from minitorch_backends.dispatch.registry import registry
from minitorch_backends.nn import functional as F

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
