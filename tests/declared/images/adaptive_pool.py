"""Samples and references of `ops/images/adaptive_pool.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _reference(dims: int, reduce: Any) -> Callable[..., Any]:
    def reference(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        given = (output_size,) * dims if isinstance(output_size, int) else output_size
        size = input.shape[-dims:]
        wanted = [own if each is None else each for each, own in zip(given, size, strict=True)]
        out, at = np.empty((*input.shape[:-dims], *wanted), input.dtype), np.empty((*input.shape[:-dims], *wanted), int)
        where = np.arange(math.prod(size)).reshape(size)
        for place in np.ndindex(*wanted):
            cut = tuple(slice(i * n // c, -(-(i + 1) * n // c)) for i, n, c in zip(place, size, wanted, strict=True))
            seen = input[(..., *cut)].reshape(*input.shape[:-dims], math.prod(s.stop - s.start for s in cut))
            out[(..., *place)] = reduce(seen, axis=-1)
            at[(..., *place)] = where[cut].ravel()[seen.argmax(-1)]
        return (out, at) if return_indices else out

    return reference


_SIZES = ((7,), (6, 5), (4, 3, 5))


def _samples(dims: int, indices: bool) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(-2, 2, 2, 3, *_SIZES[dims - 1])
        yield sample(x, 3)
        yield sample(x[0], (1,) * dims)
        yield sample(x, (None, 2, 7)[:dims] if dims > 1 else 4)
        yield sample(np.moveaxis(between(-2, 2, 1, *_SIZES[dims - 1], 3), -1, 1), 2, *([True] if indices else []))
        yield sample(x[:0], 2)

    return samples


for _dims in (1, 2, 3):
    declare(f"adaptive_avg_pool{_dims}d", _reference(_dims, np.mean), _samples(_dims, False))
    declare(f"adaptive_max_pool{_dims}d", _reference(_dims, np.amax), _samples(_dims, True))
