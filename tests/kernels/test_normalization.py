"""Rows that are standardised, scaled and shifted, and the gradients of that, in vectors, beside passes of float64."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.arrays.rows import normalization, standardize, standardize_gradient
from minitorch_backends.kernels.arrays.rows.arrays import LEAST
from minitorch_backends.kernels.arrays.rows.standardization import STATISTICS
from minitorch_backends.kernels.runtime import threading

EPS = 0.01

# shape, shape of the weights, dimensions of a row, and how vectors see them
CASES = {
    "batch": ((6, 5, 10, 15), (5, 1, 1), (0, 2, 3), "rows"),
    "batch of vectors": ((130, 37), (37,), (0,), "rows"),
    "layer": ((33, 137), (137,), (1,), "columns"),
    "layer, two dimensions": ((2, 300, 3, 5), (3, 5), (2, 3), "columns"),
    "layer of 32 rows": ((64, 65), (65,), (-1,), "columns"),
    "group": ((3, 4, 5, 71), (4, 5, 1), (2, 3), "segments"),
    "instance": ((3, 20, 9, 9), (20, 1, 1), (2, 3), "rows"),
    "one weight": ((40, 120), (1,), (1,), "rows"),
}
every_case = pytest.mark.parametrize("case", CASES)


def operands(shape: tuple[int, ...], weights: tuple[int, ...], dtype: Any, seed: int = 0) -> list[np.ndarray]:
    """x, g, weight and bias."""
    rng = np.random.default_rng(seed)
    x, g = ((rng.standard_normal(shape) * 3 + 1).astype(dtype) for _ in range(2))
    return [x, g, *[(rng.standard_normal(weights) + 1).astype(dtype) for _ in range(2)]]


def vector_view(arrays: list[np.ndarray], dim: tuple[int, ...]) -> Any:
    x, weight = arrays[0], arrays[2]
    return normalization._vector_view("Standardize", "moments", x.shape, x.strides, x.dtype, dim, weight.shape)


def both(calls: tuple, arrays: list[np.ndarray], **options: Any) -> tuple[np.ndarray, ...]:
    """The result of `standardize`, and its gradients from that."""
    x, g, weight, bias = arrays
    made = calls[0](x, weight, bias, eps=EPS, **options)
    return *made, *calls[1](g, x, made.mean, made.deviation, weight, **options)


def in_vectors(arrays: list[np.ndarray], **options: Any) -> tuple[np.ndarray, ...]:
    return both((standardize, standardize_gradient), arrays, **options)


def by_passes(arrays: list[np.ndarray], **options: Any) -> tuple[np.ndarray, ...]:
    exact = [each.astype(np.float64) for each in arrays]
    return both((standardize.by_passes, standardize_gradient.by_passes), exact, **options)


def assert_near(got: tuple, wanted: tuple, eps: float, units: float = 32) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == other.shape
        scale = np.abs(other).max(initial=1.0)
        assert np.abs(one - other).max(initial=0.0) <= units * eps * scale


@pytest.mark.parametrize(
    ("dtype", "statistics"), [*((np.float32, each) for each in STATISTICS), (np.float64, "moments")]
)
@every_case
def test_all_ways_in_which_weights_lie_agree_with_the_definition(case: str, dtype: Any, statistics: str) -> None:
    shape, weights, dim, lie = CASES[case]
    arrays = operands(shape, weights, dtype)
    assert vector_view(arrays, dim).weights.lie == lie
    got = in_vectors(arrays, dim=dim, statistics=statistics)
    assert all(each.dtype == dtype for each in got)
    assert_near(got, by_passes(arrays, dim=dim, statistics=statistics), float(np.finfo(dtype).eps))


@every_case
def test_layouts_and_threads_leave_the_bits(case: str) -> None:
    shape, weights, dim, _ = CASES[case]
    arrays = operands(shape, weights, np.float32)
    straight = in_vectors(arrays, dim=dim)
    with threading.num_threads(1):
        alone = in_vectors(arrays, dim=dim)
    twice = in_vectors([np.repeat(each, 2, -1)[..., ::2] for each in arrays], dim=dim)
    for one, other, third in zip(straight, alone, twice, strict=True):
        assert one.tobytes() == other.tobytes() == third.tobytes()


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (1, 0, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
@pytest.mark.parametrize("case", ["batch", "instance", "group", "layer, two dimensions"])
def test_results_lie_as_inputs_do(case: str, order: tuple[int, ...]) -> None:
    shape, weights, dim, _ = CASES[case]
    x, g, *rest = operands(shape, weights, np.float32)
    turned = x.transpose(order).copy().transpose(np.argsort(order))
    got = in_vectors([turned, g, *rest], dim=dim)
    assert got[0].strides == got[3].strides == turned.strides
    assert_near(got, by_passes([x, g, *rest], dim=dim), 2.0**-23)


def test_channels_last_are_strips() -> None:
    x = np.zeros((2, 9, 9, 40), np.float32).transpose(0, 3, 1, 2)
    assert vector_view([x, x, np.ones((40, 1, 1))], (0, 2, 3)).shape == (162, 40, 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@every_case
def test_halves_are_computed_in_float32_and_rounded_once(case: str, dtype: Any) -> None:
    shape, weights, dim, _ = CASES[case]
    x, g, *rest = operands(shape, weights, np.float32)
    arrays = [x.astype(dtype), g.astype(dtype), *rest]
    got = in_vectors(arrays, dim=dim)
    wanted = by_passes(arrays, dim=dim)
    assert [each.dtype for each in got] == [dtype, np.float32, np.float32, dtype, np.float32, np.float32]
    for index in (1, 2, 4, 5):
        assert_near((got[index],), (wanted[index],), 2.0**-23)
    unit = 2.0**-11 if dtype is np.float16 else 2.0**-8
    for index in (0, 3):
        close = 1.01 * unit * np.abs(wanted[index]) + 2e-5 * np.abs(wanted[index]).max()
        assert np.all(np.abs(got[index] - wanted[index]) <= close)


@every_case
def test_small_and_empty_arrays_go_in_passes_and_agree(case: str) -> None:
    shape, weights, dim, _ = CASES[case]
    for first in (0, 1):
        small = (first, *shape[1:])
        if math.prod(small) < LEAST:
            arrays = operands(small, weights, np.float32)
            assert vector_view(arrays, dim) is None
            with np.errstate(invalid="ignore"):
                assert_near(in_vectors(arrays, dim=dim), by_passes(arrays, dim=dim), 2.0**-23)


@pytest.mark.parametrize(
    ("shape", "weights", "dim"),
    [
        ((20, 30, 20), (30, 20), (0, 1)),  # of rows and of columns at once
        ((70, 80), (80,), (0,)),
        ((70, 8, 10), (8, 1), (0, 2)),
        ((40, 50, 3), (50, 3), (2,)),
        ((9, 31, 40), (31, 1), (1, 2)),
    ],
)
def test_weights_of_any_shape_that_broadcasts(shape: tuple, weights: tuple, dim: tuple) -> None:
    arrays = operands(shape, weights, np.float32)
    assert_near(in_vectors(arrays, dim=dim), by_passes(arrays, dim=dim), 2.0**-23)


def test_operands_of_other_sizes_are_left_to_numpy() -> None:
    x, g, weight, bias = operands((40, 150), (150,), np.float32)
    made = standardize(x, weight, bias[:1], dim=(1,), eps=EPS)
    assert_near(made[:1], standardize.by_passes(x, weight, np.repeat(bias[:1], 150), dim=(1,), eps=EPS)[:1], 2.0**-23)
    mean, deviation = made.mean[:1], made.deviation[:1]
    got = standardize_gradient(g, x, mean, deviation, weight, dim=(1,))
    assert_near(got, standardize_gradient.by_passes(g, x, mean, deviation, weight, dim=(1,)), 2.0**-23)
    with pytest.raises(ValueError, match="broadcast"):
        standardize(x, weight[:7], bias[:7], dim=(1,))
    with pytest.raises(ValueError, match="broadcast"):
        standardize_gradient(g[:7], x, made.mean, made.deviation, weight, dim=(1,))


def test_sums_of_long_rows_lose_no_digits() -> None:
    """Rows of 60,000 numbers far from zero, along lanes and across them."""
    for shape, weights, dim in (((60_000, 32), (32,), (0,)), ((4, 60_000), (1,), (1,))):
        x, _, weight, bias = operands(shape, weights, np.float32)
        x = x + np.float32(100)
        made = standardize(x, weight, bias, dim=dim)
        mean = x.astype(np.float64).mean(dim, keepdims=True)
        assert np.abs(made.mean - mean).max() <= 16 * 2.0**-24 * 100


@every_case
def test_nan_and_infinities_stay_in_their_rows(case: str) -> None:
    shape, weights, dim, _ = CASES[case]
    arrays = operands(shape, weights, np.float32)
    clean = standardize(arrays[0], *arrays[2:], dim=dim, eps=EPS).output
    x = arrays[0].copy()
    x[(0,) * x.ndim] = np.inf
    with np.errstate(invalid="ignore"):
        out = standardize(x, *arrays[2:], dim=dim, eps=EPS).output
    of_row = np.zeros(shape, bool)
    of_row[tuple(slice(None) if each in {d % x.ndim for d in dim} else 0 for each in range(x.ndim))] = True
    assert np.isnan(out[of_row]).all()
    assert np.array_equal(out[~of_row], clean[~of_row])


ROWS = {
    "huge": lambda z: z * 1e30,
    "of the largest": lambda z: z * 2.0**124,
    "tiny": lambda z: z * 1e-30,
    "spread in the last bits": lambda z: 1024 + np.round(z * 4) * 2.0**-13,
    "spread in the last bits, negative": lambda z: np.round(z * 4) * 2.0**-12 - 3000,
    "mixed": lambda z: z * 10.0 ** np.arange(-20, 21, 10)[np.arange(z.size) % 5].reshape(z.shape),
}


@pytest.mark.parametrize("statistics", ["moments", "square"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("case", [*CASES, "small"])
def test_rows_of_any_size_and_spread_are_right_to_units(case: str, rows: str, statistics: str) -> None:
    """Results and gradients in float32 beside those of the same numbers in extended precision, with eps of 0."""
    shape, weights, dim, _ = CASES.get(case, ((3, 7), (7,), (1,), ""))
    rng = np.random.default_rng(3)
    x = ROWS[rows](rng.standard_normal(shape)).astype(np.float32)
    g = rng.standard_normal(shape).astype(np.float32)
    one, zero = np.ones(weights, np.float32), np.zeros(weights, np.float32)
    made = standardize(x, one, zero, dim=dim, statistics=statistics)
    found = standardize_gradient(g, x, made.mean, made.deviation, one, dim=dim, statistics=statistics)
    exact = x.astype(np.longdouble)
    exact -= exact.mean(dim, keepdims=True) if statistics == "moments" else 0
    deviation = np.sqrt(np.square(exact).mean(dim, keepdims=True))
    y = exact / deviation
    h = g - (g.mean(dim, keepdims=True, dtype=np.longdouble) if statistics == "moments" else 0)
    slope = y * (g * y).mean(dim, keepdims=True)
    unit = 2.0**-24
    excess = np.abs(made.output - y) / (unit * (4.1 * np.abs(y) + 1e-6))
    assert excess.max() <= 1, (excess.max(), y.flat[excess.argmax()], x.flat[excess.argmax()])
    assert np.all(np.abs(found.input * deviation - (h - slope)) <= unit * 8 * (np.abs(g) + np.abs(slope) + 1))


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_squares_beyond_float64_do_not_overflow(size: float) -> None:
    x, _, weight, bias = operands((4, 65), (65,), np.float64)
    for eps in (0.0, 1e-5):
        made = standardize(x * size, weight, bias, dim=(1,), eps=eps)
        wanted = standardize(x * (1 if size > 1 or not eps else 0), weight, bias, dim=(1,), eps=0 if size > 1 else eps)
        assert np.abs(made.output - wanted.output).max() <= 1e-14 * np.abs(wanted.output).max()
