"""Samples and references of `ops/derived_methods.py`."""

from __future__ import annotations

import numpy as np

from minitorch_backends.ops.derived_methods import _pad_rows

from .samples import sample, samples_of_shapes
from .table import declare

declare(
    "nonzero_static",
    lambda input, *, size, fill_value=-1: _pad_rows(np.argwhere(input), size, fill_value),
    lambda: (
        sample(array, size=size)
        for array, size in ((np.eye(3)[:2], 1), (np.eye(3), 5), (np.zeros((0, 2)), 2), (np.array(2.0), 2))
    ),
)
declare(
    "narrow_copy",
    lambda input, dim, start, length: input.take(range(start, start + length), dim),
    samples_of_shapes(((3, 4), 1, 1, 2), ((3, 4), 0, 2, 0), ((0, 3), 1, 0, 2)),
)
