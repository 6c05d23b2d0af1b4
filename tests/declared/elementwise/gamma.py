"""Samples and references of `ops/elementwise/gamma.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch_backends.ops.elementwise.gamma import _arguments

from ..samples import between, pairs, sample, strided_matrix
from ..table import declare


def _lower_reference(input: Any, other: Any) -> np.ndarray:
    """Sum 200 terms of the series."""
    a, x = (np.asarray(each, np.float64) for each in np.broadcast_arrays(input, other))
    term = total = 1 / a
    for k in range(1, 200):
        term = term * x / (a + k)
        total = total + term
    gamma = np.vectorize(math.gamma, [np.float64])(a) if a.size else a
    return total * np.exp(-x) * x**a / gamma


declare("igamma", _lower_reference, pairs(0.3, 5, 0.2, 6, numbers=False))
declare("igammac", lambda input, other: 1 - _lower_reference(input, other), pairs(0.3, 5, 0.2, 6, numbers=False))


def _quantile_reference(input: Any, p: Any) -> np.ndarray:
    """By bisection of the lower incomplete gamma function."""
    low, high = np.zeros(np.broadcast_shapes(np.shape(input), np.shape(p))), np.asarray(40.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = _lower_reference(input, middle) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(low)


declare("gamma_quantile", _quantile_reference, pairs(0.6, 5, 0.1, 0.9, numbers=False))
declare(
    "mvlgamma",
    lambda input, p: (
        sum(np.vectorize(math.lgamma, [np.float64])(each) if each.size else each for each in _arguments(input, p))
        + p * (p - 1) / 4 * math.log(math.pi)
    ),
    lambda: (
        sample(array, p)
        for array, p in (
            (between(1.2, 4, 3, 4), 3),
            (strided_matrix() + 3.7, 2),
            (between(0.3, 4), 1),
            (between(1, 2, 0, 3), 2),
        )
    ),
)


def _zeta_reference(input: Any, other: Any) -> np.ndarray:
    """Sum 40 terms of the series, and the others by the Euler-Maclaurin formula."""
    x, q = np.asarray(input, np.float64), np.asarray(other, np.float64)
    far = q + 40
    return (
        np.sum([(q + k) ** -x for k in range(40)], axis=0)
        + far ** (1 - x) / (x - 1)
        + far**-x / 2
        + x * far ** (-x - 1) / 12
        - x * (x + 1) * (x + 2) * far ** (-x - 3) / 720
    )


declare("zeta", _zeta_reference, pairs(1.3, 4, 0.4, 5))
