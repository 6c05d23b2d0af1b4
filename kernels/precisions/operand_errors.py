"""The error of operands with a scale (`scaling`), on average over normal numbers."""

from __future__ import annotations

import functools
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from .elements import ELEMENTS, round_to_format

if TYPE_CHECKING:
    from .products import Scale

_TENSOR, _BLOCKS, _NUMBERS = 1 << 16, 64, 2048


@functools.cache
def error_moments(scale: Scale, operand: str, rounding: str = "rne") -> tuple[float, float]:
    """The means of d**2 and of x * d, for the error d of a standard normal number x as an operand with a scale.

    Over the distribution of the largest of a block, and below that of the other numbers, at equal steps of probability.
    A tensor counts as 2**16 numbers, since its scale depends on their largest.
    """
    quantile = np.vectorize(NormalDist().inv_cdf)
    count = scale.block or _TENSOR

    def largest_of(many: int, steps: int) -> np.ndarray:
        """Largest magnitudes of so many numbers."""
        return quantile((1 + ((np.arange(steps) + 0.5) / steps) ** (1 / many)) / 2)

    largest = largest_of(count, _BLOCKS)[:, None]
    below = 2 * np.vectorize(NormalDist().cdf)(largest) - 1  # the share of normal numbers below the largest
    shares = (np.arange(_NUMBERS) + 0.5) / _NUMBERS
    others = quantile((1 + below * shares) / 2)
    scales = _scales(largest, scale, ELEMENTS[operand].greatest, float(largest_of(_TENSOR, 1)[0]))
    moments = []
    for x in (largest, others):
        low, high = (_divide(x, scales, operand, rounding, up) for up in (False, True))
        alike = low == high  # to nearest, and where stochastic rounding has no choice
        square, mean = np.where(alike, (high - x) ** 2, (x - low) * (high - x)), np.where(alike, high - x, 0.0)
        moments.append(np.array([np.mean(square), np.mean(x * mean)]))
    square, along = (moments[0] + (count - 1) * moments[1]) / count
    return float(square), float(along)


def _scales(largest: np.ndarray, scale: Scale, greatest: float, of_tensor: float) -> np.ndarray:
    """By what blocks with these largest magnitudes are divided, in a tensor with that largest one."""
    if scale.format == "e8m0":
        return np.exp2(np.floor(np.log2(largest)) - np.floor(np.log2(greatest)))
    if not scale.block:
        return largest / greatest
    tensor = of_tensor / (448 * greatest)
    return round_to_format(largest / (greatest * tensor), "e4m3") * tensor


def _divide(x: np.ndarray, scales: np.ndarray, form: str, rounding: str, up: bool) -> np.ndarray:
    """x rounded to a format with scales, stochastic rounding always down or always up."""
    uniform = np.full(x.shape, -1.0 if up else 2.0)
    rounded = round_to_format(x / scales, form, "stochastic" if rounding == "stochastic" else "rne", uniform)
    return np.minimum(rounded, ELEMENTS[form].greatest) * scales
