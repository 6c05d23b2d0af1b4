"""What the element types can hold, under torch's names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.first_use import load
from .dtypes import BOOL, FLOATING, INTEGER, DType, get_default_dtype

__all__ = ["finfo", "iinfo"]


class FloatLimits(NamedTuple):
    """The limits of a floating type.

    Attributes:
        bits: of one number.
        resolution: 10 to the power of minus the decimal digits that the type keeps.
        min: the least finite number, `-max`.
        max: the largest finite number.
        eps: from 1 to the next number.
        smallest_normal: the least positive number of full precision; `tiny` is another name of it.
        dtype: the type's name.
    """

    bits: int
    resolution: float
    min: float
    max: float
    eps: float
    smallest_normal: float
    tiny: float
    dtype: str


class IntegerLimits(NamedTuple):
    """The limits of an integer type: the bits of one number, the least and the largest, and the type's name."""

    bits: int
    min: int
    max: int
    dtype: str


def finfo(type: DType | None = None) -> FloatLimits:
    """The limits of a floating type, or of a complex one's parts; of the default dtype when none is given.

    Raises TypeError for other types, which have `iinfo`, and for what is no dtype.
    """
    dtype = get_default_dtype() if type is None else type
    if not isinstance(dtype, DType):
        raise TypeError(f"finfo takes a dtype, mt.float32 for example, got {dtype!r}")
    if dtype.category < FLOATING:
        raise TypeError(f"finfo requires a floating point type, got {dtype!r}; use mt.iinfo for integers")
    dtype = dtype.to_real()
    if dtype.letter == "p":
        raise TypeError(f"finfo(): type must hold one number in an element, got {dtype!r}; use mt.float8_e4m3fn")
    narrow = dtype.letter == "n"
    found = (load("ml_dtypes") if narrow or dtype.dtype.kind == "V" else np).finfo(dtype.dtype)
    least, largest, smallest = float(found.min), float(found.max), float(found.smallest_normal)
    resolution = 1.0 if narrow else float(f"1e-{found.precision}")
    return FloatLimits(found.bits, resolution, least, largest, float(found.eps), smallest, smallest, dtype.name)


def iinfo(type: DType) -> IntegerLimits:
    """The limits of an integer type. Raises TypeError for other types, and for what is no dtype."""
    if not isinstance(type, DType):
        raise TypeError(f"iinfo takes a dtype, mt.int64 for example, got {type!r}")
    if type.category == BOOL:
        raise TypeError("mt.bool is not supported by iinfo: it holds True and False")
    if type.category != INTEGER:
        raise TypeError(f"iinfo requires an integer type, got {type!r}; use mt.finfo for floating types")
    found = np.iinfo(type.dtype)
    return IntegerLimits(found.bits, int(found.min), int(found.max), type.name)
