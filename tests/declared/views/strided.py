"""Samples and references of `ops/views/strided.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minitorch_backends.ops.views.strided import Numbers

from ..samples import Sample, between, sample
from ..table import declare


def _window_samples() -> Iterator[Sample]:
    x = between(-2, 2, 3, 4)
    yield sample(x, (2, 3), (1, 4), 0)
    yield sample(x, (2, 2, 3), (4, 1, 1), 1)
    yield sample(x, (3, 2), (0, 5), 6)
    yield sample(x, (), (), 11)
    yield sample(x, (2, 0), (7, 100), 3)
    yield sample(between(-2, 2), (2,), (0,), 0)
    yield sample(between(-2, 2, 0, 3), (0,), (1,), 0)


def _window_reference(input: np.ndarray, size: Numbers, stride: Numbers, storage_offset: int = 0) -> np.ndarray:
    """Gather the window of a contiguous input element by element."""
    out = np.empty(size, input.dtype)
    for place in np.ndindex(*size):
        out[place] = input.reshape(-1)[storage_offset + sum(np.array(place, int) * np.array(stride, int))]
    return out


declare("strided_window", _window_reference, _window_samples)
declare("as_strided", _window_reference, _window_samples)
