"""Samples and references of `ops/elementwise/special.py`."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special

from minitorch_backends.ops.elementwise.special import _arguments
from tests.declared.samples import Sample, between, pairs, sample, strided_matrix, unary_samples
from tests.declared.table import declare


def _elementwise(function: Any) -> Any:
    """A function of one float from the standard library as a reference on arrays."""
    return lambda input: (
        np.vectorize(function, otypes=[np.float64])(input) if np.size(input) else np.array(input, np.float64)
    )


declare("erf", _elementwise(math.erf))
declare("erfc", _elementwise(math.erfc))


def _erfinv_reference(input: np.ndarray) -> np.ndarray:
    """By bisection of erf."""
    low, high = np.full(np.shape(input), -6.0), np.full(np.shape(input), 6.0)
    for _ in range(100):
        middle = (low + high) / 2
        below = _elementwise(math.erf)(middle) < input
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(np.abs(input) < 1, low, np.where(np.abs(input) > 1, np.nan, np.copysign(np.inf, input)))


declare("erfinv", _erfinv_reference, unary_samples(-0.9, 0.8))
declare("erfcx", lambda input: np.exp(input * input) * _elementwise(math.erfc)(input))


def _ndtr_reference(input: np.ndarray) -> np.ndarray:
    return _elementwise(math.erfc)(-input / math.sqrt(2)) / 2


declare("ndtr", _ndtr_reference, unary_samples(-4, 4))
declare("log_ndtr", lambda input: np.log(_ndtr_reference(input)), unary_samples(-4, 4))


def _quantile(p: float) -> float:
    if 0 < p < 1:
        return statistics.NormalDist().inv_cdf(p)
    return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)


declare("ndtri", _elementwise(_quantile), unary_samples(0.02, 0.97))
declare("lgamma", _elementwise(math.lgamma), unary_samples(0.3, 4))


def _polygamma_reference(n: int, input: Any) -> np.ndarray:
    """By 40 terms of its series, and Euler and Maclaurin's formula for the others."""
    x = np.asarray(input, np.float64)
    terms = np.sum([(x + k) ** -(n + 1.0) for k in range(40)], axis=0)
    far = x + 40
    rest = (
        far**-n / n
        + far ** -(n + 1.0) / 2
        + (n + 1) * far ** -(n + 2.0) / 12
        - (n + 1) * (n + 2) * (n + 3) * far ** -(n + 4.0) / 720
    )
    return (-1) ** (n + 1) * math.factorial(n) * (terms + rest)


def _digamma_reference(input: Any) -> np.ndarray:
    """By its recurrence, up to where its asymptotic series is exact."""
    x = np.asarray(input, np.float64)
    far = x + 40
    return (
        np.log(far)
        - 1 / (2 * far)
        - far**-2.0 / 12
        + far**-4.0 / 120
        - far**-6.0 / 252
        - np.sum([1 / (x + k) for k in range(40)], axis=0)
    )


declare("digamma", _digamma_reference, unary_samples(0.3, 4))
declare(
    "polygamma",
    _polygamma_reference,
    lambda: (
        sample(n, array)
        for n in (1, 2)
        for array in (between(0.3, 4, 3, 4), strided_matrix() + 3, between(0.3, 4), between(0.3, 4, 0, 3))
    ),
)


def _logit_reference(input: np.ndarray, eps: float | None = None) -> np.ndarray:
    p = input if eps is None else np.clip(input, eps, 1 - eps)
    return np.log(p / (1 - p))


declare(
    "logit",
    _logit_reference,
    lambda: iter(
        [
            sample(between(0.1, 0.9, 3, 4)),
            sample(between(0, 1, 4, 6)[::2, ::-2].T, 0.3),
            sample(between(0.1, 0.9)),
            sample(between(0, 1, 0, 3)),
        ]
    ),
)
declare("sinc", np.sinc)


def _lower_reference(input: Any, other: Any) -> np.ndarray:
    """Sum 200 terms of the series."""
    a, x = (np.asarray(each, np.float64) for each in np.broadcast_arrays(input, other))
    term = total = 1 / a
    for k in range(1, 200):
        term = term * x / (a + k)
        total = total + term
    gamma = np.vectorize(math.gamma, [np.float64])(a) if a.size else a
    return total * np.exp(-x) * x**a / gamma


declare("igamma", _lower_reference, pairs(0.3, 5, 0.2, 6, numbers=False))
declare("igammac", lambda input, other: 1 - _lower_reference(input, other), pairs(0.3, 5, 0.2, 6, numbers=False))


def _quantile_reference(input: Any, p: Any) -> np.ndarray:
    """By bisection of the lower incomplete gamma function."""
    low, high = np.zeros(np.broadcast_shapes(np.shape(input), np.shape(p))), np.asarray(40.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = _lower_reference(input, middle) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(low)


declare("gamma_quantile", _quantile_reference, pairs(0.6, 5, 0.1, 0.9, numbers=False))
declare(
    "mvlgamma",
    lambda input, p: (
        sum(np.vectorize(math.lgamma, [np.float64])(each) if each.size else each for each in _arguments(input, p))
        + p * (p - 1) / 4 * math.log(math.pi)
    ),
    lambda: (
        sample(array, p)
        for array, p in (
            (between(1.2, 4, 3, 4), 3),
            (strided_matrix() + 3.7, 2),
            (between(0.3, 4), 1),
            (between(1, 2, 0, 3), 2),
        )
    ),
)


def _zeta_reference(input: Any, other: Any) -> np.ndarray:
    """Sum 40 terms of the series, and the others by the Euler-Maclaurin formula."""
    x, q = np.asarray(input, np.float64), np.asarray(other, np.float64)
    far = q + 40
    return (
        np.sum([(q + k) ** -x for k in range(40)], axis=0)
        + far ** (1 - x) / (x - 1)
        + far**-x / 2
        + x * far ** (-x - 1) / 12
        - x * (x + 1) * (x + 2) * far ** (-x - 3) / 720
    )


declare("zeta", _zeta_reference, pairs(1.3, 4, 0.4, 5))


for _name, _of_any, _order in (("i0", "iv", 0), ("i0e", "ive", 0), ("i1", "iv", 1), ("i1e", "ive", 1)):
    declare(_name, functools.partial(getattr(scipy.special, _of_any), _order), unary_samples(-3, 4))

for _order in (0, 1):
    declare(f"bessel_j{_order}", functools.partial(scipy.special.jv, _order), unary_samples(-6, 7))
    declare(f"bessel_y{_order}", functools.partial(scipy.special.yv, _order), unary_samples(0.2, 7))
    declare(f"modified_bessel_k{_order}", functools.partial(scipy.special.kv, _order), unary_samples(0.2, 7))
    declare(f"scaled_modified_bessel_k{_order}", functools.partial(scipy.special.kve, _order), unary_samples(0.2, 7))
declare("spherical_bessel_j0", functools.partial(scipy.special.spherical_jn, 0), unary_samples(-6, 7))


def _airy_reference(input: np.ndarray) -> np.ndarray:
    """Compute Ai from Bessel functions of order 1/3 (Abramowitz and Stegun, 10.4.14 and 10.4.15)."""
    x = np.abs(input)
    argument = 2 / 3 * x**1.5
    falling = np.sqrt(x / 3) / np.pi * scipy.special.kv(1 / 3, argument)
    waves = np.sqrt(x) / 3 * (scipy.special.jv(1 / 3, argument) + scipy.special.jv(-1 / 3, argument))
    at_zero = 3 ** (-2 / 3) / scipy.special.gamma(2 / 3)
    return np.where(input == 0, at_zero, np.where(input > 0, falling, waves))


declare("airy_ai", _airy_reference, unary_samples(-3, 3))


def _samples(low: float, high: float) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        degrees = np.array([0.0, 1.0, 3.0, 6.0])
        yield sample(between(low, high, 3, 4), degrees)
        yield sample(between(low, high, 3), degrees[:, None])
        yield sample(strided_matrix() / 2, 5)
        yield sample(between(low, high), degrees)
        yield sample(between(low, high, 2, 2), 2)
        yield sample(between(low, high, 0, 4), degrees)

    return samples


def _reference(function: Callable[[Any, Any], Any], sign: int, shifted: bool) -> Callable[..., Any]:
    """SciPy's polynomial P[n], or P[n] + sign * P[n - 1] for a sign of 1 or -1."""

    def reference(input: Any, n: Any) -> Any:
        x, k = np.asarray(input, np.float64), np.asarray(n, np.int64)
        x = 2 * x - 1 if shifted else x
        return function(k, x) + (sign * function(k - 1, x) * (k > 0) if sign else 0)

    return reference


for _letter, _function, _sign in (
    ("t", scipy.special.eval_chebyt, 0),
    ("u", scipy.special.eval_chebyu, 0),
    ("v", scipy.special.eval_chebyu, -1),
    ("w", scipy.special.eval_chebyu, 1),
):
    declare(f"chebyshev_polynomial_{_letter}", _reference(_function, _sign, False), _samples(-1.6, 1.7))
    declare(f"shifted_chebyshev_polynomial_{_letter}", _reference(_function, _sign, True), _samples(-0.3, 1.7))
for _name, _function in (
    ("hermite_polynomial_h", scipy.special.eval_hermite),
    ("hermite_polynomial_he", scipy.special.eval_hermitenorm),
    ("laguerre_polynomial_l", scipy.special.eval_laguerre),
    ("legendre_polynomial_p", scipy.special.eval_legendre),
):
    declare(_name, _reference(_function, 0, False), _samples(-1.6, 1.7))


declare("xlog1py", lambda input, other: np.where(input == 0, 0.0, input * np.log1p(other)), pairs(-2, 2.3, -0.7, 2))


def _entropy_reference(input: np.ndarray) -> np.ndarray:
    return np.where(input > 0, -input * np.log(input), np.where(input == 0, 0.0, np.where(input < 0, -np.inf, np.nan)))


declare("entr", _entropy_reference, unary_samples(0.2, 3))


def _xlogy_samples() -> Iterator[Sample]:
    yield from pairs(-2, 2.3, 0.3, 3)()
    yield sample(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1.5, 0.5]))


declare("xlogy", lambda input, other: np.where(input == 0, 0.0, input * np.log(other)), _xlogy_samples)
