"""Products whose operands have formats by role or by call: rounding in front of the kernels (`backends.operands`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.operands import Operands
from ...backends.precision_policy import decision, resolve, unit_of_format, without_roles
from ...flags import current
from ...kernels.gemm.scaled import scaled_matmul
from ...kernels.gemm.scaled_operands import ALONG
from ...kernels.precisions import find_format
from ...kernels.precisions.products import PRECISIONS
from ...kernels.precisions.rounding import Rounded, numbers_and_scales, refusal, remainder, round_in_range
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import bfloat16

_FLOAT32 = np.dtype(np.float32)

Rounder = Callable[[np.ndarray, str, int], Rounded]
"""Takes an operand, a format, and which operand it is."""


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
    dtype, names = arrays[0].dtype, operands[:2]

    def decide(precision: str, *others: str) -> Any:
        return decision(precision, "; ".join((operands.decided_by, *others)), holds_always=True, by_role=True)

    if not operands.is_pair:
        to = _FLOAT32 if wide else dtype
        values = [
            to_dtype(each if name is None else to_dtype(round_side(each, name, side).values, dtype), to)
            for side, (each, name) in enumerate(zip(arrays, names, strict=True))
        ]
        rest = without_roles(kind, dtype, None)
        if to is not dtype or dtype != _FLOAT32:
            return multiply(*values, decide("ieee" if to is not dtype else rest.choice.precision))
        return multiply(*values, decide(rest.choice.precision, rest.decided_by))
    if names[0] == names[1] and _is_kernels_own(kind, str(names[0]), operands):
        out = multiply(*(to_dtype(each, _FLOAT32) for each in arrays), decide(str(names[0])))
        return out if wide else to_dtype(out, dtype)
    if kind != "conv" and (block := promoted_block(*names)):
        out = _multiply_promoted(operands, [to_dtype(each, _FLOAT32) for each in arrays], block)
        return out if wide else to_dtype(out, dtype)
    later = [name is not None and find_format(name)[1:3] == ("bf16", None) for name in names]
    found = [
        Rounded(each, True) if of_products else round_side(each, str(name), side)
        for side, (each, name, of_products) in enumerate(zip(arrays, names, later, strict=True))
    ]
    if all(each.fits_bf16 for each in found):  # bf16 products round such an operand themselves
        native = any(later) and dtype == bfloat16.dtype and not wide
        values = [to_dtype(each.values, dtype if native else _FLOAT32) for each in found]
        out = _of_profile(operands, lambda: multiply(*values, decide("ieee" if native else "bf16")))
    elif kind != "conv" and (scales := _scales_behind(found)):
        out = multiply(*(to_dtype(each.numbers, _FLOAT32) for each in found), decide("bf16"))
        for each in scales:
            np.multiply(out, each, out=out)
    else:
        values = [
            round_side(each.values, str(name), side).values if of_products else each.values
            for side, (each, name, of_products) in enumerate(zip(found, names, later, strict=True))
        ]
        out = multiply(*values, decide("ieee"))
    return out if wide else to_dtype(out, dtype)


def _scales_behind(found: Sequence[Rounded]) -> list[np.ndarray]:
    """What multiplies the product of numbers that bf16 holds, as on a device: scales of the rows of its operands. Empty
    where an operand has other scales, or a device computes the sums."""
    held = all(each.fits_bf16 or each.scales is not None for each in found)
    if not held or min(each.values.ndim for each in found) < 2 or current().resolve("profile")[0] is not None:
        return []
    left, right = (each.scales for each in found)
    scales = [] if left is None else [left]
    if right is not None:  # of columns, or of the rows of a layer's weight
        scales.append(right if right.shape[-2] == 1 else right.swapaxes(-1, -2))
    return scales


def promoted_block(left: str | None, right: str | None) -> int:
    """How many products along K a matrix unit sums before they are scaled and added in float32; 0 for other formats."""
    rows = [find_format(str(name)) for name in (left, right)]
    lengths = {row.block[1] if row.block and row.scale == "fp32" else 0 for row in rows}
    return max(lengths) if len(lengths) == 1 and any(row.sums for row in rows) else 0


def _multiply_promoted(operands: Operands, arrays: Sequence[np.ndarray], block: int) -> np.ndarray:
    """The product of matrices, batches or vectors whose sums of blocks are a device's, in float32."""
    left, right = arrays
    if left.ndim > 2 and right.ndim == 2:
        flat = _multiply_promoted(operands, (left.reshape(-1, left.shape[-1]), right), block)
        return flat.reshape(*left.shape[:-1], right.shape[1])
    names = [str(name) for name in operands[:2]]
    unit = _of_profile(operands, lambda: unit_of_format(*(find_format(name) for name in names)))
    a, b = left[None] if left.ndim == 1 else left, right[:, None] if right.ndim == 1 else right
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*batch, a.shape[-2], b.shape[-1]), np.float32)
    a, b = (np.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (a, b))
    for place in np.ndindex(*batch):
        x, of_x = numbers_and_scales(np.ascontiguousarray(a[place]), names[0])
        y, of_y = numbers_and_scales(np.ascontiguousarray(b[place].T), names[1])
        out[place] = scaled_matmul(
            x, y.T, of_x, of_y.T, block=block, unit=unit, decided_by=f"{operands.decided_by}; sums as {unit.profile}"
        )
    out = out[..., 0, :] if left.ndim == 1 else out
    return out[..., 0] if right.ndim == 1 else out


def with_remainders(operands: Operands, lengths: Sequence[int]) -> Operands:
    """The formats of operands with so many numbers along their blocks, with a remark on blocks that are shorter, unless
    a format does not fit."""
    sides = [(name, length) for name, length in zip(operands[:2], lengths, strict=True) if name is not None]
    if any(refusal(name, (length,), 0) for name, length in sides):
        return operands
    notes = dict.fromkeys(remainder(name, length) for name, length in sides)
    return operands._replace(decided_by="; ".join(filter(None, (operands.decided_by, *notes))))


def refuse_unfit_format(kernel: str, name: str, shape: tuple[int, ...], axis: int, operands: Operands) -> None:
    """Raise RuntimeError for a format that does not fit an operand of a kernel, of a shape with K along an axis."""
    if sentence := refusal(name, shape, axis):
        raise RuntimeError(f"{operands.decided_by}: format {name!r} does not fit {kernel}, for {sentence}")


def round_along(kernel: str, x: np.ndarray, name: str, axis: int, operands: Operands) -> Rounded:
    """An operand of a kernel, with K along an axis, in its format, as float32. Raises RuntimeError where it does not
    fit."""
    refuse_unfit_format(kernel, name, x.shape, axis, operands)
    return round_in_range(to_dtype(x, _FLOAT32), name, axis, operands.rounding)


def round_for_kernel(kernel: str, x: np.ndarray, name: str, side: int, groups: int, operands: Operands) -> Rounded:
    """An operand of a convolution's kernel in its format, with K where the kernel has it
    (`kernels.gemm.scaled_operands`): each group apart, and all taps together in the scale of a weight's
    output channel."""
    where, row = ALONG[kernel][side], find_format(name)
    lines, axis = x, where.axis
    if kernel == "conv" and side == 1 and row.block is not None and not row.block[1]:
        lines, axis = x.reshape(len(x), -1), -1
    elif where.places:
        lines = x.reshape(*x.shape[: where.axis], -1)
    parts = np.split(lines, groups, axis) if where.in_groups and groups > 1 else [lines]
    found = [round_along(kernel, each, name, axis, operands) for each in parts]
    values = found[0].values if len(found) == 1 else np.concatenate([each.values for each in found], axis)
    return Rounded(np.ascontiguousarray(values).reshape(x.shape), all(each.fits_bf16 for each in found))


def length_along(kernel: str, side: int, shape: tuple[int, ...], groups: int) -> int:
    """How many numbers lie along the blocks of an operand of a convolution's kernel."""
    where = ALONG[kernel][side]
    if where.places:
        return math.prod(shape[where.axis :])
    return shape[where.axis] // (groups if where.in_groups else 1)


def to_dtype(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array if array.dtype is dtype else cast_unchecked(array, dtype)


def _of_profile(operands: Operands, find: Callable[[], Any]) -> Any:
    """What a function finds with the device of `backends.profile`; the error where it has no such unit names the flags
    of the operands too."""
    try:
        return find()
    except RuntimeError as error:
        if not str(error).startswith("profile = "):
            raise
        raise RuntimeError(f"{operands.decided_by}: {error}") from None


def _is_kernels_own(kind: str, name: str, operands: Operands) -> bool:
    """Whether kernels round both operands better themselves: they multiply results by scales of tensors, and have the
    units of devices apply scales of blocks."""
    row = PRECISIONS.get(name)
    if row is None or find_format(name).rounding:
        return False
    call = _of_profile(operands, lambda: resolve(kind, _FLOAT32, name))
    return (row.scale is not None and row.scale.of_tensor) or "unit" in call.keywords
