"""Products of operands that are scaled, rounded to few bits, and multiplied exactly: FP8, the MX formats, and NVFP4.

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

Where K lies in the operands of each kernel is in `ALONG`. Blocks do not cross the groups of a convolution. They follow
K in all products but two: a convolution's K is channels and taps, and blocks are of neighbouring channels at one place,
shorter where a group has fewer of them. The K of its weight gradient is images and places; there both operands have
blocks of neighbouring places of one image, each its own. So an operand is rounded once, as on a device, and not
for each window that it is in.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import invariance
from .context import restore_on_failure
from .formats import RangeCounts, round_to_format
from .precision import OPERANDS, Scale, find_precision, is_scaled
from .registry import ArraySpec, Kernel, without_observers

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

    scale, form = _scale_of(precision), OPERANDS[find_precision(precision).operand]
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


def _scale_of(precision: str) -> Scale:
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
    block, greatest = _scale_of(precision).block, OPERANDS[find_precision(precision).operand].greatest
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
    magnitudes = np.abs(x)
    largest = magnitudes.max(where=np.isfinite(magnitudes), initial=0)
    limit = np.float32(greatest * (448.0 if scale.block else 1.0))
    return np.maximum(largest / limit, np.finfo(np.float32).tiny) if largest else np.float32(1)


class _Operand(NamedTuple):
    """Where K lies in an operand: an axis; each of its groups has its own blocks."""

    axis: int
    in_groups: bool = False
    places: bool = False
    """Whether K is all spatial dimensions, from `axis` on."""


_A, _B = _Operand(-1), _Operand(-2)
_CHANNELS = _Operand(1, in_groups=True)
_PLACES = _Operand(2, places=True)

ALONG = {
    "matmul": (_A, _B),
    "addmm": (_A, _B),
    "linear": (_A, _B),
    "conv": (_CHANNELS, _Operand(1)),
    "conv_input_gradient": (_CHANNELS, _Operand(0, in_groups=True)),
    "conv_weight_gradient": (_PLACES, _PLACES),
    "attention": (_A, _A, _B),
}
"""Where K lies in the operands of each kernel, in their order. Recurrences and linear algebra multiply by `matmul`."""


def _operands(kernel: str, arrays: tuple, precision: str, rounding: str | None, groups: int) -> list[Scaled]:
    """The operands of a call, scaled and rounded; `groups` are those of a convolution."""
    found = []
    for x, where in zip(arrays, ALONG.get(kernel, ()), strict=False):
        x = getattr(x, "array", x)
        lines = x.reshape(*x.shape[: where.axis], math.prod(x.shape[where.axis :])) if where.places else x
        done = scale_operand(lines, precision, where.axis, groups if where.in_groups else 1, rounding)
        if lines is not x:
            values = np.empty_like(x)
            values[...] = done.values.reshape(x.shape)
            done = done._replace(values=values)
        found.append(done)
    return found


def counts(kernel: str, arrays: tuple, keywords: Mapping[str, Any]) -> list[RangeCounts]:
    """The effect of a call's precision, rounding to nearest, on the range of each operand: the number of values that
    saturate, vanish, or become subnormal. Empty for kernels that delegate their products."""
    whole = tuple(getattr(x, "array", x) for x in arrays)
    if whole[0].dtype == np.complex64:
        parts = (counts(kernel, tuple(getattr(x, part) for x in whole), keywords) for part in ("real", "imag"))
        return [real + imaginary for real, imaginary in zip(*parts, strict=True)]
    if whole[0].dtype != np.float32:
        return []
    return [each.counts for each in _operands(kernel, whole, keywords["precision"], None, keywords.get("groups", 1))]


def refuses(*specs: ArraySpec, precision: str = "ieee", **_: Any) -> str | None:
    """Why operands are not scaled."""
    if not is_scaled(precision):
        return f"scales operands, which {precision} does not"
    if specs[0].dtype != np.float32:
        return f"scales float32 arrays, not {specs[0].dtype}"
    if invariance.current_demand().batch and _scale_of(precision).of_tensor:
        return f"{precision} scales by the largest magnitude of all rows, and backends.invariant has 'batch'"
    return None


def implementation(kernel: Kernel) -> Callable[..., np.ndarray]:
    """The task of a kernel with scaled operands, by its other implementations; of a convolution with its bias."""

    @restore_on_failure
    def run(*arrays: Any, precision: str, rounding: str | None = None, **keywords: Any) -> np.ndarray:
        groups, unit = keywords.get("groups", 1), keywords.get("unit")
        if unit is not None and not _scale_of(precision).of_tensor:
            return _by_unit(*arrays[:2], precision, rounding, unit)
        a, b = _operands(kernel.name, arrays[:2], precision, rounding, groups)
        factor = a.factor * b.factor
        later = arrays[2:] if factor == 1 else ()
        relu = factor != 1 and keywords.pop("relu", False)
        exact = "bf16" if a.fits_bf16 and b.fits_bf16 else "ieee"
        with without_observers():
            result = kernel(a.values, b.values, *later, precision=exact, **keywords)
        if factor == 1:
            return result
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            np.multiply(result, np.float64(factor), out=result, casting="same_kind")
        for bias in arrays[2:]:
            result += bias.reshape(-1, *(1,) * (result.ndim - 2))
        return np.maximum(result, 0, out=result) if relu else result

    return run


def _by_unit(a: np.ndarray, b: np.ndarray, precision: str, rounding: str | None, unit: Any) -> np.ndarray:
    """The product of matrices in blocks by a unit that applies their scales itself."""
    from .gemm import device

    scales = block_powers(a, precision, -1), block_powers(b, precision, -2)
    operands = _operands("matmul", (a, b), precision, rounding, 1)
    numbers = [(each.values / power).astype(np.float32) for each, power in zip(operands, scales, strict=True)]
    return device.matmul(*numbers, unit=unit, scales=scales)


# The error of operands

_TENSOR, _BLOCKS, _NUMBERS = 1 << 16, 64, 2048


@functools.cache
def error_moments(precision: str, rounding: str = "rne") -> tuple[float, float]:
    """The means of d**2 and of x * d, for the error d of a standard normal number x as an operand of a precision.

    Over the distribution of the largest of a block, and below that of the other numbers, at equal steps of probability.
    A tensor counts as 2**16 numbers, since its scale depends on their largest.
    """
    from statistics import NormalDist

    scale, operand = _scale_of(precision), find_precision(precision).operand
    quantile = np.vectorize(NormalDist().inv_cdf)
    count = scale.block or _TENSOR

    def largest_of(many: int, steps: int) -> np.ndarray:
        """Largest magnitudes of so many numbers."""
        return quantile((1 + ((np.arange(steps) + 0.5) / steps) ** (1 / many)) / 2)

    largest = largest_of(count, _BLOCKS)[:, None]
    below = 2 * np.vectorize(NormalDist().cdf)(largest) - 1  # the share of normal numbers below the largest
    shares = (np.arange(_NUMBERS) + 0.5) / _NUMBERS
    others = quantile((1 + below * shares) / 2)
    scales = _scales(largest, scale, OPERANDS[operand].greatest, float(largest_of(_TENSOR, 1)[0]))
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
    return np.minimum(rounded, OPERANDS[form].greatest) * scales
