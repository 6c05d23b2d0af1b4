"""Rounding to whole numbers and to formats of lower precision, and signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.half_types import identity
from ...dispatch.op import Array, op, synonyms
from ...kernels.arrays.elementwise import each
from ...kernels.arrays.elementwise import sign as sign_of_real
from ...kernels.precisions.elements import ELEMENTS, ROUNDINGS, round_to_format
from ...kernels.precisions.products import PRECISIONS, SCALED_ROUNDINGS, is_scaled
from ...kernels.precisions.scaling import scale_operand
from ...random import Generator
from ...tensor.casting import fitted_number
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor
from ..creation.sampling import generator_or_default
from ..gradients import zero
from ..indexing.fill import masked_fill
from ..limits import finfo
from .comparison import isfinite
from .complex_numbers import view_as_complex, view_as_real

__all__ = [
    "ceil", "fix", "floor", "frac", "nan_to_num", "nextafter", "round", "round_to", "sign", "signbit", "trunc",
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


fix = trunc
synonyms(fix=trunc)


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


_GRADIENTS = ("straight_through", "zero")


def _gradient(g: Any, gradient: str) -> Any:
    return g if gradient == "straight_through" else zero(g)


@op(takes="f", traits="function", input=_gradient, batch="loop: a scale for each sample")
def round_to(
    input: Array,
    format: str,
    rounding: str = "rne",
    *,
    dim: int = -1,
    gradient: str = "straight_through",
    generator: Generator | None = None,
) -> np.ndarray:
    """Round each value of `input` to a floating-point format, in `input`'s own dtype. Flags do not affect this op.

    Arguments:
        format: "fp32", "tf32", "bf16", "fp16" or "e5m2"; "e4m3", "e3m2", "e2m3", "e2m1", "e5m2fnuz", "e4m3fnuz", "int8"
            or "int4". Magnitudes above the format's largest become Inf, or the largest number in those that have no
            Inf. "mxfp8", "mxfp6", "mxfp4" and "nvfp4" round as these precisions do (`kernels.precisions.products`): in
            blocks along `dim`, each with a scale that multiplies the rounded values.
        rounding: "rne", to nearest with ties to even; "rna", with ties away from zero; "rz", toward zero, which never
            gives Inf; "stochastic", to either neighbour with an expected value of `input`. Blocks support "rne" and
            "stochastic".
        gradient: "straight_through" passes gradients on unchanged (Bengio et al., arXiv 1308.3432); "zero" is the
            derivative almost everywhere.
        generator: for stochastic rounding; None uses the default generator.

    Raises ValueError for unknown names, IndexError for a dimension out of range.
    """
    if format not in ELEMENTS and not is_scaled(format):
        blocks = [name for name in PRECISIONS if name not in ELEMENTS and is_scaled(name)]
        raise ValueError(f"round_to(): format must be one of {', '.join([*ELEMENTS, *blocks])}, got {format!r}")
    if rounding not in ROUNDINGS:
        raise ValueError(f"round_to(): rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    if gradient not in _GRADIENTS:
        raise ValueError(f"round_to(): gradient must be one of {', '.join(_GRADIENTS)}, got {gradient!r}")
    if format not in ELEMENTS:
        return _in_blocks(input, format, rounding, dim, generator)
    uniform = None
    if rounding == "stochastic":
        uniform = generator_or_default(generator).uniform(input.shape, input.dtype)
    return round_to_format(input, format, rounding, uniform)


def _in_blocks(input: np.ndarray, precision: str, rounding: str, dim: int, generator: Generator | None) -> np.ndarray:
    """The values of a precision that scales blocks along a dimension."""
    if rounding not in SCALED_ROUNDINGS:
        raise ValueError(
            f"round_to(): rounding of blocks must be one of {', '.join(SCALED_ROUNDINGS)}, got {rounding!r}"
        )
    if not -max(input.ndim, 1) <= dim < max(input.ndim, 1):
        raise IndexError(f"round_to(): dim must be a dimension of a tensor of {input.ndim}, got {dim}")
    lines = np.atleast_1d(input.astype(np.float32, copy=False))
    seed = int(generator_or_default(generator).integers(0, 1 << 32, ())) if rounding == "stochastic" else None
    found = scale_operand(lines, precision, dim, 1, rounding, seed)
    with np.errstate(over="ignore", under="ignore"):
        return (found.values * np.float64(found.factor)).astype(input.dtype).reshape(input.shape)
