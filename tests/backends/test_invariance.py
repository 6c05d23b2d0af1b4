"""backends.invariant: bits that depend neither on the batch nor on the CPU's instructions."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels.runtime import cpu, invariance

from ..support.invariant_hashes import FILE, hashes
from ..support.processes import python

pytestmark = pytest.mark.usefixtures("default_flags")

_SIZES = st.integers(1, 40)


def numbers(*shape, seed=0, dtype=mt.float32):
    return mt.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).to(dtype)


def same(first, second):
    """Whether two tensors have the same bits, zeros of either sign apart."""
    return first.dtype is second.dtype and first.float().numpy().tobytes() == second.float().numpy().tobytes()


# The flag


def test_values_of_the_flag():
    assert backends.invariant == "none"
    for value, stored in (
        ("batch", "batch"),
        ("isa", "isa"),
        ("isa, batch", "batch,isa"),
        ("shards,batch", "batch,shards"),
    ):
        with backends.flags(invariant=value):
            assert backends.invariant == stored
            assert invariance.current_demand() == ("batch" in value, "isa" in value)
    assert invariance.current_demand() == (False, False)
    with pytest.raises(RuntimeError, match=r"one of 'none', 'batch', 'isa', 'shards', .* got 'bach'"):
        backends.invariant = "bach"
    with pytest.raises(TypeError, match="got True of type bool"):
        backends.invariant = True


def test_explain_names_what_was_chosen():
    a, b = numbers(3, 300), numbers(300, 40)
    with backends.flags(invariant="batch"):
        answer = explain.why("matmul", a, b)
    assert answer.decided_by.endswith("; invariant = 'batch'")
    assert "blas" in {name for name, sentence in answer.refusals if "backends.invariant has 'batch'" in sentence}
    assert "invariant" not in explain.why("matmul", a, b).decided_by


def test_scales_of_tensors_are_refused():
    a, b = numbers(3, 32), numbers(32, 4)
    with backends.flags(invariant="batch"):
        with pytest.raises(RuntimeError, match="e4m3 scales by the largest magnitude of all rows"):
            mt.matmul(a, b, precision="e4m3")
        assert same(mt.matmul(a, b, precision="mxfp8")[:1], mt.matmul(a[:1], b, precision="mxfp8"))


# Products


@pytest.mark.parametrize("precision", [None, "bf16", "bf16x3"])
@settings(max_examples=8)
@given(rows=_SIZES, first=_SIZES, k=st.sampled_from([8, 70, 300]), n=st.sampled_from([1, 16, 130]))
def test_rows_of_products_stand_alone(precision, rows, first, k, n):
    a, b = numbers(first + rows, k), numbers(k, n, seed=1)
    with backends.flags(invariant="batch"):
        whole = mt.matmul(a, b, precision=precision)
        assert same(whole[first:], mt.matmul(a[first:], b, precision=precision))
        assert same(whole[first], mt.matmul(a[first], b, precision=precision))
        assert same(whole, mt.matmul(a.expand(3, -1, -1), b.expand(3, -1, -1), precision=precision)[1])


@pytest.mark.parametrize("dtype", [mt.float64, mt.float16, mt.bfloat16, mt.complex64, mt.complex128])
def test_rows_of_products_of_other_types(dtype):
    a, b, bias = numbers(33, 300, dtype=dtype), numbers(300, 20, seed=1, dtype=dtype), numbers(20, dtype=dtype)
    with backends.flags(invariant="batch"):
        for function in (lambda x: x @ b, lambda x: mt.addmm(bias, x, b, alpha=0.5, beta=3)):
            whole = function(a)
            for rows in (slice(0, 1), slice(5, 9), slice(1, 33)):
                assert mt.equal(whole[rows], function(a[rows]))


def test_layers_and_their_gradients():
    layer, x = mt.nn.Linear(300, 130), numbers(40, 300)

    def run(x):
        x = x.detach().requires_grad_()
        out = layer(x)
        out.square().sum().backward()
        return out.detach(), x.grad

    with backends.flags(invariant="batch"):
        whole, part = run(x), run(x[7:9])
        with mt.no_grad():
            assert same(whole[0], layer(x))
    assert same(whole[0][7:9], part[0])
    assert same(whole[1][7:9], part[1])


# Other families


F = mt.nn.functional
_WEIGHT, _LSTM = numbers(10, 3, 3, 3, seed=2), mt.nn.LSTM(7, 20, batch_first=True)
BATCHES = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "sum": lambda x: x.sum(-1),
    "mean of two dimensions": lambda x: x.mean((1, -1)),
    "var": lambda x: x.var(-1),
    "vector_norm": lambda x: mt.linalg.vector_norm(x, dim=-1),
    "logsumexp": lambda x: mt.logsumexp(x, -1),
    "cumsum": lambda x: x.cumsum(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-2:], _WEIGHT.reshape(-1)[:98].reshape(14, 7)),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 3, _WEIGHT[0, 0, 0], _WEIGHT[1, 0, 0]),
    "batch_norm": lambda x: F.batch_norm(x, _WEIGHT[0, 0, 0], _WEIGHT[1, 0, 0].abs()),
    "gelu": F.gelu,
    "tanh": mt.tanh,
    "exp": mt.exp,
    "silu": F.silu,
    "conv2d": lambda x: F.conv2d(x, _WEIGHT, padding=1, stride=2),
    "lstm": lambda x: _LSTM(x.flatten(1, 2))[0],
    "inv": lambda x: mt.linalg.inv(x[:, :, :7] + 9 * mt.eye(7)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
}


@pytest.mark.parametrize("name", BATCHES)
@settings(max_examples=4)
@given(count=st.integers(2, 12), data=st.data())
def test_batches_of_other_families(name, count, data):
    first = data.draw(st.integers(0, count - 1))
    part = slice(first, first + data.draw(st.integers(1, count - first)))
    x = numbers(count, 3, 14, 7, seed=count)

    def run(x):
        x = x.detach().requires_grad_()
        out = BATCHES[name](x)
        out.backward(mt.full_like(out, 0.3))
        return out.detach(), x.grad

    with backends.flags(invariant="batch"):
        for whole, alone in zip(run(x), run(x[part]), strict=True):
            assert same(whole[part], alone)


@pytest.mark.parametrize("length", [5, 64, 100])
def test_decoding_agrees_with_prefill(length):
    q, k, v = (numbers(2, 3, length, 8, seed=seed) for seed in range(3))
    with backends.flags(invariant="batch"), mt.no_grad():
        whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        for t in (0, length // 2, length - 1):
            alone = F.scaled_dot_product_attention(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1])
            assert same(whole[:, :, t : t + 1], alone)


def test_what_has_the_bits_of_this_cpu_is_refused():
    x = numbers(4, 4)
    assert mt.pow(x.double().abs(), 0.3).shape == x.shape  # what is compiled before must obey, too
    with backends.flags(invariant="isa"):
        with pytest.raises(RuntimeError, match=r"inv takes .*backends.invariant has 'isa'"):
            mt.linalg.inv(x)
        with pytest.raises(RuntimeError, match=r"scipy.special has bits of this CPU; take 'isa' out"):
            mt.special.i0(x)
        with pytest.raises(RuntimeError, match=r"power\(\) of float64 must not have bits of this CPU"):
            mt.pow(x.double().abs(), 0.3)
    assert mt.linalg.inv(x).shape == x.shape


@pytest.mark.parametrize(("function", "low", "high"), [(mt.sin, -100, 100), (mt.erf, -3, 3), (mt.exp, -20, 20)])
@pytest.mark.parametrize("dtype", [mt.float32, mt.float64])
def test_functions_without_fused_operations_are_accurate(function, low, high, dtype):
    x = mt.linspace(low, high, 301, dtype=dtype)
    expected = function(x.double()).numpy()
    with backends.flags(invariant="isa"):
        found = function(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=16 * np.finfo(found.dtype).eps, atol=1e-16)


# The bits of every machine


def test_hashes_are_those_of_every_machine():
    """Hashes of ops of each kind, by precision and dtype, here and at lower capabilities."""
    expected = json.loads(FILE.read_text(encoding="utf-8"))
    assert hashes() == expected
    levels = [level for level in ("portable", "avx2") if cpu.LEVELS.index(level) < cpu.LEVELS.index(cpu.capability())]
    kept = {name: os.environ[name] for name in ("MINITORCH_CACHE_DIR",) if name in os.environ}
    code = "import json; from tests.support.invariant_hashes import hashes; print(json.dumps(hashes()))"
    for level in levels:
        done = python(code, MINITORCH_CPU_CAPABILITY=level, **kept)
        assert not done.error
        assert json.loads(done.out) == expected, level
