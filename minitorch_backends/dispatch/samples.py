"""Samples: the calls with which every op is tested, declared beside the op.

A samples function yields `Sample`s. Float64 arrays in them stand for inputs of whatever dtype is being tested;
integer and boolean arrays (indices, masks) and everything else are passed as they are. The suite runs the forward
against the op's float64 reference in every dtype, first and second order gradient checks, the in-place form, and the
comparison with torch over the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Sample", "arrays_like", "between", "gapped", "pairs", "sample", "shaped", "unary_samples"]


class Sample(NamedTuple):
    """One call: positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def sample(*args: Any, **kwargs: Any) -> Sample:
    """The call `op(*args, **kwargs)`."""
    return Sample(args, kwargs)


def between(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    """Distinct float64 values spread over (low, high), in an order that looks random and is always the same.

    Distinct and evenly spaced, so that maxima are unique, and finite differences do not cross kinks at the middle of
    the range.
    """
    count = int(np.prod(shape))
    values = low + (high - low) * (np.arange(count) + 0.5) / max(count, 1)
    return np.random.default_rng(seed + 7919 * count).permutation(values).reshape(shape)


def arrays_like(low: float, high: float) -> list[np.ndarray]:
    """The shapes that every op must take: a matrix, a non-contiguous view, a 0-dim and an empty array."""
    return [
        between(low, high, 3, 4),
        between(low, high, 4, 6, seed=1)[::2, ::-2].T,
        between(low, high, seed=2),
        between(low, high, 0, 3, seed=3),
    ]


def unary_samples(low: float = -2.0, high: float = 2.0) -> Callable[[], Iterator[Sample]]:
    """Samples of an op of one input, with values in (low, high)."""

    def samples() -> Iterator[Sample]:
        for array in arrays_like(low, high):
            yield sample(array)

    return samples


def pairs(
    low: float = -2.0,
    high: float = 2.0,
    low_other: float | None = None,
    high_other: float | None = None,
    numbers: bool = True,
) -> Callable[[], Iterator[Sample]]:
    """Samples of an op of two inputs that broadcast, with values in (low, high) and in (low_other, high_other).

    In the last one the second input is a Python number, unless `numbers` is False.
    """
    low_other = low if low_other is None else low_other
    high_other = high if high_other is None else high_other

    def samples() -> Iterator[Sample]:
        yield sample(between(low, high, 3, 4), between(low_other, high_other, 3, 4, seed=5))
        yield sample(between(low, high, 3, 1), between(low_other, high_other, 4, seed=5))
        yield sample(between(low, high, 4, 6)[::2, ::-2].T, between(low_other, high_other, 2, seed=5))
        yield sample(between(low, high), between(low_other, high_other, 2, 2, seed=5))
        yield sample(between(low, high, 0, 3), between(low_other, high_other, 3, seed=5))
        if numbers:
            yield sample(between(low, high, 2, 3), (low_other + 3 * high_other) / 4)

    return samples


def shaped(*calls: tuple[Any, ...]) -> Callable[[], Iterator[Sample]]:
    """Samples from (shape, further arguments ...): an input of that shape with values in (-2, 2), then the arguments.

    A shape may also be an array, to pass it as it is.
    """

    def samples() -> Iterator[Sample]:
        for shape, *rest in calls:
            yield sample(shape if isinstance(shape, np.ndarray) else between(-2, 2, *shape), *rest)

    return samples


def gapped() -> np.ndarray:
    """A matrix of 3 x 2 whose elements do not lie side by side in memory, nor in order."""
    return arrays_like(-2, 2)[1]
