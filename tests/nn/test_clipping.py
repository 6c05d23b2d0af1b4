"""Norms of gradients, gradients in bounds, and parameters as one vector."""

import math

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.tensor.tensor import Parameter

from ..support.arrays import zeros


@pytest.mark.parametrize(
    "dtypes", [("float16",), ("bfloat16",), ("float32", "float64"), ("bfloat16", "float16"), ("complex64",)]
)
def test_the_norm_of_gradients_has_the_type_that_holds_them_all(dtypes: tuple[str, ...]) -> None:
    parameters = [nn.Parameter(mt.ones(2, dtype=getattr(mt, name))) for name in dtypes]
    for each in parameters:
        each.grad = mt.ones_like(each)
    expected = {"float16": mt.float16, "bfloat16": mt.bfloat16, "float32float64": mt.float64}.get(
        "".join(dtypes), mt.float32
    )
    norm = nn.utils.clip_grad_norm_(parameters, 100.0)
    assert norm.dtype is expected
    assert norm.item() == pytest.approx(math.sqrt(2 * len(dtypes)), rel=1e-2)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
def test_clip_grad_norm(norm_type: float) -> None:
    parameters = [Parameter(zeros(2, 3)), Parameter(zeros(4)), Parameter(zeros(1))]
    before = [np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([-3, 1, 0, 2])]
    for each, values in zip(parameters, before, strict=False):
        each.grad = mt.tensor(values)
    flat = np.concatenate([each.reshape(-1) for each in before]).astype(np.float64)
    norm = np.linalg.norm(flat, norm_type)
    assert nn.utils.clip_grad_norm_(parameters, 1e3, norm_type).item() == pytest.approx(norm, rel=1e-6)
    assert np.array_equal(parameters[0].grad._array, before[0])
    nn.utils.clip_grad_norm_(iter(parameters), 1.5, norm_type)
    after = np.concatenate([each.grad._array.reshape(-1) for each in parameters[:2]])
    assert np.allclose(after, flat * 1.5 / norm, rtol=1e-5)
    parameters[2].grad = mt.tensor(np.float32([math.inf]))
    with pytest.raises(RuntimeError, match="cannot be clipped"):
        nn.utils.clip_grad_norm_(parameters, 1.0, norm_type, error_if_nonfinite=True)
    assert np.array_equal(after[:6], parameters[0].grad._array.reshape(-1))


def test_clip_grad_value() -> None:
    parameter = Parameter(zeros(3))
    parameter.grad = mt.tensor(np.float32([-5, 0.5, 5]))
    nn.utils.clip_grad_value_(parameter, 1.0)
    assert parameter.grad.tolist() == [-1.0, 0.5, 1.0]
    assert nn.utils.clip_grad_norm_([Parameter(zeros(1))], 1.0).item() == 0.0


def test_clipping_by_the_largest_gradient_by_name() -> None:
    x, empty = nn.Parameter(mt.ones(2)), nn.Parameter(mt.ones(0))
    x.grad, empty.grad = mt.tensor([3.0, -4.0]), mt.ones(0)
    assert nn.utils.clip_grad_norm_([x, empty], 1.0, "inf").item() == 4.0
    assert x.grad.tolist() == pytest.approx([0.75, -1.0], rel=1e-5)


def test_parameters_as_one_vector() -> None:
    layer = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 0 + mt.arange(6.0), layer.parameters())
    assert (layer.weight.tolist(), layer.bias.tolist()) == ([[0.0, 1.0], [2.0, 3.0]], [4.0, 5.0])
    with pytest.raises(RuntimeError, match="a vector of 6 numbers"):
        nn.utils.vector_to_parameters(mt.ones(3), layer.parameters())
    assert layer.get_parameter("weight") is layer.weight
    assert nn.Sequential(nn.BatchNorm1d(2)).get_buffer("0.running_var").tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="no buffer 'weight'"):
        layer.get_buffer("weight")
    assert layer.weight.numpy(force=True) is layer.weight.detach().numpy()
