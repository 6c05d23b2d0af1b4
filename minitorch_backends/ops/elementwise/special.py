"""Special functions of statistics and physics, from SciPy, which is imported when one is first called."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index as as_int
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.arrays import elementwise
from ...kernels.runtime.first_use import load
from ...kernels.runtime.invariance import refuse_library
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.call_errors import install
from ...tensor.dtypes import promote_types
from ...tensor.tensor import Tensor
from ..gradients import conjugate, no_derivative
from .unary import unary_ufunc

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "i0", "igamma", "igammac", "lgamma", "logit", "mvlgamma", "polygamma", "sinc",
    "xlogy",
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
    traits="function",
    inplace=False,
)


# The normal distribution


ndtr = unary_ufunc(
    lambda input: scipy_special().ndtr(input),
    "P(X <= input) of a standard normal X, accurate in both tails.",
    name="ndtr",
    gradient=lambda g, input: g * ((input * input * -0.5).exp() / math.sqrt(2 * math.pi)),
    takes="f",
    traits="function",
    inplace=False,
)

log_ndtr = unary_ufunc(
    lambda input: scipy_special().log_ndtr(input),
    "The logarithm of `ndtr`, which stays finite where that underflows.",
    name="log_ndtr",
    gradient=lambda g, input: g * (math.sqrt(2 / math.pi) / erfcx(input * -math.sqrt(0.5))),
    takes="f",
    traits="function",
    inplace=False,
)


ndtri = unary_ufunc(
    lambda input: scipy_special().ndtri(input),
    "The inverse of `ndtr`; infinite at 0 and 1, NaN outside.",
    name="ndtri",
    gradient=lambda g, out: g * ((out * out * 0.5).exp() * math.sqrt(2 * math.pi)),
    takes="f",
    traits="function",
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


@op(input=lambda g, n, input: g * polygamma(n + 1, input), promote="float", takes="f", traits="function")
def polygamma(n: int, input: Array) -> Array:
    """The `n`-th derivative of `digamma`. Raises RuntimeError for a negative n, TypeError for other than an int."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise TypeError(f"polygamma(n, x): argument 'n' must be an int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}; expected 0 for digamma, or more")
    return scipy_special().polygamma(n, input).astype(input.dtype)


# Signs, steps and scales


def _logit_gradient(g: Tensor, input: Tensor, eps: float | None) -> Tensor:
    found, low = g / (input * (1 - input)), 0.0 if eps is None else eps
    return found.where((input >= low) & (input <= 1 - low), math.nan if eps is None else 0.0)


@op(input=_logit_gradient, promote="float", takes="f", traits="inplace")
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


# Relatives of the gamma function: its incomplete forms, its form of several variables, and the Hurwitz zeta function.
#
# `special` has the gamma function itself and its logarithmic derivatives.


def _density(input: Tensor, other: Tensor) -> Tensor:
    """The density of a gamma distribution, the derivative of `igamma`."""
    return ((input - 1) * other.log() - other - lgamma(input)).exp()


@op(
    input=no_derivative("igamma with respect to input"),
    other=lambda g, input, other: g * _density(input, other),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    traits="inplace",
)
def igamma(input: Array, other: Array) -> Array:
    """The regularized lower incomplete gamma function: the integral of t**(input - 1) exp(-t) from 0 to `other`, over
    gamma(input). NaN for negative arguments."""
    found = scipy_special().gammainc(input, other)
    # The limit, where SciPy has 0.
    return np.where((input > 0) & (input < np.finfo(input.dtype).tiny) & (other > 0), found.dtype.type(1), found)


@op(
    input=no_derivative("igammac with respect to input"),
    other=lambda g, input, other: g * -_density(input, other),
    promote=True,
    only_tensors=("input", "other"),
    takes="f",
    traits="inplace",
)
def igammac(input: Array, other: Array) -> Array:
    """1 - igamma(input, other), accurate where that is small."""
    return scipy_special().gammaincc(input, other)


_STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
_STEP = 1e-3


def _quantile_slope(g: Tensor, input: Tensor, p: Tensor, out: Tensor) -> Tensor:
    """The derivative by the shape, from five-point differences of the quantile's logarithm, to ten digits: it has no
    closed form."""
    moved = sum(gamma_quantile(input * (1 + at * _STEP), p).log() * weight for at, weight in _STENCIL)
    return g * out * moved / (input * _STEP)


@op(
    input=_quantile_slope,
    p=lambda g, input, out: g * (out + lgamma(input) - (input - 1) * out.log()).exp(),
    promote=True,
    only_tensors=("input", "p"),
    takes="f",
    traits="function",
)
def gamma_quantile(input: Array, p: Array) -> Array:
    """The number below which a gamma distributed one of shape `input` and scale 1 is with probability `p`."""
    return scipy_special().gammaincinv(input, p)


_MOST_VARIABLES = 1 << 20


def _arguments(input: Any, p: int) -> list[Any]:
    """Return the arguments of the `p` gamma functions in `mvlgamma`."""
    return [input - j / 2 for j in range(p)]


def _mvlgamma_gradient(g: Tensor, input: Tensor, p: int) -> Tensor:
    first, *others = map(digamma, _arguments(input, p))
    return g * sum(others, first)


@op(input=_mvlgamma_gradient, promote="float", takes="f", traits="no_booleans inplace")
def mvlgamma(input: Array, p: int) -> Array:
    """The logarithm of the gamma function of `p` variables: the sum of lgamma(input - j / 2) for j below `p`, plus
    p (p - 1) / 4 log(pi).

    Raises RuntimeError for a p below 1, and above 2**20.
    """
    count = as_int(p)
    if not 1 <= count <= _MOST_VARIABLES:
        raise RuntimeError(f"mvlgamma(): p must be an integer from 1 to {_MOST_VARIABLES}, got {p}")
    total = np.full(input.shape, count * (count - 1) / 4 * math.log(math.pi), input.dtype)
    for each in _arguments(input, count):
        total += elementwise.lgamma(each)
    return total


@op(
    input=no_derivative("zeta with respect to input"),
    other=lambda g, input, other: g * (-input * zeta(input + 1, other)),
    promote="float",
    takes="f",
    traits="function",
)
def zeta(input: Array, other: Array) -> Array:
    """The Hurwitz zeta function: the sum of (k + other)**-input over k = 0, 1, ...; infinite for an `input` of 1, NaN
    below 1."""
    found = scipy_special().zeta(input, other)
    return np.where(np.isposinf(input) & (other > 1), found.dtype.type(0), found)  # the limit, where SciPy has NaN


# Bessel functions and the Airy function, from SciPy. Those without derivative in torch have none here


def _over(value: Tensor, input: Tensor) -> Tensor:
    """value / input, and 0 where `input` is 0."""
    return (value / input.where(input != 0, 1)).where(input != 0, 0)


def _at_zero(slope: Tensor, input: Tensor) -> Tensor:
    """The derivative of i1 and i1e at 0, 1/2: the limit of I1(x) / x, which `_over` omits."""
    return slope.where(input != 0, 0.5)


# Modified, of the first kind

i0 = unary_ufunc(
    lambda input: scipy_special().i0(input),
    "The modified Bessel function of the first kind of order 0.",
    name="i0",
    gradient=lambda g, input: g * i1(input),
    takes="f",
)

i0e = unary_ufunc(
    lambda input: scipy_special().i0e(input),
    "exp(-|input|) * i0(input), which does not overflow.",
    name="i0e",
    gradient=lambda g, input, out: g * (i1e(input) - input.sign() * out),
    takes="f",
    traits="function",
    inplace=False,
)

i1 = unary_ufunc(
    lambda input: scipy_special().i1(input),
    "The modified Bessel function of the first kind of order 1.",
    name="i1",
    gradient=lambda g, input, out: g * _at_zero(i0(input) - _over(out, input), input),
    takes="f",
    traits="function",
    inplace=False,
)

i1e = unary_ufunc(
    lambda input: scipy_special().i1e(input),
    "exp(-|input|) * i1(input), which does not overflow.",
    name="i1e",
    gradient=lambda g, input, out: g * _at_zero(i0e(input) - input.sign() * out - _over(out, input), input),
    takes="f",
    traits="function",
    inplace=False,
)


# Without gradients


def _declare(name: str, doc: str, function: Callable[[Any], Any]) -> Callable[..., Tensor]:
    """An op of one floating input that has no gradient."""

    def forward(input: Array) -> Array:
        return np.asarray(function(input)).astype(input.dtype, copy=False)

    forward.__name__, forward.__doc__ = name, doc
    return op(promote="float", takes="f", traits="function")(forward)


def _of_scipy(name: str, function: str, doc: str) -> Callable[..., Tensor]:
    return _declare(name, doc, lambda x: getattr(scipy_special(), function)(x))


bessel_j0 = _of_scipy("bessel_j0", "j0", "The Bessel function of the first kind of order 0.")
bessel_j1 = _of_scipy("bessel_j1", "j1", "The Bessel function of the first kind of order 1.")
bessel_y0 = _of_scipy(
    "bessel_y0", "y0", "The Bessel function of the second kind of order 0; -inf at 0, NaN for negative input."
)
bessel_y1 = _of_scipy(
    "bessel_y1", "y1", "The Bessel function of the second kind of order 1; -inf at 0, NaN for negative input."
)
modified_bessel_k0 = _of_scipy("modified_bessel_k0", "k0",
    "The modified Bessel function of the second kind of order 0; infinite at 0, NaN for negative input.",
)  # fmt: skip
modified_bessel_k1 = _of_scipy("modified_bessel_k1", "k1",
    "The modified Bessel function of the second kind of order 1; infinite at 0, NaN for negative input.",
)  # fmt: skip
scaled_modified_bessel_k0 = _of_scipy("scaled_modified_bessel_k0", "k0e",
    "exp(input) * modified_bessel_k0(input), which does not vanish for large input.",
)  # fmt: skip
scaled_modified_bessel_k1 = _of_scipy("scaled_modified_bessel_k1", "k1e",
    "exp(input) * modified_bessel_k1(input), which does not vanish for large input.",
)  # fmt: skip
spherical_bessel_j0 = _declare(
    "spherical_bessel_j0",
    "The spherical Bessel function of the first kind of order 0: sin(input) / input, and 1 at 0.",
    lambda x: np.where(x == 0, 1, np.where(np.isinf(x), 0, np.sin(x) / x)),
)


def _airy_ai(x: np.ndarray) -> np.ndarray:
    """SciPy's, with what it lacks: numbers below the smallest float64, and the first term far out, where the phase
    has few digits left."""
    size = np.abs(x.astype(np.float64))
    wave = np.sin(2 / 3 * size * np.sqrt(size) + np.pi / 4) / (math.sqrt(math.pi) * np.sqrt(np.sqrt(size)))
    return np.where(x > 200, 0, np.where(x < -1e6, wave, scipy_special().airy(x)[0]))


airy_ai = _declare("airy_ai", "The Airy function Ai.", _airy_ai)


# Orthogonal polynomials, each by its recurrence in the degree, in float64. As in torch, they have no gradient


_HIGHEST_DEGREE = 1 << 16

Recurrence = Callable[[Any, Any, Any, int], Any]
"""P[k] from x, P[k - 1], P[k - 2] and k."""


def _evaluate(name: str, x: np.ndarray, n: np.ndarray, first: Any, following: Recurrence) -> np.ndarray:
    """The polynomials of degrees `n` (the integer parts) at `x`: 1 for degree 0, and 0 for negative degrees."""
    shape = broadcast_shapes(x.shape, n.shape)
    x, degree = np.broadcast_to(x, shape), np.broadcast_to(np.trunc(n), shape)
    highest = int(np.nan_to_num(degree, posinf=np.inf).max(initial=0.0).clip(max=_HIGHEST_DEGREE + 1))
    if highest > _HIGHEST_DEGREE:
        raise RuntimeError(f"{name}(): degree n must be at most {_HIGHEST_DEGREE}, got {degree.max()}")
    before, found = np.ones(x.shape), np.asarray(first(x), np.float64)
    out = np.where(np.isnan(x + degree), np.nan, np.where(degree < 0, 0.0, before))
    for k in range(1, highest + 1):
        if k > 1:
            before, found = found, following(x, found, before, k)
        np.copyto(out, found, where=degree == k)
    return out


def _declare_polynomial(
    name: str, doc: str, first: Any, following: Recurrence, shifted: bool = False
) -> Callable[..., Tensor]:
    """An op of an argument and a degree."""

    def forward(input: Array, n: Array) -> Array:
        x = input.astype(np.float64)
        return _evaluate(name, 2 * x - 1 if shifted else x, n, first, following).astype(input.dtype)

    forward.__name__, forward.__doc__ = (
        name,
        f"{doc} of degree `n` at `input`. Raises RuntimeError for degrees above 2**16.",
    )
    return op(promote="float", takes="f", traits="function")(forward)


def _chebyshev(x: Any, last: Any, before: Any, k: int) -> Any:
    return 2 * x * last - before


_CHEBYSHEV = {
    "t": ("first", lambda x: x),
    "u": ("second", lambda x: 2 * x),
    "v": ("third", lambda x: 2 * x - 1),
    "w": ("fourth", lambda x: 2 * x + 1),
}
"""For each kind: its name, and its polynomial of degree 1."""


def _chebyshev_of(letter: str, shifted: bool) -> Callable[..., Tensor]:
    kind, first = _CHEBYSHEV[letter]
    name = f"{'shifted_' * shifted}chebyshev_polynomial_{letter}"
    doc = f"The {'shifted ' * shifted}Chebyshev polynomial of the {kind} kind{' (at 2 * input - 1)' * shifted}"
    return _declare_polynomial(name, doc, first, _chebyshev, shifted)


chebyshev_polynomial_t = _chebyshev_of("t", False)
chebyshev_polynomial_u = _chebyshev_of("u", False)
chebyshev_polynomial_v = _chebyshev_of("v", False)
chebyshev_polynomial_w = _chebyshev_of("w", False)
shifted_chebyshev_polynomial_t = _chebyshev_of("t", True)
shifted_chebyshev_polynomial_u = _chebyshev_of("u", True)
shifted_chebyshev_polynomial_v = _chebyshev_of("v", True)
shifted_chebyshev_polynomial_w = _chebyshev_of("w", True)
hermite_polynomial_h = _declare_polynomial(
    "hermite_polynomial_h",
    "The Hermite polynomial of physics",
    lambda x: 2 * x,
    lambda x, last, before, k: 2 * x * last - 2 * (k - 1) * before,
)
hermite_polynomial_he = _declare_polynomial(
    "hermite_polynomial_he",
    "The Hermite polynomial of probability theory",
    lambda x: x,
    lambda x, last, before, k: x * last - (k - 1) * before,
)
laguerre_polynomial_l = _declare_polynomial(
    "laguerre_polynomial_l",
    "The Laguerre polynomial",
    lambda x: 1 - x,
    lambda x, last, before, k: ((2 * k - 1 - x) * last - (k - 1) * before) / k,
)
legendre_polynomial_p = _declare_polynomial(
    "legendre_polynomial_p",
    "The Legendre polynomial",
    lambda x: x,
    lambda x, last, before, k: ((2 * k - 1) * x * last - (k - 1) * before) / k,
)


def _log_where_counted(g: Tensor, input: Tensor, other: Tensor, log: Callable[[Tensor], Tensor], pole: int) -> Tensor:
    """g * log(other), and 0 where 0 * log was 0 at the pole of the logarithm or below it."""
    other = other.to(promote_types(other.dtype, g.dtype))
    return g * log(other.where(((input == 0) & (other <= pole)).logical_not(), pole + 1))


def _times_log(input: np.ndarray, other: np.ndarray, log: np.ufunc) -> np.ndarray:
    product = np.asarray(input * elementwise.each(log, other))
    return elementwise.select((input == 0) & ~np.isnan(other), np.zeros((), product.dtype), product)


@op(
    input=lambda g, input, other: _log_where_counted(g, input, other, Tensor.log, 0),
    other=lambda g, input, other: g * input / other,
    promote="float",
    takes="f",
    traits="inplace",
)
def xlogy(input: Array, other: Array) -> Array:
    """input * log(other), and 0 where `input` is 0, unless `other` is NaN."""
    return _times_log(input, other, np.log)


@op(
    input=lambda g, input, other: _log_where_counted(g, input, other, Tensor.log1p, -1),
    other=lambda g, input, other: g * input / (other + 1),
    promote="float",
    takes="f",
    traits="function",
)
def xlog1py(input: Array, other: Array) -> Array:
    """input * log1p(other), and 0 where `input` is 0, unless `other` is NaN."""
    return _times_log(input, other, np.log1p)


@op(input=lambda g, input: g * (-1 - input.log()), promote="float", takes="f", traits="function")
def entr(input: Array) -> Array:
    """-input * log(input), the terms of an entropy: 0 at 0, -inf for negative input."""
    terms = -input * elementwise.each(np.log, input)
    return np.where(input > 0, terms, np.where(input == 0, 0, np.where(input < 0, -np.inf, input)))


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The `n`-th derivative of `digamma`."""
    return polygamma(n, self)


def _polygamma_(self: Tensor, n: int) -> Tensor:
    """`polygamma`, written into this tensor."""
    return self.copy_(polygamma(n, self))


install(polygamma=_polygamma, polygamma_=_polygamma_)
