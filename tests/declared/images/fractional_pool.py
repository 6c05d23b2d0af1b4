"""Samples and references of `ops/images/fractional_pool.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _reference(dims: int) -> Callable[..., Any]:
    def reference(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        """Reduce one window after the other, at the places that the samples give."""
        x = input if input.ndim == dims + 2 else input[None]
        size, kernel = x.shape[2:], (kernel_size,) * dims if isinstance(kernel_size, int) else kernel_size
        if output_size is None:
            output_size = tuple(int(each * ratio) for each, ratio in zip(size, output_ratio, strict=True))
        output = (output_size,) * dims if isinstance(output_size, int) else output_size
        values, indices = np.zeros((*x.shape[:2], *output)), np.zeros((*x.shape[:2], *output), np.int64)
        for n, c, *place in np.ndindex(*values.shape):
            draws = _random_samples[n, c] if dims == 3 else _random_samples[n, c, ::-1]
            begin = [
                own - taps if i == count - 1 else int((i + u) * a) - int(u * a)
                for i, own, taps, count, u in zip(place, size, kernel, output, draws, strict=True)
                for a in [(own - taps) / max(count - 1, 1)]
            ]
            window = tuple(slice(b, b + taps) for b, taps in zip(begin, kernel, strict=True))
            inside = np.unravel_index(x[n, c][window].argmax(), kernel)
            found = tuple(b + i for b, i in zip(begin, inside, strict=True))
            values[n, c, *place], indices[n, c, *place] = x[n, c][found], np.ravel_multi_index(found, size)
        if input.ndim == dims + 1:
            values, indices = values[0], indices[0]
        return (values, indices) if return_indices else values

    return reference


_SIZES = {2: (6, 5), 3: (5, 6, 7)}


def _samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x, draws = between(-9, 9, 2, 2, *_SIZES[dims]), between(0.25, 0.75, 2, 2, dims, seed=3)
        yield sample(x, 2, 3, return_indices=True, _random_samples=draws)
        yield sample(x, (2, 3, 2)[:dims], (3, 2, 4)[:dims], _random_samples=draws)
        yield sample(x[0], 2, output_ratio=(0.6,) * dims, return_indices=True, _random_samples=draws[:1])
        yield sample(np.moveaxis(between(-9, 9, 1, *_SIZES[dims], 2), -1, 1), 2, 1, _random_samples=draws[:1])
        yield sample(x[:0], 2, 3, _random_samples=draws[:0])

    return samples


for _dims in (2, 3):
    declare(f"fractional_max_pool{_dims}d", _reference(_dims), _samples(_dims))
