"""Distances between all pairs of vectors beside float64, and the sums of differences of their gradients."""

import numpy as np
import pytest

from minitorch_backends.kernels.arrays import distances
from minitorch_backends.kernels.runtime import threading

CASES = [(1, 40, 300, 17), (2, 9, 257, 70), (3, 100, 50, 1), (1, 3, 600, 66), (2, 65, 64, 64), (1, 1, 9000, 3)]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def vectors(case: tuple[int, ...], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    batch, m, n, size = case
    rng = np.random.default_rng(0)
    return rng.normal(size=(batch, m, size)).astype(dtype), rng.normal(size=(batch, n, size)).astype(dtype)


def on_one_thread(function, *arrays: np.ndarray) -> np.ndarray:
    with threading.num_threads(1):
        return function(*arrays)


@every_dtype
@every_case
def test_distances_are_those_of_the_differences(case: tuple[int, ...], dtype: type) -> None:
    x, y = vectors(case, dtype)
    x[:, 0], y[:, 0] = 1000, 1000 + 2.0**-8  # close together, and far from zero
    assert distances.takes(x, y)
    found = distances.distances(x, y)
    wanted = np.sqrt(((x[:, :, None].astype(np.longdouble) - y[:, None]) ** 2).sum(-1))
    assert (found.dtype, found.shape) == (dtype, wanted.shape)
    assert np.all(np.abs(found - wanted) <= 8 * np.finfo(dtype).eps * wanted)
    turned = np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0)
    assert on_one_thread(distances.distances, turned, y[:, ::-1]).tobytes() == found[..., ::-1].tobytes()


@every_dtype
@every_case
def test_weighted_differences_are_sums_over_the_second_vectors(case: tuple[int, ...], dtype: type) -> None:
    x, y = vectors(case, dtype)
    weights = np.random.default_rng(1).normal(size=(x.shape[0], x.shape[1], y.shape[1])).astype(dtype)
    found = distances.weighted_differences(weights, x, y)
    terms = weights[..., None].astype(np.longdouble) * (x[:, :, None].astype(np.longdouble) - y[:, None])
    assert (found.dtype, found.shape) == (dtype, x.shape)
    assert np.all(np.abs(found - terms.sum(2)) <= 2 * np.finfo(dtype).eps * np.abs(terms).sum(2))
    assert on_one_thread(distances.weighted_differences, weights, x, y).tobytes() == found.tobytes()


def test_nan_and_infinity_reach_their_distances_only() -> None:
    x, y = vectors((1, 20, 500, 5), np.float32)
    x[0, 3, 1], y[0, 7, 4], y[0, 7, 3] = np.nan, np.inf, np.inf
    found = distances.distances(x, y)[0]
    assert np.isnan(found[3]).all()
    assert np.isposinf(np.delete(found[:, 7], 3)).all()
    assert np.isfinite(np.delete(np.delete(found, 3, 0), 7, 1)).all()


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e30), (np.float32, 1e-30), (np.float64, 1e-250)])
def test_squares_of_differences_may_leave_the_range(dtype: type, size: float) -> None:
    """Of some pairs, and more than are computed again at a time; 0 of equal vectors."""
    x, y = vectors((2, 70, 90, 17), dtype)
    x[:, :60] *= size
    y[:, ::2] *= size
    y[:, 0] = x[:, 0]
    wanted = np.linalg.norm((x[:, :, None].astype(np.longdouble) - y[:, None]) / size, axis=-1) * size
    found = distances.distances(x, y)
    assert np.all(np.abs(found - wanted) <= 8 * np.finfo(dtype).eps * wanted)
