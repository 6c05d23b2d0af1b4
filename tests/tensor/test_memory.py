"""Devices and memory formats."""

import pytest

import minitorch_backends as mt


def test_devices() -> None:
    x = mt.ones(2)
    assert x.device == mt.device("cpu") != mt.device("cuda", 1) == mt.device("cuda:1") == mt.device(1)
    assert (str(mt.device(1)), repr(x.device), x.get_device()) == ("cuda:1", "device(type='cpu')", -1)
    assert x.to(mt.device("cpu")) is x is x.cpu() is x.pin_memory()
    with mt.device("cpu"):
        assert mt.zeros(2, device=x.device).device is x.device
    for call in (x.cuda, lambda: x.to("cuda:0"), lambda: x.to(0), mt.nn.Linear(1, 1).cuda):
        with pytest.raises(AssertionError, match="cuda"):
            call()
    for name in ("mps", "nowhere"):
        with pytest.raises(RuntimeError, match=name):
            x.to(name)
    assert not mt.backends.mps.is_available()


def test_memory_formats() -> None:
    x = mt.arange(120.0).reshape(2, 3, 4, 5)
    last = x.to(memory_format=mt.channels_last)
    assert last.stride() == (60, 1, 15, 3)
    assert last.equal(x)
    assert not last.is_contiguous()
    assert last.contiguous(memory_format=mt.channels_last) is last
    assert mt.empty_like(x, memory_format=mt.channels_last).is_contiguous(memory_format=mt.channels_last)
    assert mt.nn.Conv2d(2, 3, 2).to(memory_format=mt.channels_last).weight.stride() == (8, 1, 4, 2)
    with pytest.raises(RuntimeError, match="4 dimensions, got 1"):
        mt.ones(2).to(memory_format=mt.channels_last)
