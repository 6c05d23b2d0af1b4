"""Samples and references of `ops/elementwise/powers.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, pairs, sample, unary_samples
from ..table import declare


def _pow_reference(input: Any, exponent: Any) -> Any:
    input, exponent = np.asarray(input), np.asarray(exponent)
    if input.dtype.kind not in "fc" and exponent.dtype.kind not in "fc" and exponent.ndim:
        return np.trunc(np.power(input.astype(np.float64), exponent))
    return np.power(input, exponent)


def _pow_samples() -> Iterator[Sample]:
    yield from pairs(0.3, 3, -2, 2)()
    yield sample(between(-2, 2, 3, 4), 3)
    for exponent in (0, 1, 2, 3):
        yield sample(np.array([[-1.5, 0.0], [2.0, 0.5]]), exponent)
    yield sample(2, between(0, 3, 3, 2))


declare("pow", _pow_reference, _pow_samples)
declare("float_power", lambda input, exponent: np.power(np.asarray(input) * 1.0, exponent), pairs(0.3, 3, -2, 2))
declare("square", lambda input: input * (1 * input), unary_samples())
declare("sqrt", np.sqrt, unary_samples(0.3, 4))
declare("rsqrt", lambda input: np.power(input, -0.5), unary_samples(0.3, 4))
