"""Gradients of convolutions and attention as functions of their own."""

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.nn import functional as F
from minitorch_backends.nn import grad


@pytest.mark.parametrize(("dims", "dtype"), [(1, mt.float32), (2, mt.float32), (3, mt.complex64)])
def test_gradients_of_convolutions_are_those_of_autograd(dims: int, dtype: mt.dtype) -> None:
    mt.manual_seed(0)
    size, taps = (7, 5, 4)[:dims], (3, 2, 2)[:dims]
    x = mt.randn(2, 4, *size, dtype=dtype, requires_grad=True)
    weight = mt.randn(6, 2, *taps, dtype=dtype, requires_grad=True)
    steps = {"stride": 2, "padding": 1, "groups": 2}
    out = getattr(F, f"conv{dims}d")(x, weight, **steps)
    g = mt.randn(*out.shape, dtype=dtype)
    wanted = mt.autograd.grad(out, (x, weight), g)
    of_input = getattr(grad, f"conv{dims}d_input")(x.shape, weight.detach(), g, **steps)
    of_weight = getattr(grad, f"conv{dims}d_weight")(x.detach(), weight.shape, g, **steps)
    for found, expected in zip((of_input, of_weight), wanted, strict=True):
        assert np.array_equal(found.numpy(), expected.numpy())


def test_sizes_without_channels_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"conv2d_input\(\): input_size must have 4 sizes, got \[5, 5\]"):
        grad.conv2d_input((5, 5), mt.ones(1, 1, 2, 2), mt.ones(1, 1, 4, 4))


@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"])
def test_attention_without_a_graph_has_the_gradients_of_autograd(kernel: str) -> None:
    mt.manual_seed(0)
    q, k, v, g = (mt.randn(2, heads, 9, 8) for heads in (4, 2, 2, 4))
    options = {"is_causal": True, "scale": 0.3, "enable_gqa": True}
    leaves = [each.detach().requires_grad_() for each in (q, k, v)]
    with mt.nn.attention.sdpa_kernel(getattr(mt.nn.attention.SDPBackend, kernel)):
        out = F.scaled_dot_product_attention(*leaves, **options)
        wanted = mt.autograd.grad(out, leaves, g)
        saved = grad.scaled_dot_product_attention_forward(q, k, v, **options)
        found = grad.scaled_dot_product_attention_backward(g, q, k, v, *saved, **options)
        by_lse = grad.scaled_dot_product_attention_backward(g, q, k, v, saved.output, saved.logsumexp, **options)
    np.testing.assert_allclose(saved.output.numpy(), out.detach().numpy(), rtol=0, atol=1e-6)
    scores = q.double() @ k.double().repeat_interleave(2, 1).mT * 0.3
    seen = np.where(np.tri(9) > 0, scores.numpy(), -np.inf)
    np.testing.assert_allclose(saved.logsumexp.numpy(), np.logaddexp.reduce(seen, -1), atol=1e-5)
    for one, other, expected in zip(found, by_lse, wanted, strict=True):
        assert np.array_equal(one.numpy(), expected.numpy())
        np.testing.assert_allclose(other.numpy(), expected.numpy(), rtol=0, atol=1e-5)
