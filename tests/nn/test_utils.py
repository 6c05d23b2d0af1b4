"""Weights that are computed from others: parametrizations, weight and spectral norms, pruning."""

import copy
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn.utils import parametrizations, parametrize, prune


def layer() -> nn.Linear:
    mt.manual_seed(3)
    return nn.Linear(4, 3, dtype=mt.float64)


X = mt.arange(8.0, dtype=mt.float64).reshape(2, 4) / 8


class Doubled(nn.Module):
    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return x * 2

    def right_inverse(self, x: mt.Tensor) -> mt.Tensor:
        return x / 2


def test_a_parametrized_weight_is_computed_when_it_is_read() -> None:
    module, weight = layer(), layer().weight
    original = module.weight
    assert parametrize.register_parametrization(module, "weight", Doubled()) is module
    assert module.weight.tolist() == weight.tolist()
    assert module.parametrizations.weight.original is original
    assert list(module.state_dict()) == ["bias", "parametrizations.weight.original"]
    module.weight = mt.ones(3, 4, dtype=mt.float64)
    assert original.unique().tolist() == [0.5]
    module(X).sum().backward()
    np.testing.assert_allclose(original.grad.numpy(), 2 * np.broadcast_to(X.sum(0).numpy(), (3, 4)))
    other = copy.deepcopy(module)
    assert other.weight.tolist() == module.weight.tolist()
    with parametrize.cached():
        assert module.weight is module.weight
    assert parametrize.type_before_parametrizations(module) is nn.Linear
    moved = parametrize.transfer_parametrizations_and_params(module, layer(), "weight")
    assert moved.weight.tolist() == module.weight.tolist()
    parametrize.remove_parametrizations(module, "weight")
    assert type(module) is nn.Linear
    assert module.weight is original
    assert original.unique().tolist() == [1.0]


def test_parametrizations_that_change_the_shape_are_refused() -> None:
    class Cut(nn.Module):
        def forward(self, x: mt.Tensor) -> mt.Tensor:
            return x[:1]

    module = layer()
    with pytest.raises(ValueError, match=r"shape \[3, 4\], got mt.float64 and \[1, 4\]"):
        parametrize.register_parametrization(module, "weight", Cut())
    assert type(module) is nn.Linear
    with pytest.raises(ValueError, match="no parameter or buffer 'scale'"):
        parametrize.register_parametrization(module, "scale", Cut())


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("old", [True, False])
def test_weight_norm_keeps_the_function_and_splits_the_gradient(old: bool, dim: int | None) -> None:
    module, expected = layer(), layer()(X)
    weight = layer().weight.detach().numpy()
    (nn.utils.weight_norm if old else parametrizations.weight_norm)(module, dim=dim)
    held = module if old else module.parametrizations.weight
    g, v = (held.weight_g, held.weight_v) if old else (held.original0, held.original1)
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
    if old:
        nn.utils.remove_weight_norm(module)
        assert list(module.state_dict()) == ["bias", "weight"]
        assert not module._hooks or module(X).shape == (2, 3)


@pytest.mark.parametrize("old", [True, False])
def test_spectral_norm_divides_by_the_largest_singular_value(old: bool) -> None:
    module, weight = layer(), layer().weight.detach()
    (nn.utils.spectral_norm if old else parametrizations.spectral_norm)(module)
    for _ in range(60):
        module(X)
    expected = (weight / mt.linalg.svdvals(weight)[0]).numpy()
    module.eval()
    module(X).sum().backward()
    np.testing.assert_allclose(module.weight.detach().numpy(), expected, rtol=1e-6)
    original = module.weight_orig if old else module.parametrizations.weight.original
    assert abs((original.grad * original).sum().item()) < 1e-12  # the length of the weight does not matter
    if old:
        nn.utils.remove_spectral_norm(module)
        assert list(module.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize(
    ("shape", "map"), [((3, 5), None), ((4, 4), None), ((5, 3), "cayley"), ((4, 4), "householder")], ids=str
)
def test_orthogonal_weights_stay_so_in_training(shape: tuple[int, int], map: str | None, trivial: bool) -> None:
    module = parametrizations.orthogonal(
        nn.Linear(shape[1], shape[0], dtype=mt.float64), orthogonal_map=map, use_trivialization=trivial
    ) if trivial or map == "householder" else None  # fmt: skip
    if module is None:
        with pytest.raises(NotImplementedError, match="use_trivialization=True"):
            parametrizations._Orthogonal(shape, map or "cayley", False).right_inverse(mt.zeros(shape))
        return
    optimizer = mt.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        weight = module.weight
        small = weight @ weight.mT if shape[0] <= shape[1] else weight.mT @ weight
        np.testing.assert_allclose(small.detach().numpy(), np.eye(min(shape)), atol=1e-12)
        optimizer.zero_grad()
        (module(mt.ones(2, shape[1], dtype=mt.float64)) ** 3).sum().backward()
        optimizer.step()


def test_pruning_masks_the_smallest_and_goes_on_from_what_is_left() -> None:
    module = layer()
    with mt.no_grad():
        module.weight.copy_(mt.arange(12.0).reshape(3, 4) - 2)
    prune.l1_unstructured(module, "weight", 3)
    assert module.weight[0].tolist() == [-2.0, 0.0, 0.0, 0.0]
    prune.ln_structured(module, "weight", amount=0.5, n=2, dim=1)
    assert module.weight_mask.sum(0).tolist() == [0.0, 0.0, 2.0, 2.0]
    module(X).sum().backward()
    assert module.weight_orig.grad.sum(0)[:2].tolist() == [0.0, 0.0]
    assert prune.is_pruned(nn.Sequential(module))
    prune.remove(module, "weight")
    assert not prune.is_pruned(module)
    assert isinstance(module.weight, nn.Parameter)
    assert (module.weight == 0).sum().item() == 8


def test_pruning_of_several_parameters_by_one_scale() -> None:
    first, second = layer(), layer()
    with mt.no_grad():
        second.weight.mul_(100)
    pairs: list[Any] = [(first, "weight"), (second, "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=12)
    assert (first.weight_mask.sum().item(), second.weight_mask.sum().item()) == (0, 12)
    prune.random_structured(second, "weight", 1, dim=0)
    assert second.weight_mask.sum(1).sort().values.tolist() == [0.0, 4.0, 4.0]
    for amount in (1.5, -1, 13):
        with pytest.raises(ValueError, match="amount must be"):
            prune.random_unstructured(layer(), "weight", amount)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(layer(), "weight")


def test_norms_of_all_gradients() -> None:
    x, y = mt.zeros(1, requires_grad=True), mt.zeros(2, requires_grad=True)
    x.grad, y.grad = mt.tensor([3.0]), mt.tensor([0.0, 4.0])
    norm = nn.utils.get_total_norm([x.grad, y.grad])
    assert norm.item() == 5.0
    nn.utils.clip_grads_with_norm_([x, y], 1.0, norm)
    np.testing.assert_allclose(y.grad.numpy(), [0.0, 0.8], rtol=1e-6)


def test_adaptive_softmax_gives_the_probabilities_of_all_classes() -> None:
    mt.manual_seed(0)
    module = nn.AdaptiveLogSoftmaxWithLoss(8, 9, [2, 5], div_value=2.0, head_bias=True, dtype=mt.float64)
    x, target = mt.randn(6, 8, dtype=mt.float64), mt.tensor([0, 8, 3, 1, 4, 5])
    everything = module.log_prob(x)
    np.testing.assert_allclose(everything.exp().sum(1).detach().numpy(), 1)
    output, loss = module(x, target)
    np.testing.assert_allclose(
        output.detach().numpy(), everything.gather(1, target.unsqueeze(1))[:, 0].detach().numpy()
    )
    np.testing.assert_allclose(loss.item(), -output.mean().item())
    assert module.predict(x).tolist() == everything.argmax(1).tolist()
    np.testing.assert_allclose(module(x[0], target[0]).output.item(), output[0].item())
    loss.backward()
    assert all(each.grad is not None for each in module.parameters())
    with pytest.raises(ValueError, match="cutoffs must ascend"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 9, [5, 5])
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 8\]"):
        module(x, target + 1)


def test_embeddings_of_given_rows() -> None:
    rows = mt.arange(6.0).reshape(3, 2)
    frozen, moving = nn.Embedding.from_pretrained(rows), nn.Embedding.from_pretrained(rows, freeze=False)
    assert (frozen.weight.requires_grad, moving.weight.requires_grad) == (False, True)
    rows[2, 0] = 9.0
    assert frozen(mt.tensor(2)).tolist() == [9.0, 5.0]
    assert nn.EmbeddingBag.from_pretrained(rows, mode="sum")(mt.tensor([[0, 1]])).tolist() == [[2.0, 4.0]]
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(rows[0])
