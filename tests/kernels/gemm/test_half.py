"""Half products whose sums are rounded on the way: their bound, where they round, and that they round at all."""

import numpy as np
import pytest

from minitorch_backends.kernels.gemm import addmm
from minitorch_backends.kernels.gemm.half import BLOCK, PART, half_matmul

STEPS = {"half": BLOCK, "parts": PART}


def factors(k, dtype):
    rng = np.random.default_rng(k)
    return rng.uniform(-1, 1, (3, 2, k)).astype(dtype), rng.uniform(-1, 1, (k, 4)).astype(dtype)


@pytest.mark.parametrize("sums", STEPS)
def test_error_is_within_the_bound(sums):
    step = STEPS[sums]
    for k in (0, 1, step - 1, step, step + 1, 3 * step + 5):
        a, b = factors(k, np.float16)
        exact, size = half_matmul.reference(a, b), half_matmul.reference(abs(a), abs(b))
        result = half_matmul(a, b, sums=sums)
        assert (result.dtype, result.shape) == (np.float16, (3, 2, 4))
        roundings = -(-k // step) + 1
        assert (abs(result - exact) <= roundings * 2.0**-11 * size + 2.0**-24).all()


def test_bound_is_that_of_the_dtype():
    import ml_dtypes

    a, b = factors(2 * PART, ml_dtypes.bfloat16)
    exact, size = half_matmul.reference(a, b), half_matmul.reference(abs(a), abs(b))
    error = abs(half_matmul(a, b, sums="parts").astype(np.float64) - exact)
    assert (error <= 3 * half_matmul.bound["parts"] * size).all()


def test_sums_are_rounded_after_each_block():
    """2048 + 1 is 2048 in float16, to even: ones after a block that sums to 2048 are lost, unless a block has two."""
    k = 3 * BLOCK
    a, b = np.zeros((1, k), np.float16), np.ones((k, 1), np.float16)
    a[0, 0], a[0, BLOCK], a[0, 2 * BLOCK] = 2048, 1, 1
    assert half_matmul(a, b, sums="half")[0, 0] == 2048
    a[0, 2 * BLOCK], a[0, BLOCK + 1] = 0, 1
    assert half_matmul(a, b, sums="half")[0, 0] == 2050


def test_parts_are_rounded_and_their_sum_is_not():
    k = 3 * PART
    a, b = np.zeros((1, k), np.float16), np.ones((k, 1), np.float16)
    a[0, 0], a[0, PART], a[0, 2 * PART] = 2048, 1, 1
    assert half_matmul(a, b, sums="parts")[0, 0] == 2050
    a[0, 1] = 1
    assert half_matmul(a, b, sums="parts")[0, 0] == 2050, "2049 is 2048 as a part"


def test_overflow_of_a_part_is_infinite():
    a, b = np.full((1, PART + 1), 60000, np.float16), np.ones((PART + 1, 1), np.float16)
    a[0, PART] = -60000
    for sums in STEPS:
        assert half_matmul(a, b, sums=sums)[0, 0] == np.inf


def test_unknown_sums_are_refused():
    with pytest.raises(ValueError, match=r"sums='none' is unknown; expected 'half' or 'parts'"):
        half_matmul(*factors(3, np.float16), sums="none")


@pytest.mark.parametrize("shape", [(7, 1, 9, 1), (2, 3, 9, 5), (1, 40, 64, 48)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_product_with_an_addend_is_rounded_once(dtype, shape):
    """Whichever way takes it: what the product rounded to the dtype leaves is not lost."""
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    (batch, m, k, n), rng = shape, np.random.default_rng(4)
    a, b = rng.uniform(-1, 1, (batch, m, k)).astype(kind), rng.uniform(-1, 1, (batch, k, n)).astype(kind)
    product = a.astype(np.float64) @ b.astype(np.float64)
    addend = (-2 * product).astype(kind)
    left = 2 * product + addend.astype(np.float64)
    assert abs(addmm(a, b, addend, alpha=2.0).astype(np.float64) - left).max() < 1e-5 + 2.0**-8 * abs(left).max()
