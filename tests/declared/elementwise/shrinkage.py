"""Samples and references of `ops/elementwise/shrinkage.py`."""

from __future__ import annotations

import numpy as np

from ..elementwise.activations import with_options
from ..samples import arrays_like, sample, unary_samples
from ..table import declare

declare(
    "threshold",
    lambda input, threshold, value: np.where(input <= threshold, value, input),
    lambda: (sample(each, 0.4, 7) for each in arrays_like(-2, 2.5)),
)
declare(
    "hardshrink",
    lambda input, lambd=0.5: np.where(np.abs(input) > lambd, input, 0),
    with_options(-2, 2.5, {"lambd": 1.1}),
)
declare(
    "softshrink",
    lambda input, lambd=0.5: np.sign(input) * np.maximum(np.abs(input) - lambd, 0),
    with_options(-2, 2.5, {"lambd": 1.1}),
)
declare("tanhshrink", lambda input: input - np.tanh(input), unary_samples())
