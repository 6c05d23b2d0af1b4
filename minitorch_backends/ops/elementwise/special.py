"""Special functions of statistics and physics, from SciPy, which is imported when one is first called."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.arrays import elementwise
from ...kernels.runtime.first_use import load
from ...kernels.runtime.invariance import refuse_library
from ...tensor.dtypes import FLOATING, get_default_dtype
from ...tensor.tensor import Tensor
from ..gradients import conjugate, no_derivative, zero
from ..limits import finfo
from .unary import unary_ufunc

__all__ = [
    "copysign", "digamma", "erf", "erfc", "erfinv", "frexp", "heaviside", "ldexp", "lgamma", "logit", "polygamma",
    "sinc",
]  # fmt: skip


def scipy_special() -> Any:
    """SciPy's special functions. Raises RuntimeError where `backends.invariant` forbids the bits of this CPU."""
    refuse_library("scipy.special")
    return load("scipy.special")


erf = unary_ufunc(
    elementwise.erf,
    "The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to `input`.",
    gradient=lambda g, input: g * ((-input * input).exp() * (2 / math.sqrt(math.pi))),
    takes="f",
)

erfc = unary_ufunc(
    elementwise.erfc,
    "1 - erf(input), exact to the last digits where that is small.",
    gradient=lambda g, input: g * ((-input * input).exp() * (-2 / math.sqrt(math.pi))),
    takes="f",
)


erfinv = unary_ufunc(
    elementwise.erfinv,
    "The inverse of `erf`; infinite at -1 and 1, NaN outside.",
    gradient=lambda g, out: g * ((out * out).exp() * (math.sqrt(math.pi) / 2)),
    takes="f",
)

erfcx = unary_ufunc(
    lambda input: scipy_special().erfcx(input),
    "exp(input**2) * erfc(input), which neither overflows nor vanishes for large input.",
    name="erfcx",
    gradient=lambda g, input, out: g * (2 * input * out - 2 / math.sqrt(math.pi)),
    takes="f",
    method=False,
    inplace=False,
)


# The normal distribution


ndtr = unary_ufunc(
    lambda input: scipy_special().ndtr(input),
    "P(X <= input) of a standard normal X, accurate in both tails.",
    name="ndtr",
    gradient=lambda g, input: g * ((input * input * -0.5).exp() / math.sqrt(2 * math.pi)),
    takes="f",
    method=False,
    inplace=False,
)

log_ndtr = unary_ufunc(
    lambda input: scipy_special().log_ndtr(input),
    "The logarithm of `ndtr`, which stays finite where that underflows.",
    name="log_ndtr",
    gradient=lambda g, input: g * (math.sqrt(2 / math.pi) / erfcx(input * -math.sqrt(0.5))),
    takes="f",
    method=False,
    inplace=False,
)


ndtri = unary_ufunc(
    lambda input: scipy_special().ndtri(input),
    "The inverse of `ndtr`; infinite at 0 and 1, NaN outside.",
    name="ndtri",
    gradient=lambda g, out: g * ((out * out * 0.5).exp() * math.sqrt(2 * math.pi)),
    takes="f",
    method=False,
    inplace=False,
)

lgamma = unary_ufunc(
    elementwise.lgamma,
    "The logarithm of the absolute value of the gamma function.",
    gradient=lambda g, input: g * digamma(input),
    takes="f",
)


digamma = unary_ufunc(
    elementwise.digamma, "The derivative of `lgamma`.", gradient=lambda g, input: g * polygamma(1, input), takes="f"
)


@op(input=lambda g, n, input: g * polygamma(n + 1, input), promote="float", takes="f", method=False)
def polygamma(n: int, input: Array) -> Array:
    """The `n`-th derivative of `digamma`. Raises RuntimeError for a negative n, TypeError for other than an int."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise TypeError(f"polygamma(n, x): argument 'n' must be an int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}; expected 0 for digamma, or more")
    return scipy_special().polygamma(n, input).astype(input.dtype)


# Signs, steps and scales


@op(
    input=lambda g, input, out: g * (out.sign() * input.sign()),
    other=lambda g: zero(g),
    promote="float",
    only_tensors=("input",),
    takes="f",
    ufunc=np.copysign,
    inplace=True,
)
def copysign(input: Array, other: Array) -> Array:
    """The magnitude of `input` with the sign of `other`, that of a zero too."""
    return np.copysign(input, other)


@op(input=no_derivative("heaviside"), values=no_derivative("heaviside"), takes="bif", inplace=True)
def heaviside(input: Array, values: Array) -> Array:
    """0 where `input` is negative, 1 where it is positive, `values`, of its dtype, where it is 0, NaN where it is.
    Raises NotImplementedError for different dtypes."""
    if input.dtype != values.dtype:
        raise NotImplementedError(
            f"heaviside is not implemented for tensors with different dtypes, got {input.dtype} and {values.dtype}"
        )
    step = np.where(input == 0, values, (input > 0).astype(input.dtype))
    return np.where(input != input, input, step)


def _logit_gradient(g: Tensor, input: Tensor, eps: float | None) -> Tensor:
    found, low = g / (input * (1 - input)), 0.0 if eps is None else eps
    return found.where((input >= low) & (input <= 1 - low), math.nan if eps is None else 0.0)


@op(input=_logit_gradient, promote="float", takes="f", inplace=True)
def logit(input: Array, eps: float | None = None) -> Array:
    """log(p / (1 - p)), the inverse of `sigmoid`; with `eps` of p within eps and 1 - eps.

    It is NaN elsewhere, and so is its gradient.
    """
    p = input
    if eps is not None:  # the lower bound counts first, which matters for an eps above 1/2
        low, high = input.dtype.type(eps), input.dtype.type(1 - eps)
        p = np.where(input < low, low, np.where(input > high, high, input))
    return np.log(p / (1 - p))


_SINC_SERIES = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 9)]
"""Coefficients of (t cos t - sin t) / t**2 in odd powers of t, accurate up to 1/2, where the two terms nearly
cancel."""


def _sinc_gradient(g: Tensor, input: Tensor) -> Tensor:
    t = input * math.pi
    near = t.abs() < 0.5
    small, large = t.where(near, 0), t.where(~near, 1)
    square, series = small * small, _SINC_SERIES[-1]
    for coefficient in reversed(_SINC_SERIES[:-1]):
        series = square * series + coefficient
    sine, cosine = large.sin(), large.cos()
    if not input.is_complex():  # sine and cosine of the distance to the nearest integer, which is exact
        whole = input.round()
        sign, turn = 1 - 2 * whole.remainder(2), (input - whole) * math.pi
        sine, cosine = turn.sin() * sign, turn.cos() * sign
    direct = (cosine - sine / large) / large
    return g * conjugate((small * series).where(near, direct)) * math.pi


def _sinc(input: np.ndarray) -> np.ndarray:
    if input.dtype.kind == "c":
        return np.sinc(input)
    whole, pi = np.rint(input), input.dtype.type(np.pi)
    sine = np.sin((input - whole) * pi)
    with np.errstate(invalid="ignore"):
        return np.where(input == 0, input.dtype.type(1), np.where(whole % 2 == 1, -sine, sine) / (input * pi))


sinc = unary_ufunc(_sinc, "sin(pi x) / (pi x), and 1 at 0.", name="sinc", gradient=_sinc_gradient, takes="fc")


class MantissaExponent(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any


@op(input=lambda g, exponent: g[0] * (-exponent.to(g[0].dtype)).exp2(), takes="f", widen=False)
def frexp(input: Array) -> MantissaExponent:
    """Mantissas and int32 exponents: input = mantissa * 2 ** exponent, with abs(mantissa) in [1/2, 1), or 0."""
    wide = input.astype(np.float32) if input.itemsize == 2 else input
    mantissa, exponent = np.frexp(wide)
    return MantissaExponent(mantissa.astype(input.dtype), np.asarray(exponent, np.int32))


@composite(inplace=True, takes="bifc")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2 ** other`, also where a finite `other` gives a `2 ** other` out of range."""
    dtype = input.dtype if input.dtype.category >= FLOATING else get_default_dtype()
    exponent = other.to(dtype) if other.dtype.category < FLOATING else other
    if exponent.is_complex():
        return input * exponent.exp2()
    most = -round(math.log2(finfo(dtype).tiny))  # both signs of it give normal numbers
    first = exponent.detach().clamp(-most, most)
    second = (exponent.detach() - first).clamp(-most, most)
    third = exponent - first - second
    third = third.where(third.isinf(), third.clamp(-most, most))  # 0 * 2 ** inf is NaN
    return input * first.exp2() * second.exp2() * third.exp2()
