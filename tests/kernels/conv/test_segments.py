"""Positions of convolutions on vector units as blocks of rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.conv.geometry import Task, forward_geometry, gradient_geometry, result_indices
from minitorch_backends.kernels.conv.segments import blocks_of

sizes = st.integers(1, 17)


@settings(max_examples=60, deadline=None)
@given(
    images=st.integers(1, 9),
    size=st.tuples(st.integers(1, 2), sizes, sizes),
    stride=st.integers(1, 2),
    of=st.sampled_from([(7, 2), (3, 4)]),
    gradient=st.booleans(),
)
def test_every_position_is_in_one_block(images, size, stride, of, gradient) -> None:
    """Blocks hold each position of a result once, at the place that their segments begin with, and no other."""
    task = Task(images, size, (1, 3, 3), (1, stride, stride), (0, 1, 1), (1, 1, 1))
    where = gradient_geometry(task, 0) if gradient else forward_geometry(task, 0, 0)
    length, segments = of
    for one in where.passes:
        if not one.taps:
            continue
        blocks = blocks_of(where, one, length, segments)
        assert images % blocks.images == 0
        assert blocks.count == images // blocks.images * len(blocks.starts)
        there = [index >= 0 for index in result_indices(where, one)]
        grid = np.zeros(where.image, bool)
        cells = there[0][:, None, None] & there[1][:, None] & there[2]
        grid[: cells.size] = cells.ravel()
        wanted = np.flatnonzero(np.tile(grid, blocks.images))
        assert sorted(blocks.lanes[blocks.lanes >= 0]) == wanted.tolist()
        lanes = blocks.lanes[:, : length * segments].reshape(-1, segments, length)
        expected = blocks.starts[:, :, None] + np.arange(length)
        assert ((lanes == expected) | (lanes < 0)).all()
        assert (blocks.lanes[:, length * segments :] < 0).all()
        assert (np.diff(blocks.begins(where.image)) > 0).all()
