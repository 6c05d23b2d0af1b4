"""Weights in memory that several processes share: a layer computes with what another process has written."""

import os

import pytest

import minitorch_backends as mt
from minitorch_backends import nn

LAYERS = {
    "linear": (lambda: nn.Linear(256, 256), (64, 256)),
    "conv1d": (lambda: nn.Conv1d(16, 16, 3), (2, 16, 40)),
    "conv2d": (lambda: nn.Conv2d(16, 32, 3), (2, 16, 20, 20)),
    "transposed": (lambda: nn.ConvTranspose2d(16, 16, 3), (2, 16, 12, 12)),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", LAYERS)
@mt.no_grad()  # so that layers pack their weights
def test_writes_of_another_process_are_seen(name: str):
    make, shape = LAYERS[name]
    mt.manual_seed(0)
    layer, x = make().eval(), mt.randn(*shape)
    layer.weight.share_memory_()
    layer.bias.zero_()
    before = layer(x)
    assert mt.equal(layer(x), before)
    child = os.fork()
    if child == 0:
        try:
            layer.weight.mul_(2)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert mt.equal(layer(x), before * 2)
