"""Recipes are data with sources; each is a scope, a decorator and a value of a flag."""

import pickle

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.backends.recipes import ROLES
from minitorch_backends.kernels.precisions import FORMATS

pytestmark = pytest.mark.usefixtures("default_flags")
every_recipe = pytest.mark.parametrize("name", list(backends.recipes))


def formats() -> dict[str, str]:
    return {role: backends.snapshot().as_dict().get(f"operands.{role}", "none") for role in ROLES}


@every_recipe
def test_a_recipe_is_data_and_a_scope(name: str) -> None:
    recipe = backends.recipes[name]
    assert recipe.operands.keys() <= ROLES.keys()
    assert set(recipe.operands.values()) <= set(FORMATS)
    assert recipe.source
    with backends.operands.flags(query="bf16"):
        with recipe:
            inside, named = formats(), backends.operands.recipe
        assert backends.operands.query == "bf16"
    assert {role: value for role, value in inside.items() if value != "none"} == dict(recipe.operands)
    assert backends.recipes[named].flags == recipe.flags
    assert set(formats().values()) == {"none"}
    for role, value in recipe.operands.items():
        assert f"{role}" in repr(recipe)
        assert value in repr(recipe)
    assert pickle.loads(pickle.dumps(recipe)).flags == recipe.flags


@every_recipe
def test_a_recipe_acts_on_a_layer_of_bfloat16_forward_and_backward(name: str) -> None:
    mt.manual_seed(0)
    layer = mt.nn.Linear(256, 64).bfloat16()
    x = mt.randn(32, 256).bfloat16().requires_grad_()
    exact = layer(x)
    exact.sum().backward()
    before, x.grad, layer.weight.grad = layer.weight.grad, None, None
    out = backends.recipes[name](layer)(x)
    cache = "key" in backends.recipes[name].operands
    assert ((out - exact).abs().max() > 0) != cache
    with backends.recipes[name]:
        out.sum().backward()
    for each in (out, x.grad, layer.weight.grad):
        assert np.isfinite(each.detach().float().numpy()).all()
    assert (out - exact).float().norm() < 0.35 * exact.float().norm()
    assert (layer.weight.grad - before).float().norm() < 0.5 * before.float().norm()


def test_the_flag_sets_and_names_a_recipe() -> None:
    with backends.flags(**{"operands.recipe": "te-nvfp4"}):
        assert backends.operands.weight == "nvfp4-2d"
        assert backends.operands.weight_gradient.gradient == "nvfp4-rotated-stochastic"
        assert backends.operands.recipe == "te-nvfp4"
        assert explain.precision_of("linear").precision == "nvfp4 x nvfp4-2d"
        with backends.operands.flags(weight="mxfp4"):
            assert backends.operands.recipe == "none", "formats are no longer those of a recipe"
    with pytest.raises(KeyError, match="did you mean 'te-nvfp4'"):
        backends.recipes["te-nvfp5"]


def test_high_precision_gradients_of_weights() -> None:
    mt.manual_seed(0)
    x, weight, g = mt.randn(8, 64), mt.nn.Parameter(mt.randn(32, 64)), mt.randn(8, 32)
    with backends.recipes["torchao-rowwise-gw-hp"]:
        mt.nn.functional.linear(x, weight).backward(g)
    np.testing.assert_allclose(weight.grad.numpy(), g.numpy().T @ x.numpy(), rtol=1e-4, atol=1e-5)
