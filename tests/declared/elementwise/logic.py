"""Samples and references of `ops/elementwise/logic.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..samples import Sample, arrays_like, between, sample, unary_samples
from ..table import declare


def _tensors() -> Iterator[Sample]:
    """Pairs with zeros in them; torch's logical functions take no numbers."""
    some = np.where(between(-1, 1, 3, 4) > 0, between(-2, 2, 3, 4), 0.0)
    yield sample(some, some[::-1])
    yield sample(some[:, :1], np.array([0.0, 1.5]))
    for array in arrays_like(-2, 2):
        yield sample(array, array)


def whole() -> Iterator[Sample]:
    """Pairs for ops of integers, in every layout."""
    for array in arrays_like(-9, 9):
        yield sample(array, array[..., ::-1] if array.ndim else array)
    yield sample(between(-9, 9, 3, 1), between(-9, 9, 4))


def _shifts() -> Iterator[Sample]:
    for array in arrays_like(1, 9):
        yield sample(array, np.asarray(array / 4))
    yield sample(between(1, 9, 3, 1), between(1, 3, 4))


declare("logical_and", np.logical_and, _tensors)
declare("logical_or", np.logical_or, _tensors)
declare("logical_xor", np.logical_xor, _tensors)
declare("logical_not", lambda input: input == 0, unary_samples())
declare("bitwise_and", np.bitwise_and, whole)
declare("bitwise_or", np.bitwise_or, whole)
declare("bitwise_xor", np.bitwise_xor, whole)
declare("bitwise_not", np.invert, unary_samples(-9, 9))
declare("bitwise_left_shift", np.left_shift, _shifts)
declare("bitwise_right_shift", np.right_shift, _shifts)
