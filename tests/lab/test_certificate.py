"""lab.certificate: what it finds to hold, what it finds to differ, and where."""

import json

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, lab
from minitorch_backends.kernels.runtime import cpu

pytestmark = pytest.mark.usefixtures("default_flags")

mt.manual_seed(3)
WEIGHT, X = mt.randn(70, 20), mt.randn(9, 70)


def layer(x):
    return {"wide": (x @ WEIGHT).exp(), "narrow": x.sum(1)}


def beside_its_batch(x):
    return x @ WEIGHT + x.mean()


def test_a_layer_holds_on_every_capability_below():
    levels = ("portable", "avx2")[: cpu.LEVELS.index(cpu.capability())]
    found = lab.certificate(layer, X, invariant="batch,isa", batch_sizes=(1, 4), capabilities=levels)
    assert found.holds, str(found)
    assert [check.kind for check in found.checks] == ["batch"] * 6 + ["threads"] * 2 + ["isa"] * len(levels)
    assert json.loads(found.to_json())["outputs"].keys() == {"output.wide", "output.narrow"}
    assert backends.invariant == "none"


def test_what_differs_is_named():
    factors = mt.randn(40, 300), mt.randn(300, 64)
    free = lab.certificate(_product, factors, invariant="none", batch_sizes=(1,), capabilities=())
    assert not free.holds
    assert free.checks[0].first_difference.startswith("in call 0, matmul of 1x300 @ 300x64 by ")
    packed = mt.no_grad()(mt.nn.Linear(300, 512))
    biased = lab.certificate(packed, mt.randn(64, 300), shards=(2,), threads=(), batch_sizes=(), capabilities=())
    assert "by partial_sums, which linear computed before" in str(biased.checks[-1].first_difference)
    mixed = lab.certificate(beside_its_batch, X, invariant="batch", batch_sizes=(2,), positions=(4,), capabilities=())
    (check,) = [each for each in mixed.checks if not each.holds]
    assert (check.setting, check.first_difference) == ("rows 4 to 6 of 9", None)
    assert "fails 1 of 3 checks" in str(mixed)


def _product(a, b):
    return a @ b


def test_wrong_input():
    with pytest.raises(ValueError, match="inputs must hold a tensor whose first dimension is the batch, got none"):
        lab.certificate(layer, mt.tensor(1.0), capabilities=())
    with pytest.raises(ValueError, match=r"capabilities must be among 'portable'.* got 'sse'"):
        lab.certificate(layer, X, capabilities=("sse",))
    with pytest.raises(TypeError, match="function must be callable, got 3"):
        lab.certificate(3, X, capabilities=())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="invariant must be one of"):
        lab.certificate(layer, X, invariant="both", capabilities=())
    with pytest.raises(TypeError, match="the function must return tensors, got int"):
        lab.certificate(lambda x: 3, X, capabilities=())
    if cpu.capability() != "portable":
        with pytest.raises(ValueError, match=r"must be picklable, got .*; or pass"):
            lab.certificate(lambda x: x, X)
