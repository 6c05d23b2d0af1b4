"""Starting values."""

import math

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import manual_seed, nn
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.tensor import Parameter

from ..support.arrays import zeros


def test_starting_values() -> None:
    manual_seed(2)
    weight = Parameter(mt.tensor(np.empty((300, 200), np.float32)))
    for fill, std in (
        (lambda: nn.init.kaiming_uniform_(weight, nonlinearity="relu"), math.sqrt(2 / 200)),
        (lambda: nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 300)),
        (lambda: nn.init.kaiming_uniform_(weight, a=math.sqrt(5)), math.sqrt(1 / 3 / 200)),
        (lambda: nn.init.xavier_uniform_(weight), math.sqrt(2 / 500)),
        (lambda: nn.init.xavier_normal_(weight, gain=2.0), 2 * math.sqrt(2 / 500)),
        (lambda: nn.init.normal_(weight, 0.0, 0.5), 0.5),
        (lambda: nn.init.uniform_(weight, -1.0, 1.0), 1 / math.sqrt(3)),
    ):
        version = weight._version
        assert fill() is weight
        values = weight.detach()._array
        assert weight._version > version
        assert abs(values.std() - std) < 0.02 * std
        assert abs(values.mean()) < 0.02 * std
    assert nn.init.ones_(weight).detach()._array.min() == 1
    assert not nn.init.zeros_(weight).detach()._array.any()
    assert nn.init.constant_(weight, 2.5).detach()._array.max() == 2.5
    assert weight.is_leaf
    assert weight.requires_grad
    kernel = Parameter(zeros(8, 4, 3, 3))
    bound = math.sqrt(6 / (4 * 9))
    assert 0.8 * bound < np.abs(nn.init.kaiming_uniform_(kernel).detach()._array).max() <= bound


def test_starting_values_refuse() -> None:
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        nn.init.xavier_uniform_(zeros(3))
    with pytest.raises(ValueError, match="'fan_both'"):
        nn.init.kaiming_normal_(zeros(2, 2), mode="fan_both")
    with pytest.raises(ValueError, match="'swish'"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="std must be positive"):
        nn.init.trunc_normal_(zeros(3), std=0.0)
    with pytest.raises(ValueError, match="groups must be a positive integer"):
        nn.init.dirac_(zeros(2, 2, 2), groups=0)
    assert nn.init.calculate_gain("leaky_relu", 1e300) == 0.0
    numbers = nn.init.uniform_(zeros(2), mt.zeros((1,) * 20), 1.0)
    assert ((numbers >= 0) & (numbers < 1)).all()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3)])
def test_orthogonal_starting_values(shape: tuple[int, ...]) -> None:
    mt.manual_seed(0)
    found = nn.init.orthogonal_(mt.empty(*shape), gain=2.0).reshape(shape[0], -1)
    gram = found @ found.mT if found.shape[0] <= found.shape[1] else found.mT @ found
    assert mt.allclose(gram, 4 * mt.eye(len(gram)), atol=1e-5)


def test_other_starting_values() -> None:
    mt.manual_seed(0)
    found = nn.init.trunc_normal_(mt.empty(10_000), mean=1.0, std=2.0, a=-1.0, b=3.0)
    assert (found.min().item(), found.max().item()) == pytest.approx((-1.0, 3.0), abs=0.01)
    assert (found.mean().item(), found.std().item()) == pytest.approx((1.0, 1.0795), abs=0.03)
    for sign in (1, -1):  # the tail, of mean 10 - pdf(8) / cdf(-8)
        tail = nn.init.trunc_normal_(mt.empty(10_000), mean=10.0 * sign)
        assert tail.mean().item() * sign == pytest.approx(1.8788, abs=0.01)
    assert nn.init.trunc_normal_(mt.empty(1), mean=1e3).item() == 2
    assert nn.init.eye_(mt.empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    images = mt.randn(2, 4, 5)
    weight = nn.init.dirac_(mt.empty(4, 2, 3), groups=2)
    assert F.conv1d(images, weight, padding=1, groups=2).equal(images)
    for wrong in (
        lambda: nn.init.eye_(mt.empty(2)),
        lambda: nn.init.orthogonal_(mt.empty(2)),
        lambda: nn.init.dirac_(mt.empty(2, 2)),
        lambda: nn.init.dirac_(mt.empty(3, 2, 3), groups=2),
    ):
        with pytest.raises(ValueError, match=r"expects a tensor of|cannot be divided"):
            wrong()
