"""Numbers into another type: as C converts them, or as a user may write them."""

from __future__ import annotations

import cmath

import numpy as np

from .dtypes import COMPLEX, FLOATING, INTEGER, DType
from .kernels.elementwise import LARGE, cast
from .kernels.quiet import restore, silence

__all__ = ["converted", "fitted", "fitted_number"]


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A new array of another type, as C converts: no warning for what does not fit, imaginary parts dropped."""
    if array.dtype.kind == "c" and dtype.kind != "c":
        array = array != 0 if dtype.kind == "b" else array.real
    if array.size >= LARGE and (found := cast(array, dtype)) is not None:
        return found
    token = silence()
    try:
        return array.astype(dtype)
    finally:
        restore(token)


def fitted(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers that a user wrote, as a new array of type `dtype`; fractions are cut off for integers.

    Raises RuntimeError for a number out of the range of an integer type, and for complex numbers in other types.
    Negative integers wrap around in uint8, as in torch.
    """
    kind = array.dtype.kind
    if kind == "c" and dtype.category < COMPLEX:
        raise _overflow(dtype, f"{array.flat[0]} is complex")
    if dtype.category == INTEGER and kind in "iuf" and array.dtype != dtype.dtype:
        limits = np.iinfo(dtype.dtype)
        low = -limits.max if kind == "i" and not limits.min else limits.min
        outside = ~((array >= low) & (array <= limits.max) & (array < limits.max + 1))  # the last for floats of 2**63
        if outside.any():
            raise _overflow(dtype, f"{array[outside].flat[0]} is not in {low} to {limits.max}")
    return converted(array, dtype.dtype)


def fitted_number(number: np.ndarray, dtype: DType) -> np.ndarray:
    """`fitted` for one number, of shape (), that everything is filled with: RuntimeError too where it would become
    infinite.
    """
    found = fitted(number, dtype)
    if dtype.category >= FLOATING and cmath.isinf(found) and not cmath.isinf(number):
        raise _overflow(dtype, f"{number} would be infinite; write math.inf if that is meant")
    return found


def _overflow(dtype: DType, reason: str) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {dtype!r} without overflow: {reason}")
