"""Products whose operands have formats by role or by call: rounding in front of the kernels (`backends.operands`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...backends.operands import Operands
from ...backends.precision_policy import decision, resolve
from ...kernels.gemm.scaled_operands import ALONG
from ...kernels.precisions import find_format
from ...kernels.precisions.products import PRECISIONS
from ...kernels.precisions.rounding import refusal, round_operand
from ...tensor.casting import cast_unchecked

_FLOAT32 = np.dtype(np.float32)

Rounder = Callable[[np.ndarray, str, int, np.dtype], np.ndarray]
"""Takes an operand, a format, which operand it is, and the dtype of the result."""


def multiply_rounded(
    kind: str,
    operands: Operands,
    arrays: Sequence[np.ndarray],
    round_side: Rounder,
    multiply: Callable[..., np.ndarray],
    wide: bool = False,
) -> np.ndarray:
    """`multiply(left, right, precision)` of operands in their formats, in the dtype of the operands; in float32 if
    `wide`."""
    dtype = arrays[0].dtype
    if not operands.is_pair:
        values = [
            each if name is None else round_side(each, name, side, dtype)
            for side, (each, name) in enumerate(zip(arrays, operands[:2], strict=True))
        ]
        wanted = [to_dtype(each, _FLOAT32) for each in values] if wide else values
        precision = "ieee" if wide and dtype is not _FLOAT32 else resolve(kind, dtype, None).choice.precision
        return multiply(*wanted, decision(precision, operands.decided_by, holds_always=True, by_role=True))
    names = [str(name) for name in operands[:2]]
    if names[0] == names[1] and _is_kernels_own(kind, names[0]):
        precision, values = names[0], [to_dtype(each, _FLOAT32) for each in arrays]
    else:
        pairs = enumerate(zip(arrays, names, strict=True))
        values = [round_side(each, name, side, _FLOAT32) for side, (each, name) in pairs]
        precision = "bf16" if all(map(_fits_bf16, values, names)) else "ieee"
    out = multiply(*values, decision(precision, operands.decided_by, holds_always=True, by_role=True))
    return out if wide else to_dtype(out, dtype)


def round_along(x: np.ndarray, name: str, axis: int, operands: Operands, dtype: np.dtype) -> np.ndarray:
    """An operand with K along an axis in its format, as an array of a dtype. Raises RuntimeError where it does not
    fit."""
    if sentence := refusal(name, x.shape, axis):
        raise RuntimeError(f"{operands.decided_by}: format {name!r} does not fit this product, for {sentence}")
    return to_dtype(round_operand(to_dtype(x, _FLOAT32), name, axis, operands.rounding), dtype)


def round_for_kernel(
    kernel: str, x: np.ndarray, name: str, side: int, groups: int, operands: Operands, dtype: np.dtype
) -> np.ndarray:
    """An operand of a convolution's kernel in its format, with K where the kernel has it
    (`kernels.gemm.scaled_operands`): each group apart, and all taps together in the scale of a weight's
    output channel."""
    where, row = ALONG[kernel][side], find_format(name)
    if kernel == "conv" and side == 1 and row.block is not None and not row.block[1]:
        lines = round_along(x.reshape(len(x), -1), name, -1, operands, dtype)
        return np.ascontiguousarray(lines).reshape(x.shape)
    if where.places:
        lines = x.reshape(*x.shape[: where.axis], -1)
        return np.ascontiguousarray(round_along(lines, name, where.axis, operands, dtype)).reshape(x.shape)
    parts = np.split(x, groups, where.axis) if where.in_groups and groups > 1 else [x]
    return np.concatenate([round_along(each, name, where.axis, operands, dtype) for each in parts], where.axis)


def to_dtype(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array if array.dtype is dtype else cast_unchecked(array, dtype)


def _is_kernels_own(kind: str, name: str) -> bool:
    """Whether kernels round both operands better themselves: they multiply results by scales of tensors, and have the
    units of devices apply scales of blocks."""
    row = PRECISIONS.get(name)
    if row is None or find_format(name).rounding:
        return False
    return (row.scale is not None and row.scale.of_tensor) or "unit" in resolve(kind, _FLOAT32, name).keywords


_SHORT = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "int4")


def _fits_bf16(values: np.ndarray, name: str) -> bool:
    """Whether bf16 holds the values of a format: short significands, and powers of two as scales, of normal numbers."""
    row = find_format(name)
    if row.element == "bf16":
        return True
    if row.element not in _SHORT or row.scale != "e8m0" or row.rotation or row.block is None:
        return False
    magnitudes = np.abs(values)
    return not magnitudes.size or bool(np.min(magnitudes, where=magnitudes > 0, initial=1) >= 2.0**-126)
