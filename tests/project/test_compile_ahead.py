"""`warmup`: what it calls, at which precisions, and what it leaves as it was."""

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn


def test_a_model_is_called_at_each_precision_and_stays_as_it_was():
    seen, net = [], nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    net.register_forward_hook(lambda *_: seen.append(mt.explain.precision_of("matmul").precision))
    before, state = {name: value.clone() for name, value in net.state_dict().items()}, mt.get_rng_state()
    told = []
    mt.warmup(net, mt.ones(5, 4), precisions=["bf16", "ieee", "bf16"], progress=lambda *each: told.append(each))
    assert seen == ["bf16", "ieee"]
    assert told == [(0, 2, "bf16"), (1, 2, "ieee"), (2, 2, "done")]
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(
        np.array_equal(value.detach().numpy(), before[name].detach().numpy())
        for name, value in net.state_dict().items()
    )
    assert np.array_equal(state.numpy(), mt.get_rng_state().numpy())


def test_a_function_is_called_backward_through_whatever_it_returns():
    seen = []

    def model(x):
        y = x * 2
        y.register_hook(lambda gradient: seen.append(gradient.shape))
        return {"y": [y, y.detach()]}

    x = mt.ones(3, requires_grad=True)
    with mt.no_grad():
        mt.warmup(model, x, progress=None)
    assert seen == [(3,)]
    assert x.grad is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"precisions": "fp8"}, r"warmup\(\): precisions must be some of .*bf16.*, got 'fp8'"),
        ({"families": ["sorting"]}, r"warmup\(\): families must be some of matmul, .*, got 'sorting'"),
    ],
)
def test_unknown_names_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        mt.warmup(**options)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="name precisions by precisions="):
        mt.warmup(["ieee"])


def test_families_are_called_at_each_precision_that_acts_on_them(monkeypatch):
    from minitorch_backends.cli import families

    seen = []
    for name in ("attention", "fft"):
        family = families.FAMILIES[name]._replace(
            run=lambda name=name: seen.append((name, mt.explain.precision_of("attention").precision))
        )
        monkeypatch.setitem(families.FAMILIES, name, family)
    mt.warmup(families=["fft", "attention"], precisions=["tf32", "bf16"], progress=None)
    assert seen == [("fft", "ieee"), ("attention", "tf32"), ("attention", "bf16")]
