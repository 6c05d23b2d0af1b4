"""Lazy modules, tensors without a shape, buffers by assignment, and memory that processes share."""

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn.lazy import LazyModuleMixin
from minitorch_backends.nn.parameter import is_lazy

LAZY: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "Linear": ((4,), (2, 3)),
    **{f"Conv{d}d": ((4, 2), (2, 3, 5, 5, 5)[: d + 2]) for d in (1, 2, 3)},
    **{f"ConvTranspose{d}d": ((4, 2), (2, 3, 5, 5, 5)[: d + 2]) for d in (1, 2, 3)},
    **{f"BatchNorm{d}d": ((), (2, 3, 5, 5, 5)[: d + 2]) for d in (1, 2, 3)},
    **{f"InstanceNorm{d}d": ((), (2, 3, 5, 5, 5)[: d + 2]) for d in (1, 2, 3)},
}
"""For each lazy module its arguments, and a shape of its input."""


@pytest.mark.parametrize("name", LAZY)
def test_the_first_call_makes_a_lazy_module_what_it_becomes(name: str) -> None:
    arguments, shape = LAZY[name]
    options = {"affine": True, "track_running_stats": True} if name.startswith("Instance") else {}
    lazy, plain = getattr(nn, f"Lazy{name}")(*arguments), getattr(nn, name)
    assert lazy.has_uninitialized_params()
    assert isinstance(lazy, plain)
    state = lazy.state_dict()
    assert [key for key, each in state.items() if is_lazy(each)] == [key for key in state if "batches" not in key]
    x = mt.randn(*shape)
    mt.manual_seed(0)
    result = lazy(x)
    mt.manual_seed(0)
    expected = plain(3, *arguments, **options)
    assert type(lazy) is plain
    assert repr(lazy) == repr(expected)
    assert mt.equal(result, expected(x))
    assert {key: each.shape for key, each in lazy.state_dict().items()} == {
        key: each.shape for key, each in expected.state_dict().items()
    }


def model() -> nn.Sequential:
    return nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(1))


def test_states_of_lazy_modules() -> None:
    made, x = model().double(), mt.randn(2, 3, 4, 4, dtype=mt.float64)
    copies = [copy.deepcopy(made), pickle.loads(pickle.dumps(made)), model()]
    made(x)
    made.eval()
    for each in copies:
        each.load_state_dict(made.state_dict())
        assert not any(is_lazy(parameter) for parameter in each.parameters())
        assert mt.allclose(each.double().eval()(x), made(x))
        assert type(each[3]) is nn.Linear
    model().load_state_dict(model().state_dict())
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.weight: the state_dict has UninitializedParameter"):
        made.load_state_dict(model().state_dict())


def test_what_reads_a_tensor_without_a_shape_is_refused() -> None:
    weight = nn.LazyLinear(3).weight
    assert weight.dtype is mt.float32
    assert weight.requires_grad
    assert repr(weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="has no shape before materialize"):
        weight.shape
    with pytest.raises(ValueError, match="no elements before materialize"):
        weight + 1
    with pytest.raises(RuntimeError, match="LazyConv2d: input must have 3 or 4 dimensions"):
        nn.LazyConv2d(2, 3)(mt.ones(2))
    buffer: Any = nn.UninitializedBuffer()
    buffer.materialize((2,), dtype=mt.float64)
    assert type(buffer) is mt.Tensor
    assert buffer.shape == (2,)
    assert buffer.dtype is mt.float64


class Scale(LazyModuleMixin, nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.UninitializedParameter()

    def initialize_parameters(self, input: mt.Tensor) -> None:
        if self.has_uninitialized_params():
            self.weight.materialize(input.shape)
            with mt.no_grad():
                self.weight.fill_(2.0)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return input * self.weight


def test_lazy_modules_of_ones_own() -> None:
    scale = Scale()
    assert scale(mt.ones(2)).tolist() == scale(mt.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="must define initialize_parameters"):
        type("Other", (LazyModuleMixin, nn.Module), {"weight": None, "cls_to_become": nn.Linear})()()


def test_assigned_buffers_are_registered() -> None:
    module, values = nn.Module(), mt.ones(2)
    module.kept = nn.Buffer(values)
    module.other = nn.Buffer(values, persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "other"]
    values.fill_(3.0)
    assert isinstance(module.kept, nn.Buffer)
    assert module.kept.tolist() == [3.0, 3.0]
    assert list(copy.deepcopy(module).double().state_dict()["kept"].numpy()) == [3.0, 3.0]


def test_parameter_lists_and_dicts_nest() -> None:
    module = nn.ParameterList([nn.ParameterList([mt.ones(1), mt.ones(2)]), nn.ParameterDict({"a": mt.ones(3)})])
    assert list(module.state_dict()) == ["0.0", "0.1", "1.a"]
    assert [len(each) for each in module] == [2, 1]
    assert isinstance(module[0][1], nn.Parameter)
    assert "(0): ParameterList(" in repr(module)
    named = nn.ParameterDict({"list": module, "b": mt.ones(1)})
    assert list(named) == ["list", "b"]
    assert named["list"] is module


def write(module: Any, tensor: mt.Tensor, sent: Any) -> None:
    with mt.no_grad():
        module.weight.fill_(3.0)
    tensor[1] = 7.0
    sent.put((module.weight.is_shared(), module.bias.detach().clone()))


@pytest.mark.parametrize(
    "method", [each for each in ("fork", "spawn") if each in multiprocessing.get_all_start_methods()]
)
def test_processes_see_shared_memory(method: str) -> None:
    context = multiprocessing.get_context(method)
    module, tensor = nn.Linear(2, 2).share_memory(), mt.arange(6.0).reshape(2, 3).t().share_memory_()
    before, sent = module.bias.detach().clone(), context.Queue()
    process = context.Process(target=write, args=(module, tensor[1:], sent))
    process.start()
    shared, bias = sent.get(timeout=60)
    process.join()
    assert shared
    assert mt.equal(bias, before)
    assert module.weight.tolist() == [[3.0, 3.0]] * 2
    assert module.weight.requires_grad
    np.testing.assert_array_equal(tensor, [[0.0, 3.0], [1.0, 4.0], [7.0, 7.0]])
    assert tensor[1:].is_shared()
    assert not mt.ones(2).is_shared()


def test_dicts_of_what_a_module_holds_are_views() -> None:
    module = nn.Sequential(nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3))
    assert [list(module._modules), list(module[0]._parameters)] == [["0", "1"], ["weight", "bias"]]
    assert list(module[1]._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    module._modules["0"] = nn.Identity()
    del module._modules["1"]
    assert repr(module) == "Sequential(\n  (0): Identity()\n)"
    handle = module.register_forward_pre_hook(lambda *_: None)
    assert len(module._forward_pre_hooks) == 1
    handle.remove()
    assert not module._forward_pre_hooks
    module.set_submodule("0", nn.ReLU())
    with pytest.raises(AttributeError, match=r"has no module 'a'; named_modules\(\) lists them"):
        module.set_submodule("a", nn.ReLU(), strict=True)


def test_hooks_of_states() -> None:
    module, seen = nn.Sequential(nn.Linear(1, 1)), list[Any]()
    module[0].register_state_dict_pre_hook(lambda _, prefix, keep_vars: seen.append((prefix, keep_vars)))
    module[0].register_state_dict_post_hook(lambda _, state, prefix, __: state.update({f"{prefix}more": mt.ones(1)}))
    module[0].register_load_state_dict_pre_hook(lambda _, state, prefix, *__: state.pop(f"{prefix}more"))
    module.register_load_state_dict_post_hook(lambda _, keys: keys.unexpected_keys.clear())
    state = {**module.state_dict(), "other": mt.ones(1)}
    assert seen == [("0.", False)]
    assert module.load_state_dict(state, strict=False).unexpected_keys == []
    assert list(state) == ["0.weight", "0.bias", "0.more", "other"]
    module.register_load_state_dict_pre_hook(lambda *arguments: arguments[-1].append("no"))
    with pytest.raises(RuntimeError, match="in loading state_dict for Sequential:\n\tno"):
        module.load_state_dict(state)
