"""nn.Linear keeps its weight packed under no_grad, until the weight or the flags change."""

import copy
import pickle

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.flags import Snapshot
from minitorch_backends.kernels import gemm
from minitorch_backends.kernels.gemm import Kept
from minitorch_backends.kernels.precisions.products import PRECISIONS
from minitorch_backends.kernels.runtime import cpu

ROWS, DEPTH, COLUMNS = 65, 257, 263


@pytest.fixture
def layer():
    mt.manual_seed(0)
    return mt.nn.Linear(DEPTH, COLUMNS)


@pytest.fixture
def inputs():
    mt.manual_seed(1)
    return mt.randn(2, ROWS, DEPTH)


def kept_weight(layer):
    """The packed form that was made last."""
    forms = layer._packed._forms
    found = [] if forms is None else [each for each in forms._found.values() if isinstance(each, Kept)]
    return found[-1] if found else None


@pytest.mark.parametrize("precision", PRECISIONS)
def test_inference_agrees_with_training(layer, inputs, precision):
    with backends.flags(fp32_precision=precision):
        trained = layer(inputs).detach()
        with mt.no_grad():
            inferred = layer(inputs)

    np.testing.assert_allclose(inferred.numpy(), trained.numpy(), rtol=1e-5, atol=1e-5)
    assert not inferred.requires_grad


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="products are left to BLAS here, which packs for itself")
def test_the_weight_is_packed_once(layer, inputs):
    with backends.flags(fp32_precision="bf16"), mt.no_grad(), explain.record() as log:
        layer(inputs)
        packed = kept_weight(layer)
        layer(inputs[:, :40])

    assert packed is not None
    assert kept_weight(layer) is packed
    assert [call.kernel for call in log] == ["linear", "linear"]
    assert {call.precision for call in log} == {"bf16"}
    assert "fp32_precision" in log[0].decided_by


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="products are left to BLAS here, which packs for itself")
@pytest.mark.parametrize("dtype", [mt.float64, mt.float16, mt.bfloat16], ids=str)
def test_weights_of_other_types_are_packed_once(layer, inputs, dtype):
    layer, inputs = layer.to(dtype), inputs.to(dtype)
    with mt.no_grad(), explain.record() as log:
        first = layer(inputs)
        packed = kept_weight(layer)
        again = layer(inputs)
    assert packed is not None
    assert kept_weight(layer) is packed
    assert [(call.kernel, call.implementation) for call in log] == [("linear", "packed")] * 2
    assert first.dtype is dtype
    assert mt.equal(first, again)
    exact = inputs.double() @ layer.weight.double().mT + layer.bias.double()
    roundoff = mt.finfo(dtype).eps / 2
    np.testing.assert_allclose(first.double().numpy(), exact.detach().numpy(), rtol=1.01 * roundoff, atol=1e-6)


@pytest.mark.parametrize("flag", ["cuda.matmul.allow_fp16_accumulation", "cuda.matmul.fp16_reduction"])
def test_sums_that_are_rounded_on_the_way_are_not_packed(layer, inputs, flag):
    layer, inputs = layer.half(), inputs.half()
    value = True if flag.endswith("accumulation") else "reduced"
    with mt.no_grad(), Snapshot([(flag, value)]):
        inferred = layer(inputs)
    assert kept_weight(layer) is None
    with Snapshot([(flag, value)]):
        assert mt.equal(inferred, layer(inputs).detach())


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer.weight.mul_(2),
        lambda layer: layer.weight[0].fill_(3),
        lambda layer: layer.load_state_dict({"weight": mt.ones(COLUMNS, DEPTH), "bias": mt.zeros(COLUMNS)}),
        lambda layer: setattr(layer, "weight", mt.nn.Parameter(mt.ones(COLUMNS, DEPTH))),
        lambda layer: mt.optim.SGD([step(layer.weight)], lr=1.0).step(),
    ],
    ids=["in place", "through a view", "loaded", "replaced", "optimised"],
)
def test_a_changed_weight_is_packed_anew(layer, inputs, change):
    with backends.flags(fp32_precision="bf16"), mt.no_grad():
        before = layer(inputs)
        change(layer)
        after = layer(inputs)
        expected = inputs @ layer.weight.mT + layer.bias

    assert not np.array_equal(before.numpy(), after.numpy())
    np.testing.assert_allclose(after.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def step(weight):
    weight.grad = mt.ones_like(weight)
    return weight


def test_changed_flags_pack_anew(layer, inputs):
    results = {}
    with mt.no_grad():
        for precision in ("bf16", "tf32", "bf16"):
            with backends.flags(fp32_precision=precision):
                results.setdefault(precision, []).append(layer(inputs).numpy())

    assert np.array_equal(*results["bf16"])
    assert not np.array_equal(results["bf16"][0], results["tf32"][0])


def test_values_that_the_packed_form_cannot_hold_are_multiplied_from_the_array(layer, inputs):
    with backends.flags(fp32_precision="bf16"), mt.no_grad():
        layer.weight[0, 0] = 1e-42  # tiles would flush it
        layer.weight[1, 1] = float("inf")
        result = layer(inputs)
        expected = inputs @ layer.weight.mT + layer.bias

    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    assert np.isinf(result.numpy()[..., 1]).any()


def test_copies_and_pickles_leave_the_packed_weight_behind(layer, inputs):
    with backends.flags(fp32_precision="bf16"), mt.no_grad():
        expected = layer(inputs)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert kept_weight(other) is None
            assert np.array_equal(other(inputs).numpy(), expected.numpy())


def test_bad_inputs_are_refused_as_without_packing(layer):
    for wrong in (mt.ones(2, DEPTH + 1), mt.ones(2, DEPTH).double()):
        with pytest.raises(RuntimeError) as recorded:
            layer(wrong)
        with mt.no_grad(), pytest.raises(RuntimeError) as inferred:
            layer(wrong)
        assert str(inferred.value) == str(recorded.value)


@pytest.mark.parametrize("implementation", list(gemm.linear.implementations))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_implementation_keeps_the_bound(implementation, precision):
    a = np.random.default_rng(0).standard_normal((ROWS, DEPTH)).astype(np.float32)
    b = np.random.default_rng(1).standard_normal((DEPTH, COLUMNS)).astype(np.float32)
    addend = np.arange(COLUMNS, dtype=np.float32)
    operand = gemm.Kept(b, precision)
    if implementation == "packed" and operand.packed is None:
        pytest.skip("no loops here read packed operands")

    result = gemm.linear[implementation](a, operand, addend, precision=precision)

    error = np.abs(result - gemm.linear.reference(a, operand, addend))
    terms = np.abs(a).astype(float) @ np.abs(b).astype(float)
    rounding = (DEPTH + 2) * 2.0**-23
    assert (error <= (gemm.linear.bound[precision] + rounding) * terms + 2.0**-23 * addend).all()
