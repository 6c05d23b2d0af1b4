"""Samples and references of `ops/fft/frequencies.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, samples_of_shapes, strided_matrix
from ..table import declare


def _samples() -> Any:
    yield from samples_of_shapes(((3, 4),), ((5, 2), 0), ((2, 3, 5), (0, -1)), ((0, 3),))()
    yield sample(strided_matrix(), 1)
    yield sample(between(-2, 2, 5))


declare("fftshift", np.fft.fftshift, _samples)
declare("ifftshift", np.fft.ifftshift, _samples)
