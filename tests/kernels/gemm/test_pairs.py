"""The microkernel of AVX512_BF16: its sums to the bit, and its callers."""

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.block import plans
from minitorch_backends.kernels.gemm import compiled, matmul

from .test_gemm import PAIRS, normal, product

with_pairs = pytest.mark.parametrize("isa", [PAIRS])


def parts(x, count):
    found = []
    for _ in range(count):
        found.append(x.astype(ml_dtypes.bfloat16).astype(np.float64))
        x = x - found[-1].astype(np.float32)
    return found


def sums_of_pairs(a, b, walk, kc):
    """a @ b as VDPBF16PS adds it up: in each step of kc along K one chain, which goes over all terms of 32 places
    before the next 32, of two places the odd one first."""
    count = 1 + max(max(step) for step in walk)
    parts_a, parts_b = parts(a, count), parts(b, count)
    result = np.zeros((len(a), b.shape[1]), np.float32)
    for start in range(0, a.shape[1], kc):
        chain = np.zeros_like(result)
        for first in range(start, min(start + kc, a.shape[1]), 32):
            for of_a, of_b in walk:
                for k in (first + (place ^ 1) for place in range(32)):
                    if k < a.shape[1]:
                        chain = (chain + np.outer(parts_a[of_a][:, k], parts_b[of_b][k])).astype(np.float32)
        result = chain if start == 0 else result + chain
    return result


@with_pairs
@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (45, 70, 39), (33, 600, 70), (300, 33, 40)])
def test_sums_to_the_bit(isa, precision, shape):
    m, k, n = shape
    a, b = normal(m, k, seed=1), normal(k, n, seed=2)
    scheme = plans.plan_for(isa, precision, "rna", 4).scheme
    np.testing.assert_array_equal(
        product(a, b, isa=isa, precision=precision), sums_of_pairs(a, b, scheme.kernel.walk, scheme.kc)
    )


@with_pairs
def test_bfloat16_tensors_have_the_same_sums(isa):
    a, b = (normal(*shape, seed=3).astype(ml_dtypes.bfloat16) for shape in ((70, 300), (300, 40)))
    wide = product(a.astype(np.float32), b.astype(np.float32), isa=isa)
    np.testing.assert_array_equal(product(a, b, isa=isa), wide.astype(ml_dtypes.bfloat16))


def test_precisions_that_take_more_terms_are_left_to_vectors():
    for precision in ("ieee", "tf32", "fp16", "bf16x6", "bf16x9", "tf32x3"):
        assert compiled.computed_by_panels("avx512_bf16", np.dtype(np.float32), precision) is None


@pytest.mark.skipif(compiled.passed_over("avx512_bf16") is not None, reason="pairs are not faster here")
def test_bf16_products_go_by_pairs():
    a = normal(300, 300)
    assert matmul.decide(a, a, precision="bf16").candidates[0].name == "avx512_bf16"
