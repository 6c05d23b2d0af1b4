"""Operands that are scaled and rounded to few bits: FP8, the MX formats, and NVFP4.

An operand is divided by a scale, rounded to the format of its precision, and multiplied by the scale again, in one pass
in front of the kernel. Its values then have at most 6 bits, which bf16 holds: the kernel's own bf16 products of them
are exact, and are summed in float32, or by the rule of a matrix unit. A float32 scale of the tensor is left out of the
values, and multiplies the result.

* e4m3, e5m2: the scale of the tensor is its largest magnitude divided by the format's, in float32, and normal.
* mxfp8, mxfp6, mxfp4 (OCP Microscaling Formats 1.0, 5.2 and 6.3): the scale of 32 neighbours along K is 2**(floor(log2
  of their largest magnitude) - the exponent of the format's greatest number), at least 2**-127. What lies beyond the
  greatest number becomes that.
* nvfp4: the scale of 16 neighbours is their largest magnitude divided by 6 and by the tensor's scale, in E4M3; the
  tensor's is its largest magnitude divided by 6 * 448.

Inf and NaN stay as they are, and scales are those of the other numbers. A unit with `scaled_blocks` is given rounded
numbers and the scales of blocks apart, and adds their exponents itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .elements import ELEMENTS, RangeCounts, round_to_format
from .products import Scale, find_precision

draw_seed: Callable[[], int] = lambda: 0  # noqa: E731  (`random` puts the default generator's here)
"""Below 2**32, for the stochastic rounding of one operand."""

_LEAST_OF_BF16 = 2.0**-133
"""The least number that bf16 holds."""


class Scaled(NamedTuple):
    """values: float32, in the memory order of the operand, to be multiplied by `factor`. fits_bf16: whether bf16 holds
    all of them."""

    values: np.ndarray
    factor: float
    counts: RangeCounts
    fits_bf16: bool


def scale_operand(
    x: np.ndarray, precision: str, axis: int = -1, groups: int = 1, rounding: str | None = None, seed: int | None = None
) -> Scaled:
    """A float32 array as an operand of a precision, with blocks along an axis, which has so many groups.

    `rounding` is "stochastic", with a seed below 2**32 or one of `draw_seed`'s, or any other for to nearest even.
    """
    from . import scaling_loops as loops

    scale, form = scale_of(precision), ELEMENTS[find_precision(precision).operand]
    axis %= max(x.ndim, 1)
    turned = not x.flags.c_contiguous and x.flags.f_contiguous
    source, along = (x.T, x.ndim - 1 - axis) if turned else (np.ascontiguousarray(x), axis)
    shape = source.shape
    k = shape[along] // groups
    outer, columns = math.prod(shape[:along]) * groups, math.prod(shape[along + 1 :])
    run, sizes = (loops.round_rows, (outer, k)) if columns == 1 else (loops.round_columns, (outer, k, columns))
    out = np.empty(sizes, np.float32)
    kind = {"fp32": loops.TENSOR, "e8m0": loops.E8M0, "e4m3": loops.E4M3}[scale.format]
    tensor = tensor_scale(x, scale, form.greatest)
    stochastic = rounding == "stochastic"
    seed = draw_seed() if stochastic and seed is None else seed or 0
    numbers = np.int32(form.significand), np.int32(form.least), np.float32(form.greatest), np.float32(2.0**form.least)
    emax = np.int32(np.frexp(form.greatest)[1] - 1)
    saturated, vanished, subnormal, lowest = run(
        source.reshape(sizes), out, scale.block or max(k, 1), kind, tensor, numbers, emax, stochastic, np.uint32(seed)
    )
    values = out.reshape(shape).T if turned else _laid_out_as(x, out.reshape(shape))
    found = RangeCounts(0, saturated, vanished, subnormal, x.size)
    fits = lowest * 2.0 ** (form.least + 1 - form.significand) >= _LEAST_OF_BF16
    return Scaled(values, float(tensor), found, fits)


def scale_of(precision: str) -> Scale:
    scale = find_precision(precision).scale
    assert scale is not None, "an internal error: a precision that does not scale"
    return scale


def _laid_out_as(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values in C order, or a copy in the memory order of x."""
    if x.flags.c_contiguous:
        return values
    out = np.empty_like(x)
    out[...] = values
    return out


def block_powers(x: np.ndarray, precision: str, axis: int) -> np.ndarray:
    """The scale of each number, where those of blocks along an axis are powers of two: float64, of x's shape."""
    block, greatest = scale_of(precision).block, ELEMENTS[find_precision(precision).operand].greatest
    lines = np.abs(np.moveaxis(np.where(np.isfinite(x), x, 0), axis, -1))
    k = lines.shape[-1]
    blocks = np.pad(lines, [(0, 0)] * (x.ndim - 1) + [(0, -k % block)]).reshape(
        *lines.shape[:-1], -(-k // block), block
    )
    largest = blocks.max(-1, initial=0)
    exponents = np.where(largest > 0, np.frexp(largest)[1] - np.frexp(greatest)[1], -127)
    powers = np.exp2(np.maximum(exponents, -127).astype(np.float64))
    return np.moveaxis(np.repeat(powers, block, -1)[..., :k], -1, axis)


def tensor_scale(x: np.ndarray, scale: Scale, greatest: float) -> np.float32:
    """The scale of a tensor."""
    if not scale.of_tensor or not x.size:
        return np.float32(1)
    largest = max(x.max(), -x.min())
    if not np.isfinite(largest):
        largest = np.abs(x[np.isfinite(x)]).max(initial=0)
    limit = np.float32(greatest * (448.0 if scale.block else 1.0))
    return np.maximum(largest / limit, np.finfo(np.float32).tiny) if largest else np.float32(1)


# The error of operands

_TENSOR, _BLOCKS, _NUMBERS = 1 << 16, 64, 2048


@functools.cache
def error_moments(precision: str, rounding: str = "rne") -> tuple[float, float]:
    """The means of d**2 and of x * d, for the error d of a standard normal number x as an operand of a precision.

    Over the distribution of the largest of a block, and below that of the other numbers, at equal steps of probability.
    A tensor counts as 2**16 numbers, since its scale depends on their largest.
    """
    from statistics import NormalDist

    scale, operand = scale_of(precision), find_precision(precision).operand
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
