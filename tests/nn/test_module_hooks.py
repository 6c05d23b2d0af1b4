"""Hooks of modules."""

import copy
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import nn


def doubling() -> Any:
    """A layer of two by two with weights [[1, 2], [3, 4]], and what its hooks note."""
    layer = nn.Linear(2, 2, bias=False)
    with mt.no_grad():
        layer.weight.copy_(mt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return layer, []


def test_forward_hooks_see_and_replace_arguments_and_outputs() -> None:
    layer, seen = doubling()
    handles = [
        layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        layer.register_forward_hook(lambda module, args, output: output + 1),
        layer.register_forward_hook(lambda module, args, output: seen.append(output.tolist()), prepend=True),
    ]
    assert layer(mt.ones(1, 2)).tolist() == [[7.0, 15.0]]
    assert seen == [[[6.0, 14.0]]]
    assert copy.deepcopy(layer)(mt.ones(1, 2)).tolist() == [[7.0, 15.0]]
    for handle in handles:
        handle.remove()
    with layer.register_forward_pre_hook(lambda module, args, named: ((named["input"] * 3,), {}), with_kwargs=True):
        assert layer(input=mt.ones(1, 2)).tolist() == [[9.0, 21.0]]
        with (
            pytest.raises(RuntimeError, match="new_args, new_kwargs"),
            layer.register_forward_pre_hook(lambda *_: 5, with_kwargs=True),
        ):
            layer(input=mt.ones(1, 2))
    assert layer(mt.ones(1, 2)).tolist() == [[3.0, 7.0]]


def test_backward_hooks_see_and_replace_gradients() -> None:
    layer, seen = doubling()
    noting = layer.register_full_backward_hook(
        lambda module, inputs, outputs: seen.append([None if g is None else g.tolist() for g in (*inputs, *outputs)])
    )
    first = layer.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 10,))
    x = mt.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert (seen, x.grad.tolist()) == ([[[[40.0, 60.0]], [[10.0, 10.0]]]], [[40.0, 60.0]])
    assert layer.weight.grad.tolist() == [[10.0, 10.0], [10.0, 10.0]]
    layer(mt.ones(1, 2)).sum().backward()  # no argument has a gradient
    assert seen[1:] == [[None, [[10.0, 10.0]]]]
    with mt.no_grad():
        layer(x)
    noting.remove()
    first.remove()
    with layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0 + 7,)):
        x.grad = None
        layer(x).sum().backward()
    assert x.grad.tolist() == [[7.0, 7.0]]
    with layer.register_full_backward_hook(lambda module, inputs, outputs: (None, None)):
        loss = layer(x).sum()
        with pytest.raises(RuntimeError, match="got 2, but expected 1"):
            loss.backward()


def test_hooks_of_fused_modules_are_called() -> None:
    model, seen = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.ReLU()).eval(), []
    model[0].register_forward_hook(lambda *_: seen.append("conv"))
    model[2].register_forward_hook(lambda *_: seen.append("relu"))
    with mt.no_grad():
        nn.utils.fuse(model)(mt.randn(1, 1, 3, 3))
    assert seen == ["conv", "relu"]
