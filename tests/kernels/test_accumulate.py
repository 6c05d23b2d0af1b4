"""Sums at places have the bits of `numpy.add.at`, which adds one value after the other; of many, in float64."""

import numpy as np
import pytest

from minitorch_backends.kernels.arrays import accumulate
from minitorch_backends.kernels.runtime import threading


def add_rows(rows: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The rows after all additions: float32 in float64 where a row gets many, or rows are few, and rounded once."""
    one_by_one, wide = rows.copy(), rows.astype(np.result_type(rows, np.float64))
    np.add.at(one_by_one, index, values)
    if rows.real.dtype != np.float32:
        return one_by_one
    np.add.at(wide, index, values)
    many = np.bincount(index, minlength=len(rows)) > (-1 if rows.size <= values.size else accumulate.FEW)
    return np.where(many.reshape(-1, *(1,) * (rows.ndim - 1)), wide.astype(rows.dtype), one_by_one)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(7,), (5000,), (30, 1), (300, 3), (4, 63), (9, 64), (3, 65), (50, 2, 200)], ids=str)
def test_rows_are_added_in_their_order(shape: tuple[int, ...], dtype: type) -> None:
    rng = np.random.default_rng(0)
    rows, index = (rng.normal(size=shape) * 99).astype(dtype), rng.integers(0, shape[0], 4000)
    values = (rng.normal(size=(4000, *shape[1:])) * 99).astype(dtype)
    assert accumulate.takes(rows, values)
    wanted, alone = add_rows(rows, index, values), rows.copy()
    accumulate.add_rows(rows, index, values)
    assert rows.tobytes() == wanted.tobytes()
    with threading.num_threads(1):
        accumulate.add_rows(alone, index[::-1].copy()[::-1], np.asfortranarray(values))
    assert alone.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
def test_rows_in_any_order_and_complex_ones(dtype: type) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(4000, 33)) if dtype is np.float32 else rng.normal(size=(4000, 33, 2)) @ [1, 1j]
    values, index = numbers.astype(dtype), rng.integers(0, 50, 4000)
    for rows in (np.zeros((33, 50), dtype).T, np.zeros((99, 66), dtype)[:50, ::2], np.zeros((50, 33), dtype)[::-1]):
        wanted = add_rows(np.zeros((50, 33), dtype), index, values)
        assert accumulate.takes(rows, values)
        accumulate.add_rows(rows, index, values)
        assert np.array_equal(rows, wanted)


def test_few_values_and_other_types_are_left_to_others() -> None:
    rows = np.zeros((100, 100), np.float32)
    assert accumulate.takes(rows, rows)
    assert not accumulate.takes(rows, rows[:1])
    assert not accumulate.takes(rows, rows.astype(np.float64))
    assert not accumulate.takes(rows.astype(np.int8), rows.astype(np.int8))
    rows.flags.writeable = False
    assert not accumulate.takes(rows, rows)


def test_index_and_values_may_share_the_memory_of_the_rows() -> None:
    places = np.random.default_rng(0).permutation(5000)
    for index, values in ((places, np.arange(5000)), (np.arange(5000), places), (places, places)):
        rows = places.copy()
        own = [rows if each is places else each for each in (index, values)]
        wanted = rows.copy()
        np.add.at(wanted, index, values)
        accumulate.add_rows(rows, *own)
        assert np.array_equal(rows, wanted)


def test_what_is_out_of_bounds_is_refused_and_changes_nothing() -> None:
    rows = np.zeros((100, 64), np.float32)
    for wrong in (100, -1, 10**9):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for dimension 0 with size 100"):
            accumulate.add_rows(rows, np.array([0, wrong]), np.ones((2, 64), np.float32))
    with pytest.raises(ValueError, match="values have shape"):
        accumulate.add_rows(rows, np.array([0, 1]), np.ones((1, 64), np.float32))
    assert not rows.any()
