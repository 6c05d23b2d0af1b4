"""Linear, bilinear and embedding layers."""

import copy
import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import manual_seed, nn, randn
from minitorch_backends.nn import functional as F

from ..support.arrays import tensor


@pytest.mark.parametrize(
    ("dtype", "sizes", "tolerance"), [(mt.float32, (3, 700, 16, 600), 1e-5), (mt.float16, (2, 40, 48, 300), 1e-2)]
)
def test_linear_of_many_values(dtype: mt.dtype, sizes: tuple[int, ...], tolerance: float) -> None:
    """A bias added while the product is stored gives the values and gradients of a product and a sum."""
    batch, rows, inputs, outputs = sizes
    x, w, b = (mt.randn(*shape).to(dtype) for shape in ((batch, rows, inputs), (outputs, inputs), (outputs,)))
    factors, results = mt.randn(batch, rows, outputs).to(dtype), []
    for call in (nn.functional.linear, lambda x, w, b: x @ w.T + b):
        leaves = [each.clone().requires_grad_() for each in (x, w, b)]
        out = call(*leaves)
        (out * factors).sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves)])
    for found, wanted in zip(*results, strict=True):
        assert found.shape == wanted.shape
        assert found.dtype is dtype
        assert mt.allclose(found.float(), wanted.float(), rtol=tolerance, atol=tolerance * wanted.abs().max().item())


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        pytest.param(lambda: nn.Linear(300, 300), (64, 300), id="linear"),
        pytest.param(lambda: nn.Conv2d(32, 32, 3), (2, 32, 9, 9), id="convolution"),
        pytest.param(lambda: nn.ConvTranspose2d(32, 32, 3), (2, 32, 9, 9), id="transposed"),
    ],
)
def test_weights_that_are_kept_for_inference_see_every_write(make: Any, shape: tuple[int, ...]) -> None:
    """Those through `data` as well, which no version counts, now or later, and those to inference tensors."""
    layer, x = make(), randn(*shape)
    weight, data = layer.weight, layer.weight.data
    with mt.no_grad():
        for write in (
            lambda: weight.mul_(2),
            lambda: weight.data.mul_(2),
            data.zero_,
            lambda: data.__setitem__(0, 3.0),
            lambda: weight.data.view(-1)[:3].fill_(5.0),
            lambda: data.data.detach().copy_(randn(*data.shape)),
        ):
            layer(x)
            write()
            assert layer(x).equal(copy.deepcopy(layer)(x))
    with mt.inference_mode():
        layer = make()
        before = layer(x)
        layer.weight.mul_(2)
        assert not layer(x).equal(before)


def test_linear() -> None:
    manual_seed(0)
    layer = nn.Linear(100, 50)
    bound = 1 / math.sqrt(100)
    for values in (layer.weight.detach()._array, layer.bias.detach()._array):
        assert np.abs(values).max() <= bound
        assert abs(values.std() - bound / math.sqrt(3)) < 0.1 * bound
    x = randn(7, 3, 100)
    wanted = x._array.astype(np.float64) @ layer.weight.detach()._array.T + layer.bias.detach()._array
    assert np.abs(layer(x).detach()._array - wanted).max() < 1e-5
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(randn(3, 99))


def test_a_bias_does_not_enlarge_a_product() -> None:
    for x, weight, bias in (((2, 4), (1, 4), (3,)), ((2, 4), (3, 4), (5, 2, 3)), ((600, 500), (1, 500), (7,))):
        with pytest.raises(RuntimeError, match="does not broadcast to the product's"):
            F.linear(randn(*x), randn(*weight), randn(*bias))


def test_bilinear_layers() -> None:
    """Draw weights within their bound, and sum over both inputs."""
    layer = nn.Bilinear(3, 4, 5)
    assert float(layer.weight.abs().max()) <= 1 / math.sqrt(3)
    assert repr(layer) == "Bilinear(in1_features=3, in2_features=4, out_features=5, bias=True)"
    first, second = randn(2, 6, 3), randn(2, 6, 4)
    wanted = np.einsum("abi,oij,abj->abo", first.numpy(), layer.weight.detach().numpy(), second.numpy())
    assert np.allclose(layer(first, second).detach().numpy(), wanted + layer.bias.detach().numpy(), atol=1e-5)
    assert nn.Bilinear(3, 4, 5, bias=False).bias is None
    with pytest.raises(RuntimeError, match=r"got \[2, 3\], \[3, 4\]"):
        layer(randn(2, 3), randn(3, 4))
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 4, 5)


def test_indices_of_an_embedding_that_changed_since_are_refused_by_its_gradient() -> None:
    weight, indices = mt.zeros(100, 64, requires_grad=True), np.array([0, 3] * 50)
    rows = F.embedding(mt.from_numpy(indices), weight)
    indices[:] = 10**9
    with pytest.raises(IndexError, match="1000000000 is out of bounds"):
        rows.sum().backward()


def test_embedding_gives_no_gradient_to_the_padding_row() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert not layer.weight.detach()._array[4].any()
    indices = tensor([[1, 4], [1, 0]])
    layer(indices).sum().backward()
    assert layer.weight.grad._array[:, 0].tolist() == [1, 2, 0, 0, 0]
    for bad in (5, -1):
        with pytest.raises(IndexError, match=rf"index {bad} is out of range"):
            layer(tensor([bad]))
    with pytest.raises(RuntimeError, match=r"int32 or mt\.int64"):
        layer(tensor([0.5]))
    with pytest.raises(AssertionError, match="padding_idx=5"):
        nn.Embedding(5, 3, padding_idx=5)


def test_embedding_bags() -> None:
    rows = mt.arange(12.0).reshape(6, 2)
    module = nn.EmbeddingBag(6, 2, mode="sum", _weight=rows.clone(), padding_idx=-2)
    indices, offsets = mt.tensor([1, 2, 4, 5, 4, 3]), mt.tensor([0, 4, 4])
    out = module(indices, offsets, mt.tensor([1.0, 2, 3, 4, 5, 6]))
    assert out.tolist() == [[50, 57], [0, 0], [36, 42]]
    out.sum().backward()
    assert module.weight.grad[:, 0].tolist() == [0, 1, 2, 6, 0, 4]
    assert repr(module) == "EmbeddingBag(6, 2, mode='sum', padding_idx=4)"
    scaled = F.embedding_bag(indices[None], rows.half().requires_grad_(), scale_grad_by_freq=True)
    assert scaled.dtype is mt.float16
    bounded = rows.half()
    F.embedding_bag(mt.tensor([[5]]), bounded, max_norm=1.0)
    assert bounded[5].norm().item() == pytest.approx(1, abs=1e-3)
    assert bounded[4].tolist() == [8, 9]


@pytest.mark.parametrize(
    ("indices", "options", "error", "says"),
    [
        ([1, 2], {}, ValueError, "offsets must be a vector"),
        ([1, 2], {"offsets": [1]}, RuntimeError, "offsets must begin with 0"),
        ([1, 2], {"offsets": [0, 3]}, RuntimeError, "up to the input's length 2"),
        ([1, 2], {"offsets": [0, 2, 1]}, RuntimeError, "not decrease"),
        ([[1, 2]], {"offsets": [0]}, ValueError, "offsets must be None"),
        ([[1, 6]], {}, RuntimeError, "input must be from 0 to 5, got 6"),
        ([[1, -1]], {}, RuntimeError, "input must be from 0 to 5, got -1"),
        ([[1.0]], {}, RuntimeError, "input must be a tensor of mt.int32"),
        ([[1]], {"mode": "min"}, ValueError, "mode must be"),
        ([[1]], {"mode": "max", "scale_grad_by_freq": True}, ValueError, "scale_grad_by_freq must be False"),
        ([[1]], {"per_sample_weights": [[1.0]]}, NotImplementedError, "per_sample_weights must be None"),
        ([[1]], {"padding_idx": 6}, RuntimeError, "padding_idx must be from -6 to 5"),
    ],
)
def test_embedding_bags_refuse(indices: Any, options: dict[str, Any], error: type[Exception], says: str) -> None:
    options = {name: mt.tensor(value) if isinstance(value, list) else value for name, value in options.items()}
    with pytest.raises(error, match=r"embedding_bag\(\): .*" + says):
        F.embedding_bag(mt.tensor(indices), mt.ones(6, 2), **options)


def test_embedding_bags_without_offsets_are_none() -> None:
    none = mt.tensor([], dtype=mt.int64)
    for mode in ("sum", "mean", "max"):
        assert F.embedding_bag(mt.tensor([1, 2]), mt.ones(6, 2), none, mode=mode, padding_idx=0).shape == (0, 2)
