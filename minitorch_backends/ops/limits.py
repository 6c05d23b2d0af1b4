"""Limits of the dtypes: `finfo` and `iinfo`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.runtime.first_use import load
from ..tensor.dtypes import BOOL, FLOATING, INTEGER, DType, get_default_dtype


class FloatLimits(NamedTuple):
    """The limits of a floating dtype.

    Attributes:
        bits: bits of one number.
        resolution: 10**-d for the d decimal digits that the dtype represents.
        min: the lowest finite number, `-max`.
        max: the largest finite number.
        eps: the distance from 1 to the next larger number.
        smallest_normal: the least positive number of full precision; also called `tiny`.
        dtype: the dtype's name.
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
    """The limits of an integer dtype: `bits` of one number, `min`, `max`, and the dtype's name."""

    bits: int
    min: int
    max: int
    dtype: str


def finfo(type: DType | None = None) -> FloatLimits:
    """The limits of a floating dtype, or of a complex dtype's parts. Without an argument, those of the default dtype.

    Raises TypeError for integer dtypes (use `iinfo`) and for values that are not dtypes.
    """
    dtype = get_default_dtype() if type is None else type
    if not isinstance(dtype, DType):
        raise TypeError(f"finfo(): dtype must be a dtype, got {dtype!r}; use mt.float32, for example")
    if dtype.category < FLOATING:
        raise TypeError(f"finfo(): requires a floating point type, got {dtype!r}; use mt.iinfo for integers")
    dtype = dtype.to_real()
    if dtype.letter == "p":
        raise TypeError(f"finfo(): type must hold one number in an element, got {dtype!r}; use mt.float8_e4m3fn")
    narrow = dtype.letter == "n"
    found = (load("ml_dtypes") if narrow or dtype.dtype.kind == "V" else np).finfo(dtype.dtype)
    least, largest, smallest = float(found.min), float(found.max), float(found.smallest_normal)
    resolution = 1.0 if narrow else float(f"1e-{found.precision}")
    return FloatLimits(found.bits, resolution, least, largest, float(found.eps), smallest, smallest, dtype.name)


def iinfo(type: DType) -> IntegerLimits:
    """The limits of an integer dtype. Raises TypeError for other dtypes and for values that are not dtypes."""
    if not isinstance(type, DType):
        raise TypeError(f"iinfo(): dtype must be a dtype, got {type!r}; use mt.int64, for example")
    if type.category == BOOL:
        raise TypeError("mt.bool is not supported by iinfo: its values are True and False")
    if type.category != INTEGER:
        raise TypeError(f"iinfo(): requires an integer type, got {type!r}; use mt.finfo for floating types")
    found = np.iinfo(type.dtype)
    return IntegerLimits(found.bits, int(found.min), int(found.max), type.name)
