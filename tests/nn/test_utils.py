"""Weights that are computed from others (weight and spectral norms), norms of gradients, embeddings."""

import math

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn.utils.weight_norm import scaled_to


def layer() -> nn.Linear:
    mt.manual_seed(3)
    return nn.Linear(4, 3, dtype=mt.float64)


X = mt.arange(8.0, dtype=mt.float64).reshape(2, 4) / 8


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_keeps_the_function_and_splits_the_gradient(dim: int | None) -> None:
    module, expected = layer(), layer()(X)
    weight = layer().weight.detach().numpy()
    nn.utils.weight_norm(module, dim=dim)
    g, v = module.weight_g, module.weight_v
    axes = None if dim is None else 1 - dim
    lengths = np.linalg.norm(weight, axis=axes, keepdims=dim is not None)
    np.testing.assert_allclose(g.detach().numpy(), lengths)
    result = module(X)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy())
    result.sum().backward()
    direct = np.broadcast_to(X.sum(0).numpy(), (3, 4))
    along = (direct * weight).sum(axes, keepdims=dim is not None) / lengths
    np.testing.assert_allclose(g.grad.numpy(), along)
    np.testing.assert_allclose(v.grad.numpy(), direct - weight * along / lengths, atol=1e-12)
    nn.utils.remove_weight_norm(module)
    assert list(module.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(module(X).detach().numpy(), expected.detach().numpy())


def test_spectral_norm_divides_by_the_largest_singular_value() -> None:
    module, weight = layer(), layer().weight.detach()
    nn.utils.spectral_norm(module)
    for _ in range(60):
        module(X)
    expected = (weight / mt.linalg.svdvals(weight)[0]).numpy()
    module.eval()
    module(X).sum().backward()
    np.testing.assert_allclose(module.weight.detach().numpy(), expected, rtol=1e-6)
    original = module.weight_orig
    assert abs((original.grad * original).sum().item()) < 1e-12  # the length of the weight does not matter
    nn.utils.remove_spectral_norm(module)
    assert list(module.state_dict()) == ["bias", "weight"]


def test_norms_of_all_gradients() -> None:
    x, y = mt.zeros(1, requires_grad=True), mt.zeros(2, requires_grad=True)
    x.grad, y.grad = mt.tensor([3.0]), mt.tensor([0.0, 4.0])
    norm = nn.utils.get_total_norm([x.grad, y.grad])
    assert norm.item() == 5.0
    nn.utils.clip_grads_with_norm_([x, y], 1.0, norm)
    np.testing.assert_allclose(y.grad.numpy(), [0.0, 0.8], rtol=1e-6)


def test_gradients_whose_squares_overflow_are_clipped() -> None:
    x, half = mt.zeros(2, requires_grad=True), mt.zeros(2, dtype=mt.bfloat16, requires_grad=True)
    for order, norm in ((2.0, 5.0), (3.0, (3**3 + 4**3 / 4) ** (1 / 3)), (math.inf, 3.0)):
        x.grad, half.grad = mt.tensor([3e30, 0.0]), mt.tensor([0.0, 4e30]).bfloat16()
        if order != 2:
            half.grad /= 4 ** (1 / 3)
        found = nn.utils.clip_grad_norm_([x, half], 1.0, order)
        assert found.item() == pytest.approx(norm * 1e30, rel=1e-2)
        assert x.grad.tolist() == pytest.approx([3 / norm, 0.0], rel=1e-2)
    v = mt.tensor([[3e30, 4e30]], requires_grad=True)
    scaled_to(v, mt.tensor([[2.0]]), 0).backward(mt.tensor([[1.0, 0.0]]))
    np.testing.assert_allclose(v.grad.numpy() * 1e30, [[2 * 0.64 / 5, -2 * 0.48 / 5]], rtol=1e-5)


def test_embeddings_of_given_rows() -> None:
    rows = mt.arange(6.0).reshape(3, 2)
    frozen, moving = nn.Embedding.from_pretrained(rows), nn.Embedding.from_pretrained(rows, freeze=False)
    assert (frozen.weight.requires_grad, moving.weight.requires_grad) == (False, True)
    rows[2, 0] = 9.0
    assert frozen(mt.tensor(2)).tolist() == [9.0, 5.0]
    assert nn.EmbeddingBag.from_pretrained(rows, mode="sum")(mt.tensor([[0, 1]])).tolist() == [[2.0, 4.0]]
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(rows[0])


def test_a_convolution_and_its_normalisation_become_one() -> None:
    conv, norm = mt.nn.Conv2d(2, 3, 2).eval(), mt.nn.BatchNorm2d(3).eval()
    norm.running_mean.copy_(mt.tensor([0.5, -1.0, 2.0]))
    norm.running_var.copy_(mt.tensor([4.0, 0.25, 1.0]))
    x = mt.arange(32.0).reshape(1, 2, 4, 4) / 16
    mt.testing.assert_close(mt.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)))
