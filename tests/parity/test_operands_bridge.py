"""Formats by role under the bridge: torch's layers, their gradients, and causal language models of transformers."""

from typing import Any

import numpy as np
import pytest
import torch

from minitorch_backends import backends
from minitorch_backends.interop.torch import emulate
from minitorch_backends.kernels.precisions.rounding import round_operand

RECIPE = {"operands.weight": "mxfp4", "operands.activation": "mxfp8", "operands.gradient": "mxfp8"}


def round_by_hand(x: Any, name: str, axis: int = -1) -> np.ndarray:
    return round_operand(np.ascontiguousarray(x.detach().numpy()), name, axis).astype(np.float64)


def assert_near(found: Any, expected: np.ndarray) -> None:
    assert np.abs(found.detach().numpy() - expected).max() <= 5e-6 * np.abs(expected).max()


@pytest.mark.parametrize("roles", [{"key": "mxfp4"}, {"value": "q4_0"}, {"query": "mxfp8", "key": "mxfp8"}], ids=str)
def test_attention_that_returns_its_weights_has_roles(roles: dict[str, str]) -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.MultiheadAttention(64, 2), torch.randn(5, 2, 64)
    plain, found = layer(x, x, x)[0], []
    for need_weights in (True, False):
        layer.zero_grad()
        with emulate(), backends.operands.flags(**roles):
            out, weights = layer(x, x, x, need_weights=need_weights)
            out.sum().backward()
        found.append((out.detach(), layer.in_proj_weight.grad.clone()))
        assert (weights is not None) == need_weights
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-5)
    assert (found[0][0] - plain).abs().max() > 1e-3


def test_layers_and_products_with_parameters() -> None:
    torch.manual_seed(0)
    layer, x, matrix = torch.nn.Linear(64, 32, bias=False), torch.randn(15, 64), torch.nn.Parameter(torch.randn(64, 32))
    x.requires_grad_()
    g = torch.randn(15, 32)
    with emulate(**RECIPE):
        out = layer(x)
        out.backward(g)
        products = [x @ matrix, torch.mm(x, matrix), torch.einsum("ti,io->to", x, matrix), x.matmul(matrix)]
        with torch.no_grad():
            products.append(x @ matrix.t().t())
        plain = x @ matrix.detach()
    assert_near(out, round_by_hand(x, "mxfp8") @ round_by_hand(layer.weight, "mxfp4").T)
    assert_near(x.grad, round_by_hand(g, "mxfp8") @ round_by_hand(layer.weight, "mxfp4", 0))
    assert_near(layer.weight.grad, round_by_hand(g, "mxfp8", 0).T @ round_by_hand(x, "mxfp8", 0))
    for each in products:
        assert_near(each, round_by_hand(x, "mxfp8") @ round_by_hand(matrix, "mxfp4", 0))
    np.testing.assert_allclose(plain.detach().numpy(), (x @ matrix).detach().numpy(), atol=1e-5)


def test_products_inside_of_multihead_attention_have_roles() -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.MultiheadAttention(32, 4, batch_first=True), torch.randn(2, 5, 32)
    with emulate(**{"operands.weight": "mxfp4"}) as emulation:
        found = layer(x, x, x)[0]
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if name.endswith("weight"):
                weight.copy_(torch.from_numpy(round_by_hand(weight, "mxfp4")))
    torch.testing.assert_close(found, layer(x, x, x)[0], atol=1e-5, rtol=1e-5)
    assert emulation.ran["torch.linear"] > 0


def _llama(dtype: torch.dtype) -> Any:
    """A causal language model of transformers, small and with random weights."""
    transformers = pytest.importorskip("transformers", reason="the model is one of transformers'")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_causal_language_model(dtype: torch.dtype) -> None:
    """Weights alone, in the model's dtype, are torch's model with these weights; a cache changes its own part."""
    model = _llama(dtype)
    ids = torch.randint(0, 96, (2, 32))
    with torch.no_grad():
        exact = model(ids).logits
        with emulate(**{"operands.key": "mxfp8", "operands.value": "mxfp8"}) as emulation:
            cached = model(ids).logits
        with emulate(**{"operands.weight": "mxfp4"}):
            found = model(ids).logits
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.copy_(torch.from_numpy(round_by_hand(module.weight.float(), "mxfp4")).to(dtype))
        expected = model(ids).logits
    scale = float(exact.float().abs().max())
    assert float((found - expected).float().abs().max()) < 0.02 * scale
    assert float((found - exact).float().abs().max()) > 0.05 * scale
    assert 0 < float((cached - exact).float().abs().max()) < 0.05 * scale
    assert emulation.ran["torch.scaled_dot_product_attention"] == 2


@pytest.mark.parametrize("name", ["te-mxfp8", "torchao-int8", "gpt-oss"])
def test_recipes_of_a_causal_language_model_in_bfloat16(name: str) -> None:
    """A recipe is torch's model with every linear layer computed by hand: float32 sums, rounded once to bfloat16."""
    model = _llama(torch.bfloat16)
    ids, formats = torch.randint(0, 96, (2, 32)), backends.recipes[name].operands

    def compare(layer: Any, inputs: tuple[Any, ...], found: torch.Tensor) -> None:
        stored = torch.from_numpy(round_by_hand(layer.weight.float(), formats["weight"]))
        x = inputs[0].double()
        if "activation" in formats:
            x = torch.from_numpy(round_by_hand(inputs[0].float(), formats["activation"]))
        else:
            stored = stored.to(torch.bfloat16).double()
        expected, terms = x @ stored.T, x.abs() @ stored.T.abs()
        error = (found.double() - expected).abs()
        assert (error <= 2.0**-8 * expected.abs() + 1e-5 * terms).all(), "a rounding to bfloat16 and sums in float32"
        changed.append(float((expected - inputs[0].double() @ layer.weight.double().T).norm() / expected.norm()))

    changed: list[float] = []
    layers = [each for each in model.modules() if isinstance(each, torch.nn.Linear)]
    for each in layers:
        each.register_forward_hook(compare)
    with torch.no_grad(), emulate(**{f"operands.{role}": value for role, value in formats.items()}) as emulation:
        model(ids)
    assert len(changed) == emulation.ran["torch.linear"] == len(layers)
    assert min(changed) > 0.002
