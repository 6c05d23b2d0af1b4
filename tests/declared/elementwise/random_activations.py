"""Samples and references of `ops/elementwise/random_activations.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, arrays_like, between, sample
from ..table import declare


def _slope_samples() -> Iterator[Sample]:
    for each in arrays_like(-2, 2.3):
        yield sample(each)
    yield sample(between(-2, 2.3, 3, 4), 0.1, 0.5)
    yield sample(between(-2, 2.3, 3, 4), 0.25, 0.25, True)


def _slope_reference(input: np.ndarray, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """Apply a fixed slope: the samples fix it, and a separate test checks the distribution of random slopes."""
    return np.where(input > 0, input, input * (lower + upper) / 2)


declare("rrelu", _slope_reference, _slope_samples)
