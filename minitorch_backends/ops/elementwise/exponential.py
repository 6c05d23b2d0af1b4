"""Exponentials, logarithms, and numbers as mantissas and powers of two, element by element."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.arrays import elementwise
from ...tensor.dtypes import FLOATING, float32, get_default_dtype, promote_types
from ...tensor.tensor import Tensor
from ..gradients import conjugate
from ..limits import finfo
from .unary import unary_ufunc

__all__ = ["exp", "exp2", "expm1", "frexp", "ldexp", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2"]

_LOG_2, _LOG_10 = math.log(2), math.log(10)

exp = unary_ufunc(np.exp, "e to the power of `input`.", gradient=lambda g, out: g * conjugate(out))

exp2 = unary_ufunc(np.exp2, "2 to the power of `input`.", gradient=lambda g, out: g * conjugate(out * _LOG_2))

expm1 = unary_ufunc(
    np.expm1, "exp(input) - 1, exact to the last digits near 0.", gradient=lambda g, out: g * conjugate(out + 1)
)

log = unary_ufunc(
    np.log, "The natural logarithm; -inf at 0, NaN for negative reals.", gradient=lambda g, input: g / conjugate(input)
)

log2 = unary_ufunc(np.log2, "The logarithm to base 2.", gradient=lambda g, input: g / conjugate(input * _LOG_2))

log10 = unary_ufunc(np.log10, "The logarithm to base 10.", gradient=lambda g, input: g / conjugate(input * _LOG_10))


def _complex_log1p(z: np.ndarray) -> np.ndarray:
    """NumPy's loses the real part of small numbers: |1 + z|^2 is 1 + x (2 + x) + y^2."""
    x, y = z.real.astype(np.float64), z.imag.astype(np.float64)
    near, direct = np.abs(z) < 0.5, np.log1p(z)
    return np.where(near, (np.log1p(x * (2 + x) + y * y) / 2 + 1j * np.arctan2(y, 1 + x)).astype(z.dtype), direct)


@op(input=lambda g, input: g / conjugate(input + 1), promote="float", ufunc=np.log1p, traits="inplace")
def log1p(input: Array) -> Array:
    """log(1 + input), exact to the last digits near 0."""
    return _complex_log1p(input) if input.dtype.kind == "c" else elementwise.each(np.log1p, input)


@op(
    input=lambda g, input, other: g * conjugate((input - other).sigmoid()),
    other=lambda g, input, other: g * conjugate((other - input).sigmoid()),
    promote=True,
    only_tensors=("input", "other"),
    takes="fc",
    ufunc=np.logaddexp,
)
def logaddexp(input: Array, other: Array) -> Array:
    """log(exp(input) + exp(other)) without overflow."""
    if input.dtype.kind != "c":
        return elementwise.each(np.logaddexp, input, other)
    larger = input.real >= other.real
    return np.where(larger, input, other) + np.log1p(np.exp(np.where(larger, other - input, input - other)))


@op(
    input=lambda g, input, other: g * ((input - other) * _LOG_2).sigmoid(),
    other=lambda g, input, other: g * ((other - input) * _LOG_2).sigmoid(),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    ufunc=np.logaddexp2,
)
def logaddexp2(input: Array, other: Array) -> Array:
    """log2(2**input + 2**other) without overflow."""
    return elementwise.each(np.logaddexp2, input, other)


class MantissaExponent(NamedTuple):
    """The result of `frexp`."""

    mantissa: Any
    exponent: Any


@op(input=lambda g, exponent: g[0] * (-exponent.to(g[0].dtype)).exp2(), takes="f", traits="unwidened")
def frexp(input: Array) -> MantissaExponent:
    """Mantissas and int32 exponents: input = mantissa * 2 ** exponent, with abs(mantissa) in [1/2, 1), or 0."""
    wide = input.astype(np.float32) if input.itemsize == 2 else input
    mantissa, exponent = np.frexp(wide)
    return MantissaExponent(mantissa.astype(input.dtype), np.asarray(exponent, np.int32))


@composite(inplace=True, takes="bifc")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2 ** other`, also where a finite `other` gives a `2 ** other` out of range."""
    dtype = input.dtype if input.dtype.category >= FLOATING else get_default_dtype()
    whole = other.dtype.category < FLOATING
    exponent = other.to(promote_types(dtype, float32)) if whole else other  # half types hold few integers
    if exponent.is_complex():
        return input * exponent.exp2()
    most = -round(math.log2(finfo(dtype).tiny))  # both signs of it give normal numbers
    first = exponent.detach().clamp(-most, most)
    second = (exponent.detach() - first).clamp(-most, most)
    third = exponent - first - second
    third = third.where(third.isinf(), third.clamp(-most, most))  # 0 * 2 ** inf is NaN
    for part in (first, second, third):
        input = input * (part.exp2().to(dtype) if whole else part.exp2())
    return input
