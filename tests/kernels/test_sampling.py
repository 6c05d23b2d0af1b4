"""Sampling at places by loops, beside the ops that are recorded, which the definition checks."""

import itertools

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.kernels.arrays import sampling
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.nn.functional import grid_sample

CASES = [((2, 3, 5, 7), (2, 4, 6, 2)), ((2, 2, 4, 5, 6), (2, 3, 2, 4, 3)), ((1, 1, 1, 1), (1, 3, 3, 2))]


def images_and_places(case: tuple, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=case[0]).astype(dtype), 1.5 * rng.normal(size=case[1]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_loops_agree_with_ops(case: tuple, dtype: type) -> None:
    x, places = images_and_places(case, dtype)
    places[0, 0, 0] = np.nan
    places[0, 0, 1, 0] = -np.inf
    for mode, padding, align in itertools.product(sampling.MODES, sampling.PADDINGS, (False, True)):
        if mode == "bicubic" and x.ndim == 5:
            continue
        by_loops = grid_sample(mt.tensor(x), mt.tensor(places), mode, padding, align)
        by_ops = grid_sample(mt.tensor(x), mt.tensor(places, requires_grad=True), mode, padding, align).detach()
        assert by_loops.dtype is by_ops.dtype
        error = 40 * np.finfo(dtype).eps
        np.testing.assert_allclose(by_loops.numpy(), by_ops.numpy(), rtol=0, atol=error, equal_nan=True)


def test_bits_do_not_depend_on_threads() -> None:
    x, places = images_and_places(((3, 4, 1, 9, 8), (3, 2000, 2)), np.float32)
    found = sampling.sample(x, places, "bicubic", "reflection", False)
    with threading.num_threads(1):
        assert sampling.sample(x, places, "bicubic", "reflection", False).tobytes() == found.tobytes()


def test_other_shapes_and_types_are_refused() -> None:
    x, places = images_and_places(((2, 3, 1, 5, 7), (2, 9, 2)), np.float32)
    assert sampling.takes(x, places)
    assert not sampling.takes(x, places.astype(np.float64))
    assert not sampling.takes(x.astype(np.float16), places.astype(np.float16))
    for wrong in (places[:1], places.astype(np.float64), places[..., :1]):
        with pytest.raises(ValueError, match="places must be"):
            sampling.sample(x, wrong, "bilinear", "zeros", False)
