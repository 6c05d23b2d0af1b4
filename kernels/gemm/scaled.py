"""Products of half and 8-bit operands with float32 results, and scales of tensors, rows or blocks along K.

Call form: `scaled_matmul(a, b, *scales, block=0, inside=False, unit=None, fast=False)`, where a is (..., m, k) and b
(..., k, n), float16, bfloat16, or any 8-bit formats; or float32 arrays with at most 8 significant bits. The result is
float32. Products are exact, and sums are those of float32 products of such values, or of the unit.

`scales` are scale_a (m or 1, parts) and scale_b (parts, n or 1), float32, for parts of `block` places of k (0: all):

* by default the sum of each part is multiplied by its scales, and the parts are added in ascending order;
* with `inside`, operands are multiplied by their scales first, which must be exact: powers of two, or short numbers.

`unit` (a `device.Unit`) sums products as the matrix unit of another device does, which adds partial sums outside the
unit after each `unit.promote` places, unless `fast`.

The error of a result is that of float32 accumulation, and of two roundings by the scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..precisions.float8 import FORMATS, is_float8, to_float32
from ..precisions.products import OF_HALF
from ..registry import ArraySpec, Kernel, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.errstate import restore, silence
from ..runtime.shapes import broadcast_shapes
from . import matmul
from .device import Unit, in_float32

_LEAST_NARROW = 1 << 21
"""Terms of a product from which loops for short operands, which are compiled first, are worth their call."""


def _exact(
    a: np.ndarray, b: np.ndarray, *scales: np.ndarray, block: int = 0, inside: bool = False, fast: bool = False
) -> np.ndarray:
    left, right = (_wide(x).astype(np.float64) for x in (a, b))
    if scales:
        left, right = (
            left * _along(scales[0], block, left.shape[-1], 1),
            right * _along(scales[1], block, len(right), 0),
        )
    return np.matmul(left, right)


scaled_matmul = Kernel("scaled_matmul", reference=_exact, bound={"ieee": 4 * 2.0**-24})


def _wide(x: np.ndarray) -> np.ndarray:
    """The values of an operand in float32."""
    return to_float32(x) if is_float8(x.dtype) else x.astype(np.float32, copy=False)


def _along(scales: np.ndarray, block: int, k: int, axis: int) -> np.ndarray:
    """The scale of each place of k."""
    return np.repeat(scales, block, axis).take(range(k), axis) if block else scales


def _refuses_unit(
    a: ArraySpec, b: ArraySpec, *scales: ArraySpec, block: int = 0, inside: bool = False, unit: Unit | None = None,
    fast: bool = False,
) -> str | None:  # fmt: skip
    """Why no matrix unit multiplies these."""
    if unit is None:
        return "sums by a device's rule, and backends.profile names none"
    if inside and block not in unit.scaled_blocks:
        has = ", ".join(map(str, unit.scaled_blocks)) or "none"
        return f"{unit.profile} has no unit for scales of blocks of {block}; its sizes: {has}"
    return None


@scaled_matmul.impl("matrix_unit", refuses=_refuses_unit, by_unit=True)
def _by_unit(
    a: np.ndarray, b: np.ndarray, *scales: np.ndarray, block: int = 0, inside: bool = False, unit: Unit,
    fast: bool = False,
) -> np.ndarray:  # fmt: skip
    """The product by a device's rule, one matrix of the batch after the other."""
    from ..matrix_units import multiply

    formats = tuple(FORMATS[x.dtype.name] if is_float8(x.dtype) else unit.operand for x in (a, b))
    factors, promote = None, 0 if fast else unit.promote
    if inside:
        k = a.shape[-1]
        left, right = np.broadcast_to(_along(scales[0], block, k, 1), a.shape), _along(scales[1], block, k, 0)
        factors, scales = (left, np.broadcast_to(right, b.shape)), ()

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if unit.rule is None:
            return in_float32(left, right, unit, OF_HALF.get(a.dtype.name, "bf16"))
        unit.warn_beyond(left.shape[-1])
        batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
        left, right = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (left, right))
        out = np.empty((*batch, left.shape[-2], right.shape[-1]), np.float32)
        for place in np.ndindex(*batch):
            out[place] = multiply(unit.rule, formats, left[place], right[place], promote=promote, scales=factors)
        return out

    return _sum_scaled_parts(product, _wide(a), _wide(b), scales, block)


def _refuses_without_unit(
    a: ArraySpec, b: ArraySpec, *scales: ArraySpec, block: int = 0, inside: bool = False, unit: Unit | None = None,
    fast: bool = False,
) -> str | None:  # fmt: skip
    for x in (a, b):
        if is_float8(x.dtype) and x.dtype.name not in FORMATS:
            return f"multiplies half types and 8-bit floats with a sign, not {x.dtype.name}"
    return None


@scaled_matmul.impl("float32", refuses=_refuses_without_unit)
@restore_on_failure
def _by_float32(
    a: np.ndarray, b: np.ndarray, *scales: np.ndarray, block: int = 0, inside: bool = False, fast: bool = False
) -> np.ndarray:
    """The product of the values in float32, by the quickest precision that rounds none of them."""
    terms = math.prod(a.shape) * b.shape[-1]
    precision = OF_HALF.get(a.dtype.name, "bf16") if terms >= _LEAST_NARROW else "ieee"
    left, right = _wide(a), _wide(b)
    if inside and all(map(_fits, scales)):
        k = a.shape[-1]
        left, right = left * _along(scales[0], block, k, 1), right * _along(scales[1], block, k, 0)
        scales = ()

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return matmul(left, right, precision=precision)

    with without_observers():
        return _sum_scaled_parts(product, left, right, scales, block)


def _fits(scales: np.ndarray) -> bool:
    """Whether values of 8 bits, multiplied by these scales, stay in float32's normal range. Others multiply sums."""
    sizes = np.abs(scales[np.isfinite(scales) & (scales != 0)])
    return sizes.max(initial=1.0) <= 2.0**64 and sizes.min(initial=1.0) >= 2.0**-64


def _sum_scaled_parts(
    product: Callable[[np.ndarray, np.ndarray], np.ndarray], a: np.ndarray, b: np.ndarray,
    scales: tuple[np.ndarray, ...], block: int,
) -> np.ndarray:  # fmt: skip
    """The sum of the products of parts along k, each multiplied by its scales."""
    if not scales:
        return product(a, b)
    token, (of_a, of_b) = silence(), scales
    try:
        if not block:
            return product(a, b) * (of_a * of_b)
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for part, start in enumerate(range(0, a.shape[1], block)):
            places = slice(start, start + block)
            total += product(a[:, places], b[places]) * (of_a[:, part : part + 1] * of_b[part : part + 1])
        return total
    finally:
        restore(token)
