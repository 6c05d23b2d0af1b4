"""Random numbers of further distributions: Poisson and binomial ones; and geometric, Cauchy and lognormal ones
written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...random import Generator
from ...tensor.call_errors import argument_errors, install, refuse_other_than_tensor
from ...tensor.casting import cast_unchecked
from ...tensor.tensor import Tensor, adopt
from ..views.broadcasting import broadcast_shapes
from .sampling import fill, generator_or_default

__all__ = ["binomial", "poisson"]


def _floating(name: str, argument: str, value: Any) -> np.ndarray:
    """The values of a floating tensor in float64."""
    refuse_other_than_tensor(name, argument, value)
    if not value.is_floating_point():
        raise RuntimeError(f"{name}(): argument {argument!r} must be a floating tensor, got {value.dtype!r}")
    return value._array.astype(np.float64)


@argument_errors
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of events, each drawn from a Poisson distribution with the rate that `input` has there.

    Raises RuntimeError for negative rates, and tensors that are not floating.
    """
    rates = _floating("poisson", "input", input)
    if not (rates >= 0).all():
        raise RuntimeError(f"poisson(): rates must be at least 0, got {rates.min()}")
    return adopt(cast_unchecked(generator_or_default(generator)._poisson(rates), input._array.dtype))


@argument_errors
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of successes in `count` trials, each with the probability `prob`; the two broadcast.

    Raises RuntimeError for counts that are negative, probabilities beyond [0, 1], and tensors that are not floating.
    """
    counts, chances = _floating("binomial", "count", count), _floating("binomial", "prob", prob)
    if not ((counts >= 0).all() and (chances >= 0).all() and (chances <= 1).all()):
        raise RuntimeError("binomial(): count must be at least 0 and prob from 0 to 1, got others among them")
    shape = broadcast_shapes(counts.shape, chances.shape)
    drawn = generator_or_default(generator)._binomial(np.broadcast_to(counts, shape), np.broadcast_to(chances, shape))
    return adopt(cast_unchecked(drawn, count._array.dtype))


# In place


def _fill(name: str, self: Tensor, draw: Callable[[Generator], np.ndarray], generator: Generator | None) -> Tensor:
    stream, dtype = generator_or_default(generator), self._array.dtype
    if name != "geometric" and not self.is_floating_point():
        raise RuntimeError(f"{name}_(): the dtype must be floating, got {self.dtype!r}")
    return fill(name, self, lambda: cast_unchecked(draw(stream), dtype))


def _cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Write Cauchy distributed numbers around `median`, of scale `sigma`. Raises RuntimeError unless it is positive."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_(): sigma must be positive, got {sigma}")
    shape = self._array.shape
    return _fill(
        "cauchy",
        self,
        lambda stream: median + sigma * np.tan(np.pi * (stream.uniform(shape, np.float64) - 0.5)),
        generator,
    )


def _geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Write numbers of trials up to the first success, each of probability `p`. Raises RuntimeError unless p is in
    (0, 1)."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_(): p must be in (0, 1), got {p}")
    return _fill("geometric", self, lambda stream: stream._geometric(p, self._array.shape), generator)


def _log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Write exponentials of normal numbers. Raises RuntimeError unless `std` is positive."""
    if not std > 0:
        raise RuntimeError(f"log_normal_(): std must be positive, got {std}")
    shape = self._array.shape
    return _fill("log_normal", self, lambda stream: np.exp(mean + std * stream.normal(shape, np.float64)), generator)


install(cauchy_=_cauchy_, geometric_=_geometric_, log_normal_=_log_normal_)
