"""Products without panels: the bits of the loops over panels, for every size, layout, dtype and precision they take."""

import contextlib
import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.gemm import matmul, small
from minitorch_backends.kernels.registry import ArraySpec, Refused
from minitorch_backends.kernels.runtime import cpu, threading

from ...support import reference

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 48, 64, 65, 127, 128)
DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
VECTORS = [isa for isa in small.ISAS if isa != "amx"]
every_isa = pytest.mark.parametrize(
    "isa", [pytest.param(i, marks=pytest.mark.skipif(cpu.refusal(i) is not None, reason=f"no {i}")) for i in VECTORS]
)
with_tiles = pytest.mark.skipif(cpu.refusal("amx") is not None, reason="no amx")
BY_TILES = [
    ("bf16", np.float32),
    ("bf16", ml_dtypes.bfloat16),
    ("fp16", np.float16),
    ("tf32", np.float32),
    ("bf16x3", np.float32),
    ("bf16x6", np.float32),
]


def direct(a, b, isa, precision="ieee", rounding="rna"):
    from minitorch_backends.kernels.gemm.small_products import product

    return product(a, b, isa, precision, rounding)


def by_panels(a, b, isa, precision="ieee", rounding="rna"):
    from minitorch_backends.kernels.gemm.product import product

    return product(a, b, isa=isa, precision=precision, rounding=rounding)


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def layouts(x):
    """The same values in every layout that is read differently, and in the middle of NaN."""
    frame = np.full((*x.shape[:-2], x.shape[-2] + 3, x.shape[-1] + 5), np.nan, x.dtype)
    wide = np.full((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), np.nan, x.dtype)
    frame[..., 1:-2, 2:-3], wide[..., ::2, ::3] = x, x
    backwards = np.ascontiguousarray(x[..., ::-1, ::-1])
    columns = np.ascontiguousarray(np.swapaxes(x, -1, -2))
    return [x, frame[..., 1:-2, 2:-3], wide[..., ::2, ::3], backwards[..., ::-1, ::-1], np.swapaxes(columns, -1, -2)]


def assert_same(a, b, isa, *how):
    result, expected = direct(a, b, isa, *how), by_panels(a, b, isa, *how)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8), str((a.shape, b.shape, isa, how)))


@every_isa
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_size_has_the_bits_of_the_panels(isa, dtype):
    for size in SIZES:
        for m, k, n in ((size, 9, 33), (33, size, 9), (9, 33, size), (size, size, size)):
            assert_same(normal(m, k, seed=m, dtype=dtype), normal(k, n, seed=n, dtype=dtype), isa)


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="no avx2")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("m", "k", "n"), [(24, 256, 256), (127, 65, 509)])
def test_few_rows_and_a_wide_right_operand_have_the_bits_of_the_panels(dtype, m, k, n):
    left, right = layouts(normal(m, k, dtype=dtype)), layouts(normal(k, n, seed=1, dtype=dtype))
    for a, b in zip(left, right[::-1], strict=True):
        assert_same(a, b, "avx2")
    assert small.refuses("avx2")(ArraySpec((64, 128), np.dtype("f4")), ArraySpec((128, 512), np.dtype("f4"))) is None
    for shapes in (((23, 128), (128, 512)), ((64, 128), (128, 513)), ((64, 129), (129, 512)), ((128, 9), (9, 129))):
        refusal = small.refuses("avx2")(*[ArraySpec(shape, np.dtype("f4")) for shape in shapes])
        assert "up to 512 columns beside 24 to 127 rows" in refusal


@every_isa
@pytest.mark.parametrize(("m", "k", "n"), [(32, 32, 32), (19, 40, 37), (5, 7, 9)])
def test_batches_beyond_the_cache(isa, m, k, n):
    """While one product is computed the next ones are fetched, up to and beyond the last: to the bits of the first."""
    for dtype in (np.float32, np.float64):
        count = (1 << 20) // (np.dtype(dtype).itemsize * (m * k + k * n + m * n)) + 50
        a, b = normal(count, m, k, dtype=dtype), normal(count, k, n, seed=1, dtype=dtype)
        result = direct(a, b, isa)
        for item in (0, 1, count // 2, count - 1):
            np.testing.assert_array_equal(result[item], direct(a[item], b[item], isa))


@every_isa
def test_the_sums_of_two_tf32_parts(isa):
    """Floats of every size, each times one number."""
    random = np.random.default_rng(0)
    bits = [random.integers(0, 1 << 23, 200, dtype=np.uint32) | np.uint32(exponent << 23) for exponent in range(255)]
    edges = np.arange(0x7F7F0000, 0x7F800000, 97, dtype=np.uint32)
    values = np.concatenate([*bits, np.arange(2000, dtype=np.uint32), edges]).view(np.float32)
    for row in values[: len(values) // 128 * 128].reshape(-1, 128, 1):
        expected = sum(reference.split(row, "tf32x3")).astype(np.float32)
        np.testing.assert_array_equal(direct(row, np.ones((1, 1), np.float32), isa, "tf32x3"), expected)


@with_tiles
def test_the_sums_of_two_tf32_parts_by_tiles():
    """Numbers times one: every lower half, in the binades that tiles take."""
    lower, upper = np.arange(1 << 14, dtype=np.uint32), np.random.default_rng(0).integers(30, 230, 1 << 14)
    values = (lower | lower << 17 & 0x80000000 | upper.astype(np.uint32) << 23 | lower % 511 << 14).view(np.float32)
    for rows in values.reshape(-1, 128, 1):
        expected = sum(reference.split(rows, "tf32x3")).astype(np.float32)
        np.testing.assert_array_equal(direct(rows, np.ones((1, 1), np.float32), "amx", "tf32x3"), expected)
        one = np.ones((1, 1), np.float32)
        np.testing.assert_array_equal(direct(one, np.ascontiguousarray(rows.T), "amx", "tf32x3"), expected.T)


@every_isa
def test_magnitudes_of_two_parts(isa):
    """Values whose split would overflow are refused, wherever they lie. Zeros, large values, and those that a split
    loses beside other numbers are not."""
    for laid_out in (lambda x: x, lambda x: np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)):
        a, b = laid_out(normal(5, 9, 17)), laid_out(normal(5, 17, 20, seed=1))
        a[3, 8, 16], b[0, 0, 0], b[4, 16, 19] = 0.0, -0.0, 1e20
        assert_same(a, b, isa, "bf16x3")
        for value in (np.inf, -np.inf, np.nan, 3.4e38, 1e-39, 1e-42):
            for x, place in ((a, (3, 8, 16)), (b, (4, 16, 19))):
                before, x[place] = x[place], value
                for pair in ((a, b), (a[place[0]], b[place[0]])):
                    if abs(value) < 1:
                        assert_same(*pair, isa, "bf16x3")
                        continue
                    with pytest.raises(Refused):
                        direct(*pair, isa, "bf16x3")
                x[place] = before


@with_tiles
def test_what_looks_like_zero_by_its_first_part():
    """Numbers with zero parts, and NaN that rounding might turn into zero, among ordinary ones."""
    for bits in (0x00000001, 0x00007FFF, 0x80000123, 0x7FFF8000, 0xFFFFFFFF):
        for precision in ("bf16x6", "tf32x3"):
            a, b = normal(4, 32, 32), normal(4, 32, 32, seed=1)
            a[2, 5, 9] = np.uint32(bits).view(np.float32)
            for pair in ((a, b), (b, a), (a.swapaxes(1, 2), b), (b, a.swapaxes(1, 2))):
                with pytest.raises(Refused):
                    direct(*pair, "amx", precision)


@every_isa
@pytest.mark.parametrize("precision", ["ieee", "bf16", "bf16x3"])
def test_every_layout(isa, precision):
    for m, k, n in ((18, 37, 21), (1, 40, 5), (40, 1, 3), (2, 7, 1)):
        for a, b in itertools.product(layouts(normal(m, k)), layouts(normal(k, n, seed=1))):
            assert_same(a, b, isa, precision)


@pytest.mark.parametrize("how", [("fp16",), ("tf32", "rna"), ("tf32", "rne"), ("tf32", "rz")])
def test_every_rounding(how):
    """By the best instruction set: they share the code that rounds."""
    isa = next((isa for isa in VECTORS if cpu.refusal(isa) is None), None)
    if isa is None:
        pytest.skip("no vector units")
    assert_same(normal(18, 37), normal(37, 21, seed=1), isa, *how)


@every_isa
@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6),
    st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6),
)
@settings(max_examples=60)
def test_any_bits(isa, left, right):
    a, b = np.array(left, np.uint32).view(np.float32).reshape(2, 3), np.array(right, np.uint32).view(np.float32)
    for precision in ("ieee", "bf16"):
        results = [f(a, b.reshape(3, 2), isa, precision) for f in (direct, by_panels)]
        np.testing.assert_array_equal(*results)


@every_isa
@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((3, 9, 33), (3, 33, 20)),
        ((2, 1, 4, 5), (3, 5, 6)),
        ((4, 5), (2, 3, 5, 6)),
        ((2, 3, 4, 5), (5, 6)),
        ((1, 2, 3), (7, 3, 2)),
        ((6, 2, 16, 8), (6, 1, 8, 6)),  # enough for one thread to take two of a B in a row
    ],
)
def test_batches(isa, shape_a, shape_b):
    for a, b in itertools.product(layouts(normal(*shape_a)), layouts(normal(*shape_b, seed=1))):
        assert_same(a, b, isa, "bf16")
    wide = normal(*shape_a[:-2], 2 * shape_a[-2], shape_a[-1])
    assert_same(wide[::-1, ..., ::2, :] if len(shape_a) > 2 else wide[::2], normal(*shape_b), isa)


@every_isa
def test_the_bits_do_not_depend_on_the_number_of_threads(isa):
    a, b, results = normal(300, 33, 40), normal(300, 40, 35, seed=1), []
    for threads in (1, 2, 3):
        with threading.num_threads(threads):
            results.append(direct(a, b, isa, "bf16"))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


@with_tiles
@pytest.mark.parametrize(("precision", "dtype"), BY_TILES)
def test_tiles_have_the_bits_of_panels(precision, dtype):
    """Alone and in segments of several products, whole tiles and ragged ones, every contiguous layout."""
    sizes = [(16, 32, 16), (32, 32, 32), (1, 1, 1), (17, 33, 15), (3, 70, 50), (128, 256, 128), (33, 5, 47), (70, 9, 1)]
    sizes += [(161, 40, 17), (17, 40, 161), (320, 33, 5)]
    for m, k, n in sizes:
        for batch in ((), (40,)) if m * k * n < 100_000 else ((),):
            a, b = normal(*batch, m, k, seed=m, dtype=dtype), normal(*batch, k, n, seed=n, dtype=dtype)
            for left, right in itertools.product(layouts(a), layouts(b)):
                lies = [1 in x.shape[-2:] or x.itemsize in x.strides[-2:] for x in (left, right)]
                if all(lies):
                    assert_same(left, right, "amx", precision)
                elif not any(lies):
                    with pytest.raises(Refused, match="takes matrices that are contiguous in a direction"):
                        direct(left, right, "amx", precision)


@with_tiles
def test_tiles_of_batches_that_broadcast():
    small = ((2, 1, 20, 40), (3, 40, 17)), ((4, 40), (2, 3, 40, 6)), ((2, 3, 4, 40), (40, 6))
    long = ((2, 1, 130, 40), (3, 40, 17)), ((17, 40), (2, 3, 40, 150)), ((2, 3, 50, 40), (40, 6))
    for shape_a, shape_b in (*small, *long):
        a, b = normal(*shape_a), normal(*shape_b, seed=1)
        assert_same(a, b, "amx", "bf16")
        assert_same(a[..., ::-1, :], b, "amx", "bf16")


@with_tiles
@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6),
    st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6),
)
@settings(max_examples=60)
def test_tiles_refuse_what_panels_refuse(left, right):
    a, b = np.array(left, np.uint32).view(np.float32).reshape(2, 3), np.array(right, np.uint32).view(np.float32)
    b, many = b.reshape(3, 2), np.ones((40, 2, 3), np.float32)
    many[-1] = a
    for precision in ("bf16", "tf32", "bf16x3"):
        try:
            expected = by_panels(a, b, "amx", precision)
        except Refused:
            for x, y in ((a, b), (many, np.broadcast_to(b, (40, 3, 2)))):
                with pytest.raises(Refused, match=r"parts|overflow|flushed"):
                    direct(x, y, "amx", precision)
            continue
        for x, y in ((a, b), (many, np.broadcast_to(b, (40, 3, 2)))):
            with contextlib.suppress(Refused):  # of others in the batch, or for magnitudes that were not found
                np.testing.assert_array_equal(direct(x, y, "amx", precision)[-len(a) :].reshape(-1, 2)[-2:], expected)


@with_tiles
@pytest.mark.parametrize("precision", ["tf32", "bf16x3", "bf16x6"])
def test_magnitudes_that_tiles_admit_at_a_closer_look(precision):
    """Zeros of both signs, and values beyond those that all precisions take: one of a batch is enough."""
    a, b = normal(40, 20, 33), normal(40, 33, 17, seed=1)
    a[::3, :, ::2], b[1::3] = 0, -0.0
    for item, (down, up) in enumerate([(1.0, 1.0), (2.0**-60, 2.0**40), (1.0, 2.0**30), (2.0**-55, 2.0**10)]):
        left, right = a.copy(), b.copy()
        left[item], right[item] = left[item] * np.float32(down), right[item] * np.float32(up)
        assert_same(left, right, "amx", precision)


def test_memory_of_results_is_used_again_when_nobody_refers_to_it():
    from minitorch_backends.kernels.runtime.workspace import COUNTS_REFERENCES, address_of, empty, release

    release()
    first = empty((1100, 1024), np.dtype(np.float32))
    place, view = address_of(first), first[5:7].T
    del first
    second = empty((1080, 1024), np.dtype(np.float32))
    assert address_of(second) != place
    del view
    third = empty((1090, 1024), np.dtype(np.float32))
    assert not COUNTS_REFERENCES or address_of(third) == place
    many = [empty((1024, 1024), np.dtype(np.float32)) for _ in range(40)]
    assert len({address_of(each) for each in (second, third, *many)}) == 42
    assert all(address_of(each) % 64 == 0 for each in many)


@pytest.mark.parametrize("batch", [(1,), (5,), (3, 1), (1, 3), (2, 1, 3), (2, 3, 1, 1)])
def test_batches_of_equal_sizes(batch):
    for precision, (m, k, n) in itertools.product(("ieee", "bf16"), ((8, 9, 10), (24, 16, 33))):
        a, b = normal(*batch, m, k), normal(*batch, k, n, seed=1)
        expected = matmul["definition"](a, b, precision=precision)
        for _ in range(2):
            for left, right in itertools.product(layouts(a), layouts(b)):
                result = matmul(left, right, precision=precision)
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_one_function_for_every_layout_and_value():
    """A job that is kept for two shapes takes other strides, subclasses of ndarray, and values that tiles refuse."""

    class Odd(np.ndarray):
        pass

    for precision in ("ieee", "bf16", "tf32", "bf16x3"):
        a, b = normal(24, 40), normal(40, 19, seed=1)
        for _ in range(2):
            for left, right in itertools.product(layouts(a), layouts(b)):
                expected = matmul["definition"](a, b, precision=precision)
                for x in (left, left.view(Odd)):
                    result = matmul(x, right, precision=precision)
                    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
            tiny, huge = a * np.float32(1e-38), a * np.float32(1e37)
            tiny[0, 0], huge[1, 1] = np.nan, np.inf
            for left in (tiny, huge):
                expected = matmul["definition"](left, b, precision=precision)
                np.testing.assert_allclose(
                    matmul(left, b, precision=precision), expected, rtol=0.02, atol=1e-39, err_msg=precision
                )


@pytest.mark.parametrize("precision", ["ieee", "bf16", "tf32", "bf16x3"])
def test_one_function_for_every_layout_of_long_batches(precision):
    """Batches that take longer than waking a thread, each layout after each other one."""
    a, b = normal(40, 33, 48), normal(40, 48, 40, seed=1)
    expected = matmul["definition"](a, b, precision=precision)
    for left, right in [*itertools.product(layouts(a), layouts(b)), (a, b)]:
        np.testing.assert_allclose(matmul(left, right, precision=precision), expected, rtol=1e-3, atol=1e-3)


@every_isa
@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
def test_a_right_operand_that_is_converted_once_for_a_batch(isa, precision):
    """Left operands, which are converted in whole vectors, do not reach into the guard."""
    for m, k, n in ((8, 1, 17), (4, 2, 33), (16, 3, 20), (5, 9, 40), (7, 16, 16)):
        a, b = normal(5, m, k), normal(k, n, seed=1)
        for left in (
            a,
            np.swapaxes(np.ascontiguousarray(np.swapaxes(a, 1, 2)), 1, 2),
            np.repeat(a, 2, axis=2)[..., ::2],
        ):
            result = direct(left, np.broadcast_to(b, (5, k, n)), isa, precision)
            for item in range(5):
                np.testing.assert_array_equal(result[item], by_panels(a[item], b, isa, precision))
