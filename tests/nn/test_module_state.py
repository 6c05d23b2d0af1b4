"""Names, parameters, buffers and states of modules, and what reaches all below."""

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn, randn
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.tensor import Parameter, Tensor

from ..support.arrays import tensor, zeros


class Block(nn.Module):
    """A module with everything in it, assigned in an order that differs from that of the alphabet."""

    def __init__(self) -> None:
        self.scale = Parameter(zeros(2))
        self.register_buffer("count", tensor([3.0], np.float32))
        self.register_buffer("scratch", zeros(1), persistent=False)
        self.second = nn.Linear(2, 3)
        self.first = nn.Linear(2, 2, bias=False)
        self.register_parameter("absent", None)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x) * self.scale)


def test_named_parameters_come_in_the_order_of_assignment() -> None:
    names = ["scale", "second.weight", "second.bias", "first.weight"]
    block = Block()
    assert [name for name, _ in block.named_parameters()] == names
    assert [id(each) for each in block.parameters()] == [id(each) for _, each in block.named_parameters()]
    assert [name for name, _ in block.named_parameters(recurse=False)] == ["scale"]
    assert [name for name, _ in block.named_buffers()] == ["count", "scratch"]
    assert [name for name, _ in block.named_modules()] == ["", "second", "first"]
    assert [name for name, _ in block.named_children()] == ["second", "first"]


def test_shared_modules_and_parameters_are_named_once() -> None:
    block = Block()
    block.alias, block.tied = block.first, block.second.weight
    assert [name for name, _ in block.named_parameters()] == ["scale", "tied", "second.bias", "first.weight"]
    assert len(list(block.modules())) == 3
    assert "alias.weight" in block.state_dict()


def test_subclass_without_super_init_and_late_assignment() -> None:
    class Late(nn.Module):
        pass

    late = Late()
    assert list(late.parameters()) == []
    late.weight = Parameter(zeros(1))
    late.layer = nn.Linear(1, 1)
    assert [name for name, _ in late.named_parameters()] == ["weight", "layer.weight", "layer.bias"]
    del late.weight
    late.layer = None
    assert list(late.parameters()) == []
    with pytest.raises(NotImplementedError, match="Late has no forward"):
        late(1)


def test_assignment_keeps_parameters_parameters_and_buffers_tensors() -> None:
    block = Block()
    with pytest.raises(TypeError, match="cannot assign Tensor as parameter 'scale'"):
        block.scale = zeros(2)
    assert isinstance(block.scale, Parameter)
    with pytest.raises(TypeError, match="cannot assign list as buffer 'count'"):
        block.count = [1]
    block.count = zeros(4)
    assert [name for name, _ in block.named_buffers()] == ["count", "scratch"]
    block.scale = None
    assert "scale" not in dict(block.named_parameters())


@pytest.mark.parametrize("name", ["", "a.b", 3])
def test_bad_names_are_refused(name: Any) -> None:
    block = Block()
    for register, value in (
        (block.register_parameter, Parameter(zeros(1))),
        (block.register_buffer, zeros(1)),
        (block.add_module, nn.ReLU()),
    ):
        with pytest.raises(KeyError):
            register(name, value)


def test_registering_refuses_methods_and_other_types() -> None:
    block = Block()
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        block.register_buffer("forward", zeros(1))
    for register in (block.register_parameter, block.register_buffer, block.add_module):
        with pytest.raises(TypeError, match="int"):
            register("new", 3)
    assert not hasattr(block, "new")


def test_get_submodule() -> None:
    outer = nn.Sequential(Block(), nn.ReLU())
    assert outer.get_submodule("0.first") is outer[0].first
    assert outer.get_submodule("") is outer
    with pytest.raises(AttributeError, match=r"no module '0\.third'"):
        outer.get_submodule("0.third")


def test_state_dict_round_trip() -> None:
    one, other = Block(), Block()
    state = one.state_dict()
    assert list(state) == ["scale", "count", "second.weight", "second.bias", "first.weight"]
    assert not any(each.requires_grad for each in state.values())
    assert np.shares_memory(state["scale"]._array, one.scale._array)
    with mt.no_grad():
        one.scale.fill_(2.0)
    x = randn(4, 2)
    assert not np.array_equal(one(x).detach()._array, other(x).detach()._array)
    version = other.scale._version
    assert other.load_state_dict(one.state_dict()) == ([], [])
    assert other.scale._version > version
    assert np.array_equal(one(x).detach()._array, other(x).detach()._array)
    assert not np.shares_memory(one.scale._array, other.scale._array)


def test_state_dicts_are_as_torch_makes_them() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
    state = model.state_dict()
    assert isinstance(state, OrderedDict)
    versions = {"": 1, "0": 1, "1": 1, "1.0": 2}
    assert state._metadata == {path: {"version": version} for path, version in versions.items()}  # type: ignore[attr-defined]
    assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
    partly = model.load_state_dict({}, strict=False)
    assert str(partly).startswith("_IncompatibleKeys(missing_keys=['0.weight', '0.bias', '1.0.weight'")
    given: OrderedDict[str, mt.Tensor] = OrderedDict()
    assert model.state_dict(destination=given, prefix="net.", keep_vars=True) is given
    assert given["net.0.weight"] is model[0].weight
    assert not state["0.weight"].requires_grad


def test_states_are_assigned() -> None:
    layer = nn.BatchNorm1d(2)
    layer.weight.requires_grad_(False)
    state = {name: each.double() for name, each in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)
    assert isinstance(layer.weight, nn.Parameter)
    assert (layer.weight.dtype, layer.weight.requires_grad, layer.bias.requires_grad) == (mt.float64, False, True)
    assert layer.running_mean is state["running_mean"]


def test_load_state_dict_names_everything_that_is_wrong_and_changes_nothing() -> None:
    block = Block()
    state = {name: each.clone() + 1 for name, each in block.state_dict().items()}
    del state["second.bias"]
    state["extra"] = zeros(1)
    state["first.weight"] = zeros(5, 2)
    before = {name: each.clone()._array for name, each in block.state_dict().items()}
    with pytest.raises(RuntimeError) as raised:
        block.load_state_dict(state)
    for text in ("state_dict for Block", "'extra'", "'second.bias'", "first.weight", "[5, 2]", "[2, 2]"):
        assert text in str(raised.value)
    with pytest.raises(RuntimeError, match=r"size mismatch for first\.weight"):
        block.load_state_dict(state, strict=False)
    assert all(np.array_equal(each._array, before[name]) for name, each in block.state_dict().items())
    del state["first.weight"]
    missing, unexpected = block.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["second.bias", "first.weight"], ["extra"])
    assert block.count.tolist() == [4.0]


def test_state_dict_converts_dtypes_and_takes_arrays() -> None:
    layer = nn.Linear(2, 1, dtype=mt.float64)
    layer.load_state_dict({"weight": np.float32([[1, 2]]), "bias": np.int64([3])})
    assert layer.weight.dtype is mt.float64
    assert layer(tensor([1.0, 10.0])).item() == 24.0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_are_independent_and_keep_sharing(duplicate: Any) -> None:
    block = Block()
    block.tied = block.second.weight
    other = duplicate(block)
    assert other.tied is other.second.weight
    assert other.tied is not block.tied
    assert list(other.state_dict()) == list(block.state_dict())
    assert all(each.requires_grad for each in other.parameters())
    assert [name for name, _ in other.named_buffers()] == ["count", "scratch"]
    x = randn(3, 2)
    assert np.array_equal(other(x).detach()._array, block(x).detach()._array)


def test_train_and_eval_reach_all() -> None:
    block = nn.Sequential(Block(), nn.Dropout())
    assert all(each.training for each in block.modules())
    assert block.eval() is block
    assert not any(each.training for each in block.modules())
    block.train()
    assert all(each.training for each in block.modules())
    with pytest.raises(ValueError, match="True or False"):
        block.train("yes")  # type: ignore[arg-type]


def test_apply_visits_children_first() -> None:
    seen: list[str] = []
    nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU())).apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_requires_grad_and_zero_grad() -> None:
    block = Block()
    block(randn(3, 2)).sum().backward()
    assert all(each.grad is not None for each in block.parameters())
    block.zero_grad(set_to_none=False)
    assert all(not each.grad._array.any() for each in block.parameters())
    block.zero_grad()
    assert all(each.grad is None for each in block.parameters())
    assert not any(each.requires_grad for each in block.requires_grad_(False).parameters())


def test_to_converts_in_place_and_keeps_identity() -> None:
    block = Block()
    block.register_buffer("steps", tensor([7]))
    parameters = list(block.parameters())
    block(randn(3, 2)).sum().backward()
    assert block.to(mt.float64) is block
    assert all(now is before for now, before in zip(block.parameters(), parameters, strict=True))
    assert {each.dtype for each in block.parameters()} == {each.grad.dtype for each in parameters} == {mt.float64}
    assert (block.count.dtype, block.steps.dtype) == (mt.float64, mt.int64)
    assert block(randn(3, 2, dtype=mt.float64)).dtype is mt.float64
    for convert, dtype in (
        ("half", mt.float16),
        ("bfloat16", mt.bfloat16),
        ("float", mt.float32),
        ("double", mt.float64),
    ):
        assert getattr(block, convert)().scale.dtype is dtype
    assert block.to("cpu").scale.dtype is mt.float64
    with pytest.raises(TypeError, match="int64"):
        block.to(mt.int64)
    with pytest.raises(AssertionError, match="cuda"):
        block.to("cuda")
    assert block.scale.dtype is mt.float64


def test_repr_is_that_of_torch() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Dropout(0.1), nn.Softmax(dim=1)))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): ReLU()\n"
        "  (2): Sequential(\n"
        "    (0): Dropout(p=0.1, inplace=False)\n"
        "    (1): Softmax(dim=1)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.ModuleList([nn.Tanh(), nn.Tanh(), nn.GELU("tanh")])) == (
        "ModuleList(\n  (0-1): 2 x Tanh()\n  (2): GELU(approximate='tanh')\n)"
    )
    lines = {
        nn.Embedding(4, 2, padding_idx=-1): "Embedding(4, 2, padding_idx=3)",
        nn.LayerNorm(3): "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)",
        nn.GroupNorm(3, 6, affine=False): "GroupNorm(3, 6, eps=1e-05, affine=False)",
        nn.LeakyReLU(0.2): "LeakyReLU(negative_slope=0.2)",
        nn.Conv1d(2, 4, 3, padding=1, padding_mode="reflect"): "Conv1d(2, 4, kernel_size=(3,), stride=(1,), "
        "padding=(1,), padding_mode=reflect)",
        nn.ConvTranspose2d(2, 4, 3, 2, 1, 1, 2, False): "ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), "
        "padding=(1, 1), output_padding=(1, 1), groups=2, bias=False)",
        nn.BatchNorm1d(3, bias=False): "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=False, "
        "track_running_stats=True)",
        nn.InstanceNorm3d(4): "InstanceNorm3d(4, eps=1e-05, momentum=0.1, affine=False, bias=False, "
        "track_running_stats=False)",
        nn.Fold(4, 2, stride=2): "Fold(output_size=4, kernel_size=2, dilation=1, padding=0, stride=2)",
    }
    for module, line in lines.items():
        assert repr(module) == line


def test_modules_by_name() -> None:
    first, second = nn.Linear(2, 3), nn.Linear(3, 1)
    modules = nn.ModuleDict({"first": first, "second": second})
    assert (list(modules), len(modules), modules["second"] is second, "third" in modules) == (
        ["first", "second"], 2, True, False,
    )  # fmt: skip
    assert len(list(modules.parameters())) == 4
    modules["second"] = modules["third"] = first
    assert [(name, each is first) for name, each in modules.items()] == [
        ("first", True), ("second", True), ("third", True),
    ]  # fmt: skip
    assert modules.pop("third") is first
    assert list(modules.keys()) == ["first", "second"]
    with pytest.raises(KeyError):
        modules.pop("third")
    with pytest.raises(TypeError, match="expected a Module, got str"):
        modules["third"] = "a"
    assert list(modules.state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]


def test_training_mode_goes_from_module_to_module() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            self.norm = nn.BatchNorm1d(2)

        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.norm.eval()
            return self

    model = nn.Sequential(Frozen())
    model.train()
    assert (model.training, model[0].training, model[0].norm.training) == (True, True, False)


def test_places_of_parameters_modules_and_buffers() -> None:
    layer = nn.Linear(2, 2, bias=False)
    with pytest.raises(TypeError, match=r"cannot assign Tensor as parameter 'bias'.* Make one with nn\.Parameter"):
        layer.bias = mt.zeros(2)
    with pytest.raises(TypeError, match=r"cannot assign Tensor as parameter 'weight'.* weight\.copy_"):
        layer.weight = mt.zeros(2, 2)
    layer.bias = nn.Parameter(mt.zeros(2))
    assert list(layer.state_dict()) == ["weight", "bias"]
    layer.bias = None
    with pytest.raises(TypeError, match="cannot assign Tensor as parameter 'bias'"):
        layer.bias = mt.zeros(2)
    for other in (
        nn.LayerNorm(2, elementwise_affine=False),
        nn.BatchNorm1d(2, affine=False),
        nn.RNNCell(2, 2, bias=False),
    ):
        name = "bias_ih" if isinstance(other, nn.RNNCell) else "bias"
        assert getattr(other, name) is None
        with pytest.raises(TypeError, match=f"cannot assign Tensor as parameter '{name}'"):
            setattr(other, name, mt.zeros(2))
    module = nn.Module()
    module.child = layer
    with pytest.raises(TypeError, match="cannot assign int as child module 'child'"):
        module.child = 3
    module.register_parameter("p", None)
    with pytest.raises(TypeError, match="cannot assign Tensor as parameter 'p'"):
        module.p = mt.ones(1)
    module.register_buffer("a", mt.ones(1))
    module.a = nn.Parameter(mt.ones(1))
    assert ([name for name, _ in module.named_buffers()], "a" in dict(module.named_parameters())) == ([], True)
    module.register_buffer("b", mt.ones(1))
    del module.b
    module.b = 3
    assert "b" not in module.state_dict()


def test_copies_of_parameters_have_no_gradients() -> None:
    layer = nn.Linear(1, 1)
    layer(mt.ones(1, 1)).sum().backward()
    assert copy.deepcopy(layer).weight.grad is None
    assert layer.weight.grad is not None


def test_states_from_before_batches_were_counted() -> None:
    layer = nn.BatchNorm1d(2)
    state = {name: value for name, value in layer.state_dict().items() if name != "num_batches_tracked"}
    assert layer.load_state_dict(state).missing_keys == []
    versioned = layer.state_dict()
    del versioned["num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r"Missing key.*'num_batches_tracked'"):
        layer.load_state_dict(versioned)


@pytest.mark.parametrize("wrong", ["no", None, 1])
def test_switches_are_true_or_false(wrong: Any) -> None:
    x = mt.ones(1, 1, 4, 8)
    for call in (
        lambda: F.dropout(x, 0.5, wrong),
        lambda: F.dropout2d(x, 0.5, training=wrong),
        lambda: F.alpha_dropout(x, 0.5, wrong),
        lambda: F.scaled_dot_product_attention(x, x, x, is_causal=wrong),
        lambda: F.scaled_dot_product_attention(x, x, x, enable_gqa=wrong),
    ):
        with pytest.raises(TypeError, match="must be bool, not"):
            call()
