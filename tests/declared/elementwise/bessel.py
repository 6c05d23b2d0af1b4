"""Samples and references of `ops/elementwise/bessel.py`."""

from __future__ import annotations

import functools

import numpy as np
import scipy.special

from ..samples import unary_samples
from ..table import declare

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
