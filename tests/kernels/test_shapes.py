"""Arrays are checked before loops read memory at an address."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels.arrays import distances, gathering, pooling, resampling, selection
from minitorch_backends.kernels.runtime.shapes import broadcast_shapes

IMAGES, ROWS = np.ones((2, 3, 40, 40), np.float32), np.ones((4, 300, 5), np.float32)
PAIRS = np.ones((1, 30, 40), np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pooling.add_at(IMAGES, np.zeros((2, 3, 4, 4), np.int64), 25),
        lambda: pooling.add_at(IMAGES, np.zeros(IMAGES.shape, np.int32), 25),
        lambda: resampling.resample(ROWS, np.full((2, 50), 300), np.ones((2, 50))),
        lambda: resampling.resample(ROWS, np.full((2, 50), -1), np.ones((2, 50), np.float32)),
        lambda: resampling.resample(ROWS, np.zeros((2, 50)), np.ones((2, 50), np.float32)),
        lambda: resampling.resample(ROWS, np.zeros((2, 50), np.int64), np.ones((2, 9), np.float32)),
        lambda: resampling.back(ROWS, 30, np.full((2, 300), 30), np.ones((2, 300), np.float32)),
        lambda: resampling.back(ROWS, 30, np.zeros((2, 301), np.int64), np.ones((2, 301), np.float32)),
        lambda: distances.distances(PAIRS, PAIRS[..., :4]),
        lambda: distances.distances(PAIRS, PAIRS.astype(np.float64)),
        lambda: distances.weighted_differences(np.ones((1, 30, 3), np.float32), PAIRS, PAIRS),
        lambda: gathering.gather(ROWS, np.zeros((4, 2, 6), np.int64)),
        lambda: gathering.gather(ROWS, np.zeros((4, 2, 5), np.int32)),
        lambda: gathering.scatter(ROWS, np.zeros((4, 2, 5), np.int64), 7),
        lambda: selection.leading(ROWS[0], 6, True),
        lambda: selection.leading(ROWS[0], -1, True),
    ],
)
def test_arrays_that_do_not_go_together_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        call()


def test_shapes_of_any_rank_broadcast() -> None:
    assert broadcast_shapes() == ()
    assert broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    assert broadcast_shapes((0, 1), (1, 5)) == (0, 5)
    assert broadcast_shapes((1,) * 64, (2,)) == (*(1,) * 63, 2)
    with pytest.raises(ValueError, match="could not be broadcast"):
        broadcast_shapes((3,), (4,))
