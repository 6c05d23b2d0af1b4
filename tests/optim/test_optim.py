"""Groups, states, errors and training of optimizers."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import manual_seed, nn, optim, randn
from minitorch_backends.kernels.arrays import updates
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.tensor import Parameter, Tensor

from ..support.optimizers import every_case, gradients_for, parameter, train


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda p: optim.SGD(p, lr="a"), TypeError, "invalid lr: 'a'"),
        (lambda p: optim.Adam(p, eps=None), TypeError, "'eps' must be number, not NoneType None"),
        (lambda p: optim.Adam(p, betas=0.9), TypeError, "invalid betas: 0.9"),
        (lambda p: optim.Adam(p, betas=(0.9,)), TypeError, "expected two numbers"),
        (lambda p: optim.SGD(None), TypeError, "params is None"),
        (lambda p: optim.SGD([{"lr": 1}]), ValueError, r"must have 'params'.*\['lr'\]"),
        (lambda p: optim.SGD(p).load_state_dict({}), ValueError, "a dict with 'state' and 'param_groups'"),
        (lambda p: optim.SGD(p).load_state_dict(None), ValueError, "got NoneType"),
    ],
)
def test_what_is_no_option_is_refused_by_name(call: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        call([mt.ones(2, requires_grad=True)])


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_step_that_is_refused_changes_no_parameter(make: Any, groups: int) -> None:
    memory = np.ones(5, np.float32)
    memory.flags.writeable = False
    parameters = [Parameter(mt.ones(5)), Parameter(mt.from_numpy(memory))]
    for each in parameters:
        each.grad = mt.ones(5)
    optimizer = make(parameters if groups == 1 else [{"params": each} for each in parameters], lr=0.5)
    with pytest.raises(ValueError, match=r"shape \[5\].* lies in read-only memory; clone"):
        optimizer.step()
    assert optimizer.state == {}
    assert mt.equal(parameters[0], mt.ones(5))
    assert parameters[0]._version == 0


@pytest.mark.parametrize("count", [10, updates.LARGE + 7])
def test_parameters_of_integers_are_refused(count: int) -> None:
    target = mt.ones(count, dtype=mt.int32)
    target.grad = mt.ones(count, dtype=mt.int32)
    with pytest.raises(RuntimeError, match="floating and complex parameters, and one is of int32"):
        optim.SGD([target], lr=0.5).step()
    assert target.sum().item() == count


def test_a_step_that_is_interrupted_counts_as_a_write(monkeypatch: Any) -> None:
    target = Parameter(mt.ones(5))
    target.grad = mt.ones(5)
    monkeypatch.setattr(updates, "step", lambda moves, together: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        optim.SGD([target], lr=0.5).step()
    assert target._version == 1


def test_half_types_overflow_without_warnings() -> None:
    parameter = Parameter(mt.full((4,), 60000.0, dtype=mt.float16))
    parameter.grad = -parameter.detach()
    optim.SGD([parameter], lr=1.0).step()
    assert parameter.isinf().all()


LARGE = 70_000
"""Numbers that loops would take."""


def test_a_parameter_that_changed_its_dtype_steps_on() -> None:
    """Buffers of the first step are of another type and size in bytes than the parameter."""
    parameter = Parameter(mt.ones(LARGE))
    optimizer = optim.Adam([parameter], lr=0.5)
    for dtype in (mt.float32, mt.float64):
        parameter.data = parameter.data.to(dtype)
        parameter.grad = mt.ones(LARGE, dtype=dtype)
        optimizer.step()
    assert parameter.dtype is mt.float64
    np.testing.assert_allclose(parameter.detach().numpy(), 0, atol=1e-6)


def test_what_does_not_fit_its_parameter_is_refused() -> None:
    parameter = Parameter(mt.ones(LARGE))
    optimizer = optim.SGD([parameter], lr=0.5, momentum=0.9)
    parameter.grad = mt.ones(LARGE)
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["momentum_buffer"] = mt.ones(5)
    before = parameter.detach().clone()
    with pytest.raises(ValueError, match=r"momentum_buffer has the shape \[5\], and its parameter \[70000\]"):
        optimizer.load_state_dict(state)
    optimizer.state[parameter]["momentum_buffer"] = mt.ones(5)
    with pytest.raises(ValueError, match=r"shape \[70000\] has .* of shape \[5\]; they must agree"):
        optimizer.step()
    assert mt.equal(parameter, before)


@pytest.mark.parametrize("count", [10, LARGE])
def test_read_only_memory_is_not_written(count: int) -> None:
    memory = np.ones(count, np.float32)
    memory.flags.writeable = False
    parameter = mt.from_numpy(memory).requires_grad_()
    parameter.grad = mt.ones(count)
    optimizers = optim.SGD([parameter], lr=0.5, momentum=0.5, dampening=0.5), optim.Adam([parameter], lr=0.5)
    for optimizer in optimizers:
        with pytest.raises(ValueError, match="read-only"):
            optimizer.step()
        assert optimizer.state == {}
    assert (memory == 1).all()


def test_groups_have_options_of_their_own() -> None:
    one, other, frozen = parameter(1.0), parameter(1.0), parameter(1.0)
    optimizer = optim.SGD([{"params": [one, frozen]}, {"params": other, "lr": 0.5}], lr=0.1)
    one.grad = other.grad = mt.tensor(np.asarray(1.0))
    optimizer.step()
    assert (one.item(), other.item(), frozen.item()) == (0.9, 0.5, 1.0)
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    assert one.item() == pytest.approx(-0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.5]
    assert optimizer.defaults["lr"] == 0.1
    late = parameter(2.0)
    optimizer.add_param_group({"params": [late], "momentum": 0.5})
    assert optimizer.param_groups[2]["momentum"] == 0.5


def test_zero_grad_and_closure() -> None:
    target = parameter([3.0])
    optimizer = optim.SGD([target], lr=0.25)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (target * target).sum()
        loss.backward()
        return loss

    with mt.no_grad():
        losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses == [9.0, 2.25, 0.5625]
    held = target.grad
    held.fill_(math.nan)
    optimizer.zero_grad(set_to_none=False)
    assert target.grad is held
    assert held.tolist() == [0.0]
    (target**3).sum().backward(create_graph=True)
    held = target.grad
    optimizer.zero_grad(set_to_none=False)  # which leaves what has a graph to that
    assert target.grad.tolist() == [0.0]
    assert held.item() != 0
    optimizer.zero_grad()
    assert target.grad is None


def test_a_step_spoils_what_the_graph_has_saved() -> None:
    target = parameter([2.0])
    loss = (target * target).sum()
    target.grad = mt.tensor(np.ones(1))
    optim.SGD([target], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def resumed_by_state_dict(
    make: Any, options: dict[str, Any], target: Parameter, optimizer: optim.Optimizer
) -> tuple[Any, Any]:
    fresh = parameter(target.detach()._array.copy())
    other = make([fresh], **options | {"lr": 77.0})
    other.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    return fresh, other


def resumed_by_copy(
    make: Any, options: dict[str, Any], target: Parameter, optimizer: optim.Optimizer
) -> tuple[Any, Any]:
    return copy.deepcopy((target, optimizer))


@every_case
@pytest.mark.parametrize("resumed", [resumed_by_state_dict, resumed_by_copy])
def test_training_goes_on_from_a_saved_state(make: Any, formula: Any, options: dict[str, Any], resumed: Any) -> None:
    values = np.linspace(-1, 1, 4)
    gradients = gradients_for(values)
    target = parameter(values)
    optimizer = make([target], **options)
    train(optimizer, target, gradients[:3])
    other_target, other = resumed(make, options, target, optimizer)
    assert not np.shares_memory(other_target._array, target._array)
    one, two = train(optimizer, target, gradients[3:]), train(other, other_target, gradients[3:])
    assert np.array_equal(one, two)
    for state, mine in zip(other.state.values(), optimizer.state.values(), strict=True):
        tensors = [name for name, value in state.items() if isinstance(value, Tensor)]
        assert not any(np.shares_memory(state[name]._array, mine[name]._array) for name in tensors)


def test_state_dict_has_the_form_of_torch() -> None:
    one, other = parameter([1.0, 2.0]), parameter(1.0)
    optimizer = optim.Adam([{"params": [one]}, {"params": [other], "lr": 0.5}])
    other.grad = mt.tensor(np.asarray(1.0))
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert list(state["state"]) == [1]
    assert set(state["state"][1]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["state"][1]["step"] == 1
    with pytest.raises(ValueError, match=r"sizes \[1, 1\], and this optimizer \[2\]"):
        optim.Adam([one, other]).load_state_dict(state)


def test_repr_lists_the_groups() -> None:
    text = repr(optim.SGD([parameter(1.0)], lr=0.5))
    assert text.startswith(
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
    )
    assert text.endswith("\n)")


BAD = [
    (TypeError, "one Tensor", lambda: optim.SGD(parameter(1.0))),
    (ValueError, "empty parameter list", lambda: optim.Adam([])),
    (TypeError, "only optimize Tensors, got int", lambda: optim.SGD([3])),
    (ValueError, "non-leaf", lambda: optim.SGD([parameter(1.0) * 2])),
    (ValueError, "more than one parameter group", lambda: optim.SGD([(p := parameter(1.0)), p])),
    (ValueError, "invalid lr: -1", lambda: optim.SGD([parameter(1.0)], lr=-1)),
    (ValueError, "invalid lr: nan", lambda: optim.SGD([parameter(1.0)], lr=math.nan)),
    (ValueError, "invalid momentum: -0.5", lambda: optim.SGD([parameter(1.0)], momentum=-0.5)),
    (ValueError, "invalid weight_decay: -2", lambda: optim.AdamW([parameter(1.0)], weight_decay=-2)),
    (ValueError, "Nesterov", lambda: optim.SGD([parameter(1.0)], nesterov=True)),
    (ValueError, "at index 1: 1.0", lambda: optim.Adam([parameter(1.0)], betas=(0.9, 1.0))),
    (ValueError, "invalid eps: -1", lambda: optim.Adam([{"params": [parameter(1.0)], "eps": -1}])),
    (RuntimeError, "cannot be `True` together", lambda: optim.Adam([parameter(1.0)], fused=True, foreach=True)),
    (TypeError, "invalid fused: 'yes'", lambda: optim.SGD([parameter(1.0)], fused="yes")),
    (TypeError, "must be a dict", lambda: optim.SGD([parameter(1.0)]).add_param_group([parameter(1.0)])),
]


@pytest.mark.parametrize(("error", "says", "call"), BAD, ids=[each[1] for each in BAD])
def test_bad_arguments(error: Any, says: str, call: Any) -> None:
    with pytest.raises(error) as raised:
        call()
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.3),
        lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        lambda p: optim.Adam(p, lr=0.02),
        lambda p: optim.AdamW(p, lr=0.02),
    ],
    ids=["SGD", "SGD with momentum", "Adam", "AdamW"],
)
def test_a_small_network_learns_two_rings(make: Any) -> None:
    """Two classes that no line separates: a disc, and the ring around it."""
    manual_seed(0)
    x = randn(200, 2)
    radius = np.linalg.norm(x._array, axis=1)
    target = mt.tensor((radius > np.median(radius)).astype(np.int64))
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 2))
    optimizer = make(model.parameters())
    first = F.cross_entropy(model(x), target).item()
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    with mt.no_grad():
        answers = model(x).argmax(1)
    assert loss.item() < first / 3
    assert (answers == target).float().mean().item() > 0.9


def test_a_step_inside_allow_mutation_keeps_what_backward_needs() -> None:
    weight = mt.tensor([1.0, 2.0], requires_grad=True)
    with mt.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (weight * weight).sum()
        weight.grad = mt.ones(2)
        optim.SGD([weight], lr=1.0).step()
        assert weight.tolist() == [0.0, 1.0]
        (gradient,) = mt.autograd.grad(loss, weight)
    assert gradient.tolist() == [2.0, 4.0]


def test_rates_in_tensors_stay_the_users() -> None:
    rate, x = mt.tensor(0.1, dtype=mt.float64), parameter([1.0, 2.0, 3.0])
    optimizer = optim.LBFGS([x], lr=rate)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert rate.item() == 0.1
    other = parameter([1.0, 2.0, 3.0])
    optimizer = optim.LBFGS([other], lr=0.1)
    x = other
    optimizer.step(closure)
    assert x.tolist() == pytest.approx([0.1328, 0.2657, 0.3985], abs=1e-4)
    first, second = optim.SGD([x], lr=mt.tensor(0.1)), optim.SGD([x], lr=0.5)
    second.load_state_dict(first.state_dict())
    first.param_groups[0]["lr"].fill_(9.0)
    assert float(second.param_groups[0]["lr"]) == pytest.approx(0.1)


def test_an_optimizer_of_the_users_own() -> None:
    class Averaging(optim.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1) -> None:
            super().__init__(params, {"lr": lr})

        @mt.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for each in group["params"]:
                    state = self.state[each]
                    state["n"] = state.get("n", 0) + 1
                    state["mean"] = state.get("mean", mt.zeros(())) + each.grad.mean()
                    state["step"] = mt.tensor(float(state["n"]))
                    each.add_(each.grad, alpha=-group["lr"])

    x = parameter([1.0, 1.0])
    optimizer = Averaging([x])
    (x * x).sum().backward()
    optimizer.step()
    assert x.tolist() == pytest.approx([0.8, 0.8])
    loaded = Averaging([x])
    loaded.load_state_dict(optimizer.state_dict())
    optimizer.state[x]["mean"].zero_()
    assert (loaded.state[x]["n"], loaded.state[x]["mean"].item()) == (1, 2.0)
    assert isinstance(loaded.state[x]["step"], Tensor)


def test_states_that_were_looked_at_before_a_step() -> None:
    for kind in (optim.LBFGS, optim.SGD, optim.Adam):
        x = parameter([1.0])
        optimizer = kind([x], lr=0.1)
        assert optimizer.state[x] == {}

        def closure(x: Any = x, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (x * x).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        assert x.item() < 1


def test_buffers_of_another_shape_are_refused_whatever_the_group_says() -> None:
    """amsgrad's too, by an optimiser that has none until the loaded options say so."""
    x, other = parameter([1.0, 2.0]), parameter([1.0, 2.0])
    with_buffer, without = optim.Adam([x], amsgrad=True), optim.Adam([other])
    (x * x).sum().backward()
    with_buffer.step()
    state = with_buffer.state_dict()
    without.load_state_dict(state)
    assert without.state[other]["max_exp_avg_sq"].tolist() == with_buffer.state[x]["max_exp_avg_sq"].tolist()
    state["state"][0]["max_exp_avg_sq"] = mt.ones(3)
    with pytest.raises(ValueError, match=r"the loaded max_exp_avg_sq has the shape \[3\]"):
        optim.Adam([other]).load_state_dict(state)


def test_options_without_effect_must_be_false() -> None:
    for name in ("capturable", "differentiable"):
        with pytest.raises(RuntimeError, match=rf"Adam: {name} must be False, got True"):
            optim.Adam([parameter(1.0)], **{name: True})


def test_states_that_torch_saved_are_loaded() -> None:
    """The state of torch 2.13 after three steps, as plain data, and the result of the fourth step."""
    weight = parameter([1.0, 2.0])
    adam = optim.AdamW([weight], lr=0.5)
    state = {"step": 3.0, "exp_avg": [0.271, -0.271], "exp_avg_sq": [0.002997001, 0.002997001]}
    group = adam.state_dict()["param_groups"][0] | {"lr": 0.1, "decoupled_weight_decay": True}
    arrays = {name: np.array(value, np.float32) for name, value in state.items()}
    adam.load_state_dict({"state": {0: arrays}, "param_groups": [group]})
    weight.grad = mt.tensor([1.0, -1.0], dtype=weight.dtype)
    adam.step()
    assert adam.state[weight]["step"] == 4
    np.testing.assert_allclose(weight.tolist(), [1.0 * 0.999 - 0.1, 2.0 * 0.999 + 0.1], rtol=1e-5)
