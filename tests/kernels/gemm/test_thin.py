"""Products of a matrix with a few rows or columns, read in one pass; and products of integers."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.block import tuning
from minitorch_backends.kernels.gemm import exact_matmul, matmul, skinny
from minitorch_backends.kernels.gemm.linear import gains_by_keeping
from minitorch_backends.kernels.precisions.products import PRECISIONS, ROUNDINGS
from minitorch_backends.kernels.registry import ArraySpec, Refused
from minitorch_backends.kernels.runtime import cpu, threading

from ...support import reference
from .test_small import layouts, normal

every_isa = pytest.mark.parametrize(
    "isa",
    [pytest.param(i, marks=pytest.mark.skipif(cpu.refusal(i) is not None, reason=f"no {i}")) for i in skinny.ISAS],
)
SHAPES = [
    (1, 300, 200), (1, 2049, 260), (2, 257, 1001), (3, 5000, 17), (4, 33, 3333), (4, 4099, 15), (1000, 257, 4),
    (5001, 16, 1),
]  # fmt: skip
SHAPES_OF_MANY = [(5, 300, 501), (8, 1040, 193), (13, 2049, 75), (600, 320, 20), (32, 1030, 300)]


def by_rows(isa, a, b, *how):
    """By the implementation, or by its loops where it leaves a layout to panels."""
    keywords = dict(zip(("precision", "rounding"), how, strict=False))
    specs = [ArraySpec(x.shape, x.dtype) for x in (a, b)]
    try:
        if sentence := skinny.refuses(isa)(*specs, **keywords):
            raise Refused(sentence)
        return skinny.implementation(isa)(a, b, **keywords)
    except Refused as refused:
        if "to panels" not in str(refused):
            raise
        return skinny.product(a, b, isa, *(*how, *("ieee", "rna")[len(how) :]))


def expected_of(a, b, precision, rounding=None):
    """The product, and how far from it a result may be."""
    magnitudes = np.matmul(np.abs(reference.wide(a)), np.abs(reference.wide(b)))
    allowed = (a.shape[-1] + 8) * (1.02 * 2.0**-24 * magnitudes + 2.0**-149)
    return reference.matmul_at(a, b, precision, rounding, np.matmul), allowed


def assert_right(result, expected, allowed):
    assert (result.dtype, result.shape, result.flags.c_contiguous) == (np.float32, expected.shape, True)
    assert np.all(np.abs(result - expected) <= allowed)


@every_isa
@pytest.mark.parametrize(
    "how",
    [("ieee",), ("bf16",), ("fp16",), ("bf16x3",), ("bf16x6",), ("tf32x3",), *(("tf32", way) for way in ROUNDINGS)],
)
def test_float32(isa, how):
    for m, k, n in (*SHAPES, *SHAPES_OF_MANY):
        a, b = normal(m, k, seed=m), normal(k, n, seed=n)
        many = min(m, n) > skinny.most_rows(isa, a.dtype, how[0], m, k, n)
        if many or (how == ("ieee",) and m * k * n < (500_000 if 1 in (m, n) else 1_000_000)):
            with pytest.raises(Refused, match="takes 1 to" if many else "to BLAS"):
                by_rows(isa, a, b, *how)
            continue
        expected = expected_of(a, b, *how)
        for x, y in itertools.product(layouts(a), layouts(b)):
            large = y if m <= n else x
            if large.itemsize in large.strides:
                assert_right(by_rows(isa, x, y, *how), *expected)
            else:
                with pytest.raises(Refused, match="contiguous in a direction"):
                    by_rows(isa, x, y, *how)


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="no avx2")
def test_avx2_leaves_some_rows_to_panels_by_their_layout():
    few, matrix = normal(7, 1000), normal(1000, 1100)
    for a, b in ((few, matrix), (np.asfortranarray(matrix.T), few.T)):
        with pytest.raises(Refused, match="runs across the result to panels"):
            skinny.implementation("avx2")(a, b)
    for a, b in ((few[:6], matrix), (few, np.asfortranarray(matrix)), (matrix.T.copy(), few.T)):
        assert_right(skinny.implementation("avx2")(a, b), *expected_of(a, b, "ieee"))


@every_isa
def test_float64(isa):
    for m, k, n in (*SHAPES, *SHAPES_OF_MANY):
        a, b = normal(m, k, seed=m, dtype=np.float64), normal(k, n, seed=n, dtype=np.float64)
        few = min(m, n)
        least = 250_000 if few == 1 else 1_000_000
        if few > skinny.most_rows(isa, a.dtype, "ieee", m, k, n) or m * k * n < least:
            continue
        exact = exact_matmul(a, b)
        for x, y in itertools.product((a, np.asfortranarray(a)), (b, np.asfortranarray(b))):
            result = by_rows(isa, x, y)
            assert (result.dtype, result.shape, result.flags.c_contiguous) == (np.float64, exact.shape, True)
            assert np.all(np.abs(result - exact) <= (k + 8) * 2.0**-53 * (np.abs(a) @ np.abs(b)))


@every_isa
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bits_are_rounded_once(isa, dtype):
    for m, k, n in (*SHAPES, *SHAPES_OF_MANY):
        a, b = normal(m, k, dtype=dtype), normal(k, n, seed=1, dtype=dtype)
        if min(m, n) > skinny.most_rows(isa, a.dtype, "ieee", m, k, n):
            continue
        for y in (b, np.asfortranarray(b)):
            result, exact = by_rows(isa, a, y), exact_matmul(a, b)
            assert result.dtype == dtype
            unit = float(ml_dtypes.finfo(dtype).eps)
            assert np.all(np.abs(result.astype(np.float64) - exact) <= 0.51 * unit * np.abs(exact) + 1e-3)


@every_isa
@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16x3"])
def test_batches(isa, precision):
    """Each of its own matrix, of any strides between them; few rows may be the same for all."""
    for (m, k, n), batch in (
        ((3, 130, 900), (5,)),
        ((1, 65, 2100), (2, 3)),
        ((900, 130, 3), (5,)),
        ((11, 70, 300), (6,)),
    ):
        if min(m, n) > skinny.most_rows(isa, np.dtype(np.float32), precision, m, k, n):
            continue  # tiles take it
        a, b = normal(*batch, m, k, seed=m), normal(*batch, k, n, seed=n)
        turned = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b)]
        spread = [np.stack([x, -x], -3)[..., 0, :, :] for x in (a, b)]
        for x, y in ((a, b), turned, spread, (a[::-1], b[::-1])):
            expected = expected_of(np.ascontiguousarray(x), np.ascontiguousarray(y), precision)
            assert_right(by_rows(isa, x, y, precision), *expected)
        few, large = (a[0], b) if m <= n else (a, b[0])
        assert_right(by_rows(isa, few, large, precision), *expected_of(few, large, precision))
    with pytest.raises(Refused, match="a matrix for each"):
        by_rows(isa, normal(5, 3, 130), normal(130, 900), precision)


@every_isa
@pytest.mark.parametrize("rows", [2, 7, 18])
def test_special_values_and_threads(isa, rows):
    """Inf, NaN, subnormals and signed zeros, in whole vectors and in the rest; the same bits for any thread count."""
    a, b = normal(rows, 1000), normal(1000, 503, seed=1)
    b[3, 5], b[200, 202], b[299, 100], b[:, 50] = np.inf, -np.inf, np.nan, 1e-41
    for precision in ("ieee", "bf16", "tf32"):
        if rows > skinny.most_rows(isa, a.dtype, precision, rows, *b.shape):
            continue
        results = []
        for threads in (1, 2, 3):
            with threading.num_threads(threads):
                results += [by_rows(isa, a, y, precision) for y in (b, np.asfortranarray(b))]
        finite = np.isfinite(b).all(0)
        expected = expected_of(a, np.ascontiguousarray(b[:, finite]), precision)
        for result in results:
            assert_right(np.ascontiguousarray(result[:, finite]), *expected)
            assert np.isnan(result[:, 100]).all()
            assert np.isinf(result[:, [5, 202]]).all()
        for one, other in ((0, 2), (0, 4), (1, 3), (1, 5)):
            np.testing.assert_array_equal(results[one], results[other])


@every_isa
def test_two_parts_of_every_size(isa):
    """Values too small for a second part are scaled before they are split; other ways take sums that are not finite."""
    a, b = normal(2, 8) * np.float32(2.0**100), normal(8, 7000, seed=1)
    small = b * np.exp2(-60.0 - np.arange(7000) % 89).astype(np.float32)
    expected = expected_of(a, small, "bf16x3")
    for y in (small, np.asfortranarray(small)):
        assert_right(by_rows(isa, a, y, "bf16x3"), *expected)
    for value in (np.inf, np.nan, np.finfo(np.float32).max):
        b[5, 6999] = value
        for y in (b, np.asfortranarray(b)):
            with pytest.raises(Refused, match="the result is not finite"):
                by_rows(isa, a, y, "bf16x3")


def test_who_multiplies_few_rows():
    usable = [isa for isa in skinny.ISAS if cpu.refusal(isa) is None]
    matrix, expected = np.zeros((1000, 1000), np.float32), "rows" if usable else "blas"
    for precision in reference.UNSCALED:
        row = PRECISIONS[precision]
        first = matmul.decide(matrix[:1], matrix, precision=precision).candidates[0].name
        splits = row.parts > 1 and not row.is_exact
        assert first == ("portable" if splits and not usable else expected), precision
    if not usable:
        assert matmul.decide(matrix[:4], matrix).candidates[0].name == "blas"
        return
    for precision in reference.UNSCALED:
        most = skinny.most_rows(usable[0], matrix.dtype, precision, 1, *matrix.shape)
        assert matmul.decide(matrix[:most], matrix, precision=precision).candidates[0].name == expected
        decision = matmul.decide(matrix[: most + 1], matrix, precision=precision)
        assert decision.candidates[0].name != expected
        assert (expected, f"takes 1 to {most} rows here") in decision.refusals
    for few, depth, products, least in ((5, 150, "750,000", "1,000,000"), (1, 400, "400,000", "500,000")):
        decision = matmul.decide(matrix[:few, :depth], matrix[:depth])
        assert (expected, f"leaves {products} products to BLAS; it is faster from {least}") in decision.refusals


def test_a_kept_matrix_is_read_packed_for_more_rows():
    if cpu.refusal("avx2") is not None:
        pytest.skip("nothing is read in place here")
    rows = tuning.tuning("avx512" if cpu.refusal("avx512") is None else "avx2").rows_kept_most
    specs = [ArraySpec((1000, 1000), np.dtype(np.float32))]
    for batch in ((), (1,), (1, 1)):  # leading dimensions are rows of one matrix
        found = [gains_by_keeping(ArraySpec((*batch, m, 1000), specs[0].dtype), *specs) for m in (rows, rows + 1)]
        assert found == [False, True]
    assert gains_by_keeping(ArraySpec((rows + 1, 1, 1000), specs[0].dtype), *specs)
    assert not gains_by_keeping(ArraySpec((1000, 1000), specs[0].dtype), ArraySpec((1000, 8), specs[0].dtype))


# Integers


@pytest.mark.parametrize("dtype", "bhilBHIL")
def test_integers_wrap_around(dtype):
    random, limits = np.random.default_rng(0), np.iinfo(dtype)
    for m, k, n in ((17, 64, 40), (100, 300, 70), (1, 400, 300), (300, 400, 1)):
        a, b = (random.integers(limits.min, limits.max, s, dtype, endpoint=True) for s in ((m, k), (k, n)))
        for x, y in itertools.product((a, a[::-1], np.asfortranarray(a)), (b, b[:, ::-1], np.asfortranarray(b))):
            result = matmul["integer"](x, y)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, np.matmul(x, y))


def test_batches_of_integers():
    random = np.random.default_rng(0)
    a, b = random.integers(-99, 99, (3, 1, 40, 50)), random.integers(-99, 99, (4, 50, 60))
    np.testing.assert_array_equal(matmul["integer"](a, b), np.matmul(a, b))
    np.testing.assert_array_equal(matmul(a, b), np.matmul(a, b))
    assert matmul(a[:, :, :0], b).shape == (3, 4, 0, 60)
    assert not matmul(a[..., :0], b[:, :0]).any()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_integers_of_any_shape(m, k, n, seed):
    from minitorch_backends.kernels.gemm import integers

    a, b = (np.random.default_rng(seed).integers(-(2**62), 2**62, s) for s in ((m, k), (k, n)))
    np.testing.assert_array_equal(integers.matmul(a, b), np.matmul(a, b))
    np.testing.assert_array_equal(matmul(a, b), np.matmul(a, b))
