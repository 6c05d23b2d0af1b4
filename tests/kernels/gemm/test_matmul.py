"""Every implementation of matmul at every precision, against the definitions in reference.py.

Those are tested whose instructions are there (`tests.levels` caps them, and has software stand for others). One may
refuse a case; whatever it does not refuse, it has to get right. `THE_KERNEL` stands for the call that takes the first
implementation that does not refuse, so that each case is right for the user in any event.
"""

import functools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minitorch_backends.kernels.gemm import exact_matmul, matmul
from minitorch_backends.kernels.precisions.products import PRECISIONS, predicted_error
from minitorch_backends.kernels.registry import ArraySpec, Refused, kernels
from minitorch_backends.kernels.runtime import cpu

from ...support import reference

THE_KERNEL = "matmul"
IMPLEMENTATIONS = [
    THE_KERNEL,
    *(n for n, each in kernels["matmul"].implementations.items() if not cpu.refusal(each.isa)),
]
ONE_PART = [name for name, row in PRECISIONS.items() if row.parts == 1]

EDGES = (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97)
SHAPES = [
    *((d, d, d) for d in EDGES),
    *((d, 7, 33) for d in EDGES),
    *((33, d, 7) for d in EDGES),
    *((7, 33, d) for d in EDGES),
    *(
        (1, 1000, 1),
        (1, 1, 1000),
        (1000, 1, 1),
        (1, 257, 301),
        (301, 257, 1),
        (2, 4099, 3),
        (517, 5, 129),
        (129, 771, 2),
    ),
]


def takers(precision, dtype=np.float32, shapes=SHAPES):
    """The implementations that take one of the shapes or more, and the kernel itself."""
    specs = ((ArraySpec((m, k), np.dtype(dtype)), ArraySpec((k, n), np.dtype(dtype))) for m, k, n in shapes)
    found = {each.name for pair in specs for each in matmul.decide(*pair, precision=precision).candidates}
    return [name for name in IMPLEMENTATIONS if name == THE_KERNEL or name in found]


every_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
every_precision = pytest.mark.parametrize("precision", PRECISIONS)
every_pair = pytest.mark.parametrize(
    ("implementation", "precision"), [(name, precision) for precision in PRECISIONS for name in takers(precision)]
)
"""Each implementation at each precision that it takes at some shape."""


def run(implementation, a, b, **keywords):
    """The product, or None where the implementation refuses it."""
    if implementation == THE_KERNEL:
        return matmul(a, b, **keywords)
    try:
        return matmul[implementation](a, b, **keywords)
    except Refused:
        return None


def run_or_skip(implementation, a, b, **keywords):
    result = run(implementation, a, b, **keywords)
    if result is None:
        pytest.skip(f"{implementation} refuses")
    return result


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def has_tensor_scale(precision):
    scale = PRECISIONS[precision].scale
    return scale is not None and scale.of_tensor


FLT_MAX = np.finfo(np.float32).max


def float32(words):
    return np.array(words, np.uint32).view(np.float32)


def rounding_errors(a, b, precision):
    """The largest error of accumulating in fp32, for each entry: for each addition, a unit in the last place of the sum
    of the magnitudes, or the smallest subnormal."""
    steps = len(PRECISIONS[precision].terms) * a.shape[-1] + 8
    magnitudes = np.matmul(np.abs(reference.wide(a)), np.abs(reference.wide(b)))
    return steps * (1.02 * 2.0**-24 * magnitudes + 2.0**-149), magnitudes


def assert_right(result, a, b, precision, rounding=None):
    """Right for the operands rounded or split as they should be, and within the bound for the operands themselves."""
    label = f"{precision} {a.shape} @ {b.shape}"
    expected = reference.matmul_at(a, b, precision, rounding, np.matmul)
    assert result.dtype == np.float32, label
    assert result.shape == expected.shape, label
    allowed, magnitudes = rounding_errors(a, b, precision)
    assert np.all(np.abs(result - expected) <= allowed), label
    if rounding != "rz":
        exact = exact_matmul(a, b)
        allowed = allowed + matmul.bound[precision] * magnitudes + reference.lost_share(np.matmul, a, b, precision)
        assert np.all(np.abs(result - exact) <= allowed), label


@every_pair
def test_boundary_shapes(implementation, precision):
    ran = 0
    for m, k, n in SHAPES:
        a, b = normal(m, k, seed=m), normal(k, n, seed=n + 1)
        result = run(implementation, a, b, precision=precision)
        if result is not None:
            assert_right(result, a, b, precision)
            ran += 1
    assert ran, f"{implementation} refuses every product by its values"


EMPTY = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 4), (3, 0, 0), (0, 3, 0), (0, 0, 0)]


@every_pair
def test_empty_dimensions_give_zeros(implementation, precision):
    for m, k, n in EMPTY:
        result = run(implementation, normal(m, k), normal(k, n), precision=precision)
        if result is not None:
            assert result.shape == (m, n)
            assert result.dtype == np.float32
            assert not result.any(), (m, k, n)


@every_precision
def test_the_reference_is_the_sum_of_products(precision):
    """The loops, which take their time, and NumPy's float64 product, which stands in for them above, are the same."""
    a, b = normal(5, 40, seed=3), normal(40, 6, seed=4)
    loops, fast = (reference.matmul_at(a, b, precision, product=f) for f in (reference.matmul, np.matmul))
    np.testing.assert_allclose(fast, loops, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("precision", "rounding", "implementation"),
    [
        (name, rounding, implementation)
        for name, rounding in [*((name, None) for name in ONE_PART), ("tf32", "rne"), ("tf32", "rz")]
        for implementation in takers(name, shapes=[(70, 200, 50)])
    ],
)
def test_exact_where_sums_are_exact(implementation, precision, rounding):
    """Integers up to 2**14, whose low bits are rounded away, many of them ties, times small ones: every partial sum is
    an integer below 2**24, so that every order of summation gives the same bits."""
    rng = np.random.default_rng(7)
    a = rng.integers(-(2**14), 2**14, (70, 200)).astype(np.float32)
    b = rng.integers(-1, 2, (200, 50)).astype(np.float32)
    a[::2] = np.ldexp(np.rint(np.ldexp(a[::2], -2)) * 2 + 1, 2 if precision == "bf16" else 0)
    keywords = {"rounding": rounding} if rounding else {}
    result = run_or_skip(implementation, a, b, precision=precision, **keywords)
    expected = reference.matmul_at(a, b, precision, rounding, np.matmul)
    assert np.max(np.abs(reference.round_to(a, precision, rounding)).sum(1)) < 2**24
    np.testing.assert_array_equal(result, expected.astype(np.float32))


HOSTILE = float32(
    [
        *(0x00000000, 0x00000001, 0x00000123, 0x00008000, 0x00010000, 0x00012345, 0x007FFFFF),  # zero and subnormals
        *(0x00800000, 0x00810081, 0x01234567, 0x057FFFFF, 0x0B7FFFFF, 0x0C000001),  # with subnormal parts
        *(0x33000000, 0x33000001, 0x33C00000, 0x387FC000, 0x38800000, 0x477FEFFF, 0x477FF000),  # where float16 ends
        *(0x3F800000, 0x3F801000, 0x3F803000, 0x3F808000, 0x3F818000, 0x3F800001, 0x3FFFFFFF),  # ties, and full parts
        *(
            0x7F000000,
            0x7F7F7FFF,
            0x7F7F8000,
            0x7F7FEFFF,
            0x7F7FF000,
            0x7F7FFF80,
            0x7F7FFFFF,
        ),  # where parts would be Inf
    ]
)
HOSTILE = np.concatenate([HOSTILE, -HOSTILE])


@every_pair
def test_hostile_values_times_one(implementation, precision):
    """The product with 1 is the operand at its precision, to the bit: its only part, or the sum of its parts."""
    for values, columns in ((HOSTILE, 40), (HOSTILE, 1), *((value, 1) for value in HOSTILE[:, None])):
        a, b = values[:, None], np.ones((1, columns), np.float32)
        result = run(implementation, a, b, precision=precision)
        mirrored = run(implementation, b.T, a.T, precision=precision)
        if result is not None:
            expected = np.repeat(sum(reference.split(a, precision)).astype(np.float32), columns, axis=1)
            if has_tensor_scale(precision):  # which 1 has too, and the largest number may be beyond the last
                result, mirrored, expected = (
                    np.nan_to_num(x, posinf=FLT_MAX, neginf=-FLT_MAX) for x in (result, mirrored, expected)
                )
                np.testing.assert_allclose(result, expected, rtol=2.0**-22)
            else:
                np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(mirrored, result.T)


def assert_right_or_infinite_alike(result, a, b, precision):
    """Entry by entry, for operands of any kind: Inf and NaN where the leading term has them, and the value elsewhere.

    Where finite products alone may overflow fp32, in sum or in part, the order of summation decides; not looked at."""
    leading, _ = reference.terms(a, b, precision)
    expected = reference.matmul_at(a, b, precision)
    first_a, first_b = (
        np.nan_to_num(reference.split(x, precision, axis)[0], posinf=0, neginf=0) for x, axis in ((a, -1), (b, -2))
    )
    small = np.matmul(np.abs(first_a), np.abs(first_b)) < 2.0**127
    np.testing.assert_array_equal(np.isnan(result[small]), np.isnan(leading[small]))
    infinite = small & np.isinf(leading)
    np.testing.assert_array_equal(result[infinite], leading[infinite])
    finite = small & np.isfinite(leading)
    clean_a, clean_b = (np.nan_to_num(x, nan=0, posinf=0, neginf=0) for x in (a, b))
    allowed, _ = rounding_errors(clean_a, clean_b, precision)
    assert np.all(np.abs(result[finite] - expected[finite]) <= allowed[finite])


@every_pair
def test_inf_and_nan_are_those_of_the_leading_term(implementation, precision):
    """1.00390625 has parts of both signs beside the leading one: Inf times them must not meet Inf of the other sign."""
    special = np.array([np.inf, -np.inf, np.nan, 0, 1, -1.00390625, 1.001953125, 3e-30, 1e30, -1.0039], np.float32)
    a = np.concatenate([np.repeat(special[:, None], 2, axis=1), normal(10, 2, seed=1)], axis=1)
    b = np.concatenate([np.stack([special, special[::-1]]), normal(2, 10, seed=2)])
    result = run_or_skip(implementation, a, b, precision=precision)
    assert_right_or_infinite_alike(result, a, b, precision)
    vanishes = precision == "fp16" or has_tensor_scale(precision)
    lone = run_or_skip(implementation, special[:1, None], special[None, 4:8], precision=precision)
    np.testing.assert_array_equal(lone, [[np.inf, -np.inf, np.inf, np.nan if vanishes else np.inf]])


words = st.one_of(
    st.sampled_from([*HOSTILE.view(np.uint32).tolist(), 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001]),
    st.integers(0, 2**32 - 1),
    st.integers(0x3A000000, 0x45000000),
)


@st.composite
def hostile_pairs(draw):
    m, k, n = draw(st.tuples(*[st.integers(1, 4)] * 3))
    a, b = (draw(st.lists(words, min_size=size, max_size=size)) for size in (m * k, k * n))
    return float32(a).reshape(m, k), float32(b).reshape(k, n)


@every_implementation
@given(pair=hostile_pairs(), precision=st.sampled_from(list(PRECISIONS)))
@example(pair=(np.float32([[4.6e-41, 0]]), np.float32([[np.inf], [1]])), precision="bf16")
@example(pair=(np.float32([[4.6e-41]]), np.float32([[3.396e38]])), precision="bf16")
def test_any_bits(implementation, pair, precision):
    a, b = pair
    result = run(implementation, a, b, precision=precision)
    if result is not None:
        assert_right_or_infinite_alike(result, a, b, precision)


@functools.cache
def long_product(k):
    """Operands of K = k, and their exact product."""
    a, b = normal(72, k, seed=5), normal(k, 72, seed=6)
    return a, b, exact_matmul(a, b)


@every_pair
def test_error_statistics(implementation, precision):
    """Root mean square of the error relative to sqrt(k), on normal data: the figures of the design."""
    k = 4096
    a, b, exact = long_product(k)
    result = run_or_skip(implementation, a, b, precision=precision)
    error = np.sqrt(np.mean((result - exact) ** 2) / k)
    figures = {"tf32": 2.93e-4, "fp16": 2.93e-4, "bf16": 2.36e-3, "bf16x3": 4.4e-6}
    if precision in figures:
        assert error == pytest.approx(figures[precision], rel=0.1)
        assert predicted_error(precision, k).sigma / math.sqrt(k) == pytest.approx(figures[precision], rel=0.02)
    elif PRECISIONS[precision].scale is not None:
        assert error == pytest.approx(predicted_error(precision, k).sigma / math.sqrt(k), rel=0.05)
    else:
        assert error < 1e-6


@pytest.mark.parametrize("implementation", takers("tf32"))
def test_truncated_operands_shrink_the_result(implementation):
    """tf32 with rounding "rz" shrinks every entry by a factor of about 1 - 7.1e-4; nearest does not."""
    a, b, exact = long_product(2048)
    for rounding, shrunk in (("rz", 7.1e-4), ("rna", 0), ("rne", 0)):
        result = run(implementation, a, b, precision="tf32", rounding=rounding)
        if result is not None:
            assert 1 - np.vdot(result, exact) / np.vdot(exact, exact) == pytest.approx(shrunk, abs=3e-5)
            assert_right(result, a, b, "tf32", rounding)


def layouts(rows, columns):
    """Matrices of every layout that a view can have, with different values each."""
    big = normal(3 * rows, 3 * columns, seed=rows)
    read_only = big[:rows, :columns].copy()
    read_only.flags.writeable = False
    return {
        "contiguous": big[:rows, :columns].copy(),
        "rows apart": big[:rows, :columns],
        "transposed": normal(columns, rows, seed=columns).T,
        "strided both ways": big[::3, ::3],
        "negative": big[rows - 1 :: -1, columns - 1 :: -1],
        "one row repeated": np.broadcast_to(big[:1, :columns], (rows, columns)),
        "one column repeated": np.broadcast_to(big[:rows, :1], (rows, columns)),
        "windows": np.lib.stride_tricks.sliding_window_view(big[0, : rows + columns - 1], columns),
        "read-only": read_only,
        "unaligned": np.frombuffer(b"\0" + big.tobytes(), np.uint8)[1:]
        .view(np.float32)[: rows * columns]
        .reshape(rows, columns),
    }


@pytest.mark.parametrize(
    ("implementation", "precision"),
    [(name, precision) for precision in ("ieee", "tf32", "bf16", "bf16x3") for name in takers(precision)],
)
def test_every_layout(implementation, precision):
    """Each of A beside a contiguous B and beside one other, and each of B beside a contiguous A."""
    of_a, of_b = layouts(18, 35), layouts(35, 20)
    names = list(of_a)
    others = zip(names, [*names[3:], *names[:3]], strict=True)
    for name_a, name_b in [*((name, names[0]) for name in names), *((names[0], name) for name in names), *others]:
        a, b = of_a[name_a], of_b[name_b]
        before = a.copy(), b.copy()
        result = run(implementation, a, b, precision=precision)
        if result is not None:
            assert_right(result, *before, precision)
            assert not np.shares_memory(result, a), (name_a, name_b)
            assert result.flags.writeable, (name_a, name_b)
            np.testing.assert_array_equal(a, before[0])
            np.testing.assert_array_equal(b, before[1])


BATCHES = [
    ((3, 5, 7), (7, 4)), ((2, 3, 5, 7), (7, 4)), ((5, 7), (3, 7, 4)), ((3, 5, 7), (3, 7, 4)), ((1, 5, 7), (3, 7, 4)),
    ((2, 1, 5, 7), (3, 7, 4)), ((0, 5, 7), (7, 4)), ((0, 5, 7), (1, 7, 4)), ((3, 5, 0), (0, 4)), ((3, 0, 7), (3, 7, 4)),
    ((64, 1, 1), (64, 1, 1)), ((2, 33, 40), (2, 40, 65)),
]  # fmt: skip


@every_pair
def test_batches(implementation, precision):
    for shape_a, shape_b in BATCHES:
        a, b = normal(*shape_a, seed=1), normal(*shape_b, seed=2)
        result = run(implementation, a, b, precision=precision)
        if result is not None:
            assert_right(result, a, b, precision)


@every_implementation
def test_batches_of_views(implementation):
    a, b = normal(4, 9, 6, seed=1), normal(6, 8, 4, seed=2)
    pairs = {
        "transposed matrices": (a.transpose(0, 2, 1), a),
        "batch last": (b.transpose(2, 1, 0), b.transpose(2, 0, 1)),
        "strided both ways": (a[:, ::2, ::3], np.ascontiguousarray(a[:, :2, ::2])),
        "repeated batch": (np.broadcast_to(a[:1], a.shape), a.transpose(0, 2, 1)),
        "repeated rows": (np.broadcast_to(a[:, :1], a.shape), a.transpose(0, 2, 1)),
        "every second matrix backwards": (a[::-2], b[:, :, 0]),
    }
    for x, y in pairs.values():
        for precision in ("ieee", "bf16x3"):
            result = run(implementation, x, y, precision=precision)
            if result is not None:
                assert_right(result, x, y, precision)


@pytest.mark.parametrize(
    ("dtype", "implementation"),
    [(dtype, name) for dtype in (np.float64, np.complex128) for name in takers("bf16", dtype, [(33, 50, 17)])],
)
def test_wider_dtypes_are_never_reduced(implementation, dtype):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((33, 50), (50, 17)))
    if a.dtype.kind == "c":
        a, b = a + 1j * a[::-1], b - 1j * b[:, ::-1]
    result = run_or_skip(implementation, a, b, precision="bf16")
    assert result.dtype == dtype
    unit = np.finfo(dtype).eps
    np.testing.assert_allclose(result, reference.matmul(a, b), rtol=0, atol=200 * unit)
    assert np.max(np.abs(result - reference.matmul(a, b))) < 2.0**-12 * np.max(np.abs(result))


@pytest.mark.parametrize(
    ("dtype", "implementation"),
    [(dtype, name) for dtype in (np.float16, ml_dtypes.bfloat16) for name in takers("ieee", dtype, [(3, 302, 2)])],
)
def test_halves_are_accumulated_in_fp32_and_rounded_once(implementation, dtype):
    """1 + 300 * 2**-9, then -1: lost if a partial sum were rounded to the dtype. And a tie that a second rounding, of
    the sum's fp32 value, would turn the other way is not one here: sums of these integers are exact in fp32."""
    a = np.full((3, 302), 2.0**-9).astype(dtype)
    a[:, 0], a[:, -1] = 1, -1
    b = np.ones((302, 2)).astype(dtype)
    result = run_or_skip(implementation, a, b)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.float32), np.float32(dtype(300 * 2.0**-9)))
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-30, 31, shape).astype(dtype) for shape in ((20, 70), (70, 30)))
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(run(implementation, a, b, precision="tf32").astype(float), expected.astype(float))


@pytest.mark.parametrize(
    ("dtype", "implementation"),
    [
        (dtype, name)
        for dtype in (np.uint8, np.int8, np.int16, np.int32, np.int64)
        for name in takers("bf16", dtype, [(6, 9, 5)])
    ],
)
def test_integers_wrap_around(implementation, dtype):
    rng, limits = np.random.default_rng(3), np.iinfo(dtype)
    a, b = (rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) for shape in ((2, 3, 9), (9, 5)))
    result = run_or_skip(implementation, a, b, precision="bf16")
    assert result.dtype == dtype
    expected = reference.matmul(a, b) % 2**limits.bits
    np.testing.assert_array_equal(result.astype(object) % 2**limits.bits, expected)


@every_pair
def test_overflow_is_quiet_and_settings_stay(implementation, precision):
    """Warnings are errors in this suite."""
    before = np.geterr()
    a = np.full((4, 4), 3e38, np.float32)
    result = run_or_skip(implementation, a, -a, precision=precision)
    assert np.all(np.isneginf(result))
    assert np.geterr() == before


@every_pair
def test_same_operands_same_bits(implementation, precision):
    a, b = normal(130, 700, seed=1), normal(700, 140, seed=2)
    first = run_or_skip(implementation, a, b, precision=precision)
    np.testing.assert_array_equal(first, run(implementation, a.copy(), b.copy(), precision=precision))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex128, np.int8, np.bool_])
def test_the_last_implementation_refuses_nothing(dtype):
    """But where `backends.invariant` forbids the order of BLAS's sums (`tests/backends/test_invariance.py`)."""
    *_, last = matmul.implementations.values()
    spec = ArraySpec((2, 2), np.dtype(dtype))
    assert last.isa is None
    assert last.refuses is None or last.refuses(spec, spec) is None


def test_unknown_names_are_named():
    a = np.ones((2, 2), np.float32)
    with pytest.raises(
        ValueError, match=r"'tf31' is not a precision of matmul; expected one of mxfp4, .*, bf16, fp16, "
    ):
        matmul(a, a, precision="tf31")
    with pytest.raises(ValueError, match="'nearest' is not a rounding of tf32; expected one of rna, rne, rz"):
        matmul(a, a, precision="tf32", rounding="nearest")


def test_a_second_spelling_of_a_precision_gives_the_same_bits():
    a = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    decision = matmul.decide(a, a, precision="bfx9")
    assert decision == matmul.decide(a, a, precision="bf16x9")
    for call in (matmul, matmul[decision.candidates[0].name]):
        np.testing.assert_array_equal(call(a, a, precision="bfx9"), call(a, a, precision="bf16x9"))


def complex_reference(a, b, precision):
    """Real and imaginary part of the complex product, each as one real product of twice the depth."""
    parts = [(b.real, -b.imag), (b.imag, b.real)]
    if PRECISIONS[precision].scale is not None:
        at = functools.partial(reference.matmul_at, precision=precision, product=np.matmul)
        with np.errstate(invalid="ignore"):
            return at(a.real, b.real) - at(a.imag, b.imag), at(a.real, b.imag) + at(a.imag, b.real)
    rows = np.concatenate([a.real, a.imag], -1)
    sums = [reference.matmul_at(rows, np.concatenate(each, -2), precision, None, np.matmul) for each in parts]
    return sums[0], sums[1]


def pairs(*shape, seed=0):
    return normal(*shape, 2, seed=seed).view(np.complex64)[..., 0]


COMPLEX = [(1, 1, 1), (5, 7, 3), (33, 65, 40), (1, 200, 130), (130, 2, 64)]


@pytest.mark.parametrize(
    ("implementation", "precision"),
    [(name, precision) for precision in PRECISIONS for name in takers(precision, np.complex64, COMPLEX)],
)
def test_complex_products_round_real_and_imaginary_parts(implementation, precision):
    for m, k, n in COMPLEX:
        for a, b in (
            (pairs(m, k), pairs(k, n, seed=1)),
            (pairs(k, m).T, pairs(n, 2 * k, seed=1).T[::-2]),
            (pairs(2, 1, m, k)[..., ::-1], pairs(3, k, n, seed=1).conj()),
        ):
            result = run(implementation, a, b, precision=precision)
            if result is None:
                continue
            assert result.dtype == np.complex64
            assert result.shape == (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n)
            magnitudes = np.matmul(np.abs(a.real) + np.abs(a.imag), np.abs(b.real) + np.abs(b.imag), dtype=np.float64)
            allowed = (len(PRECISIONS[precision].terms) * 2 * k + 8) * 1.02 * 2.0**-24 * magnitudes
            for found, expected in zip((result.real, result.imag), complex_reference(a, b, precision), strict=True):
                assert np.all(np.abs(found - expected) <= allowed), (m, k, n)


@pytest.mark.parametrize("precision", [name for name in PRECISIONS if not PRECISIONS[name].is_exact])
def test_complex_products_keep_the_contract_for_hostile_values(precision):
    """Exact ones are BLAS's, which multiplies Inf by the imaginary 0 of its factor alpha."""
    a, b = pairs(20, 40), pairs(40, 30, seed=1)
    a.real[3, 5], a.imag[4, 6], a.real[5, 7], b.imag[8, 2] = np.inf, np.nan, 1e37, 1e-41
    a[0, 0], b[0, 0] = 0, complex(0, np.inf)
    names = ["complex"] if PRECISIONS[precision].scale is not None else ["complex", "definition"]
    for result in (matmul[name](a, b, precision=precision) for name in names):
        for found, expected in zip((result.real, result.imag), complex_reference(a, b, precision), strict=True):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
            scale = np.abs(expected).max(axis=1, keepdims=True, where=np.isfinite(expected), initial=1)
            found, expected = np.nan_to_num(found / scale), np.nan_to_num(expected / scale)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_empty_complex_products_give_zeros():
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        result = matmul(pairs(m, k), pairs(k, n), precision="bf16")
        assert result.shape == (m, n)
        assert result.dtype == np.complex64
        assert not result.any()
