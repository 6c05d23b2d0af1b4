"""Samples and references of `ops/elementwise/special.py`."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np

from ..samples import between, pairs, sample, strided_matrix, unary_samples
from ..table import declare


def _elementwise(function: Any) -> Any:
    """A function of one float from the standard library as a reference on arrays."""
    return lambda input: (
        np.vectorize(function, otypes=[np.float64])(input) if np.size(input) else np.array(input, np.float64)
    )


declare("erf", _elementwise(math.erf))
declare("erfc", _elementwise(math.erfc))


def _erfinv_reference(input: np.ndarray) -> np.ndarray:
    """By bisection of erf."""
    low, high = np.full(np.shape(input), -6.0), np.full(np.shape(input), 6.0)
    for _ in range(100):
        middle = (low + high) / 2
        below = _elementwise(math.erf)(middle) < input
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(np.abs(input) < 1, low, np.where(np.abs(input) > 1, np.nan, np.copysign(np.inf, input)))


declare("erfinv", _erfinv_reference, unary_samples(-0.9, 0.8))
declare("erfcx", lambda input: np.exp(input * input) * _elementwise(math.erfc)(input))


def _ndtr_reference(input: np.ndarray) -> np.ndarray:
    return _elementwise(math.erfc)(-input / math.sqrt(2)) / 2


declare("ndtr", _ndtr_reference, unary_samples(-4, 4))
declare("log_ndtr", lambda input: np.log(_ndtr_reference(input)), unary_samples(-4, 4))


def _quantile(p: float) -> float:
    if 0 < p < 1:
        return statistics.NormalDist().inv_cdf(p)
    return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)


declare("ndtri", _elementwise(_quantile), unary_samples(0.02, 0.97))
declare("lgamma", _elementwise(math.lgamma), unary_samples(0.3, 4))


def _polygamma_reference(n: int, input: Any) -> np.ndarray:
    """By 40 terms of its series, and Euler and Maclaurin's formula for the others."""
    x = np.asarray(input, np.float64)
    terms = np.sum([(x + k) ** -(n + 1.0) for k in range(40)], axis=0)
    far = x + 40
    rest = (
        far**-n / n
        + far ** -(n + 1.0) / 2
        + (n + 1) * far ** -(n + 2.0) / 12
        - (n + 1) * (n + 2) * (n + 3) * far ** -(n + 4.0) / 720
    )
    return (-1) ** (n + 1) * math.factorial(n) * (terms + rest)


def _digamma_reference(input: Any) -> np.ndarray:
    """By its recurrence, up to where its asymptotic series is exact."""
    x = np.asarray(input, np.float64)
    far = x + 40
    return (
        np.log(far)
        - 1 / (2 * far)
        - far**-2.0 / 12
        + far**-4.0 / 120
        - far**-6.0 / 252
        - np.sum([1 / (x + k) for k in range(40)], axis=0)
    )


declare("digamma", _digamma_reference, unary_samples(0.3, 4))
declare(
    "polygamma",
    _polygamma_reference,
    lambda: (
        sample(n, array)
        for n in (1, 2)
        for array in (between(0.3, 4, 3, 4), strided_matrix() + 3, between(0.3, 4), between(0.3, 4, 0, 3))
    ),
)
declare("copysign", np.copysign, pairs(0.2, 2, -2, 2.3))
declare(
    "heaviside",
    np.heaviside,
    lambda: iter(
        [
            sample(between(-2, 2, 3, 4), between(-2, 2, 4)),
            sample(np.array([[-1.0, 0.0], [0.0, 2.0]]), between(-2, 2, 2)),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, between(-2, 2)),
            sample(between(-2, 2), between(-2, 2)),
            sample(between(-2, 2, 0, 3), between(-2, 2, 3)),
        ]
    ),
)


def _logit_reference(input: np.ndarray, eps: float | None = None) -> np.ndarray:
    p = input if eps is None else np.clip(input, eps, 1 - eps)
    return np.log(p / (1 - p))


declare(
    "logit",
    _logit_reference,
    lambda: iter(
        [
            sample(between(0.1, 0.9, 3, 4)),
            sample(between(0, 1, 4, 6)[::2, ::-2].T, 0.3),
            sample(between(0.1, 0.9)),
            sample(between(0, 1, 0, 3)),
        ]
    ),
)
declare("sinc", np.sinc)
declare("frexp", np.frexp, unary_samples(-2.3, 1.9))
declare(
    "ldexp",
    lambda input, other: input * 2.0**other,
    lambda: iter(
        [
            sample(between(-2, 2, 3, 4), np.array([1, 2, 0, 3])),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, np.array([[1], [2]]).repeat(3, 0)[:3]),
            sample(between(-2, 2), np.array(2)),
            sample(between(-2, 2, 0, 3), np.array([1, 2, 3])),
        ]
    ),
)
