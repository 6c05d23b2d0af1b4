"""Fourier transforms: every implementation, kind and class of lengths against sums in long double; plans."""

import functools
import random
import threading as system_threads

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import lists, randoms, sampled_from

from minitorch_backends.kernels import registry
from minitorch_backends.kernels.fft import choice, contract, fft, matrices, stockham
from minitorch_backends.kernels.fft.bluestein import smooth_length
from minitorch_backends.kernels.fft.crossovers import crossovers
from minitorch_backends.kernels.fft.lengths import (
    IN_REGISTERS,
    SMOOTH,
    factors,
    lanes_in_registers,
    lanes_of,
    matrix,
    narrow_lanes,
    rows_of_wide,
    sharing_rows,
)
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.kernels.runtime.plan_cache import PlanCache, fft_plans

DTYPES = {"complex64": 2.0**-24, "complex128": 2.0**-53}
"""And half the distance of neighbours in their parts."""

LENGTHS = [1, 2, 3, 5, 7, 8, 9, 11, 13, 16, 30, 61, 64, 91, 128, 210, 257, 343]


def numbers(*shape: int, dtype: str = "complex64", seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)


def assert_within(out: np.ndarray, wanted: np.ndarray, dtype: str, count: int) -> None:
    """The error relative to the norm is some roundings for each level of log2."""
    assert out.shape == wanted.shape
    assert out.dtype.itemsize == np.dtype(dtype).itemsize // (1 if out.dtype.kind == "c" else 2)
    bound = fft.bound["ieee"] * DTYPES[dtype] * (np.log2(count) + 1)
    assert np.linalg.norm(out - wanted) <= bound * np.linalg.norm(wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
def test_every_length_by_scipy(kind: str, dtype: str) -> None:
    for n in LENGTHS:
        x = numbers(3, n // 2 + 1 if kind == "halved" else n, dtype=dtype)
        x = x.real if kind == "real" else x
        options = {"kind": kind, "axes": (1,), "scaling": "root", "last": n}
        assert_within(fft["scipy"](x, **options), fft.reference(x, **options), dtype, n)


def shapes(dtype: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Short lengths as lanes, long ones as matrices, others along an axis; ragged and exact numbers of vectors."""
    lanes = lanes_of(np.dtype(dtype).itemsize // 2)
    short = [((lanes + ragged, n), (1,)) for n in (lanes, lanes + 2, 13, 72, 90, 210) for ragged in (0, 3)]
    long = [((2, lanes * lanes), (1,)), ((3, (lanes + 4) * (lanes + 5)), (1,))]
    along = [((2, 6, lanes + 1), (1,)), ((35, lanes), (0,))]
    return [*short, *long, *along, ((4, lanes * lanes, 2), (1,)), ((2, lanes, lanes * lanes), (1, 2))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse"])
@crossovers.override(numbers=0, wide_most=0)
def test_stockham(kind: str, dtype: str) -> None:
    ran = 0
    for shape, axes in shapes(dtype):
        x = numbers(*shape, dtype=dtype)
        for scaling in ("none", "root", "size"):
            options = {"kind": kind, "axes": axes, "scaling": scaling}
            out = fft["stockham"](x, **options)
            assert_within(out, fft.reference(x, **options), dtype, np.prod([shape[axis] for axis in axes]))
            ran += 1
    assert ran > 20


def real_shapes(dtype: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """As `shapes`; half the length of the last axis leaves vectors of mirrors, one that overlaps, or single numbers."""
    lanes = lanes_of(np.dtype(dtype).itemsize // 2)
    short = [((lanes + 3, 2 * m), (1,)) for m in (lanes, 6 + lanes // 2, 30, 35, 65, 105)]
    long = [((2, 2 * (lanes + more) ** 2), (1,)) for more in (0, 2, 4)]
    return [*short, *long, ((3, 4 * lanes, lanes), (1,)), ((lanes, 6, 4 * lanes), (0, 1, 2)), ((9, 32, 20), (2, 1))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["real", "halved"])
@crossovers.override(numbers=0, wide_most=0)
def test_stockham_of_real_numbers(kind: str, dtype: str) -> None:
    for shape, axes in real_shapes(dtype):
        x, last = numbers(*shape, dtype=dtype), shape[axes[-1]]
        options = {"kind": kind, "axes": axes, "scaling": "root", "last": last}
        given = np.ascontiguousarray(x.real)
        if kind == "halved":  # of any numbers, and so with imaginary parts that count for nothing
            given = x.take(range(last // 2 + 1), axes[-1])
        before = given.copy()
        count = np.prod([shape[axis] for axis in axes])
        assert_within(fft["stockham"](given, **options), fft.reference(given, **options), dtype, count)
        np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
def test_few_transforms(kind: str, dtype: str) -> None:
    """Shorter vectors where lengths are too short for whole ones, and the short way through the registry, with the bits
    of the general one."""
    size, taken = np.dtype(dtype).itemsize // 2, set()
    for n, batch in ((12, 1), (20, 2), (130, 3), (338, 2), (1000, 1), (40, 4 * lanes_of(size) + 3)):
        found = choice.kind_of(n, batch, size)
        if found is None:
            continue
        taken.add(found)
        last = n if kind in ("forward", "inverse") else 2 * n
        options = {"kind": kind, "axes": (1,), "scaling": "size", "last": last if kind == "halved" else 0}
        x = numbers(batch, last // 2 + 1 if kind == "halved" else last, dtype=dtype)
        x = x.real.copy() if kind == "real" else x
        assert fft.decide(x, **options).candidates[0].name == "stockham"
        out = fft(x, **options)
        assert_within(out, fft.reference(x, **options), dtype, last)
        np.testing.assert_array_equal(out, fft["stockham"](x, **options))
    assert taken >= {"short", "long"} | ({"narrow"} if narrow_lanes(60, size) else set())


def assert_same_both_ways(kind: str, batch: int, last: int, dtype: str) -> None:
    """Transforms from memory that is not aligned have the same bits through the registry and the general way, are right
    and leave what was given."""
    options = {"kind": kind, "axes": (1,), "scaling": "size", "last": last if kind == "halved" else 0}
    x = numbers(batch, last // 2 + 1 if kind == "halved" else last, dtype=dtype)
    x = x.real.copy() if kind == "real" else x
    given = np.empty(x.size + 1, x.dtype)[1:].reshape(x.shape)
    given[...] = x
    out = fft(given, **options)
    assert_within(out, fft.reference(x, **options), dtype, last)
    np.testing.assert_array_equal(out, fft["stockham"](x, **options))
    np.testing.assert_array_equal(given, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
def test_in_registers(kind: str, dtype: str) -> None:
    """Every length, alone and in pairs and with one left over, from memory that is not aligned, the short way through
    the registry and the general one, with the same bits. Of complex numbers a smooth length is transformed in one of
    both directions, whose code differs by an exchange of parts, and each takes a second to compile."""
    ran, some = 0, {"forward": SMOOTH[::2], "inverse": SMOOTH[1::2]}.get(kind, SMOOTH)
    for n in IN_REGISTERS:
        if n in SMOOTH and n not in some:
            continue
        if lanes_in_registers(n, np.dtype(dtype).itemsize // 2) is None:
            continue
        last = n if kind in ("forward", "inverse") else 2 * n
        for batch in (1, 2, 5):
            assert_same_both_ways(kind, batch, last, dtype)
            ran += 1
    assert ran >= 12


@pytest.mark.parametrize("dtype", DTYPES)
def test_ends_of_half_a_spectrum(dtype: str) -> None:
    """Imaginary parts at frequency 0 and in the middle are 0, without a sign, and count for nothing where they are
    given; NaN stays in its row."""
    for m in (*IN_REGISTERS, 30, 240):
        x = numbers(37, 2 * m, dtype=dtype).real.copy()
        x[5] = np.nan
        spectrum = fft["stockham"](x, kind="real", axes=(1,))
        assert (np.isfinite(spectrum).all(1) == (np.arange(37) != 5)).all()
        ends = np.delete(spectrum, 5, 0)[:, [0, m]].imag
        assert not ends.any()
        assert not np.signbit(ends).any()
        spectrum = np.delete(spectrum, 5, 0)
        options = {"kind": "halved", "axes": (1,), "scaling": "size", "last": 2 * m}
        back = fft["stockham"](spectrum, **options)
        assert_within(back, np.delete(x, 5, 0), dtype, 16 * m)
        spectrum.imag[:, [0, m]] = np.nan, 1e3
        np.testing.assert_array_equal(fft["stockham"](spectrum, **options), back)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
def test_wide_matrices(kind: str, dtype: str) -> None:
    """Columns that fill a vector, a half and a quarter of one, or not quite; more and fewer columns than lanes.

    As many transforms as share vectors, and one more; from memory that is not aligned. The short way through the
    registry has the bits of the general one.
    """
    size, lanes, found = np.dtype(dtype).itemsize // 2, lanes_of(np.dtype(dtype).itemsize // 2), set()
    for n in (960, 180, 210, 768, *([294] if size == 4 else [])):
        rows, last = rows_of_wide(n, size), n if kind in ("forward", "inverse") else 2 * n
        if rows is None:
            continue
        share = sharing_rows(rows, lanes)
        found |= {(share, share * rows == lanes), "few columns" if n // rows < lanes else "columns"}
        for batch in (share, share + 1, 2 * share + 1):
            assert choice.kind_of(n, batch, size) == "wide"
            assert_same_both_ways(kind, batch, last, dtype)
    assert found >= {(share, True) for share in (1, 2) if lanes // share >= 4}
    if lanes * size == 64:
        assert found >= {(1, False), *([(4, True), (2, False), "few columns"] if size == 4 else [])}


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_of_a_batch(dtype: str) -> None:
    """Transforms of the same array, and of its transform, begin where the last one ended; bits are the same."""
    for n in (32, 100, 240, 2048):
        x = numbers((1 << 16) // n, n, dtype=dtype)
        options = {"axes": (1,), "scaling": "none", "last": 0}
        outs, backwards = [], []
        for _ in range(3):
            outs.append(fft["stockham"](x, kind="forward", **options))
            backwards.append(int(choice.WALKS[2]))
        assert backwards in ([1, 0, 1], [0, 1, 0])
        fft["stockham"](outs[-1], kind="inverse", **options)
        assert choice.WALKS[2] == backwards[1]
        assert_within(outs[0], np.fft.fft(x.astype(np.complex128)), dtype, n)
        for out in outs[1:]:
            np.testing.assert_array_equal(out, outs[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
@crossovers.override(numbers=0, chirp_numbers=0, chirp_real_length=0, chirp_real_numbers=0)
def test_bluestein(kind: str, dtype: str) -> None:
    """Lengths with large primes along the last axis, along another one, beside smooth ones, alone and in batches."""
    cases = [((3, 17), (1,)), ((1, 127), (1,)), ((2, 34, 3), (1,)), ((16, 19, 62), (0, 1, 2)), ((2, 257), (1,))]
    cases += [((20, 36), (1,)), ((2, 17 * 17, 2), (1,)), ((71, 19), (1,)), ((10, 127), (1,)), ((3, 17, 36), (1, 2))]
    for shape, axes in cases:
        x, last = numbers(*shape, dtype=dtype), shape[axes[-1]]
        if kind == "real":
            x = np.ascontiguousarray(x.real)
        if kind == "halved":
            x = x.take(range(last // 2 + 1), axes[-1])
        options = {"kind": kind, "axes": axes, "scaling": "root", "last": last}
        before = x.copy()
        out = fft["bluestein"](x, **options)
        assert_within(out, fft.reference(x, **options), dtype, np.prod([shape[axis] for axis in axes]))
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bluestein_does_not_depend_on_threads(dtype: str) -> None:
    """Tasks whose last rows are fewer than are transformed together take some of the task before again."""
    with threading.num_threads():
        for rows, n in ((10, 127), (71, 19), (33, 521)):
            x, found = numbers(rows, n, dtype=dtype), []
            for threads in (1, 2, 3, 4):
                threading.set_num_threads(threads)
                found.append(fft["bluestein"](x, kind="forward", axes=(1,), plans=4096))
            assert_within(found[0], np.fft.fft(x.astype(np.complex128)), dtype, n)
            for each in found[1:]:
                np.testing.assert_array_equal(each, found[0])


def test_lengths_of_convolutions() -> None:
    for n in range(17, 3000):
        m = smooth_length(n, 16)
        assert m >= max(2 * n - 1, 256)
        assert matrix(m, 16) is not None


@pytest.mark.parametrize("dtype", DTYPES)
@crossovers.override(numbers=0)
def test_growth_of_the_error(dtype: str) -> None:
    """The error grows as log2(n) roundings do, not as a power of n."""
    for n in (64, 512, 4096):
        x = numbers(8, n, dtype=dtype)
        wanted = fft.reference(x[:1], kind="forward", axes=(1,))
        out = fft["stockham"](x, kind="forward", axes=(1,))
        assert_within(out[:1], wanted, dtype, n)


@pytest.mark.parametrize("threads", [1, 2])
@crossovers.override(wide_most=0)
def test_steps_of_one_long_transform_are_shared(threads: int) -> None:
    """The threads share the steps of one transform, or take whole ones, with the same bits."""
    x = numbers(2, 4096)
    for kind, values, last in (("forward", x, 0), ("real", x.real.copy(), 0), ("halved", x[:, :2049].copy(), 4096)):
        options = {"kind": kind, "axes": (1,), "last": last}
        whole = fft["stockham"](np.repeat(values, 8, 0), **options)[::8]
        with crossovers.override(numbers=0, shared_steps_bytes=0), threading.num_threads(threads):
            np.testing.assert_array_equal(fft["stockham"](values, **options), whole)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
@pytest.mark.parametrize("threads", [1, 2])
@crossovers.override(wide_most=0, shared_steps_bytes=0)
def test_beyond_the_caches(threads: int, kind: str, dtype: str) -> None:
    """Vectors that are read together and stored past the caches are the same bits."""
    for n in (4096, 3600, 10_000):
        x, count = numbers(1, n + 1, dtype=dtype), 2 * n if kind in ("real", "halved") else n
        values = {"real": numbers(1, count, dtype=dtype).real.copy(), "halved": x}.get(kind, x[:, :n])
        outs = []
        for size in (1, 1 << 40):
            with crossovers.override(beyond_caches_bytes=size), threading.num_threads(threads):
                outs.append(fft["stockham"](values, kind=kind, axes=(1,), last=count, plans=9))
        np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
def test_matrix_by_matrix(kind: str, dtype: str) -> None:
    """Both axes of one matrix after the other: the same bits as one axis after the other, of any layout."""
    for shape in ((8, 64, 64), (4, 5, 30, 40), (64, 16, 34), (4, 21, 240), (2, 100, 100), (40, 2, 70), (6, 40, 70)):
        x = numbers(*shape, dtype=dtype)
        width = shape[-1] // 2 + 1
        values = {"real": x.real.copy(), "halved": x[..., :width].copy()}.get(kind, x)
        axes, last = (len(shape) - 2, len(shape) - 1), shape[-1] if kind == "halved" else 0
        options = {"kind": kind, "axes": axes, "scaling": "root", "last": last, "plans": 9}
        general = functools.partial(stockham.fft_stockham, **options)
        call = matrices.by_matrices(registry.ArraySpec(values.shape, values.dtype), general, **options)
        if call is None:  # these threads, or shorter vectors, have no such way
            continue
        wanted = general(values)
        strided = np.repeat(values, 2, -1)[..., ::2]
        for each in (values, strided, values, np.asfortranarray(values)):
            np.testing.assert_array_equal(call(each), wanted)
        np.testing.assert_array_equal(fft(values, **options), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse"])
def test_an_axis_that_is_not_the_last(kind: str, dtype: str) -> None:
    """The bits of the general way, of few numbers and of many, of any layout."""
    for shape, axis in (((3, 12, 17), 1), ((2, 64, 64), 1), ((10, 40), 0), ((5, 16, 3, 50), 1), ((8, 128, 80), 1)):
        x = numbers(*shape, dtype=dtype)
        options = {"kind": kind, "axes": (axis,), "scaling": "root", "plans": 9}
        assert fft.decide(x, **options).candidates[0].name == "stockham"
        wanted = stockham.fft_stockham(x, **options)
        assert_within(wanted, fft.reference(x, **options), dtype, shape[axis])
        for each in (x, np.repeat(x, 2, -1)[..., ::2], np.asfortranarray(x)):
            np.testing.assert_array_equal(fft(each, **options), wanted)


def test_which_matrices_are_transformed_one_by_one() -> None:
    def find(*shape: int, axes: tuple[int, ...]) -> bool:
        spec = registry.ArraySpec(shape, np.dtype(np.complex64))
        return matrices.by_matrices(spec, np.asarray, kind="forward", axes=axes) is not None

    assert find(64, 64, 64, axes=(1, 2))
    assert not find(64, 64, 64, axes=(0, 1))
    assert not find(64, 64, 64, axes=(2, 1))
    assert not find(4, 4096, 4096, axes=(1, 2))
    assert not find(64, 61, 64, axes=(1, 2))
    assert not find(64, 2, 70, axes=(1, 2))  # lanes of a vector; two rows fill few


def test_layouts_are_read_as_they_are() -> None:
    """Strided, reversed and transposed arrays, which are not changed."""
    x = numbers(64, 300)
    for view in (x[:, ::2], x[::-1, :256], x.T, x[:, 5:261], np.broadcast_to(x[:1, :256], (40, 256))):
        before = view.copy()
        out = fft(view, kind="forward", axes=(1,))
        np.testing.assert_allclose(out, np.fft.fft(before), atol=2e-4)
        of_real = fft(view.real, kind="real", axes=(1,))
        np.testing.assert_allclose(of_real, np.fft.rfft(before.real), atol=2e-4)
        np.testing.assert_array_equal(view, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["forward", "inverse", "real", "halved"])
@given(sizes=lists(sampled_from([1, 2, 3, 5, 8, 17, 30, 64]), min_size=2, max_size=3), data=randoms())
@settings(max_examples=30, deadline=None)
def test_any_axes_of_any_shape(kind: str, dtype: str, sizes: list[int], data: random.Random) -> None:
    """Refusals come before the work: each length is transformed along each axis, and along several."""
    axes = tuple(data.sample(range(len(sizes)), data.randint(1, len(sizes))))
    x, last = numbers(*sizes, dtype=dtype), sizes[axes[-1]]
    x = x.real.copy() if kind == "real" else x
    if kind == "halved":
        x = x.take(range(last // 2 + 1), axes[-1])
    options = {"kind": kind, "axes": axes, "scaling": "root", "last": last}
    assert_within(fft(x, **options), fft.reference(x, **options), dtype, np.prod([sizes[axis] for axis in axes]))


@pytest.mark.parametrize("kind", ["real", "halved"])
def test_few_real_numbers_of_many_columns(kind: str) -> None:
    """Along the first axis, where columns have passes that rows do not have."""
    for n in (3, 5, 6):
        x = numbers(n, 400)
        x = x.real.copy() if kind == "real" else x[: n // 2 + 1].copy()
        options = {"kind": kind, "axes": (0,), "scaling": "none", "last": n}
        assert_within(fft(x, **options), fft.reference(x, **options), "complex64", n)


def test_refusals() -> None:
    x = numbers(64, 256)
    cases = [
        (numbers(64, 255).real, "real", (1,), "no passes for 255 real numbers"),
        (numbers(64, 3, 94).real, "real", (1, 2), "no passes for 94 real numbers"),
        (numbers(64, 17, 256).real, "real", (1, 2), "no passes for length 17"),
        (numbers(2, 4, 30), "forward", (0, 1, 2), "numbers are few"),
        (numbers(64, 257), "forward", (1,), "no passes for length 257"),
    ]
    for array, kind, axes, sentence in cases:
        ((name, found), *_) = fft.decide(array, kind=kind, axes=axes).refusals
        assert name == "stockham"
        assert sentence in found
    for array, kind, sentence in (
        (x[:50, :17], "forward", "numbers are few"),
        (numbers(2000, 1), "forward", "no passes for length 1"),
        (numbers(2000, 45).real, "real", "no passes for 45 real numbers, as SciPy has"),
        (numbers(2000, 61).real, "real", "longer than SciPy for 2000 times 61 real numbers"),
        (numbers(15, 509).real, "real", "longer than SciPy for 15 times 509 real numbers"),
    ):
        verdicts = fft.decide(array, kind=kind, axes=(1,), prefer="bluestein").refusals
        assert sentence in dict(verdicts)["bluestein"]
    for rows, n in ((17, 509), (1, 2003)):
        assert fft.decide(numbers(rows, n).real, kind="real", axes=(1,)).candidates[0].name == "bluestein"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["real", "halved"])
@pytest.mark.parametrize("n", [61, 62, 124, 197])
@crossovers.override(chirp_real_length=0, chirp_real_numbers=0)
def test_rows_of_real_numbers_in_pairs(n: int, kind: str, dtype: str) -> None:
    """The error of each row is relative to its own norm, whatever its partner's, of an odd number of rows as well; and
    NaN stays in its row."""
    x = numbers(33, n, dtype=dtype)
    x = x.real.copy() if kind == "real" else x[:, : n // 2 + 1].copy()
    x *= (10.0 ** (np.arange(33) % 7 * 5 - 15))[:, None]
    options = {"kind": kind, "axes": (1,), "scaling": "root", "last": n}
    wanted = fft.reference(x, **options)
    out = fft["bluestein"](x, **options)
    for row, expected in zip(out, wanted, strict=True):
        assert_within(row, expected, dtype, 4 * n)
    for bad in (np.nan, np.inf, 0.0):
        x[4] = bad
        out = fft["bluestein"](x, **options)
        assert (out[4] == 0).all() if bad == 0 else not np.isfinite(out[4]).all()
        assert_within(np.delete(out, 4, 0), np.delete(wanted, 4, 0), dtype, n)


def test_lengths_are_divided() -> None:
    for n in range(1, 600):
        found = factors(n)
        if found is not None:
            assert np.prod(found) == n
            divided = matrix(n, 8)
            assert divided is None or (divided[0] * divided[1] == n and min(divided) >= 8)
    assert factors(17) is None
    assert factors(1 << 20) is not None


def test_plans_are_kept_and_counted() -> None:
    fft_plans.clear()
    x = numbers(64, 256)
    options = {"kind": "forward", "axes": (1,), "scaling": "none", "last": 0}
    first = fft["stockham"](x, **options, plans=2)
    assert (fft_plans.size, fft_plans.hits, fft_plans.misses) == (1, 0, 1)
    assert fft_plans.nbytes > 0
    fft["stockham"](first, **{**options, "kind": "inverse"}, plans=2)  # a plan serves both directions
    assert (fft_plans.hits, fft_plans.misses) == (1, 1)
    fft["stockham"](x[:, :128].copy(), **options, plans=1)
    assert (fft_plans.size, fft_plans.misses) == (1, 2)
    np.testing.assert_array_equal(fft["stockham"](x, **options, plans=0), first)
    assert (fft_plans.size, fft_plans.nbytes) == (0, 0)
    fft["stockham"](x, **options, plans=1)
    misses = fft_plans.misses
    fft["stockham"](x, **options, plans=0)  # nor is one used that was kept before
    assert (fft_plans.size, fft_plans.misses) == (0, misses + 1)
    fft_plans.clear()


def test_plans_under_threads() -> None:
    """Eight threads with lengths that push each other out get the right transforms."""
    x, wrong = numbers(64, 256), []
    wanted = {n: np.fft.fft(x[:, :n]) for n in (128, 160, 256)}

    def work() -> None:
        for n in (128, 160, 256) * 5:
            out = fft(np.ascontiguousarray(x[:, :n]), kind="forward", axes=(1,), scaling="none", last=0, plans=2)
            if not np.allclose(out, wanted[n], atol=1e-3):
                wrong.append(n)

    threads = [system_threads.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert fft_plans.size <= 2


def test_the_real_functions_are_inverses() -> None:
    x = numbers(3, 6, 10).real
    spectrum = contract.rfftn(x, (1, 2))
    assert spectrum.shape == (3, 6, 6)
    np.testing.assert_allclose(contract.irfftn(spectrum, (1, 2), 10), x, atol=1e-5)
    assert isinstance(fft_plans, PlanCache)
