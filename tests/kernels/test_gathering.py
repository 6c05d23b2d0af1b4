"""Elements named along one dimension, beside NumPy's."""

from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels.arrays import gathering
from minitorch_backends.tensor.dtypes import bfloat16

DTYPES = [np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64, bfloat16.dtype]
SHAPES = [(8, 64, 1, 1), (3, 4, 5, 2), (1, 50, 1, 20), (4, 9, 3000, 3), (700, 3, 40, 1), (0, 3, 2, 1), (2, 3, 2, 0)]
"""Outer, count, inner, and how many are wanted: one thread and several, and nothing."""


def problem(shape: tuple[int, int, int, int], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    (outer, count, inner, wanted), rng = shape, np.random.default_rng(0)
    return (rng.standard_normal((outer, count, inner)) * 9).astype(dtype), rng.integers(
        0, count, (outer, wanted, inner)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_gathered_and_scattered(shape: tuple[int, int, int, int], dtype: Any) -> None:
    x, index = problem(shape, dtype)
    found = gathering.gather(x, index)
    assert found is not None
    assert np.array_equal(found, np.take_along_axis(x, index, 1))
    turned = np.ascontiguousarray(x.T).T
    assert np.array_equal(gathering.gather(turned, index[::-1].copy()[::-1]), found)
    wanted = np.zeros_like(x)
    for w in range(index.shape[1]):
        np.put_along_axis(wanted, index[:, w : w + 1], found[:, w : w + 1], 1)
    assert np.array_equal(gathering.scatter(found, index, shape[1]), wanted)
    if x.dtype.kind != "c":
        assert gathering.gather(x, index, negative=True).tobytes() == (-found).tobytes()
        assert np.array_equal(gathering.scatter(found, index, shape[1], negative=True), -wanted)


@pytest.mark.parametrize("wrong", [-1, 4, 1 << 40, -(1 << 40)])
def test_what_names_nothing_is_found_or_skipped(wrong: int) -> None:
    x, index = problem((3, 4, 5, 2), np.float32)
    values = np.take_along_axis(x, index, 1)
    index[1, 0, 2] = wrong
    assert gathering.gather(x, index) is None
    assert gathering.scatter(values, index, 4) is None
    found = gathering.gather(x, index, skip=wrong, negative=True)
    values[1, 0, 2] = 0
    assert found.tobytes() == np.where(index == wrong, 0, -values).tobytes()
    there = gathering.scatter(values + 20, index, 4, skip=wrong)
    assert np.count_nonzero(there[1, :, 2]) == 1
    assert np.count_nonzero(there[0]) == len(
        {(w, i) for w, i in zip(index[0].ravel(), np.tile(np.arange(5), 2), strict=True)}
    )


def test_a_named_element_may_be_skipped() -> None:
    x, index = problem((3, 4, 5, 1), np.float32)
    found = gathering.gather(x, index, skip=2)
    assert np.array_equal(found, np.where(index == 2, 0, np.take_along_axis(x, index, 1)))
    assert not gathering.scatter(found + 1, index, 4, skip=2)[:, 2].any()
