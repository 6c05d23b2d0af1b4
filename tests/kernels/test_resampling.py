"""Resampling beside a product with the matrix of all weights, and its transpose."""

import numpy as np
import pytest

from minitorch_backends.kernels.arrays import resampling
from minitorch_backends.kernels.runtime import threading

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZES = [(70, 9, 13), (900, 11, 1), (1, 40, 200), (3, 1, 2000), (5000, 1, 1)]
SHAPES = pytest.mark.parametrize("shape", SIZES, ids=str)


def neighbours(size: int, count: int, parts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, shares, and the matrix that has them."""
    rng = np.random.default_rng(0)
    places, shares = rng.integers(0, size, (parts, count)), rng.normal(size=(parts, count))
    matrix = np.zeros((count, size))
    np.add.at(matrix, (np.broadcast_to(np.arange(count), places.shape), places), shares)
    return places, shares, matrix


@DTYPES
@SHAPES
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_resampling_is_a_product_with_the_weights(shape: tuple[int, ...], parts: int, dtype: type) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    places, shares, matrix = neighbours(shape[1], 17, parts)
    assert resampling.takes(x)
    found = resampling.resample(x, places, shares)
    assert (found.dtype, found.shape) == (dtype, (shape[0], 17, shape[2]))
    np.testing.assert_allclose(found, matrix @ x.astype(np.float64), rtol=0, atol=40 * np.finfo(dtype).eps)


@DTYPES
@SHAPES
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_back_is_the_transpose_whatever_the_threads(shape: tuple[int, ...], parts: int, dtype: type) -> None:
    g = np.random.default_rng(1).normal(size=shape).astype(dtype)
    places, shares, matrix = neighbours(17, shape[1], parts)
    found = resampling.back(g, 17, places, shares)
    assert (found.dtype, found.shape) == (dtype, (shape[0], 17, shape[2]))
    np.testing.assert_allclose(found, matrix.T @ g.astype(np.float64), rtol=0, atol=200 * np.finfo(dtype).eps)
    with threading.num_threads(1):
        turned = np.ascontiguousarray(g.transpose(2, 1, 0)).transpose(2, 1, 0)
        assert resampling.back(turned, 17, places, shares).tobytes() == found.tobytes()


def test_few_numbers_and_other_types_are_left_to_others() -> None:
    assert not resampling.takes(np.zeros((3, 4, 5), np.float32))
    assert not resampling.takes(np.zeros((30, 40, 50), np.float16))
