"""Samples: the calls with which each op is tested, declared beside the op.

A samples function yields `Sample`s. Float64 arrays in them stand for inputs of the dtype under test. Integer and
boolean arrays (indices, masks) and all other values are passed unchanged. Over the same samples the suite compares the
forward with the float64 reference in every dtype, checks first and second order gradients and the in-place form, and
compares with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Sample(NamedTuple):
    """One call: positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def sample(*args: Any, **kwargs: Any) -> Sample:
    """The call `op(*args, **kwargs)`."""
    return Sample(args, kwargs)


def between(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    """Distinct float64 values, evenly spaced over (low, high), in a fixed order that looks random.

    Maxima are therefore unique, and finite differences do not cross a kink at the middle of the range.
    """
    count = int(np.prod(shape))
    values = low + (high - low) * (np.arange(count) + 0.5) / max(count, 1)
    return np.random.default_rng(seed + 7919 * count).permutation(values).reshape(shape)


def arrays_like(low: float, high: float) -> list[np.ndarray]:
    """The shapes that every op must handle: a matrix, a non-contiguous view, a 0-dim and an empty array."""
    return [
        between(low, high, 3, 4),
        between(low, high, 4, 6, seed=1)[::2, ::-2].T,
        between(low, high, seed=2),
        between(low, high, 0, 3, seed=3),
    ]


def unary_samples(low: float = -2.0, high: float = 2.0) -> Callable[[], Iterator[Sample]]:
    """Samples of a unary op, with values in (low, high)."""

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
    """Samples of a binary op that broadcasts, with values in (low, high) and in (low_other, high_other).

    The last sample has a Python number as second input, unless `numbers` is False.
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


def samples_of_shapes(*calls: tuple[Any, ...]) -> Callable[[], Iterator[Sample]]:
    """Samples from (shape, further arguments ...): an input of that shape with values in (-2, 2), then the arguments.

    An array in place of a shape is passed unchanged.
    """

    def samples() -> Iterator[Sample]:
        for shape, *rest in calls:
            yield sample(shape if isinstance(shape, np.ndarray) else between(-2, 2, *shape), *rest)

    return samples


def strided_matrix() -> np.ndarray:
    """A 3 x 2 matrix whose elements are neither adjacent nor in order in memory."""
    return arrays_like(-2, 2)[1]
