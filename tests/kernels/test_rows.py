"""Functions of rows, in vectors, beside their definitions in passes of float64."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.arrays import rows, sums
from minitorch_backends.kernels.arrays.elementwise.arrays import readable
from minitorch_backends.kernels.arrays.rows import BY_ROWS
from minitorch_backends.kernels.arrays.rows.arrays import Dim, Shape
from minitorch_backends.kernels.arrays.rows.arrays import shape_of as shape_of_sizes
from minitorch_backends.kernels.runtime import threading

every_function = pytest.mark.parametrize("name", BY_ROWS)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
NUMBERS = 1 << 12
COLUMNS = [1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130, 257, 1000]


def operands(name: str, dtype: Any, shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = ((rng.standard_normal(shape) * factor).astype(dtype) for factor in (3, 1))
    if name == "log_softmax_gradient":
        return [x, -np.abs(y)]
    return [x, y] if name.endswith("_gradient") else [x]


def shape_of(dim: Dim, x: np.ndarray) -> Shape | None:
    return shape_of_sizes(dim, x.shape, x.dtype)


def results(found: Any) -> tuple[np.ndarray, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def of(call: Any, name: str, arrays: list[np.ndarray], **named: Any) -> tuple[np.ndarray, ...]:
    return results(call(*[each.copy() for each in arrays], **named))


def reference(name: str, arrays: list[np.ndarray], **named: Any) -> tuple[np.ndarray, ...]:
    return of(BY_ROWS[name].by_passes, name, [each.astype(np.float64) for each in arrays], **named)


def assert_near(got: tuple, right: tuple, dtype: Any, units: float = 16) -> None:
    for one, other in zip(got, right, strict=True):
        assert (one.dtype, one.shape) == (dtype, other.shape)
        finite = np.isfinite(other)
        assert np.array_equal(one[~finite], other[~finite].astype(dtype), equal_nan=True)
        scale = np.abs(other[finite]).max(initial=1.0)
        assert np.all(np.abs(one[finite] - other[finite]) <= units * np.finfo(dtype).eps * scale)


@every_dtype
@every_function
def test_every_length_of_rows_agrees_with_the_definition(name: str, dtype: Any) -> None:
    for columns in COLUMNS:
        arrays = operands(name, dtype, (NUMBERS // columns + 3, columns), columns)
        assert shape_of(-1, arrays[0]).columns == columns
        assert_near(of(BY_ROWS[name], name, arrays), reference(name, arrays), dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmax_gradient", "log_softmax_gradient"])
def test_rows_of_halves_are_computed_in_float32_and_rounded_once(name: str, dtype: Any) -> None:
    for columns in (1, 16, 33, 1000, NUMBERS):
        for shape in ((NUMBERS // columns + 3, columns), (2, 3, columns) if columns < 1000 else (2, columns)):
            arrays = [each.astype(dtype) for each in operands(name, np.float32, shape, columns)]
            got = BY_ROWS[name](*arrays)
            wanted = BY_ROWS[name].by_passes(*[each.astype(np.float64) for each in arrays])
            rounded = wanted.astype(dtype).astype(np.float64)
            assert (got.dtype, got.shape) == (dtype, shape)
            unit = 2.0**-11 if dtype is np.float16 else 2.0**-8
            assert np.all(np.abs(got - wanted) <= 1.01 * unit * np.abs(wanted) + 1e-6 * np.abs(wanted).max() + 2.0**-24)
            assert np.sum(got.astype(np.float64) != rounded) <= max(0.01 * got.size, 1)  # float32 decides a tie


@every_dtype
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "exponentials"])
def test_rows_of_hostile_values_give_what_the_definition_gives(name: str, dtype: Any) -> None:
    hostile = [math.nan, math.inf, -math.inf, 1e38, -1e38, 0.0, 1e-45, 88.0, -104.0]
    x = operands(name, dtype, (300, 40))[0]
    for row, value in enumerate(hostile):
        x[row, row] = value
        x[20 + row, :] = value
        x[40 + row, 3:] = -math.inf
    with np.errstate(all="ignore"):
        got, right = of(BY_ROWS[name], name, [x]), reference(name, [x])
        if name == "exponentials":  # a NaN is in its weight and the sum, or in all weights
            got, right = ((found[0] / found[1], *found[1:]) for found in (got, right))
        assert_near(got, right, dtype)


@every_function
def test_several_last_dimensions_are_rows_and_others_go_in_passes(name: str) -> None:
    if name == "exponentials":
        pytest.skip("takes no dimensions: rows are the last one")
    flat = operands(name, np.float32, (400, 24))
    folded = [each.reshape(400, *((1, 1, 1) if each.shape[-1] == 1 else (2, 3, 4))) for each in flat]
    for dim, arrays in (((1, 2, 3), folded), ((-3, -2, -1), folded), ((1,), flat), (1, flat)):
        assert shape_of(dim, arrays[0]) == (1, 400, 24)
        got = of(BY_ROWS[name], name, arrays, dim=dim)
        for one, other in zip(got, of(BY_ROWS[name], name, flat), strict=True):
            assert one.tobytes() == other.tobytes()
            assert one.ndim == arrays[0].ndim
    for dim in (0, (0, 2)):
        arrays = folded if isinstance(dim, tuple) else flat
        assert shape_of(dim, arrays[0]) is None
        assert_near(of(BY_ROWS[name], name, arrays, dim=dim), reference(name, arrays, dim=dim), np.float32, 64)


@every_function
def test_rows_of_several_segments_agree_with_the_definition(name: str) -> None:
    if name == "exponentials":
        pytest.skip("takes no dimensions: rows are the last one")
    for shape, dim in (
        ((6, 5, 150), (0, 2)),
        ((7, 3, 4, 61), (0, 1, 3)),
        ((4, 9, 3, 51), (0, 2, 3)),
        ((5, 900), (0, 1)),
    ):
        arrays = operands(name, np.float32, shape)
        assert shape_of(dim, arrays[0]) is not None
        assert_near(of(BY_ROWS[name], name, arrays, dim=dim), reference(name, arrays, dim=dim), np.float32, 64)


@every_dtype
@every_function
def test_rows_that_lie_side_by_side_have_a_lane_each(name: str, dtype: Any) -> None:
    if name == "exponentials":
        pytest.skip("takes no dimensions: rows are the last one")
    for shape in ((200, 32), (130, 33), (64, 100), (2, 2100), (129, 95), (700, 32)):
        arrays = operands(name, dtype, shape)
        assert shape_of(0, arrays[0]).strips
        assert_near(of(BY_ROWS[name], name, arrays, dim=0), reference(name, arrays, dim=0), dtype, 64)
    folded = [each.reshape(7, 100, 32) for each in arrays]
    got = of(BY_ROWS[name], name, folded, dim=(0, 1))
    assert got[0].tobytes() == of(BY_ROWS[name], name, arrays, dim=0)[0].tobytes()


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(BY_ROWS)), st.integers(1, 300), st.booleans(), st.integers(0, 2**32 - 1))
def test_layouts_and_threads_leave_the_bits(name: str, columns: int, wide: bool, seed: int) -> None:
    arrays = operands(name, np.float64 if wide else np.float32, (NUMBERS // columns + 40, columns), seed)
    straight = of(BY_ROWS[name], name, arrays)
    with threading.num_threads(1):
        alone = of(BY_ROWS[name], name, arrays)
    turned = results(
        BY_ROWS[name](*([each.copy() if name == "exponentials" else np.asfortranarray(each) for each in arrays]))
    )
    for one, other, third in zip(straight, alone, turned, strict=True):
        assert one.tobytes() == other.tobytes() == third.tobytes()
    some = of(BY_ROWS[name], name, [each[:-9] for each in arrays])
    for one, other in zip(straight, some, strict=True):
        assert one[:-9].tobytes() == other.tobytes()  # a row's result does not depend on the others


@every_function
def test_threads_leave_the_bits_of_strips(name: str) -> None:
    """The last strip repeats rows of the one before, whose results another thread might be writing."""
    if name == "exponentials":
        pytest.skip("takes no dimensions: rows are the last one")
    for shape in ((512, 264), (300, 33), (2000, 97), (700, 8 * 32 + 31)):
        arrays = operands(name, np.float32, shape)
        with threading.num_threads(1):
            alone = of(BY_ROWS[name], name, arrays, dim=0)[0].tobytes()
        assert all(of(BY_ROWS[name], name, arrays, dim=0)[0].tobytes() == alone for _ in range(40))


@every_function
def test_small_and_empty_rows_go_in_passes(name: str) -> None:
    for shape in ((3, 5), (0, 5)):
        arrays = operands(name, np.float32, shape)
        assert shape_of(-1, arrays[0]) is None
        assert_near(of(BY_ROWS[name], name, arrays), reference(name, arrays), np.float32, 64)


def test_other_extrema_are_left_to_numpy() -> None:
    x = np.ones((300, 400), np.float32)
    assert rows.join_rows("Largest", x, (1,)) is not None
    assert rows.join_rows("Largest", x.T, None) is None
    assert rows.join_rows("Largest", x[:9], (1,)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((70, 1000), (1,)), ((16, 64, 8, 9), (0, 2, 3)), ((1000, 70), (0,)), ((9, 20_000), (1,)), ((70, 1001), None)],
)
def test_extremes_are_numpys(shape: tuple, dim: tuple | None, dtype: Any) -> None:
    """NaN included, wherever it stands, and infinities."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    hostile = x.copy()
    hostile.reshape(-1)[rng.integers(0, x.size, 20)] = np.nan
    hostile.reshape(-1)[rng.integers(0, x.size, 20)] = -np.inf
    for array in (x, hostile, np.full_like(x, -np.inf), np.full_like(x, np.nan)):
        for name, function in (("Largest", np.max), ("Smallest", np.min)):
            found = rows.join_rows(name, array, dim)
            if not readable(np.dtype(dtype)):
                assert found is None
                continue
            wanted = function(array.astype(np.float64), axis=dim, keepdims=dim is not None)
            assert found.dtype == dtype
            assert np.array_equal(found.astype(np.float64), wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dim"), [((70, 1000), 1), ((300, 17), 1), ((70_001,), 0), ((1000, 70), 0), ((130, 3, 21), 0)]
)
def test_running_sums_are_rounded_once(shape: tuple, dim: int, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    found = rows.running_sums(x, dim)
    if not readable(np.dtype(dtype)):
        assert found is None
        return
    wanted = np.cumsum(x.astype(np.longdouble), dim)
    assert (found.dtype, found.shape) == (dtype, shape)
    unit = {np.float32: 2.0**-24, np.float64: 0, np.float16: 2.0**-11}.get(dtype, 2.0**-8)
    lost = 1e-13 * np.cumsum(np.abs(x).astype(np.float64), dim)
    assert np.all(np.abs(found - wanted) <= 1.01 * unit * np.abs(wanted) + lost)


def factors(shape: tuple, dtype: Any) -> np.ndarray:
    """Numbers of both signs; the product of many is neither 0 nor infinite."""
    rng = np.random.default_rng(0)
    return (np.exp(rng.standard_normal(shape) / 50) * rng.choice([-1, 1], shape)).astype(dtype)


@every_dtype
def test_products_of_hostile_values(dtype: Any) -> None:
    x = np.ones((300, 400), dtype)
    x[:6, 3:5] = [[math.inf, 0], [-math.inf, 2], [math.nan, 0], [-0.0, 3], [0, -3], [math.inf, math.nan]]
    with np.errstate(all="ignore"):
        for dim, array in ((1, x), (0, x.T.copy())):
            found, wanted = sums.product(array, dim), np.prod(array, dim)
            assert np.array_equal(found, wanted, equal_nan=True)
            assert np.array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(wanted) & ~np.isnan(wanted))
            assert np.array_equal(rows.running_products(array, dim), np.cumprod(array, dim), equal_nan=True)
    large, small = np.finfo(dtype).max / 2, np.finfo(dtype).tiny
    x = np.ones((200, 100), dtype)
    x[:2, :4] = [[small, large, large, small], [large, small, small, large]]
    found = rows.running_products(x, 1)[:2]
    assert np.array_equal(found, np.cumprod(x[:2].astype(np.longdouble), 1).astype(dtype))
    assert np.all(np.isfinite(found) & (found != 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("shape", "dim"), [((70, 1000), 1), ((300, 17), 1), ((1000, 70), 0), ((130, 3, 21), 0)])
def test_running_products_are_rounded_once(shape: tuple, dim: int, dtype: Any) -> None:
    x = factors(shape, dtype)
    found = rows.running_products(x, dim)
    if not readable(np.dtype(dtype)):
        assert found is None
        return
    wanted = np.cumprod(x.astype(np.longdouble), dim)
    assert (found.dtype, found.shape) == (dtype, shape)
    unit = {np.float32: 2.0**-24, np.float64: 0, np.float16: 2.0**-11}.get(dtype, 2.0**-8)
    assert np.all(np.abs(found - wanted) <= (1.01 * unit + shape[dim] * 2.0**-52) * np.abs(wanted))


@every_dtype
def test_running_sums_of_hostile_values(dtype: Any) -> None:
    huge = np.finfo(dtype).max
    x = np.zeros((200, 100), dtype)
    x[:9, 3:6] = [
        [-huge, huge, huge], [huge, huge, -huge], [math.inf, 1, -math.inf], [math.nan, 1, 2], [-math.inf, 1, 2],
        [-0.0, -0.0, -0.0], [huge, -huge, huge], [1, huge, huge], [math.inf, 1, 2],
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        for dim, array in ((1, x), (0, x.T.copy())):
            found = rows.running_sums(array, dim)
            wanted = np.cumsum(array.astype(np.longdouble), dim).astype(dtype)
            if found is None:
                assert dtype is np.float64
                assert dim == 1
            elif dtype is np.float32:
                assert np.array_equal(found, wanted, equal_nan=True)
            else:
                assert np.array_equal(found, np.cumsum(array, dim), equal_nan=True)
    assert rows.running_sums(x.reshape(20, 10, 100), 1) is None
    assert rows.running_sums(x[:, ::2], 1) is None
