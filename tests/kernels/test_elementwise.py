"""Functions of large arrays, in vectors, beside their definitions in passes of float64."""

import itertools
import math
import operator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.kernels.arrays import elementwise
from minitorch_backends.kernels.arrays.elementwise import LARGE, MAPPED, cast, in_order, threaded_function
from minitorch_backends.kernels.arrays.elementwise.arrays import leaf_of
from minitorch_backends.kernels.arrays.elementwise.threaded import _IN_VECTORS
from minitorch_backends.kernels.arrays.elementwise.ufuncs import lines_of, loop_of
from minitorch_backends.kernels.runtime import cpu, threading
from minitorch_backends.tensor.registry import registry

OPERANDS = {name: 2 if name.endswith("_gradient") else 1 for name in MAPPED}
DTYPES = [np.dtype(each) for each in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
every_function = pytest.mark.parametrize("name", MAPPED)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
UNITS = {"float32": 8, "float64": 64, "float16": 8, "bfloat16": 8}
"""In the last place, those that the definition loses in float64 included."""

LENGTHS = [elementwise._LEAST + extra for extra in (0, 1, 7, 8, 15, 17)] + [3 * 8192 + 5]
HOSTILE = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, 1e38, -1e38, -14.2, -38.4, -103.9, 87.0, 3e-310]
ERROR = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LEAST = {"float32": 2.0**-149, "float64": 2.0**-1074, "float16": 2.0**-24, "bfloat16": 2.0**-133}


def in_vectors(name: str, *arrays: np.ndarray) -> np.ndarray:
    leaf = leaf_of("".join(part.title() for part in name.split("_")), arrays[0].dtype)
    if leaf is None:
        pytest.skip(f"this CPU does not convert {arrays[0].dtype.name}: passes take it")
    return elementwise._run(leaf, *arrays)


def reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return MAPPED[name].by_passes(*[each.astype(np.float64) for each in arrays])


def assert_right(got: np.ndarray, wanted: np.ndarray, magnitude: np.ndarray, units: float) -> None:
    """Within some units in the last place of `magnitude`, or some of the smallest number."""
    name = got.dtype.name
    with np.errstate(over="ignore"):
        wide, limit = got.astype(np.float64), wanted.astype(got.dtype).astype(np.float64)
    same = (wide == limit) | (np.isnan(wide) & np.isnan(limit))
    with np.errstate(invalid="ignore"):
        near = np.abs(wide - wanted) <= units * ERROR[name] * magnitude + units * LEAST[name]
    assert np.all(same | near), (got[~(same | near)][:5], wanted[~(same | near)][:5])


def spread(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([0.1, 1.0, 4.0], shape).astype(dtype) * rng.standard_normal(shape).astype(dtype)


@every_dtype
@every_function
def test_every_length_agrees_with_the_definition(name: str, dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        arrays = [spread(rng, dtype, (length,)) for _ in range(OPERANDS[name])]
        got, wanted = in_vectors(name, *arrays), reference(name, *arrays)
        assert (got.dtype, got.shape) == (dtype, (length,))
        assert_right(
            got, wanted, np.maximum(np.abs(wanted), 0.3 * np.abs(arrays[0].astype(np.float64))), UNITS[dtype.name]
        )


@pytest.mark.skipif(cpu.capability() == "portable", reason="without fused operations squares lose digits far out")
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_small_values_have_small_relative_errors(name: str, dtype: np.dtype) -> None:
    farthest = {"gelu": {4: 13.0, 8: 37.0}, "silu": {4: 87.0, 8: 700.0}}[name][dtype.itemsize]
    x = np.linspace(-farthest, -0.5, 8192).astype(dtype)
    wide = x.astype(np.longdouble)
    wanted = reference(name, x) if name == "gelu" else wide / (1 + np.exp(-wide))
    units = 12 if dtype.itemsize == 4 or name == "silu" else 2000  # of float64 the definition's own exponential
    assert np.all(np.abs(in_vectors(name, x) - wanted) <= units * ERROR[dtype.name] * np.abs(wanted))


@every_dtype
@every_function
def test_hostile_values_give_what_the_definition_gives(name: str, dtype: np.dtype) -> None:
    with np.errstate(over="ignore"):
        values = np.array(HOSTILE).astype(dtype)
    some = np.array(list(itertools.product(values, repeat=OPERANDS[name]))).T
    arrays = [np.resize(each, elementwise._LEAST).astype(dtype) for each in some]
    with np.errstate(all="ignore"):
        wanted = reference(name, *arrays)
        magnitude = np.maximum(np.abs(wanted), np.abs(arrays[0].astype(np.float64)))
        # At -1e38 the definition multiplies infinities with zeros; the loops may give the limit instead.
        known = np.isfinite(wanted) | np.any([np.isnan(each.astype(np.float64)) for each in arrays], 0)
        got = in_vectors(name, *arrays)
    assert_right(got[known], wanted[known], np.where(np.isfinite(magnitude[known]), magnitude[known], 0), 8)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(MAPPED)), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
def test_layouts_and_threads_leave_the_bits(name: str, kind: int, turned: bool, strided: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    arrays = [spread(rng, dtype, (130, 160)) for _ in range(OPERANDS[name])]
    straight = MAPPED[name](*[each[:, 3:131].copy() for each in arrays])
    views = [np.asfortranarray(each[:, 3:131]) if turned else each[:, 3:131] for each in arrays]
    if strided:
        views[0] = arrays[0][:, 3:131]
    with threading.num_threads(1):
        other = MAPPED[name](*views)
    assert other.tobytes() == straight.tobytes()
    if turned and not strided:
        assert other.flags.f_contiguous
    if not strided:
        shaped = [each[:, 3:131].reshape(26, 5, 16, 8) for each in arrays]
        images = [each.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2) for each in shaped]
        found = MAPPED[name](*images)
        assert (found.tobytes(), found.strides) == (straight.tobytes(), images[0].strides)


@every_dtype
@every_function
def test_small_arrays_and_empty_ones_go_in_passes(name: str, dtype: np.dtype) -> None:
    for shape in ((0, 3), (), (5, 7)):
        arrays = [np.full(shape, 0.5, dtype) for _ in range(OPERANDS[name])]
        got = MAPPED[name](*arrays)
        assert (got.shape, got.dtype) == (shape, dtype)
        assert_right(got, reference(name, *arrays), np.abs(reference(name, *arrays)), 4)


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.float32, np.int64, np.complex128], ids=lambda d: d.__name__)
def test_masks_choose_what_numpy_chooses(dtype: type) -> None:
    """Arrays of every layout, those that broadcast, and numbers, on either side."""
    rng = np.random.default_rng(0)
    for shape in ((130, 70), (2, 3, 40, 50), (9001,), (128, 1, 200)):
        x, mask = (rng.normal(size=shape) * 9).astype(dtype), rng.random(shape) > 0.5
        choices = [x, x[::-1], x.T.copy().T, x[..., :1], x[:1], np.ones((), dtype), np.zeros((1,), dtype)]
        for condition in (mask, mask[..., :1], mask[:1], mask.T.copy().T, np.array(True)):
            for one, other in itertools.product(choices, repeat=2):
                found, wanted = elementwise.select(condition, one, other), np.where(condition, one, other)
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                assert np.array_equal(found, wanted)
    other = np.ones(x.shape, np.float32 if dtype is not np.float32 else np.float64)
    assert np.array_equal(elementwise.select(mask, x, other), np.where(mask, x, other))


def test_operands_that_broadcast_go_in_passes() -> None:
    g, x = np.ones((64, 1), np.float32), np.linspace(-3, 3, 6400, dtype=np.float32).reshape(64, 100)
    wanted = reference("silu_gradient", g, x)
    assert_right(elementwise.silu_gradient(g, x), wanted, np.maximum(np.abs(wanted), 0.3), 8)


# Exact ones

BROADCAST = [
    ((300, 517), (300, 517)), ((300, 517), (517,)), ((300, 517), (1, 517)), ((300, 517), ()), ((300, 517), (300, 1)),
    ((70_001,), (1,)), ((1, 1, 300, 517), (300, 517)), ((3, 64, 33, 40), (64, 1, 1)), ((3, 64, 33, 40), (1, 64, 1, 1)),
    ((3, 64, 33, 40), (33, 40)), ((3, 64, 33, 40), (64, 33, 1)), ((3, 64, 33, 40), (3, 64, 1, 1)),
]  # fmt: skip
NOT_IN_LINES = [
    ((3, 64, 33, 40), (3, 1, 1, 40)),
    ((300, 517), (1, 1, 1)),
    ((70_000, 2), (2,)),
    ((70_000, 2), (70_000, 1)),
]


OF_OPS = {getattr(op, "ufunc", None) for op in registry.values()}
UFUNCS = sorted((each for each in OF_OPS if isinstance(each, np.ufunc)), key=lambda ufunc: ufunc.__name__)
PAIRS = [(each, dtype) for each in UFUNCS for dtype in DTYPES[:2] if (each, dtype.itemsize) not in _IN_VECTORS]


@pytest.mark.parametrize(("ufunc", "dtype"), PAIRS, ids=[f"{ufunc.__name__}-{dtype.name}" for ufunc, dtype in PAIRS])
def test_large_arrays_have_the_bits_of_numpy(ufunc: np.ufunc, dtype: np.dtype) -> None:
    """For every ufunc of an op and every combination of operands, or NumPy computes it."""
    rng = np.random.default_rng(0)
    large = threaded_function(ufunc)
    assert large is not None
    with np.errstate(all="ignore"):
        for shape, other in BROADCAST[: None if ufunc.nin == 2 else 1]:
            x, *rest = (spread(rng, dtype, each) for each in (shape, other)[: ufunc.nin])
            x.flat[::1000] = np.resize([np.inf, 0.0, -0.0, 1e-45, -np.inf, np.nan, 1e30], x.flat[::1000].shape)
            assert x.size >= LARGE
            wanted = ufunc(x, *rest)
            found = large(x, *rest)
            if loop_of(ufunc, dtype) is None:
                assert found is None
                continue
            assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes())
            if not rest or rest[0].shape == shape:
                turned = large(x.T, *[each.T for each in rest])
                assert turned.tobytes() == wanted.T.tobytes()
                assert turned.flags.f_contiguous
            elif x.ndim == 4:
                last = [each.reshape((1,) * (4 - each.ndim) + each.shape).transpose(0, 3, 1, 2) for each in (x, *rest)]
                found = large(*last)
                assert found.tobytes() == ufunc(*last).tobytes()
                assert found.transpose(0, 2, 3, 1).flags.c_contiguous
            out = x.copy()
            written = large(out, *rest, out=out)
            assert written is (out if wanted.dtype == dtype else None)
            assert out.tobytes() == (x if written is None else wanted).tobytes()
            out.setflags(write=False)
            assert large(out, *rest, out=out) is None
        for number in (2.3, -3, 0, 1e300, math.inf) if ufunc.nin == 2 and loop_of(ufunc, dtype) else ():
            assert large(x, number).tobytes() == ufunc(x, np.array(number).astype(dtype)).tobytes()


# Half types

WIDE_LINES = [((5, 20_000), (20_000,)), ((5, 20_000), (5, 1))]
"""Longer than what threads take at a time."""


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """To the bit, but for NaN."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    nan = np.isnan(a) & np.isnan(b) if a.dtype != bool else False
    return bool(np.all((a.view(np.int16) == b.view(np.int16) if a.itemsize == 2 else a == b) | nan))


def by_float32(ufunc: np.ufunc, dtype: np.dtype, *operands: np.ndarray) -> np.ndarray:
    result = ufunc(*[each.astype(np.float32) for each in operands])
    return result.astype(dtype) if result.dtype == np.float32 else result


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_large_halves_are_computed_in_float32_and_rounded_once(ufunc: np.ufunc, dtype: np.dtype) -> None:
    if dtype == np.float16 and not cpu.converts_half():
        pytest.skip("this CPU does not convert float16: NumPy takes it")
    rng, large = np.random.default_rng(0), threaded_function(ufunc)
    with np.errstate(all="ignore"):
        for shape, other in (BROADCAST + WIDE_LINES)[: None if ufunc.nin == 2 else 1]:
            x, *rest = (spread(rng, dtype, each) for each in (shape, other)[: ufunc.nin])
            x.flat[::1000] = np.resize(np.array([np.inf, 0.0, -0.0, 6e-8, -np.inf, np.nan, 6e4]), x.flat[::1000].shape)
            wanted = by_float32(ufunc, dtype, x, *rest)
            assert same(large(x, *rest), wanted)
            out = x.copy()
            assert large(out, *rest, out=out) is (out if wanted.dtype == dtype else None)
            assert same(out, wanted if wanted.dtype == dtype else x)
        for number in (2.3, -3, 1e300) if ufunc.nin == 2 else ():
            assert same(large(x, number), by_float32(ufunc, dtype, x, np.array(number)))


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=lambda dtype: dtype.name)
def test_every_half_is_converted_and_float32_rounded_to_the_nearest(dtype: np.dtype) -> None:
    if dtype == np.float16 and not cpu.converts_half():
        pytest.skip("this CPU does not convert float16: NumPy takes it")
    halves = np.tile(np.arange(1 << 16, dtype=np.uint16), 2).view(dtype)
    with np.errstate(all="ignore"):
        wide = halves.astype(np.float32)
        np.testing.assert_array_equal(cast(halves, np.dtype(np.float32)), wide)
        half_way = wide[: 1 << 16] + (np.append(wide[1 : 1 << 16], np.float32(0)) - wide[: 1 << 16]) / 2
        for values in (wide, half_way, np.nextafter(half_way, np.float32(np.inf)), half_way * np.float32(0.9999)):
            assert same(cast(values, dtype), values.astype(dtype))
        turned = cast(wide.reshape(4, 8, -1, 2).transpose(0, 3, 1, 2), dtype)
        assert same(turned, halves.reshape(4, 8, -1, 2).transpose(0, 3, 1, 2))
    assert turned.transpose(0, 2, 3, 1).flags.c_contiguous
    assert cast(wide[::2], dtype) is None
    assert cast(halves, np.dtype(np.float64)) is cast(wide, np.dtype(np.int16)) is None


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_tensors_of_large_halves(dtype: mt.dtype) -> None:
    """Public functions give what they give for small parts, with gradients, in place and into `out`."""
    mt.manual_seed(0)
    x, y = (mt.randn(2 * LARGE).to(dtype).requires_grad_() for _ in range(2))
    calls = [
        lambda x, y: x + y, lambda x, y: x * 2.5 - y, lambda x, y: 1 / (x * x + y.exp()),
        lambda x, y: (x > y).to(dtype), lambda x, y: mt.maximum(x, y).tanh(), lambda x, y: x**2 + x.abs() ** 1.5,
        lambda x, y: mt.relu(x) + y.sigmoid(),
        lambda x, y: x.detach().clone().mul_(y.detach()).add_(3), lambda x, y: x + y.float(),
    ]  # fmt: skip
    for call in calls:
        for start in (0, 1000):
            part = slice(start, start + 1000)
            whole, alone = call(x, y), call(x[part].detach().requires_grad_(), y[part].detach())
            assert whole.dtype is alone.dtype
            assert whole[part].equal(alone)
    for call in calls[:2] + calls[4:7]:
        part = slice(500, 1500)
        few = [each[part].detach().requires_grad_() for each in (x, y)]
        grads = mt.autograd.grad(call(x, y).sum(), (x, y), allow_unused=True)
        for one, other in zip(grads, mt.autograd.grad(call(*few).sum(), few, allow_unused=True), strict=True):
            assert one is other is None or (one.dtype is dtype and one[part].equal(other))
    out = mt.empty(2 * LARGE, dtype=dtype)
    assert mt.add(x.detach(), y.detach(), out=out).equal((x + y).detach())


@pytest.mark.skipif(cpu.capability() == "portable", reason="without fused operations NumPy's own loops take it")
@pytest.mark.parametrize("ufunc", [np.sin, np.cos], ids=lambda ufunc: ufunc.__name__)
def test_large_waves_are_right_to_two_units(ufunc: np.ufunc) -> None:
    """Near multiples of a quarter turn too, where all but the first digits of pi matter, and far away."""
    rng, count = np.random.default_rng(0), LARGE // 4
    near = np.arange(count) * (math.pi / 2)
    parts = [rng.uniform(-9, 9, count), near, rng.uniform(-(2.0**30), 2.0**30, count), rng.lognormal(0, 90, count)]
    x = np.concatenate(parts)
    x[::777] = np.resize([2.0**30, -(2.0**31), 1e22, 1e300, 5e-324, 0.0, -0.0, 1.0], x[::777].shape)
    wanted = ufunc(x.astype(np.longdouble))
    found = threaded_function(ufunc)(x)
    assert np.all(np.abs(found - wanted) <= 2 * np.spacing(np.abs(wanted.astype(np.float64))))
    assert np.array_equal(np.signbit(found), np.signbit(wanted))
    assert np.array_equal(found, threaded_function(ufunc)(x.reshape(256, -1).T).T.reshape(-1))
    out = x.copy()
    assert threaded_function(ufunc)(out, out=out) is out
    assert np.array_equal(out, found)
    with np.errstate(invalid="ignore"):
        x[5:8] = np.nan, np.inf, -np.inf
        assert np.isnan(threaded_function(ufunc)(x)).nonzero()[0].tolist() == [5, 6, 7]


@pytest.mark.skipif(cpu.capability() == "portable", reason="without fused operations NumPy's own loops take it")
@pytest.mark.parametrize(("dtype", "least", "greatest"), [(np.float32, -104, 89), (np.float64, -746, 710)])
def test_large_exponentials_are_right_to_two_units(dtype: type, least: float, greatest: float) -> None:
    """Subnormal ones included, to the limits beyond which they are infinite or zero."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(least, greatest, LARGE), rng.standard_normal(LARGE) * 1e-3]).astype(dtype)
    x[:8] = np.nan, np.inf, -np.inf, 0.0, -0.0, least, greatest, np.finfo(dtype).tiny
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(x.astype(np.longdouble))
        nearest = wanted.astype(dtype)
    found = threaded_function(np.exp)(x)
    usual = np.isfinite(nearest)
    assert np.array_equal(found[~usual], nearest[~usual], equal_nan=True)
    assert np.all(np.abs(found[usual] - wanted[usual]) <= 2 * np.spacing(nearest[usual]))
    out = x.copy()
    assert threaded_function(np.exp)(out, out=out) is out
    assert np.array_equal(out, found, equal_nan=True)


IN_VECTORS = [(ufunc, np.dtype(f"f{size}")) for ufunc, size in _IN_VECTORS]
SPECIAL = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -3.0, 10.0, 1e-300, 1e300, 5e-324, 1e-40, 3e38,
    710.3, -710.3, 89.2, 1024.0, -1074.0,
]  # fmt: skip


def numbers(ufunc: np.ufunc, dtype: np.dtype) -> list[np.ndarray]:
    """Operands of all magnitudes, near zeros and poles, equal ones, powers of 2 and 10, and each special number beside
    each other one."""
    rng, count = np.random.default_rng(0), LARGE // 4
    drawn = [
        rng.normal(size=count), rng.uniform(-1, 1, count), rng.normal(size=count) * 1e-3, rng.uniform(-99, 99, count),
        1 + rng.normal(size=count) * 1e-2, rng.integers(-50, 50, count),
        rng.lognormal(0, 20, count) * rng.choice([-1, 1], count),
    ]  # fmt: skip
    exact = [2.0 ** np.arange(-140, 120), 10.0 ** np.arange(23)]
    pairs = np.array(list(itertools.product(SPECIAL, repeat=2))).T
    first = np.concatenate([*drawn, *exact, pairs[0]])
    second = np.concatenate([*(rng.permutation(each) for each in reversed(drawn)), *exact, pairs[1]])
    with np.errstate(over="ignore"):
        return [each.astype(dtype) for each in (first, second)][: ufunc.nin]


@pytest.mark.skipif(cpu.capability() == "portable", reason="without fused operations NumPy's own loops take it")
@pytest.mark.parametrize(
    ("ufunc", "dtype"), IN_VECTORS, ids=[f"{ufunc.__name__}-{dtype.name}" for ufunc, dtype in IN_VECTORS]
)
def test_ufuncs_in_vectors_are_right_to_three_units(ufunc: np.ufunc, dtype: np.dtype) -> None:
    operands = numbers(ufunc, dtype)
    with np.errstate(all="ignore"):
        wanted = ufunc(*[each.astype(np.longdouble) for each in operands])
        nearest, by_numpy = wanted.astype(dtype), ufunc(*operands)
    if ufunc in (np.remainder, np.floor_divide):
        wanted = nearest = by_numpy  # which rounds more than once
    found = threaded_function(ufunc)(*operands)
    usual = np.isfinite(nearest)
    assert np.array_equal(found[~usual], nearest[~usual], equal_nan=True)
    assert np.array_equal(np.signbit(found[nearest == 0]), np.signbit(by_numpy[nearest == 0]))
    magnitude = np.abs(nearest[usual])
    if ufunc is np.logaddexp:  # whose terms may cancel
        terms = np.max(np.abs(operands), axis=0)[usual]
        magnitude = np.maximum(magnitude, np.where(np.isfinite(terms), terms, 0))
    units = {np.fmod: 0, np.remainder: 0, np.floor_divide: 0}.get(ufunc, 3 if ufunc is not np.power else 1)
    assert np.all(np.abs(found[usual] - wanted[usual]) <= units * np.spacing(magnitude))
    out = operands[0].copy()
    assert threaded_function(ufunc)(out, *operands[1:], out=out) is out
    assert np.array_equal(out, found, equal_nan=True)


@pytest.mark.skipif(cpu.capability() == "portable", reason="without fused operations NumPy's own loops take it")
@pytest.mark.parametrize("ufunc", [np.remainder, np.exp, np.power])
def test_vectors_begin_where_they_gain(ufunc: np.ufunc) -> None:
    """Where NumPy computes number by number, vectors take over long before threads do; elsewhere with them."""
    least = elementwise.least_of(ufunc)
    assert (least, elementwise.least_of(np.add)) == (1 << 12, LARGE)
    x = np.random.default_rng(0).uniform(0.1, 9, least).astype(np.float32)
    operands = (x, x[::-1].copy())[: ufunc.nin]
    by_op = {np.remainder: mt.remainder, np.exp: mt.exp, np.power: mt.pow}[ufunc]
    expected = threaded_function(ufunc)(*operands)
    assert by_op(*map(mt.tensor, operands)).numpy().tobytes() == expected.tobytes()
    assert elementwise.each(ufunc, *operands).tobytes() == expected.tobytes()
    assert threaded_function(np.add)(x, x) is None
    few = [operand[:-1].copy() for operand in operands]
    assert by_op(*map(mt.tensor, few)).numpy().tobytes() == ufunc(*few).tobytes()


@pytest.mark.skipif(cpu.capability() == "portable", reason="without fused operations SciPy's passes take it")
def test_the_gamma_function_next_to_its_zeros() -> None:
    """By the series around 1 and 2 and the zero of digamma, where the definition loses digits."""
    euler, t = 0.57721566490153286061, np.geomspace(1e-12, 1e-6, elementwise._LEAST)
    for sign in (-1, 1):
        x = 1 + sign * t
        t_exact = x - 1
        wanted = t_exact * (-euler + t_exact * (math.pi**2 / 12 - t_exact * 1.2020569031595942854 / 3))
        assert np.all(np.abs(elementwise.lgamma(x) - wanted) <= 4 * np.spacing(np.abs(wanted)))
        t_exact = (x := 2 + sign * t) - 2
        wanted = t_exact * (1 - euler + t_exact * ((math.pi**2 / 6 - 1) / 2 - t_exact * 0.2020569031595942854 / 3))
        assert np.all(np.abs(elementwise.lgamma(x) - wanted) <= 4 * np.spacing(np.abs(wanted)))
    zero = 1.4616321449683622, 9.549995429965697e-17
    x = zero[0] + np.arange(elementwise._LEAST) * 2.0**-45
    wanted = ((x - zero[0]) - zero[1]) * (0.96767224544762117 + (x - zero[0]) * -0.4427631689524)
    assert np.all(np.abs(elementwise.digamma(x) - wanted) <= 1e-14 * np.abs(wanted))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_of_erf_is_right_next_to_its_poles(dtype: type) -> None:
    """Near x = 1, where a digit of x counts for many of the result, passes in float64 give the same."""
    steps = np.arange(1, 200) * (np.finfo(dtype).eps / 2)
    x = np.resize(1 - np.concatenate([steps, 10.0 ** -np.arange(0.5, 16 if dtype is np.float64 else 7)]), 5000).astype(
        dtype
    )
    found = elementwise.erfinv(x)
    wanted = elementwise.erfinv.by_passes(x.astype(np.float64))
    assert np.all(np.abs(found - wanted) <= 8 * np.spacing(wanted.astype(dtype)))
    assert np.array_equal(elementwise.erfinv(-x), -found)


@pytest.mark.parametrize("name", ["atan2_", "hypot_", "remainder_", "fmod_", "floor_divide_", "add_"])
def test_in_place_functions_of_memory_that_overlaps_read_before_they_write(name: str) -> None:
    memory = np.abs(np.random.default_rng(0).normal(size=3 * LARGE)) + 0.5
    first, second = memory[1:], memory[:-1]
    wanted = getattr(mt, name[:-1])(mt.tensor(first.copy()), mt.tensor(second.copy())).numpy()
    getattr(mt.from_numpy(first), name)(mt.from_numpy(second))
    assert np.all(np.abs(first - wanted) <= 3 * np.spacing(wanted))


def test_ufuncs_have_loops() -> None:
    without = {ufunc.__name__ for ufunc in UFUNCS if loop_of(ufunc, np.dtype(np.float32)) is None}
    assert not without, f"NumPy's loops of {sorted(without)} are not found"


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 2.0, 3, -2.5, True])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda dtype: dtype.name)
def test_large_powers_are_those_of_numpy(exponent: float, dtype: np.dtype) -> None:
    x = spread(np.random.default_rng(0), dtype, (300, 517))
    units = 1 if (np.power, dtype.itemsize) in _IN_VECTORS and cpu.capability() != "portable" else 0
    with np.errstate(all="ignore"):
        for y in (exponent, np.full_like(x, exponent)):
            wanted = x**y
            exact = units == 0 or (not isinstance(y, np.ndarray) and y in (-1, 0.5, 1, 2))
            assert_right(threaded_function(operator.pow)(x, y), wanted, np.abs(wanted), 0 if exact else units)
    assert threaded_function(operator.pow)(x, np.array(exponent, dtype)) is None


def test_operands_that_overlap_the_result_are_left_to_numpy() -> None:
    memory = np.random.default_rng(0).standard_normal(LARGE + 300).astype(np.float32)
    for y in (memory[300:], memory[:300]):
        x = memory[:LARGE] if y.size == LARGE else memory[:LARGE].reshape(-1, 256)
        y = y if y.size == LARGE else y[:256]
        assert threaded_function(np.add)(x, y, out=x) is None
        given, wanted = mt.from_numpy(memory.copy()), x + y
        a = given[:LARGE].view(x.shape)
        a += given[300:] if y.size == LARGE else given[:256]
        assert a.numpy().tobytes() == wanted.tobytes()
    doubled = 2 * memory[:LARGE]
    assert threaded_function(np.add)(memory[:LARGE], memory[:LARGE], out=memory[:LARGE]).tobytes() == doubled.tobytes()


def test_what_does_not_lie_in_lines_is_left_to_numpy() -> None:
    add = threaded_function(np.add)
    x = np.ones((300, 517), np.float32)
    for shape, other in NOT_IN_LINES:
        assert lines_of(shape, other) is None
    assert add(x[:, ::2], x[:, ::2]) is None
    assert (add(x, np.asfortranarray(x)) == 2).all()
    assert add(x, x.astype(np.float64)) is None
    assert add(x.astype(np.int32), x.astype(np.int32)) is None
    assert threaded_function(np.divmod) is None
    assert threaded_function(abs) is None
    for shape, other in NOT_IN_LINES:
        x, y = mt.ones(shape), mt.ones(other)
        assert (x + y).eq(2).all()


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda dtype: dtype.name)
def test_large_relus_are_those_of_small_ones(dtype: np.dtype) -> None:
    x = spread(np.random.default_rng(1), dtype, (LARGE + 5,))
    x[:6] = math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-45
    g = np.arange(LARGE + 5).astype(dtype)
    g[3] = math.inf
    relu = mt.nn.functional.relu

    def both(x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = mt.tensor(x, requires_grad=True)
        out = relu(given)
        out.backward(mt.tensor(g))
        return out.detach().numpy(), given.grad.numpy()

    few = [both(x[part], g[part]) for part in (slice(500), slice(500, 600))]
    for one, *others in zip(both(x, g), *few, strict=True):
        other = np.concatenate(others)
        assert np.array_equal(one[:600], other, equal_nan=True)
        assert np.array_equal(np.signbit(one[:600]), np.signbit(other))


# Copies in another order


@pytest.mark.parametrize("dtype", [np.int8, bool, np.float16, np.int32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("threads", [1, 3])
def test_copies_in_row_major_order(dtype, threads):
    """By tiles, in part of squares, and by NumPy: the same elements, in memory of their own."""
    from minitorch_backends.kernels.arrays.elementwise.turned import _transpose_tiles

    with threading.num_threads(threads):
        by_tiles = 0
        for sizes in ((271, 300), (3, 129, 257), (5, 64, 16, 32), (3, 40, 9, 67), (70_000, 1), (8, 9000)):
            x = np.random.default_rng(0).integers(0, 100, sizes).astype(dtype)
            for order in itertools.permutations(range(x.ndim)):
                turned = x.transpose(order)
                for y in (
                    turned,
                    turned[::-1],
                    turned[..., ::-1],
                    turned[..., ::2],
                    np.broadcast_to(turned, (2, *turned.shape)),
                ):
                    result = in_order(y)
                    assert result.flags.c_contiguous
                    assert not np.shares_memory(result, y)
                    assert np.array_equal(result, y)
                    by_tiles += y.size >= LARGE and _transpose_tiles(y) is not None
        assert by_tiles > 30 if np.dtype(dtype).itemsize <= 8 else by_tiles == 0


def test_large_tensors_are_copied_by_tiles_where_a_view_cannot_be():
    x = mt.arange(300 * 400, dtype=mt.float32).reshape(300, 400).requires_grad_()
    for y in (x.mT.contiguous(), x.mT.reshape(200, 600).view(400, 300), x.mT.reshape(-1).view(400, 300)):
        assert y.is_contiguous()
        np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy().T)
        (gradient,) = mt.autograd.grad(y, x, mt.arange(120_000, dtype=mt.float32).reshape(400, 300))
        np.testing.assert_array_equal(gradient.numpy(), np.arange(120_000, dtype=np.float32).reshape(400, 300).T)
    with pytest.raises(RuntimeError, match="120000"):
        x.mT.reshape(7, 11)
