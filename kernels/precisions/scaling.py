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

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .elements import ELEMENTS, RangeCounts
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
