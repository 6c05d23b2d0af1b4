"""Modules as functions of their parameters."""

import copy
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.func import functional_call, grad, jacrev

MODULES: dict[str, Any] = {
    "linear": (lambda: nn.Linear(3, 4), (2, 3)),
    "convolution": (lambda: nn.Conv2d(2, 3, 3), (1, 2, 5, 5)),
    "recurrence": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), (5, 2, 3)),
    "normalization": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 3, 8)),
}


def first(result: Any) -> mt.Tensor:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("kind", MODULES)
def test_every_kind_of_layer(kind: str) -> None:
    """Results and gradients are those of a copy that has the parameters; packed weights are told apart."""
    make, shape = MODULES[kind]
    module, x = make(), mt.randn(*shape)
    other = {name: mt.randn_like(value) for name, value in module.named_parameters()}
    twin = copy.deepcopy(module)
    twin.load_state_dict(other, strict=False)
    with mt.no_grad():
        before = first(copy.deepcopy(module)(x))
        assert first(module(x)).tolist() == before.tolist()
        expected = first(twin(x))
        assert first(functional_call(module, other, (x,))).tolist() == expected.tolist()
        if kind != "normalization":  # whose running statistics have moved
            assert first(module(x)).tolist() == before.tolist()
    found = grad(lambda given: first(functional_call(module, given, (x,))).sin().sum())(other)
    first(twin(x)).sin().sum().backward()
    for name, parameter in twin.named_parameters():
        assert mt.allclose(found[name], parameter.grad, atol=1e-6)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_learning_to_learn() -> None:
    """One step on a task, whose loss after it is differentiated: C. Finn et al., "Model-agnostic meta-learning"
    (2017)."""
    module = nn.Linear(1, 1).double()
    x, y = mt.tensor([[1.0], [2.0]], dtype=mt.float64), mt.tensor([[2.0], [3.0]], dtype=mt.float64)
    parameters = {name: value.detach() for name, value in module.named_parameters()}

    def loss(given: dict[str, mt.Tensor]) -> mt.Tensor:
        return ((functional_call(module, given, x) - y) ** 2).mean()

    def adapt(given: dict[str, mt.Tensor]) -> mt.Tensor:
        steps = grad(loss)(given)
        return loss({name: given[name] - 0.1 * steps[name] for name in given})

    found = grad(adapt)(parameters)
    for name, value in parameters.items():
        step = mt.full_like(value, 1e-6)
        ends = [adapt({**parameters, name: value + sign * step}).item() for sign in (1, -1)]
        assert found[name].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    rows = jacrev(lambda given: functional_call(module, given, x).reshape(-1))(parameters)
    assert rows["weight"].reshape(-1).tolist() == [1.0, 2.0]
    assert rows["bias"].reshape(-1).tolist() == [1.0, 1.0]


class Tied(nn.Module):
    def __init__(self) -> None:
        self.first, self.last = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("calls", mt.zeros(1))

    def forward(self, x: mt.Tensor, scale: float = 1.0) -> mt.Tensor:
        self.calls += 1
        return self.last(self.first(x)) * scale


def test_tied_weights_and_buffers() -> None:
    module, x, twice = Tied(), mt.ones(1, 2), mt.eye(2) * 2
    for name in ("first.weight", "last.weight"):
        assert functional_call(module, {name: twice}, x).tolist() == [[4.0, 4.0]]
    both = {"first.weight": twice, "last.weight": mt.eye(2)}
    assert functional_call(module, both, (x,), {"scale": 3.0}, tie_weights=False).tolist() == [[6.0, 6.0]]
    with pytest.raises(ValueError, match=r"'last.weight' is tied to another name .* tie_weights=False"):
        functional_call(module, both, x)
    given = {"calls": mt.zeros(1)}
    functional_call(module, given, x)
    assert (given["calls"].item(), module.calls.item()) == (1.0, 3.0)


def test_what_is_refused_leaves_the_module_as_it_was() -> None:
    module, x = Tied(), mt.ones(1, 2)
    weight = module.first.weight
    with pytest.raises(RuntimeError, match=r"size|shape"):
        functional_call(module, {"first.weight": mt.ones(3, 3)}, x)
    for dicts, strict, error, match in (
        (3, False, ValueError, "a dict, or a list or tuple of dicts, got int"),
        ({"first.weight": 3}, False, TypeError, "expected a Tensor for 'first.weight', got int"),
        (({"calls": x}, {"calls": x}), False, ValueError, "'calls' stands in several"),
        ({"middle.weight": x}, False, AttributeError, "no module 'middle'"),
        (
            {"wait": x, "calls": mt.zeros(1)},
            True,
            RuntimeError,
            "unexpected names: 'wait'; missing names: 'first.weight'",
        ),
    ):
        with pytest.raises(error, match=match):
            functional_call(module, dicts, x, strict=strict)
    with pytest.raises(TypeError, match="expects a Module, whose parts have names, got int"):
        functional_call(3, {}, x)
    assert functional_call(module, {"wait": x}, x).shape == (1, 2)
    assert module.first.weight is module.last.weight is weight
