"""Samples and references of `ops/elementwise/arithmetic.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, pairs, sample, strided_matrix, unary_samples
from ..table import declare
from .logic import whole


def _also(samples: Callable[[], Iterator[Sample]], **named: Any) -> Callable[[], Iterator[Sample]]:
    """The samples, and the first two of them again with keywords."""

    def all_samples() -> Iterator[Sample]:
        calls = list(samples())
        yield from calls
        yield from (sample(*call.args, **named) for call in calls[:2])

    return all_samples


declare("add", lambda input, other, alpha=1: input + alpha * other, _also(pairs(), alpha=3))
declare("sub", lambda input, other, alpha=1: input - alpha * other, _also(pairs(), alpha=3))
declare("rsub", lambda input, other, alpha=1: other - alpha * input, _also(pairs(), alpha=3))
declare("neg", np.negative, unary_samples())
declare("positive", np.positive, unary_samples())
declare("mul", np.multiply, pairs())
_dividends = pairs(-7, 7.3, 0.5, 3)
declare("floor_divide", lambda input, other: np.floor(np.true_divide(input, other)), _dividends)
declare("div_trunc", lambda input, other: np.trunc(np.true_divide(input, other)), _dividends)
declare("div", np.true_divide, pairs(-2, 2.3, 0.5, 3))
declare("remainder", lambda input, other: input - np.floor(np.true_divide(input, other)) * other, _dividends)
declare("fmod", lambda input, other: input - np.trunc(np.true_divide(input, other)) * other, _dividends)


def _triples(low: float, high: float, **named: Any) -> Callable[[], Iterator[Sample]]:
    """Samples of an op of three inputs, the last of them with values in (low, high)."""

    def samples() -> Iterator[Sample]:
        yield sample(between(-2, 2, 3, 4), between(-2, 2, 3, 4, seed=1), between(low, high, 3, 4, seed=2))
        yield sample(between(-2, 2, 3, 4), between(-2, 2, 4, seed=1), between(low, high, 3, 1, seed=2), **named)
        yield sample(between(-2, 2, 3, 2), strided_matrix(), between(low, high, 3, 2, seed=2))
        yield sample(between(-2, 2), between(-2, 2, seed=1), between(low, high, seed=2))
        yield sample(between(-2, 2, 0, 3), between(-2, 2, 3, seed=1), between(low, high, seed=2))

    return samples


declare("lerp", lambda input, end, weight: input + weight * (end - input), _triples(0.1, 0.9))
declare("addcmul", lambda input, tensor1, tensor2, value=1: input + value * tensor1 * tensor2, _triples(-2, 2, value=3))
declare(
    "addcdiv", lambda input, tensor1, tensor2, value=1: input + value * tensor1 / tensor2, _triples(0.5, 3, value=3)
)


declare("reciprocal", lambda input: 1 / input, unary_samples(0.5, 3))


declare("gcd", np.gcd, whole)


declare("lcm", np.lcm, whole)


declare("copysign", np.copysign, pairs(0.2, 2, -2, 2.3))
