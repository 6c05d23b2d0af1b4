"""Rounding to integers, limits, signs and neighbours, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.half_types import identity
from ...dispatch.op import Array, composite, op, synonyms
from ...kernels.arrays.elementwise import each
from ...kernels.arrays.elementwise import sign as sign_of_real
from ...tensor.casting import cast_checked, fitted_number
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor
from ..gradients import zero
from ..indexing.fill import masked_fill
from ..limits import finfo
from .comparison import isfinite
from .complex_numbers import view_as_complex, view_as_real

__all__ = [
    "ceil", "clamp", "clamp_max", "clamp_min", "clip", "fix", "floor", "frac", "nan_to_num", "nextafter", "round",
    "sign", "signbit", "trunc",
]  # fmt: skip


def _refuse_infinite_digits(input: np.ndarray, decimals: int) -> None:
    if input.dtype.kind in "iu" and decimals:
        raise RuntimeError(
            f"round() of integers takes no decimals, got decimals={decimals}; convert to a floating type first"
        )


@op(input=zero, ufunc=np.ceil, traits="silent inplace", takes="if")
def ceil(input: Array) -> Array:
    """The smallest integer that is not below `input`, in its type."""
    return np.ceil(input)


@op(input=zero, ufunc=np.floor, traits="silent inplace", takes="if")
def floor(input: Array) -> Array:
    """The largest integer that is not above `input`, in its type."""
    return np.floor(input)


@op(input=zero, ufunc=np.trunc, traits="silent inplace", takes="if")
def trunc(input: Array) -> Array:
    """`input` without its fraction, in its type."""
    return np.trunc(input)


@op(input=zero, ufunc=np.rint, takes="if", traits="inplace")
def round(input: Array, *, decimals: int = 0) -> Array:
    """Round to `decimals` decimal places (possibly negative), with ties to even.

    Raises RuntimeError for integers if `decimals` is not 0.
    """
    _refuse_infinite_digits(input, decimals)
    if input.dtype.kind in "iu" or decimals > 308:  # where 10**decimals is infinite
        return input.copy()
    return np.round(input, decimals) if decimals > -309 else np.where(np.isfinite(input), input * 0, input)


@op(input=identity, takes="f", traits="inplace")
def frac(input: Array) -> Array:
    """`input - trunc(input)`."""
    whole = np.asarray(each(np.trunc, input))
    return each(np.subtract, input, whole, out=whole)


@op(input=zero, takes="bif", traits="silent inplace")
def sign(input: Array) -> Array:
    """-1, 0 or 1 as the number is negative, zero or positive, in its type; 0 for NaN."""
    if input.dtype.kind == "b":
        return input.copy()
    return sign_of_real(input)


@op(takes="bif")
def signbit(input: Array) -> Array:
    """Whether the sign is minus, also that of -0."""
    return input < 0 if input.dtype.kind in "biu" else np.signbit(input)


# Limits


def _within(g: Tensor, input: Tensor, min: Any, max: Any) -> Tensor:
    """The gradient of `input`: g where it lies within the limits, which count as within."""
    inside: Any = None if min is None else input >= min
    if max is not None:
        inside = input <= max if inside is None else inside & (input <= max)
    return g.where(inside, 0)


@op(
    input=_within,
    min=lambda g, input, min, max: g.where(input < min if max is None else (input < min) & (min < max), 0),
    max=lambda g, input, min, max: g.where(input > max if min is None else (input > max) | (min > max), 0),
    promote=True,
    only_tensors=("input",),
    takes="bif",
    scalar=lambda value, dtype, index: cast_checked(np.asarray(value), dtype),
    traits="inplace",
)
def clamp(input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """Clamp `input` to [min, max], tensors or numbers that broadcast. `max` wins where they cross; NaN stays NaN.

    Raises RuntimeError if both are None.
    """
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of min and max must not be None; pass a tensor or a number")
    if min is not None and max is not None:
        return np.clip(input, min, max)  # on one thread it is faster than two passes of two threads
    return each(np.minimum, input, max) if min is None else each(np.maximum, input, min)


@composite(inplace=True, takes="bif")
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """`clamp` from below only."""
    return clamp(input, min)


@composite(inplace=True, takes="bif")
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """`clamp` from above only."""
    return clamp(input, None, max)


def _finite_gradient(g: Tensor, input: Tensor) -> Tensor:
    """g where the input is finite, of complex numbers part by part."""
    if input.is_complex():
        return view_as_complex(_finite_gradient(view_as_real(g), view_as_real(input)).contiguous())
    return masked_fill(g, isfinite(input).logical_not(), 0)


@op(input=_finite_gradient, traits="unwidened inplace")
def nan_to_num(
    input: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """A copy with numbers for NaN and the infinities, by default 0, the largest and the least that the dtype holds.

    Of complex numbers each part is replaced by itself. Raises RuntimeError for a replacement beyond the dtype.
    """
    out = np.array(input, order="C")
    if out.dtype.kind in "biu":
        return out
    limits = finfo(dtype_of(out))
    largest = limits.max if posinf is None else posinf
    least = limits.min if neginf is None else neginf
    for part in (out.real, out.imag) if out.dtype.kind == "c" else (out,):
        kinds = ((np.isnan, 0.0 if nan is None else nan), (np.isposinf, largest), (np.isneginf, least))
        for places, value in [(of_kind(part), value) for of_kind, value in kinds]:
            part[places] = fitted_number(np.asarray(value), dtype_of(part))
    return out


clip, fix = clamp, trunc
synonyms(clip=clamp, fix=trunc)


@op(
    input=lambda g, input, other: g.where(input != other, 0),
    other=lambda g: zero(g),
    promote=True,
    only_tensors=("input", "other"),
    traits="unwidened inplace",
    takes="f",
)
def nextafter(input: Array, other: Array) -> Array:
    """The number next to `input` in its type, in the direction of `other`; `other` where both are equal."""
    return np.where(input == other, other, np.nextafter(input, other))  # zeros of float16 kept their sign
