"""The first few numbers of rows beside a stable sort, and running extrema beside NumPy's."""

import numpy as np
import pytest

from minitorch_backends.kernels.arrays import selection


def sorted_first(rows: np.ndarray, count: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """By sorting ranks: of equal numbers the first come first, and NaN is the largest."""
    ranks = np.unique(rows, return_inverse=True, equal_nan=True)[1].reshape(rows.shape)
    order = np.argsort(-ranks if largest else ranks, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(rows, order, 1), order


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(("shape", "count"), [((3, 400), 1), ((40, 33), 33), ((2, 20_000), 64), ((700, 5), 2)], ids=str)
def test_the_first_few_are_those_of_a_stable_sort(
    shape: tuple[int, int], count: int, dtype: type, largest: bool
) -> None:
    rng = np.random.default_rng(0)
    for spread in (5, 10_000):  # of few different numbers, and of many
        rows = rng.integers(-spread, spread, shape).astype(dtype)
        rows[0] = np.sort(rows[0])
        if dtype is not np.int64:
            rows[1:, ::7] = np.nan
            rows[1, :3] = np.inf, -np.inf, -0.0
        assert selection.takes(rows, count)
        found, wanted = selection.leading(rows, count, largest), sorted_first(rows, count, largest)
        assert np.array_equal(found[1], wanted[1])
        assert np.array_equal(found[0], wanted[0], equal_nan=dtype is not np.int64)


def test_few_numbers_other_types_and_many_places_are_left_to_others() -> None:
    rows = np.zeros((20, 100), np.float32)
    assert not selection.takes(rows, 0)
    assert not selection.takes(rows, 65)
    assert not selection.takes(rows[:1, :31], 3)
    assert not selection.takes(rows.astype(np.int8), 3)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint64, np.bool_])
@pytest.mark.parametrize(
    ("shape", "dim"), [((3, 4000), 1), ((40, 700), 0), ((30, 6, 300), 1), ((5,), 0), ((3, 0), 1)], ids=str
)
def test_running_extrema_are_those_of_numpy(shape: tuple[int, ...], dim: int, dtype: type, largest: bool) -> None:
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x.reshape(-1)[10::97] = np.nan
    values, places = selection.running_extrema(x, dim, largest)
    wanted = (np.maximum if largest else np.minimum).accumulate(x, dim)
    assert values.dtype == x.dtype
    assert np.array_equal(values, wanted, equal_nan=np.issubdtype(dtype, np.floating))
    reached = np.where((x == wanted) | (x != x), np.indices(shape)[dim], 0)
    assert np.array_equal(places, np.maximum.accumulate(reached, dim))
