"""Samples and references of `ops/indexing/fill.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, strided_matrix
from ..table import declare


def _copy_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3, 4))
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 4))
    yield sample(strided_matrix(), strided_matrix()[::-1])
    yield sample(between(-2, 2), between(-3, 3))
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 3))


declare("copy", lambda input, src, non_blocking=False: np.zeros(input.shape) + src, _copy_samples)


def _fill_samples() -> Any:
    for array in (between(-2, 2, 3, 4), strided_matrix(), between(-2, 2), between(-2, 2, 0, 3)):
        yield sample(array, 0.1)
    yield sample(between(-2, 2, 3, 4), between(-3, 3))


declare("fill", lambda input, value: np.full(input.shape, value, input.dtype), _fill_samples)


def _masked_samples() -> Any:
    a = between(-2, 2, 3, 4)
    yield sample(a, a > 0.5, 0.1)
    yield sample(a, a > 0.5, between(-3, 3))
    yield sample(a, a[0] > 0, -2)
    yield sample(a[0], a > 0, 0.5)
    yield sample(strided_matrix(), strided_matrix() > 0, 1)
    yield sample(between(-2, 2), np.array(True), 1)
    yield sample(between(-2, 2, 0, 3), np.zeros((0, 3), bool), 1)


declare(
    "masked_fill", lambda input, mask, value: np.where(mask, np.asarray(value, input.dtype), input), _masked_samples
)
