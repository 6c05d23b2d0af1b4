"""Samples and references of `ops/elementwise/exponential.py`."""

from __future__ import annotations

import numpy as np

from minitorch_backends.ops.elementwise.exponential import _LOG_2, _LOG_10
from tests.declared.samples import between

from ..samples import pairs, sample, unary_samples
from ..table import declare

declare("exp", np.exp)
declare("exp2", lambda input: 2.0**input)
declare("expm1", np.expm1)
declare("log", np.log, unary_samples(0.3, 4))
declare("log2", lambda input: np.log(input) / _LOG_2, unary_samples(0.3, 4))
declare("log10", lambda input: np.log(input) / _LOG_10, unary_samples(0.3, 4))
declare("log1p", np.log1p, unary_samples(-0.7, 3))
declare("logaddexp", lambda input, other: np.log(np.exp(input) + np.exp(other)), pairs(-3, 3, numbers=False))
declare("logaddexp2", lambda input, other: np.log2(2.0**input + 2.0**other), pairs(-3, 3, numbers=False))


declare("frexp", np.frexp, unary_samples(-2.3, 1.9))


declare(
    "ldexp",
    lambda input, other: input * 2.0**other,
    lambda: iter(
        [
            sample(between(-2, 2, 3, 4), np.array([1, 2, 0, 3])),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, np.array([[1], [2]]).repeat(3, 0)[:3]),
            sample(between(-2, 2), np.array(2)),
            sample(between(-2, 2, 0, 3), np.array([1, 2, 3])),
        ]
    ),
)
