"""Recipes are data with sources; each is a scope, a decorator and a value of a flag."""

import pickle

import ml_dtypes
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


SIGNS = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1])
"""TransformerEngine's, of `get_wgrad_sign_vector` in its pytorch/tensor/nvfp4_tensor.py."""
TURN = SIGNS[:, None] * np.array([[(-1.0) ** (i & j).bit_count() for j in range(16)] for i in range(16)]) / 4


def nvfp4_by_hand(x: np.ndarray, across: int = 1, is_mean: bool = False) -> np.ndarray:
    """arXiv 2509.25149, appendix C: numbers of E2M1 with E4M3 scales of 16 numbers of `across` rows, and one of the
    tensor, from nothing of ours; or the mean of stochastic rounding, which is the number up to the largest."""
    of_tensor = 448 * 6 / np.abs(x).max()
    blocks = x.reshape(len(x) // across, across, -1, 16)
    scale = (np.abs(blocks).max((1, 3), keepdims=True) / 6 * of_tensor).astype(ml_dtypes.float8_e4m3fn).astype(float)
    numbers = np.clip(blocks * of_tensor / scale, -6, 6)
    numbers = numbers if is_mean else numbers.astype(ml_dtypes.float4_e2m1fn).astype(float)
    return (numbers * scale / of_tensor).reshape(x.shape)


def hadamard_of(x: np.ndarray) -> np.ndarray:
    """The random Hadamard transform of each 16 numbers of a row."""
    return (x.reshape(len(x), -1, 16) @ TURN).reshape(x.shape)


def test_nvfp4_training_is_the_papers() -> None:
    """Weights in 16 x 16, so that both directions see the same; gradients rounded at random, and both operands of the
    weights' gradient transformed along the tokens."""
    mt.manual_seed(4)
    layer, x, g = mt.nn.Linear(64, 48, bias=False), mt.randn(32, 64), mt.randn(32, 48) * mt.randn(32, 1).exp()
    x.requires_grad_()
    with backends.recipes["te-nvfp4"]:
        out = layer(x)
        drawn = [mt.autograd.grad(layer(x), (x, layer.weight), g) for _ in range(300)]
    inputs, weight, gradient = (each.detach().numpy().astype(float) for each in (x, layer.weight, g))
    stored = nvfp4_by_hand(weight, across=16)
    np.testing.assert_array_equal(stored.T, nvfp4_by_hand(weight.T.copy(), across=16))
    np.testing.assert_allclose(out.detach().numpy(), nvfp4_by_hand(inputs) @ stored.T, atol=1e-5)
    expected = (
        nvfp4_by_hand(gradient, is_mean=True) @ stored,
        nvfp4_by_hand(hadamard_of(gradient.T), is_mean=True) @ nvfp4_by_hand(hadamard_of(inputs.T)).T,
    )
    for found, mean in zip(zip(*drawn, strict=True), expected, strict=True):
        values = np.stack([each.numpy() for each in found]).astype(float)
        spread = values.std(0) / len(values) ** 0.5
        assert (spread > 0).mean() > 0.99, "each pass draws anew"
        off = np.abs(values.mean(0) - mean) / np.maximum(spread, 1e-5)
        assert off.max() < 5.5, "no element is biased"
        assert 0.6 < off.mean() < 1.0, "the mean of a normal number's magnitude is 0.8"


@pytest.mark.parametrize("name", ["te-current", "te-delayed"])
def test_scales_of_tensors_are_those_of_transformer_engine(name: str) -> None:
    """scale = largest of the format / largest of the tensor, numbers in E4M3, gradients in E5M2: TransformerEngine's
    `_default_sf_compute` with margin 0, of a history that has seen these very tensors."""
    mt.manual_seed(5)
    layer, x, g = mt.nn.Linear(64, 48, bias=False), mt.randn(32, 64), mt.randn(32, 48)
    x.requires_grad_()
    with backends.recipes[name]:
        out = layer(x)
        found = mt.autograd.grad(out, (x, layer.weight), g)

    def round_by_hand(each: mt.Tensor, kind: type) -> np.ndarray:
        array = each.detach().numpy()
        scale = np.float32(ml_dtypes.finfo(kind).max) / np.abs(array).max()
        return (array * scale).astype(kind).astype(float) / float(scale)

    inputs, weight = (round_by_hand(each, ml_dtypes.float8_e4m3fn) for each in (x, layer.weight))
    gradient = round_by_hand(g, ml_dtypes.float8_e5m2)
    for ours, by_hand in zip((out, *found), (inputs @ weight.T, gradient @ weight, gradient.T @ inputs), strict=True):
        off = np.abs(ours.detach().numpy() - by_hand) > 1e-5 * np.abs(by_hand).max()
        assert off.mean() < 0.02, "numbers beside a tie fall by the rounding of their scale"
