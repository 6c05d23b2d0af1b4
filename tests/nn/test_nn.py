"""Modules, layers, starting values, and what the functions of nn do beyond the values that `test_ops.py` checks."""

import copy
import math
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import manual_seed, nn, randn
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.tensor import Parameter, Tensor


def tensor(values: Any, dtype: Any = None) -> Tensor:
    return mt.tensor(np.asarray(values, dtype))


def zeros(*shape: int) -> Tensor:
    return mt.tensor(np.zeros(shape, np.float32))


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


# What a module holds


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


# State


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


# Everything below


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


# Containers


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


# Layers


@pytest.mark.parametrize(
    ("dtype", "sizes", "tolerance"), [(mt.float32, (3, 700, 16, 600), 1e-5), (mt.float16, (2, 40, 48, 300), 1e-2)]
)
def test_linear_of_many_values(dtype: mt.dtype, sizes: tuple[int, ...], tolerance: float) -> None:
    """A bias added while the product is stored gives the values and gradients of a product and a sum."""
    batch, rows, inputs, outputs = sizes
    x, w, b = (mt.randn(*shape).to(dtype) for shape in ((batch, rows, inputs), (outputs, inputs), (outputs,)))
    factors, results = mt.randn(batch, rows, outputs).to(dtype), []
    for call in (nn.functional.linear, lambda x, w, b: x @ w.T + b):
        leaves = [each.clone().requires_grad_() for each in (x, w, b)]
        out = call(*leaves)
        (out * factors).sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves)])
    for found, wanted in zip(*results, strict=True):
        assert found.shape == wanted.shape
        assert found.dtype is dtype
        assert mt.allclose(found.float(), wanted.float(), rtol=tolerance, atol=tolerance * wanted.abs().max().item())


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        pytest.param(lambda: nn.Linear(300, 300), (64, 300), id="linear"),
        pytest.param(lambda: nn.Conv2d(32, 32, 3), (2, 32, 9, 9), id="convolution"),
        pytest.param(lambda: nn.ConvTranspose2d(32, 32, 3), (2, 32, 9, 9), id="transposed"),
    ],
)
def test_weights_that_are_kept_for_inference_see_every_write(make: Any, shape: tuple[int, ...]) -> None:
    """Those through `data` as well, which no version counts, now or later, and those to inference tensors."""
    layer, x = make(), randn(*shape)
    weight, data = layer.weight, layer.weight.data
    with mt.no_grad():
        for write in (
            lambda: weight.mul_(2),
            lambda: weight.data.mul_(2),
            data.zero_,
            lambda: data.__setitem__(0, 3.0),
            lambda: weight.data.view(-1)[:3].fill_(5.0),
            lambda: data.data.detach().copy_(randn(*data.shape)),
        ):
            layer(x)
            write()
            assert layer(x).equal(copy.deepcopy(layer)(x))
    with mt.inference_mode():
        layer = make()
        before = layer(x)
        layer.weight.mul_(2)
        assert not layer(x).equal(before)


def test_linear() -> None:
    manual_seed(0)
    layer = nn.Linear(100, 50)
    bound = 1 / math.sqrt(100)
    for values in (layer.weight.detach()._array, layer.bias.detach()._array):
        assert np.abs(values).max() <= bound
        assert abs(values.std() - bound / math.sqrt(3)) < 0.1 * bound
    x = randn(7, 3, 100)
    wanted = x._array.astype(np.float64) @ layer.weight.detach()._array.T + layer.bias.detach()._array
    assert np.abs(layer(x).detach()._array - wanted).max() < 1e-5
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(randn(3, 99))


def test_indices_of_an_embedding_that_changed_since_are_refused_by_its_gradient() -> None:
    weight, indices = mt.zeros(100, 64, requires_grad=True), np.array([0, 3] * 50)
    rows = F.embedding(mt.from_numpy(indices), weight)
    indices[:] = 10**9
    with pytest.raises(IndexError, match="1000000000 is out of bounds"):
        rows.sum().backward()


@pytest.mark.parametrize("slope", [2.0, np.float64(2), np.float32(2), -0.5, mt.tensor(2.0)], ids=repr)
def test_leaky_relu_takes_every_kind_of_number_at_every_size(slope: Any) -> None:
    for size in (3, 10_000, 70_000):
        x = mt.linspace(-1, 1, size)
        found = F.leaky_relu(x, slope)
        assert found.dtype is mt.float32
        assert (found - mt.where(x > 0, x, x * float(slope))).abs().max() == 0


def test_embedding_gives_no_gradient_to_the_padding_row() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert not layer.weight.detach()._array[4].any()
    indices = tensor([[1, 4], [1, 0]])
    layer(indices).sum().backward()
    assert layer.weight.grad._array[:, 0].tolist() == [1, 2, 0, 0, 0]
    for bad in (5, -1):
        with pytest.raises(IndexError, match=rf"index {bad} is out of range"):
            layer(tensor([bad]))
    with pytest.raises(RuntimeError, match=r"int32 or mt\.int64"):
        layer(tensor([0.5]))
    with pytest.raises(AssertionError, match="padding_idx=5"):
        nn.Embedding(5, 3, padding_idx=5)


def test_dropout_in_training_and_not() -> None:
    manual_seed(1)
    layer, x = nn.Dropout(0.25), mt.tensor(np.ones((200, 200), np.float32)).requires_grad_()
    out = layer(x)
    values, counts = np.unique(out.detach()._array, return_counts=True)
    assert np.allclose(values, [0, 1 / 0.75])
    assert abs(counts[0] / x.numel() - 0.25) < 0.01
    out.sum().backward()
    assert np.array_equal(x.grad._array, out.detach()._array)
    assert not np.array_equal(layer(x).detach()._array, out.detach()._array)
    assert layer.eval()(x) is x
    for dtype in (mt.float16, mt.bfloat16, mt.float64):
        assert F.dropout(x.to(dtype)).dtype is dtype
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            nn.Dropout(bad)
        with pytest.raises(ValueError, match="between 0 and 1"):
            F.dropout(x, bad)


def test_layer_norm_and_rms_norm() -> None:
    x = randn(4, 6)
    wide = x._array.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    assert np.allclose(
        nn.LayerNorm(6)(x).detach()._array, centred / np.sqrt(wide.var(-1, keepdims=True) + 1e-5), atol=1e-6
    )
    assert np.allclose(nn.RMSNorm(6)(x).detach()._array, wide / np.sqrt((wide**2).mean(-1, keepdims=True)), atol=1e-6)
    assert [name for name, _ in nn.LayerNorm(6, bias=False).named_parameters()] == ["weight"]
    assert not list(nn.LayerNorm(6, elementwise_affine=False).parameters())
    for norm in (nn.LayerNorm((6, 4)), nn.RMSNorm(5)):
        with pytest.raises(RuntimeError, match="expected input with shape"):
            norm(x)


def test_group_norm() -> None:
    x, norm = randn(2, 6, 3), nn.GroupNorm(2, 6)
    groups = x._array.astype(np.float64).reshape(2, 2, 9)
    wanted = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(norm(x).detach()._array, wanted.reshape(2, 6, 3), atol=1e-6)
    norm.weight.data.fill_(2), norm.bias.data.fill_(1)
    assert np.allclose(norm(x).detach()._array, 2 * wanted.reshape(2, 6, 3) + 1, atol=1e-6)
    assert list(norm.state_dict()) == ["weight", "bias"]
    assert not list(nn.GroupNorm(2, 6, affine=False).parameters())
    with pytest.raises(ValueError, match=r"num_channels \(6\) must be divisible by num_groups \(4\)"):
        nn.GroupNorm(4, 6)


def test_a_bias_does_not_enlarge_a_product() -> None:
    for x, weight, bias in (((2, 4), (1, 4), (3,)), ((2, 4), (3, 4), (5, 2, 3)), ((600, 500), (1, 500), (7,))):
        with pytest.raises(RuntimeError, match="does not broadcast to the product's"):
            F.linear(randn(*x), randn(*weight), randn(*bias))


def test_instance_norm_without_momentum_keeps_its_statistics() -> None:
    norm = nn.InstanceNorm1d(2, momentum=None, track_running_stats=True)
    assert not norm(mt.ones(1, 2, 3)).any()
    assert (norm.running_mean.tolist(), norm.running_var.tolist()) == ([0.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize(("order", "value", "place"), [(math.inf, 4.0, (1, 1)), (-math.inf, 1.0, (0, 1))])
def test_pooling_by_the_norms_of_order_infinity(order: float, value: float, place: tuple[int, int]) -> None:
    x = mt.tensor([[[-3.0, 1.0], [2.0, -4.0]]], requires_grad=True)
    out = nn.functional.lp_pool2d(x, order, 2)
    out.sum().backward()
    assert out.item() == value
    assert [tuple(each) for each in x.grad[0].nonzero().tolist()] == [place]
    assert x.grad[0][place].item() == math.copysign(1.0, x[0][place].item())


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_by_the_norm_of_order_zero_is_refused(dims: int) -> None:
    with pytest.raises(ValueError, match="norm_type must be a number other than 0"):
        getattr(nn.functional, f"lp_pool{dims}d")(mt.ones((1,) * (dims + 1)), 0, 1)


@pytest.mark.parametrize("norm", [nn.functional.batch_norm, nn.functional.instance_norm])
def test_a_wrong_out_leaves_running_statistics_alone(norm: Any) -> None:
    mean, var, x = mt.zeros(2), mt.ones(2), mt.tensor([[[1.0, 5.0], [2.0, 9.0]]])
    switch = {"training": True} if norm is nn.functional.batch_norm else {}
    with pytest.raises(RuntimeError, match="can't be cast"):
        norm(x, mean, var, out=x.long(), **switch)
    assert (mean.tolist(), var.tolist()) == ([0.0, 0.0], [1.0, 1.0])


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


def test_norms_that_overflow_do_so_without_a_word() -> None:
    p = nn.Parameter(mt.zeros(2))
    for order in (2.0, 3.0, -1.0):
        p.grad = mt.tensor([3e38, 0.0 if order < 0 else 3e38])
        nn.utils.clip_grad_norm_([p], 1.0, order)


def test_instance_norm() -> None:
    x, norm = randn(2, 3, 4, 5), nn.InstanceNorm2d(3)
    rows = x._array.astype(np.float64).reshape(2, 3, 20)
    wanted = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(norm(x)._array, wanted.reshape(2, 3, 4, 5), atol=1e-6)
    assert np.array_equal(norm(x[0])._array, norm(x)[0]._array)
    assert not list(norm.state_dict())
    norm = nn.InstanceNorm2d(3, affine=True, track_running_stats=True, momentum=0.5)
    norm(x)
    assert np.allclose(norm.running_mean._array, rows.mean(-1).mean(0) / 2, atol=1e-6)
    norm.eval()
    mean, var = (each._array[:, None, None] for each in (norm.running_mean, norm.running_var))
    assert np.allclose(norm(x).detach()._array, (x._array - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        nn.InstanceNorm1d(3)(x)


# Functions


@pytest.mark.parametrize(
    "name",
    ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid"],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_inplace_argument_has_the_values_and_gradients_of_the_function(name: str, recorded: bool) -> None:
    function = getattr(F, name)
    leaf = randn(3, 4, dtype=mt.float64).requires_grad_(recorded)
    wanted = function(leaf)
    target = leaf * 1
    out = function(target, inplace=True)
    assert out is target
    assert np.array_equal(out.detach()._array, wanted.detach()._array)
    if recorded:
        (one,) = mt.autograd.grad(wanted.sum(), leaf)
        (other,) = mt.autograd.grad(out.sum(), leaf)
        assert np.array_equal(one._array, other._array)
        with pytest.raises(RuntimeError, match="leaf"):
            function(leaf, inplace=True)


def test_inplace_by_position() -> None:
    x = tensor([-1.0, 2.0])
    assert F.leaky_relu(x, 0.5, True) is x
    assert F.threshold(x, 0.0, 7.0, True) is x
    assert F.relu(x, True) is x
    assert x.tolist() == [7.0, 2.0]


def test_subgradients_and_special_values() -> None:
    """torch's: relu has 0 at 0, passes gradients at NaN, stops infinite ones; hardtanh has 0 on its border."""
    x = tensor([math.nan, 0.0, -0.0, -1.0, 2.0]).requires_grad_()
    out = x.relu()
    assert math.isnan(out[0].item())
    out.backward(tensor([5.0, math.inf, math.inf, math.inf, math.inf]))
    assert x.grad.tolist() == [5.0, 0.0, 0.0, 0.0, math.inf]
    x = tensor([-1.0, 0.5, 1.0]).requires_grad_()
    F.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    x = tensor([-3.0, 2.998, 3.0]).half().requires_grad_()  # 2.998 + 3 is rounded to 6
    F.hardsigmoid(x).sum().backward()
    assert x.grad.tolist() == [0.0, pytest.approx(1 / 6, rel=1e-3), 0.0]
    weight = tensor([0.25]).requires_grad_()
    F.prelu(tensor([math.inf, 1.0, -2.0]), weight).sum().backward()
    assert weight.grad.tolist() == [-2.0]
    places = F.affine_grid(mt.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 3, 3), align_corners=True).requires_grad_()
    F.grid_sample(
        mt.arange(9.0).reshape(1, 1, 3, 3), places, padding_mode="border", align_corners=True
    ).sum().backward()
    assert places.grad[..., 0].tolist() == [[[0.0, 1.0, 0.0]] * 3]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (5,), (3, 1)])
def test_relu_backward_of_broadcast_gradients(dtype: Any, shape: tuple[int, ...]) -> None:
    x = mt.tensor(np.linspace(-1, 1, math.prod(shape)).reshape(shape).astype(dtype)).requires_grad_()
    x.relu().sum().backward()
    assert np.array_equal(x.grad._array, (x.detach()._array > 0).astype(dtype))


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_of_extremes(function: Any) -> None:
    x = tensor([[1e30, 0.0, -1e30], [1000.0, 1000.0, -math.inf]], np.float32)
    out = function(x, 1)._array
    probabilities = out if function is F.softmax else np.exp(out)
    assert np.allclose(probabilities, [[1, 0, 0], [0.5, 0.5, 0]])
    assert function(tensor([1, 2]), 0, dtype=mt.float64).dtype is mt.float64
    with pytest.raises(RuntimeError, match="int64"):
        function(tensor([1, 2]), 0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        function(x, 2)


@pytest.mark.parametrize("x", [-1e4, -200.0, -30.0, 30.0, 200.0, 1e4])
def test_smooth_activations_do_not_overflow(x: float) -> None:
    inputs = tensor([x], np.float32).requires_grad_()
    for function in (F.gelu, F.silu, F.softplus, F.elu, F.celu, F.mish, lambda t: F.gelu(t, "tanh")):
        out = function(inputs)
        (slope,) = mt.autograd.grad(out, inputs, create_graph=True)
        (curvature,) = mt.autograd.grad(slope, inputs, allow_unused=True, materialize_grads=True)
        assert out.item() == pytest.approx(max(x, 0), abs=1.01)
        assert slope.item() == pytest.approx(float(x > 0), abs=1e-6)
        assert curvature.item() == pytest.approx(0, abs=1e-6)
    assert F.logsigmoid(inputs).item() == pytest.approx(min(x, 0), abs=1e-6)


def test_batch_norm_moves_running_statistics() -> None:
    x, mean, var = randn(5, 3, 2), zeros(3), mt.tensor(np.ones(3, np.float32))
    x.requires_grad_()
    out = F.batch_norm(x, mean, var, training=True, momentum=0.3)
    wide = x.detach()._array.astype(np.float64).transpose(1, 0, 2).reshape(3, -1)
    assert np.allclose(mean._array, 0.3 * wide.mean(1), atol=1e-6)
    assert np.allclose(var._array, 0.7 + 0.3 * wide.var(1, ddof=1), atol=1e-6)
    assert not mean.requires_grad
    assert out.requires_grad
    evaluated = F.batch_norm(x, mean, var).detach()._array
    wanted = (x.detach()._array - mean._array[:, None]) / np.sqrt(var._array[:, None] + 1e-5)
    assert np.allclose(evaluated, wanted, atol=1e-6)
    F.instance_norm(x, mean, var, momentum=1.0)
    wide = x.detach()._array.astype(np.float64)
    assert np.allclose(mean._array, wide.mean(2).mean(0), atol=1e-6)
    assert np.allclose(var._array, wide.var(2, ddof=1).mean(0), atol=1e-6)
    before = mean.tolist(), var.tolist()
    F.batch_norm(zeros(0, 3, 2), mean, var, training=True)
    assert (mean.tolist(), var.tolist()) == before


def test_norms_of_half_types_round_once() -> None:
    x = randn(6, 32, dtype=mt.float64)
    weight, bias = randn(32, dtype=mt.float64), randn(32, dtype=mt.float64)
    for dtype, unit in ((mt.float16, 2.0**-11), (mt.bfloat16, 2.0**-8)):
        half = [each.to(dtype) for each in (x, weight, bias)]
        out = F.layer_norm(half[0], (32,), half[1], half[2])
        wanted = F.layer_norm(half[0].double(), (32,), half[1].double(), half[2].double())._array
        assert out.dtype is dtype
        assert (np.abs(out.double()._array - wanted) <= unit * np.abs(wanted) * 1.01 + 2e-6).all()


BAD = [
    (ValueError, "more than 1 value per channel", lambda: F.batch_norm(zeros(1, 3), None, None, training=True)),
    (ValueError, "more than 1 value per channel", lambda: F.group_norm(zeros(1, 4, 1), 4)),
    (RuntimeError, "batch_norm(): running_mean must be a Tensor", lambda: F.batch_norm(zeros(2, 3), None, None)),
    (ValueError, "got no running_var", lambda: F.batch_norm(zeros(2, 3), zeros(3), None, training=True)),
    (
        RuntimeError,
        "instance_norm(): running_var must be a Tensor",
        lambda: F.instance_norm(zeros(2, 3, 2), zeros(3), None, use_input_stats=False),
    ),
    (RuntimeError, "weight to be of shape [3]", lambda: F.batch_norm(zeros(2, 3), zeros(3), zeros(3), zeros(4))),
    (RuntimeError, "at least 2 dimensions", lambda: F.group_norm(zeros(3), 1)),
    (RuntimeError, "num_groups=2", lambda: F.group_norm(zeros(2, 3), 2)),
    (ValueError, "spatial", lambda: F.instance_norm(zeros(2, 3, 1))),
    (RuntimeError, "normalized_shape", lambda: F.layer_norm(zeros(2, 3), ())),
    (IndexError, "Target 3", lambda: F.cross_entropy(zeros(2, 3), tensor([0, 3]))),
    (IndexError, "Target -1", lambda: F.nll_loss(zeros(2, 3), tensor([-1, 0]))),
    (ValueError, "shape [2]", lambda: F.cross_entropy(zeros(2, 3), tensor([0, 1, 2]))),
    (RuntimeError, "shape [2, 4]", lambda: F.nll_loss(zeros(2, 3, 4), tensor([[0, 1], [1, 1]]))),
    (RuntimeError, "target.long()", lambda: F.nll_loss(zeros(2, 3), zeros(2))),
    (RuntimeError, "each of the 3 classes", lambda: F.nll_loss(zeros(2, 3), tensor([0, 1]), zeros(2))),
    (RuntimeError, "label_smoothing", lambda: F.cross_entropy(zeros(2, 3), tensor([0, 1]), label_smoothing=1.5)),
    (RuntimeError, "floating point target", lambda: F.cross_entropy(zeros(2, 3), tensor([[0, 1, 0], [1, 0, 0]]))),
    (ValueError, "'avg' is not a valid value for reduction", lambda: F.l1_loss(zeros(2), zeros(2), reduction="avg")),
    (ValueError, "target size [3]", lambda: F.binary_cross_entropy(zeros(2), zeros(3))),
    (RuntimeError, "between 0 and 1", lambda: F.binary_cross_entropy(zeros(2) - 1, zeros(2))),
    (RuntimeError, "beta", lambda: F.smooth_l1_loss(zeros(2), zeros(2), beta=-1)),
    (RuntimeError, "positive delta", lambda: F.huber_loss(zeros(2), zeros(2), delta=0)),
    (ValueError, "variances", lambda: F.gaussian_nll_loss(zeros(2), zeros(2), zeros(2) - 1)),
    (RuntimeError, "'exact'", lambda: F.gelu(zeros(2), "exact")),
    (ValueError, "min_val", lambda: F.hardtanh(zeros(2), 1, -1)),
    (RuntimeError, "lambd", lambda: F.softshrink(zeros(2), -1)),
    (RuntimeError, "size must be even", lambda: F.glu(zeros(2, 3))),
    (RuntimeError, "each of the 3 channels", lambda: F.prelu(zeros(2, 3), zeros(2))),
    (RuntimeError, "non-negative", lambda: F.one_hot(tensor([-1]))),
    (RuntimeError, "num_classes=2", lambda: F.one_hot(tensor([2]), 2)),
    (RuntimeError, "pass num_classes", lambda: F.one_hot(tensor([], np.int64))),
    (TypeError, "must be a Tensor, not list", lambda: F.silu([1.0])),
    (RuntimeError, "linear(): what is added, of shape [5],", lambda: F.linear(zeros(2, 3), zeros(4, 3), zeros(5))),
    (
        RuntimeError,
        "linear(): what is added, of shape [5],",
        lambda: F.linear(zeros(2, 3), zeros(1 << 17, 3), zeros(5)),
    ),
    (RuntimeError, "int64", lambda: F.mse_loss(tensor([1]), tensor([1]))),
    (RuntimeError, "'weight' must be 2-D", lambda: F.embedding(tensor([0]), zeros(3))),
    (RuntimeError, "same number of dimensions", lambda: F.triplet_margin_loss(zeros(2, 3), zeros(2, 3), zeros(3))),
]


@pytest.mark.parametrize(("error", "says", "call"), BAD, ids=[f"{each[0].__name__}: {each[1]}" for each in BAD])
def test_bad_arguments(error: Any, says: str, call: Any) -> None:
    with pytest.raises(error) as raised:
        call()
    assert says in str(raised.value)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_warn_of_broadcasts(loss: Any) -> None:
    with pytest.warns(UserWarning, match=r"\[3\] is different from the input's size \[3, 1\]") as caught:
        loss(zeros(3, 1), zeros(3))
    assert caught[0].filename == __file__


def test_cosine_similarity_of_short_vectors() -> None:
    x, y = tensor([[3.0, 4.0], [0.0, 0.0]]), tensor([[0.0, 1.0], [1.0, 1.0]])
    assert F.cosine_similarity(x, y).tolist() == [0.8, 0.0]
    assert F.cosine_similarity(x, y, eps=8.0).tolist() == [0.0625, 0.0]


def test_mean_over_ignored_targets_alone_is_nan() -> None:
    for target in (tensor([-100, -100]), tensor([], np.int64)):
        assert math.isnan(F.cross_entropy(zeros(len(target), 3), target).item())


# Starting values and gradients in bounds


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


# Losses of NaN, and of invalid labels


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss, F.mse_loss])
def test_a_loss_of_nan_has_a_gradient_of_nan(loss: Any) -> None:
    x = mt.tensor([math.nan, 0.5, 3.0], requires_grad=True)
    loss(x, mt.zeros(3)).backward()
    assert x.grad.isnan().tolist() == [True, False, False]


def test_gradients_of_extrema_reach_nan() -> None:
    x, y = mt.tensor([math.nan, 1.0, math.nan, 2.0], requires_grad=True), mt.tensor([1.0, math.nan, math.nan, 2.0])
    y.requires_grad_()
    for extremum in (mt.maximum, mt.minimum):
        x.grad = y.grad = None
        extremum(x, y).sum().backward()
        assert x.grad.tolist() == [1.0, 1.0, 1.0, 0.5]
        assert y.grad.tolist() == [1.0, 1.0, 1.0, 0.5]
    zero = mt.zeros(1, requires_grad=True)
    mt.xlogy(zero, mt.tensor([math.nan])).sum().backward()
    assert zero.grad.isnan()


def test_losses_of_other_labels_than_one_and_minus_one() -> None:
    assert F.hinge_embedding_loss(mt.tensor([0.5, 0.5, 0.5]), mt.tensor([1, 0, -1]), reduction="none").tolist() == [
        0.5, 1.0, 0.5,
    ]  # fmt: skip
    assert F.cosine_embedding_loss(mt.eye(2), mt.eye(2), mt.tensor([1, 0]), reduction="none").tolist() == [0.0, 0.0]


# Hooks


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


def test_hooks_of_fused_modules_are_called() -> None:
    model, seen = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.ReLU()).eval(), []
    model[0].register_forward_hook(lambda *_: seen.append("conv"))
    model[2].register_forward_hook(lambda *_: seen.append("relu"))
    with mt.no_grad():
        nn.utils.fuse(model)(mt.randn(1, 1, 3, 3))
    assert seen == ["conv", "relu"]


def test_padding_keeps_the_sign_of_zero() -> None:
    assert F.pad(mt.ones(1), (1, 0), value=-0.0).signbit().tolist() == [True, False]


def test_places_that_are_infinite_are_outside_and_those_that_are_no_number_give_none() -> None:
    image = mt.arange(6.0).reshape(1, 1, 2, 3)
    grid = mt.tensor([[[[float("inf"), 0.0], [0.0, -float("inf")], [float("nan"), 0.0], [0.0, 0.0]]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        zeros = F.grid_sample(image, grid, mode).numpy().ravel()
        assert zeros[:2].tolist() == [0, 0]
        assert np.isnan(zeros).tolist() == [False, False, True, False]
        border = F.grid_sample(image, grid, mode, "border", align_corners=True).numpy().ravel()
        assert np.isfinite(border).tolist() == [True, True, False, True]
    assert F.grid_sample(image, grid, "nearest", "border").numpy().ravel()[1] == 1


def test_bilinear_layers() -> None:
    """Draw weights within their bound, and sum over both inputs."""
    layer = nn.Bilinear(3, 4, 5)
    assert float(layer.weight.abs().max()) <= 1 / math.sqrt(3)
    assert repr(layer) == "Bilinear(in1_features=3, in2_features=4, out_features=5, bias=True)"
    first, second = randn(2, 6, 3), randn(2, 6, 4)
    wanted = np.einsum("abi,oij,abj->abo", first.numpy(), layer.weight.detach().numpy(), second.numpy())
    assert np.allclose(layer(first, second).detach().numpy(), wanted + layer.bias.detach().numpy(), atol=1e-5)
    assert nn.Bilinear(3, 4, 5, bias=False).bias is None
    with pytest.raises(RuntimeError, match=r"got \[2, 3\], \[3, 4\]"):
        layer(randn(2, 3), randn(3, 4))
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 4, 5)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.LayerNorm(3), (1, 3)),
        (nn.RMSNorm(3), (3,)),
        (nn.GroupNorm(2, 4), (1, 4)),
        (nn.GroupNorm(32, 256), (1, 256, 1, 1)),
        (nn.BatchNorm1d(3).eval(), (1, 3)),
    ],
)
def test_gradients_of_scales_over_one_row(layer: Any, shape: tuple[int, ...]) -> None:
    """Nothing is summed there. The gradient is that of a scale of 1, whatever the scale."""
    mt.manual_seed(0)
    x, weights = mt.randn(*shape), mt.randn(*shape)
    found = []
    for scale in (1.0, 5.0):
        nn.init.constant_(layer.weight, scale)
        layer.zero_grad()
        (layer(x) * weights).sum().backward()
        found.append(layer.weight.grad)
    assert mt.allclose(*found)


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


def test_lists_of_modules_keep_the_places_of_none() -> None:
    modules = nn.ModuleList([None, nn.ReLU()])
    assert (len(modules), modules[0], type(modules[1])) == (2, None, nn.ReLU)
    with pytest.raises(TypeError, match="not callable"):
        nn.Sequential(nn.ReLU(), None)(mt.ones(1))


def test_copies_of_parameters_have_no_gradients() -> None:
    layer = nn.Linear(1, 1)
    layer(mt.ones(1, 1)).sum().backward()
    assert copy.deepcopy(layer).weight.grad is None
    assert layer.weight.grad is not None


def test_running_variances_far_below_eps() -> None:
    layer = nn.BatchNorm1d(1, momentum=1.0)
    for scale in (1e-6, 1e-8):
        layer(mt.tensor([[-1.0], [1.0], [3.0], [-3.0]]) * scale)
        assert layer.running_var.item() == pytest.approx(20 / 3 * scale**2, rel=1e-5)
    with pytest.raises(ValueError, match="eps must not be negative"):
        nn.BatchNorm1d(1, eps=-1.0)(mt.zeros(2, 1))


def test_losses_of_short_vectors_and_wrong_variances() -> None:
    found = F.cosine_embedding_loss(mt.tensor([[1e-6, 0.0]]), mt.tensor([[1.0, 0.0]]), mt.tensor([1.0]))
    assert found.item() == pytest.approx(1 - 0.5**0.5, rel=1e-4)
    for variance in (mt.ones(4, 1), mt.ones(5, 4)):
        with pytest.raises(ValueError, match="var is of incorrect size"):
            F.gaussian_nll_loss(mt.zeros(4), mt.zeros(4), variance)
    two = F.gaussian_nll_loss(mt.zeros(4, 2), mt.ones(4, 2), mt.arange(1.0, 5.0))
    assert two.item() == pytest.approx(
        F.gaussian_nll_loss(mt.zeros(4, 2), mt.ones(4, 2), mt.arange(1.0, 5.0)[:, None]).item()
    )


def test_clipping_by_the_largest_gradient_by_name() -> None:
    x, empty = nn.Parameter(mt.ones(2)), nn.Parameter(mt.ones(0))
    x.grad, empty.grad = mt.tensor([3.0, -4.0]), mt.ones(0)
    assert nn.utils.clip_grad_norm_([x, empty], 1.0, "inf").item() == 4.0
    assert x.grad.tolist() == pytest.approx([0.75, -1.0], rel=1e-5)


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


def test_states_from_before_batches_were_counted() -> None:
    layer = nn.BatchNorm1d(2)
    state = {name: value for name, value in layer.state_dict().items() if name != "num_batches_tracked"}
    assert layer.load_state_dict(state).missing_keys == []
    versioned = layer.state_dict()
    del versioned["num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r"Missing key.*'num_batches_tracked'"):
        layer.load_state_dict(versioned)


def test_second_derivatives_where_the_first_is_zero() -> None:
    for loss in (F.huber_loss, F.smooth_l1_loss):
        hessian = mt.func.hessian(lambda x, loss=loss: loss(x, mt.zeros(3), reduction="sum"))(
            mt.tensor([0.0, 0.5, 2.0])
        )
        assert hessian.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    for function in (F.elu, F.selu, F.celu):
        x = mt.tensor([0.0, 1.0], requires_grad=True)
        (first,) = mt.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = mt.autograd.grad(first.sum(), x)
        assert second.tolist() == [0.0, 0.0]


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


def test_embedding_bags() -> None:
    rows = mt.arange(12.0).reshape(6, 2)
    module = nn.EmbeddingBag(6, 2, mode="sum", _weight=rows.clone(), padding_idx=-2)
    indices, offsets = mt.tensor([1, 2, 4, 5, 4, 3]), mt.tensor([0, 4, 4])
    out = module(indices, offsets, mt.tensor([1.0, 2, 3, 4, 5, 6]))
    assert out.tolist() == [[50, 57], [0, 0], [36, 42]]
    out.sum().backward()
    assert module.weight.grad[:, 0].tolist() == [0, 1, 2, 6, 0, 4]
    assert repr(module) == "EmbeddingBag(6, 2, mode='sum', padding_idx=4)"
    scaled = F.embedding_bag(indices[None], rows.half().requires_grad_(), scale_grad_by_freq=True)
    assert scaled.dtype is mt.float16
    bounded = rows.half()
    F.embedding_bag(mt.tensor([[5]]), bounded, max_norm=1.0)
    assert bounded[5].norm().item() == pytest.approx(1, abs=1e-3)
    assert bounded[4].tolist() == [8, 9]


@pytest.mark.parametrize(
    ("indices", "options", "error", "says"),
    [
        ([1, 2], {}, ValueError, "offsets must be a vector"),
        ([1, 2], {"offsets": [1]}, RuntimeError, "offsets must begin with 0"),
        ([1, 2], {"offsets": [0, 3]}, RuntimeError, "up to the input's length 2"),
        ([1, 2], {"offsets": [0, 2, 1]}, RuntimeError, "not decrease"),
        ([[1, 2]], {"offsets": [0]}, ValueError, "offsets must be None"),
        ([[1, 6]], {}, RuntimeError, "input must be from 0 to 5, got 6"),
        ([[1, -1]], {}, RuntimeError, "input must be from 0 to 5, got -1"),
        ([[1.0]], {}, RuntimeError, "input must be a tensor of mt.int32"),
        ([[1]], {"mode": "min"}, ValueError, "mode must be"),
        ([[1]], {"mode": "max", "scale_grad_by_freq": True}, ValueError, "scale_grad_by_freq must be False"),
        ([[1]], {"per_sample_weights": [[1.0]]}, NotImplementedError, "per_sample_weights must be None"),
        ([[1]], {"padding_idx": 6}, RuntimeError, "padding_idx must be from -6 to 5"),
    ],
)
def test_embedding_bags_refuse(indices: Any, options: dict[str, Any], error: type[Exception], says: str) -> None:
    options = {name: mt.tensor(value) if isinstance(value, list) else value for name, value in options.items()}
    with pytest.raises(error, match=r"embedding_bag\(\): .*" + says):
        F.embedding_bag(mt.tensor(indices), mt.ones(6, 2), **options)


def test_weighted_distances() -> None:
    x, y, w = mt.zeros(2), mt.tensor([1.0, 3.0]), mt.tensor([3.0, 1.0])
    assert F.mse_loss(x, y, weight=w).item() == 12 / 4
    assert F.l1_loss(x, y, weight=w).item() == 6 / 4
    assert F.huber_loss(x, y, weight=w).item() == (1.5 + 2.5) / 2
    assert F.mse_loss(x, y, reduction="none", weight=w).tolist() == [3.0, 9.0]
    with pytest.raises(ValueError, match=r"weight must have shape \[2\], got \[1\]"):
        F.l1_loss(x, y, weight=w[:1])
    norm = nn.GroupNorm(1, 2, bias=False)
    assert norm.bias is None
    assert norm(mt.ones(1, 2)).tolist() == [[0.0, 0.0]]


def test_embedding_bags_without_offsets_are_none() -> None:
    none = mt.tensor([], dtype=mt.int64)
    for mode in ("sum", "mean", "max"):
        assert F.embedding_bag(mt.tensor([1, 2]), mt.ones(6, 2), none, mode=mode, padding_idx=0).shape == (0, 2)
