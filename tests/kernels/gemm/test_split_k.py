"""Products by parts of K: the bits of the loops over panels, in every layout, dtype and precision."""

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.gemm import matmul, skinny, split_k
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import cpu, threading

from ...support.reference import UNSCALED
from .test_small import by_panels, layouts, normal

every_isa = pytest.mark.parametrize(
    "isa",
    [pytest.param(i, marks=pytest.mark.skipif(cpu.refusal(i) is not None, reason=f"no {i}")) for i in skinny.ISAS],
)
CASES = [(np.float32, precision) for precision in UNSCALED]
CASES += [(dtype, "ieee") for dtype in (np.float64, np.float16, ml_dtypes.bfloat16)]


def by_parts(isa, a, b, *addend, precision="ieee", **factors):
    return split_k.implementation(isa)(a, b, *addend, precision=precision, **factors)


def panels(isa, a, b, precision="ieee"):
    from minitorch_backends.kernels.gemm.compiled import computed_by_panels

    return by_panels(a, b, isa, computed_by_panels(isa, a.dtype, precision))


@every_isa
@pytest.mark.parametrize(("dtype", "precision"), CASES)
def test_every_layout_has_the_bits_of_the_panels(isa, dtype, precision):
    for m, k, n in ((12, 257, 8), (17, 640, 33), (100, 1024, 100)):
        left, right = layouts(normal(m, k, dtype=dtype)), layouts(normal(k, n, seed=1, dtype=dtype))
        expected = panels(isa, left[0], right[0], precision)
        for a, b in zip(left, right[::-1], strict=True):
            result = by_parts(isa, a, b, precision=precision)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, expected)


@every_isa
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_sums_that_memory_does_not_hold_at_once_are_the_same(isa, dtype):
    from minitorch_backends.kernels.block import tuning

    a, b = normal(12, 2345, dtype=dtype), normal(2345, 9, seed=1, dtype=dtype)
    expected = by_parts(isa, a, b)
    for parts in (1, 2, 3):
        with tuning.thresholds(isa).override(split_caches=parts * 12 * 9 * 4 / tuning.tuning(isa).cache_bytes):
            np.testing.assert_array_equal(by_parts(isa, a, b), expected)


@every_isa
def test_any_number_of_threads_gives_the_same_bits(isa):
    a, b = normal(48, 5000), normal(5000, 40, seed=1)
    expected = by_parts(isa, a, b)
    for threads in (1, 2, 3):
        with threading.num_threads(threads):
            np.testing.assert_array_equal(by_parts(isa, a, b), expected)


@every_isa
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_an_addend_is_added_before_the_sums_are_rounded(isa, dtype):
    a, b = normal(3, 7, 700, dtype=dtype), normal(700, 11, seed=1, dtype=dtype)
    addend, wide = normal(7, 1, seed=2, dtype=dtype), np.float64 if dtype == np.float64 else np.float32
    rows = a.reshape(21, 700)
    sums = panels(isa, rows.astype(wide), b.astype(wide)).reshape(3, 7, 11)
    expected = (sums * wide(0.5) + addend.astype(wide) * wide(3)).astype(dtype)
    np.testing.assert_array_equal(by_parts(isa, a, b, addend, alpha=0.5, beta=3.0), expected)
    np.testing.assert_array_equal(by_parts(isa, a, b, addend), (sums + addend.astype(wide)).astype(dtype))
    np.testing.assert_array_equal(by_parts(isa, a, b, np.full_like(addend, np.nan), beta=0.0), sums.astype(dtype))


@every_isa
def test_extraordinary_values(isa):
    a, b = normal(12, 1000), normal(1000, 8, seed=1)
    a[3, 700], b[20, 5], a[7, 999], b[999, 2] = np.inf, np.nan, 1e-42, -np.inf
    for precision in ("ieee", "tf32", "bf16"):
        np.testing.assert_array_equal(by_parts(isa, a, b, precision=precision), panels(isa, a, b, precision))
    with pytest.raises(Refused, match="holds"):
        by_parts(isa, a, b, precision="bf16x3")
    np.testing.assert_array_equal(np.isfinite(matmul(a, b, precision="bf16x3")), np.isfinite(panels(isa, a, b)))
