"""Samples and references of `ops/elementwise/formats.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minitorch_backends.kernels.precisions.elements import find_element

from ..samples import Sample, arrays_like, between, sample
from ..table import declare


def _samples() -> Iterator[Sample]:
    """Values off the ties, with the gradient that differences show; a test of its own has the other one."""
    x = between(-3, 3, 3, 4)
    for each in arrays_like(-2.9, 3.1):
        yield sample(each, "e4m3", gradient="zero")
    yield sample(x[::2, ::-1].T, "e2m1", "rz", gradient="zero")
    yield sample(x, "fp16", "rna", gradient="zero")


def _reference(input: np.ndarray, format: str, rounding: str = "rne", gradient: str = "zero") -> np.ndarray:
    """Round multiples of the unit in the last place, in float64, where nothing overflows to Inf."""
    form = find_element(format)
    exponent = np.maximum(np.floor(np.log2(np.abs(input))), form.least)
    unit = 2.0 ** (exponent + 1 - form.significand)
    scaled = input / unit
    away = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
    whole = {"rne": np.round(scaled), "rna": away, "rz": np.trunc(scaled)}[rounding]
    return np.clip(whole * unit, -form.greatest, form.greatest)


declare("round_to", _reference, _samples)
