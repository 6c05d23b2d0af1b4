"""Every public name occurs in a test or has declared samples; and tests of those that stand in no other file."""

import contextlib
import importlib
import re
import types
from pathlib import Path
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, nn, optim

from ..ops.test_ops import with_inplace_form
from ..support.calls import TABLE

NAMESPACES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler", "linalg", "fft",
    "special", "func", "lab", "interop", "interop.array_api", "interop.gguf", "interop.onnx", "interop.safetensors",
    "interop.torch", "backends", "explain", "profiles", "utils", "utils.checkpoint", "utils.data", "amp", "autograd",
    "autograd.functional", "autograd.graph", "testing", "random", "serialization", "ops",
)  # fmt: skip


def public(name: str) -> set[str]:
    """The names of a namespace that stand for something of the package's own, other than a module; without those that
    need a library which is not installed."""
    named: dict[str, Any] = {}
    try:
        module = importlib.import_module(f"minitorch_backends.{name}".rstrip("."))
    except ImportError:
        return set()
    for each in filter(lambda each: each[0].isalpha(), getattr(module, "__all__", dir(module))):
        with contextlib.suppress(ImportError):
            named[each] = getattr(module, each)
    return {
        each
        for each, value in named.items()
        if not isinstance(value, types.ModuleType)
        and (hasattr(module, "__all__") or getattr(value, "__module__", "").startswith("minitorch_backends"))
    }


def test_public_names_occur_in_tests() -> None:
    """By their words: what a name means is for the tests that have it."""
    files = Path(__file__).parents[1].rglob("*.py")
    seen = set(re.findall(r"[A-Za-z_]\w*", "\n".join(each.read_text(encoding="utf-8") for each in files)))
    seen |= TABLE.keys() | {f"{name}_" for name in with_inplace_form()}
    unseen = {each: sorted(found) for each in NAMESPACES if (found := public(each) - seen)}
    assert not unseen, f"these occur in no test: {unseen}"


def test_answers_have_their_types() -> None:
    assert isinstance(explain.why("matmul", mt.ones(2, 2), mt.ones(2, 2)), explain.Answer)
    assert isinstance(explain.precision_of("matmul"), explain.Choice)
    assert isinstance(explain.einsum("ij,jk->ik", mt.ones(2, 3), mt.ones(3, 2)), explain.Contractions)
    assert isinstance(explain.einsum_cache(), explain.EinsumCache)
    assert isinstance(mt.autograd.graph.statistics(), mt.autograd.graph.GraphStatistics)
    assert issubclass(mt.lab.Divergence, tuple)
    assert {"module", "error", "explained"} < set(mt.lab.Divergence._fields)
    assert {"error"} < set(explain.LayerError._fields)


def test_switches_that_are_on_or_off_for_good() -> None:
    assert not backends.xnnpack.enabled
    with pytest.raises(RuntimeError, match="XNNPACK is not used"):
        backends.xnnpack.enabled = True
    assert mt.amp.is_autocast_available("cpu")
    assert not mt.amp.is_autocast_available("abacus")
    with mt.autocast("cpu", cache_enabled=False):
        assert not mt.amp.is_autocast_cache_enabled()
    before = mt.autograd.is_multithreading_enabled()
    with mt.autograd.set_multithreading_enabled(not before):
        assert mt.autograd.is_multithreading_enabled() is not before
    assert mt.autograd.is_multithreading_enabled() is before
    versions = importlib.import_module("minitorch_backends.interop.array_api").VERSIONS
    assert [*versions] == sorted(versions)


def test_memory_formats_are_those_of_channels() -> None:
    x = mt.ones(2, 3, 4, 5, 6)
    last = x.to(memory_format=mt.channels_last_3d)
    assert last.is_contiguous(memory_format=mt.channels_last_3d)
    assert last.contiguous(memory_format=mt.contiguous_format).stride() == x.stride()
    assert mt.clone(last, memory_format=mt.preserve_format).stride() == last.stride()


def test_samplers_give_the_order_of_items() -> None:
    data = mt.utils.data
    assert [*data.SequentialSampler("abc")] == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="Sampler has no order"):
        iter(data.Sampler())
    spread = data.DistributedSampler("abcdefgh", num_replicas=2, rank=0)
    orders = []
    for epoch in (0, 1, 0):
        spread.set_epoch(epoch)
        orders.append([*spread])
    assert orders[0] == orders[2] != orders[1]
    found = data.default_convert({"a": [1.5, "text"], "b": mt.ones(2).numpy()})
    assert (found["a"], found["b"].tolist()) == ([1.5, "text"], [1.0, 1.0])


def test_schedules_tell_where_they_are() -> None:
    optimizer = optim.SGD([nn.Parameter(mt.ones(1))], lr=1.0)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, cooldown=2)
    seen = []
    for metric in (1.0, 2.0, 2.0, 2.0):
        plateau.step(metric)
        seen.append(plateau.in_cooldown)
    assert seen == [False, True, True, False]
    cycle = optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, mode="triangular2", cycle_momentum=False)
    assert [cycle.scale_fn(number) for number in (1, 2, 3)] == [1, 0.5, 0.25]
    scaler = mt.amp.GradScaler("cpu", growth_factor=3.0, backoff_factor=0.25, growth_interval=5)
    assert scaler.get_growth_factor() == 3.0
    assert (scaler.get_backoff_factor(), scaler.get_growth_interval()) == (0.25, 5)
