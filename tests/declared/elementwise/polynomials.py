"""Samples and references of `ops/elementwise/polynomials.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special

from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


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
