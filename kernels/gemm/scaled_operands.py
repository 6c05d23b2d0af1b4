"""Products of operands that are scaled, rounded to few bits, and multiplied exactly: an implementation of each kernel.

Where K lies in the operands of each kernel is in `ALONG`. Blocks do not cross the groups of a convolution. They follow
K in all products but two: a convolution's K is channels and taps, and blocks are of neighbouring channels at one place,
shorter where a group has fewer of them. The K of its weight gradient is images and places; there both operands have
blocks of neighbouring places of one image, each its own. So an operand is rounded once, as on a device, and not
for each window that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..precisions.elements import RangeCounts
from ..precisions.products import is_scaled
from ..precisions.scaling import Scaled, block_powers, scale_of, scale_operand
from ..registry import ArraySpec, Kernel, without_observers
from ..runtime import invariance
from ..runtime.context import restore_on_failure


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
    "matmul": (_A, _B), "addmm": (_A, _B), "linear": (_A, _B), "conv": (_CHANNELS, _Operand(1)),
    "conv_input_gradient": (_CHANNELS, _Operand(0, in_groups=True)), "conv_weight_gradient": (_PLACES, _PLACES),
    "attention": (_A, _A, _B),
}  # fmt: skip
"""Where K lies in the operands of each kernel, in their order. Recurrences and linear algebra multiply by `matmul`."""


def _operands(kernel: str, arrays: tuple, precision: str, rounding: str | None, groups: int) -> list[Scaled]:
    """The operands of a call, scaled and rounded; `groups` are those of a convolution, whose `Kept` weight stores the
    result, in one of the same type, among its forms."""
    found = []
    for each, where in zip(arrays, ALONG.get(kernel, ()), strict=False):
        forms = None if rounding == "stochastic" else getattr(each, "forms", None)
        key = precision, groups
        if forms is not None and key in forms:
            found.append(forms[key])
            continue
        x = getattr(each, "array", each)
        lines = x.reshape(*x.shape[: where.axis], math.prod(x.shape[where.axis :])) if where.places else x
        done = scale_operand(lines, precision, where.axis, groups if where.in_groups else 1, rounding)
        if lines is not x:
            values = np.empty_like(x)
            values[...] = done.values.reshape(x.shape)
            done = done._replace(values=values)
        if forms is not None:
            done = forms[key] = done._replace(values=type(each)(done.values))
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
    if invariance.current_demand().batch and scale_of(precision).of_tensor:
        return f"{precision} scales by the largest magnitude of all rows, and backends.invariant has 'batch'"
    return None


def implementation(kernel: Kernel) -> Callable[..., np.ndarray]:
    """The task of a kernel with scaled operands, by its other implementations; of a convolution with its bias."""

    @restore_on_failure
    def run(*arrays: Any, precision: str, rounding: str | None = None, **keywords: Any) -> np.ndarray:
        groups, unit = keywords.get("groups", 1), keywords.get("unit")
        if unit is not None and not scale_of(precision).of_tensor:
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
    from . import device

    scales = block_powers(a, precision, -1), block_powers(b, precision, -2)
    operands = _operands("matmul", (a, b), precision, rounding, 1)
    numbers = [(each.values / power).astype(np.float32) for each, power in zip(operands, scales, strict=True)]
    return device.matmul(*numbers, unit=unit, scales=scales)
