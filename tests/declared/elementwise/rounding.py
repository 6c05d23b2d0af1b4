"""Samples and references of `ops/elementwise/rounding.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minitorch_backends.kernels.precisions.elements import find_element

from ..samples import Sample, arrays_like, between, pairs, sample, unary_samples
from ..table import declare

declare("ceil", np.ceil, unary_samples(-2.3, 2))
declare("floor", np.floor, unary_samples(-2.3, 2))
declare("trunc", np.trunc, unary_samples(-2.3, 2))


def _round_samples() -> Iterator[Sample]:
    yield from unary_samples(-2.3, 2)()
    yield sample(np.array([-2.5, -1.5, 0.5, 1.5]) + 1e-3)


declare("round", np.round, _round_samples)
declare("frac", lambda input: np.modf(input)[0], unary_samples(-2.3, 2))
declare("sign", lambda input: np.sign(input.astype(np.float64)), unary_samples(-2.3, 2))
declare("signbit", lambda input: input < 0, unary_samples(-2.3, 2))


def _unusual_samples() -> Iterator[Sample]:
    for array in arrays_like(-2.3, 2):
        yield sample(array, posinf=3.0, neginf=-3.0)
    yield sample(np.array([[np.inf, -np.inf, np.nan], [0.0, -1.0, 2.0]]), 1.5, 3.0, -4.0)


declare(
    "nan_to_num",
    lambda input, nan=0.0, posinf=None, neginf=None: np.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf),
    _unusual_samples,
)
declare("nextafter", np.nextafter, pairs(-2, 2, -2.2, 1.7, numbers=False))


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
