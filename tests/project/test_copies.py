"""Every public object can be copied and pickled, and the copy means the same."""

import copy
import pickle
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import explain, lab, nn
from minitorch_backends.flags.state import UNSET
from minitorch_backends.kernels.conv.tuner import BenchmarkCache
from minitorch_backends.kernels.registry import kernels
from minitorch_backends.nn.attention import SDPBackend, sdpa_kernel

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy of a copy": lambda value: copy.deepcopy(pickle.loads(pickle.dumps(value))),
}


@pytest.fixture(params=WAYS)
def again(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return WAYS[request.param]


def _namespaces() -> list[Any]:
    return [
        mt, mt.amp, mt.autograd, mt.backends, mt.explain, mt.fft, mt.func, mt.lab, mt.linalg, mt.nn, mt.nn.functional,
        mt.nn.init, mt.nn.utils, mt.optim, mt.optim.lr_scheduler, mt.special, mt.utils.checkpoint,
    ]  # fmt: skip


def _public() -> Iterator[tuple[str, Any]]:
    for namespace in _namespaces():
        for name in getattr(namespace, "__all__", None) or [name for name in dir(namespace) if name[0] != "_"]:
            yield f"{namespace.__name__}.{name}", getattr(namespace, name)


def test_what_has_a_name_is_itself(again: Callable[[Any], Any]):
    """Functions, classes, dtypes and groups of flags: by name, so that an `is` or a flag set through a copy works."""
    count = 0
    for name, value in _public():
        if type(value) is types.ModuleType or not getattr(value, "__module__", "minitorch").startswith("minitorch"):
            continue
        if callable(value) or isinstance(value, mt.dtype) or hasattr(value, "flags"):
            assert again(value) is value, name
            count += 1
    assert count > 1000


def test_sentinels_and_kernels_are_themselves(again: Callable[[Any], Any]):
    assert again(UNSET) is UNSET
    for kernel in kernels.load().values():
        assert again(kernel) is kernel


def test_a_copied_group_sets_the_flag(again: Callable[[Any], Any]):
    group = again({"group": mt.backends.cuda.matmul, "module": mt.backends.cudnn})
    with group["group"].flags(allow_tf32=True), group["module"].flags(enabled=False):
        assert mt.backends.cuda.matmul.allow_tf32
        assert not mt.backends.cudnn.enabled


SCOPES: dict[str, Callable[[], Any]] = {
    "flags": lambda: mt.backends.flags(fp32_precision="bf16"),
    "flags of a group": lambda: mt.backends.cuda.matmul.flags(fp32_precision="tf32"),
    "snapshot": lambda: mt.backends.Snapshot([("fp32_precision", "tf32"), ("profile", "a100")]),
    "policy": lambda: lab.Policy({"*": "bf16", "1": lab.Rule({"fp32_precision": "tf32"}, None, "bf16")}),
    "rule": lambda: lab.Rule({"fp32_precision": "tf32"}).scope(),
    "autocast": lambda: mt.autocast("cpu", dtype=mt.bfloat16),
    "sdpa_kernel": lambda: sdpa_kernel([SDPBackend.MATH]),
}


def _model() -> nn.Module:
    mt.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 24), nn.GELU(), nn.Linear(24, 8)).eval()


@pytest.mark.parametrize("name", SCOPES)
def test_scopes_and_models_under_them(name: str, again: Callable[[Any], Any]):
    x, scope = mt.linspace(-1, 1, 5 * 40).reshape(5, 40), SCOPES[name]()
    model = _model()
    with scope:
        wanted = model(x)
    with again(scope):
        assert mt.equal(model(x), wanted)
    nn.utils.run_under(model, scope)
    assert mt.equal(model(x), wanted)
    assert mt.equal(again(model)(x), wanted)


def test_modes(again: Callable[[Any], Any]):
    x = mt.ones(2, requires_grad=True)
    for scope, recorded in ((mt.no_grad(), False), (mt.inference_mode(), False), (mt.enable_grad(), True)):
        with again(scope):
            assert (x * 2).requires_grad is recorded
    with mt.no_grad(), again(mt.inference_mode(False)):
        assert not (x * 2).is_inference()


def test_generators_continue(again: Callable[[Any], Any]):
    generator = mt.Generator().manual_seed(5)
    mt.rand(7, generator=generator)
    other = again(generator) if again is not copy.copy else copy.deepcopy(generator)
    assert mt.equal(mt.rand(9, generator=other), mt.rand(9, generator=generator))


def test_plans_logs_and_caches(again: Callable[[Any], Any]):
    operands = [mt.randn(4, 5), mt.randn(5, 6), mt.randn(6, 3)]
    for limits in ({}, {"memory_limit": 250, "slices": "auto"}):
        plan = mt.einsum_plan("ab,bc,cd->ad", *operands, strategy="dp", **limits)
        assert mt.equal(again(plan).execute(*operands), plan.execute(*operands))
        assert again(plan).path == plan.path
    with explain.record() as log:
        operands[0] @ operands[1]
    assert again(log) == log
    assert again(log).table() == log.table()
    assert dict(again(BenchmarkCache())) == {}


def test_training_continues_from_a_copy(again: Callable[[Any], Any]):
    def step(state: dict[str, Any]) -> mt.Tensor:
        loss = state["model"](mt.ones(3, 40)).square().mean()
        state["optimizer"].zero_grad()
        loss.backward()
        state["optimizer"].step()
        state["schedule"].step()
        return loss.detach()

    model = _model()
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
    schedule = mt.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    state = {"model": model, "optimizer": optimizer, "schedule": schedule, "scaler": mt.amp.GradScaler("cpu")}
    step(state)
    other = copy.deepcopy(state) if again is copy.copy else again(state)
    assert [step(other).item() for _ in range(3)] == [step(state).item() for _ in range(3)]
    assert other["scaler"].state_dict() == state["scaler"].state_dict()
