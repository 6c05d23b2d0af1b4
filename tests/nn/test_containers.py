"""Sequential and ModuleList."""

import math

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn

from ..support.arrays import tensor


def test_sequential_is_a_list() -> None:
    layers = [nn.Linear(1, 1), nn.ReLU(), nn.Tanh()]
    model = nn.Sequential(*layers)
    assert (len(model), list(model), model[-1], model[1]) == (3, layers, layers[2], layers[1])
    assert list(model[1:]) == layers[1:]
    assert isinstance(model[1:], nn.Sequential)
    model.insert(1, nn.SiLU()).append(nn.Flatten())
    assert [type(each).__name__ for each in model] == ["Linear", "SiLU", "ReLU", "Tanh", "Flatten"]
    assert [name for name, _ in model.named_children()] == list("01234")
    del model[1]
    model[3] = nn.Identity()
    assert [type(each).__name__ for each in model] == ["Linear", "ReLU", "Tanh", "Identity"]
    for bad in (4, -5):
        with pytest.raises(IndexError, match="out of range"):
            model[bad]
    named = nn.Sequential({"body": layers[0], "head": layers[2]})
    assert named.head is layers[2]
    x = tensor([[0.3]], np.float32)
    assert named(x).item() == pytest.approx(math.tanh(layers[0](x).item()), rel=1e-6)


def test_modules_are_inserted_where_there_is_a_place() -> None:
    layers = nn.Sequential(nn.ReLU())
    layers.insert(1, nn.Tanh()).insert(-2, nn.SiLU())
    assert [type(each).__name__ for each in layers] == ["SiLU", "ReLU", "Tanh"]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        layers.insert(5, nn.Tanh())


def test_a_module_may_stand_twice_in_a_sequence() -> None:
    layer = nn.Linear(1, 1, bias=False)
    with mt.no_grad():
        layer.weight.fill_(3.0)
    model = nn.Sequential(layer, layer)
    assert model(tensor([1.0], np.float32)).item() == 9.0
    assert len(list(model.parameters())) == 1


def test_module_list_finds_its_parameters() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

    deep = Deep()
    assert len(list(deep.parameters())) == 6
    deep.layers.extend([nn.Linear(2, 1)])
    assert [name for name, _ in deep.named_parameters()][-1] == "layers.3.bias"


def test_lists_of_modules_keep_the_places_of_none() -> None:
    modules = nn.ModuleList([None, nn.ReLU()])
    assert (len(modules), modules[0], type(modules[1])) == (2, None, nn.ReLU)
    with pytest.raises(TypeError, match="not callable"):
        nn.Sequential(nn.ReLU(), None)(mt.ones(1))
