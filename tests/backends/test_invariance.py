"""backends.invariant: bits that depend neither on the batch nor on the CPU's instructions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels import invariance

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
    for value, stored in (("batch", "batch"), ("isa", "isa"), ("isa, batch", "batch,isa"), ("batch,isa", "batch,isa")):
        with backends.flags(invariant=value):
            assert backends.invariant == stored
            assert invariance.demanded() == ("batch" in value, "isa" in value)
    assert invariance.demanded() == (False, False)
    with pytest.raises(RuntimeError, match="invariant must be one of 'none', 'batch', 'isa', 'batch,isa', got 'bach'"):
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
