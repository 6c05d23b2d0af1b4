"""Rounding to floating-point formats with fewer bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...dispatch.samples import Sample, arrays_like, between, sample
from ...kernels.formats import ROUNDINGS, format_named, round_to_format
from ...random import Generator
from ..creation.sampling import chosen
from ..gradients import zero

__all__ = ["round_to"]

_GRADIENTS = ("straight_through", "zero")


def _samples() -> Iterator[Sample]:
    """Values off the ties, with the gradient that differences show; a test of its own has the other one."""
    x = between(-3, 3, 3, 4)
    for each in arrays_like(-2.9, 3.1):
        yield sample(each, "e4m3", gradient="zero")
    yield sample(x[::2, ::-1].T, "e2m1", "rz", gradient="zero")
    yield sample(x, "fp16", "rna", gradient="zero")


def _reference(input: np.ndarray, format: str, rounding: str = "rne", gradient: str = "zero") -> np.ndarray:
    """Round multiples of the unit in the last place, in float64, where nothing overflows to Inf."""
    form = format_named(format)
    exponent = np.maximum(np.floor(np.log2(np.abs(input))), form.least_exponent)
    unit = 2.0 ** (exponent + 1 - form.significand)
    scaled = input / unit
    away = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
    whole = {"rne": np.round(scaled), "rna": away, "rz": np.trunc(scaled)}[rounding]
    return np.clip(whole * unit, -form.largest, form.largest)


def _gradient(g: Any, gradient: str) -> Any:
    return g if gradient == "straight_through" else zero(g)


@op(takes="f", method=False, input=_gradient, reference=_reference, samples=_samples)
def round_to(
    input: Array,
    format: str,
    rounding: str = "rne",
    *,
    gradient: str = "straight_through",
    generator: Generator | None = None,
) -> np.ndarray:
    """`input`, in its own type, with each value rounded to a floating-point format. Nothing leaves this op out.

    Arguments:
        format: "fp32", "tf32", "bf16", "fp16", "e5m2", "e4m3", "e3m2", "e2m3" or "e2m1". Greater magnitudes than the
            format's largest become Inf, or that number in the last four, which have no Inf.
        rounding: "rne", to nearest with ties to even; "rna", with ties away from zero; "rz", toward zero, which gives
            no Inf; "stochastic", to either neighbour with a probability that makes the expected value `input`.
        gradient: "straight_through" passes gradients on as if nothing were rounded (Bengio et al., arXiv 1308.3432);
            "zero" is the derivative almost everywhere.
        generator: of stochastic rounding; None draws from the default one.

    Raises ValueError for names that do not exist.
    """
    if rounding not in ROUNDINGS:
        raise ValueError(f"round_to(): rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    if gradient not in _GRADIENTS:
        raise ValueError(f"round_to(): gradient must be one of {', '.join(_GRADIENTS)}, got {gradient!r}")
    uniform = None
    if rounding == "stochastic":
        uniform = chosen(generator).uniform(input.shape, input.dtype)
    return round_to_format(input, format, rounding, uniform)
