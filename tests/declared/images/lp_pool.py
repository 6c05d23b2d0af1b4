"""Samples and references of `ops/images/lp_pool.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..images.pool import avg_reference
from ..samples import Sample, between, sample
from ..table import declare


def _response_samples() -> Iterator[Sample]:
    for size in (1, 2, 5):
        yield sample(between(-2, 2, 2, 4, 3), size, 0.5, 0.6, 1.5)
    yield sample(between(-2, 2, 2, 4, 3, 2), 3)
    yield sample(np.moveaxis(between(-2, 2, 1, 3, 2, 5), -1, 1), 3, 0.3)
    yield sample(between(-2, 2, 0, 4, 3), 2)


def _response_reference(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> np.ndarray:
    out = np.empty(input.shape, np.result_type(input, np.float64))
    for channel in range(input.shape[1]):
        around = input[:, max(channel - size // 2, 0) : channel + (size - 1) // 2 + 1]
        out[:, channel] = input[:, channel] / (k + alpha * np.square(around).sum(1) / size) ** beta
    return out


declare("local_response_norm", _response_reference, _response_samples)


_SIZES = ((7,), (5, 6), (4, 3, 5))


def _pool_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(0.5, 2, 2, 3, *_SIZES[dims - 1])
        yield sample(x, 2.0, 2)
        yield sample(x[0], 3, [3] * dims if dims > 1 else 3, [2] * dims)
        yield sample(x, 1.5, 2, 1)
        yield sample(x[:0], 2.0, 2)
        yield sample(np.moveaxis(between(0.5, 2, 1, *_SIZES[dims - 1], 3), -1, 1), 2.0, 2, ceil_mode=True)

    return samples


def _pool_reference(dims: int) -> Any:
    def reference(
        input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> np.ndarray:
        taps = (kernel_size,) * dims if isinstance(kernel_size, int) else kernel_size
        mean = avg_reference(dims)(input**norm_type, kernel_size, stride, 0, ceil_mode)
        return (mean * np.prod(taps)) ** (1 / norm_type)

    return reference


for _dims in (1, 2, 3):
    declare(f"lp_pool{_dims}d", _pool_reference(_dims), _pool_samples(_dims))
