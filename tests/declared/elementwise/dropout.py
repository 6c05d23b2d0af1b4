"""Samples and references of `ops/elementwise/dropout.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..samples import Sample, arrays_like, between, sample
from ..table import declare


def _samples() -> Iterator[Sample]:
    for each in arrays_like(-2, 2):
        yield sample(each, 0.3, training=False)
    yield sample(arrays_like(-2, 2)[0], 0.0)
    yield sample(arrays_like(-2, 2)[0], 1.0)


def _image_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        shape = (2, 3, *(2, 4, 3)[:dims])
        for p, training in ((0.3, False), (0.0, True), (1.0, True)):
            yield sample(between(-2, 2, *shape), p, training=training)
            yield sample(between(-2, 2, *shape[::-1]).T, p, training=training)
        yield sample(between(-2, 2, 0, *shape[1:]), 1.0)

    return samples


def _reference(input: np.ndarray, p: float = 0.5, training: bool = True) -> np.ndarray:
    """The reference for the samples, which are deterministic; a separate test checks the distribution."""
    return np.zeros_like(input) if training and p == 1 else input


declare("dropout", _reference, _samples)
declare("dropout1d", _reference, _image_samples(1))
declare("dropout2d", _reference, _image_samples(2))
declare("dropout3d", _reference, _image_samples(3))


def _alpha_reference(input: np.ndarray, p: float = 0.5, training: bool = False) -> np.ndarray:
    return _reference(input, p, training)


declare("alpha_dropout", _alpha_reference, _samples)


def _feature_samples() -> Iterator[Sample]:
    yield from _image_samples(2)()
    yield sample(between(-2, 2), 0.3, training=False)


declare("feature_alpha_dropout", _alpha_reference, _feature_samples)
