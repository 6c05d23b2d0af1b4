"""Samples and references of `ops/conv/fold.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.conv.fold import _columns
from minitorch_backends.ops.conv.functions import numbers

from ..conv.im2col import _unfold_reference
from ..images.pool import max_reference
from ..samples import Sample, between, sample
from ..table import declare


def _unpool_reference(dims: int) -> Callable[..., np.ndarray]:
    def reference(
        input: Any, indices: Any, kernel_size: int, stride: Any = None, padding: int = 0, output_size: Any = None
    ) -> np.ndarray:
        step = kernel_size if stride is None else stride
        size = [(n - 1) * step - 2 * padding + kernel_size for n in input.shape[-dims:]]
        size = list(output_size or size)
        out = np.zeros((*input.shape[:-dims], math.prod(size)), input.dtype)
        for place in np.ndindex(*input.shape):
            out[(*place[:-dims], indices[place])] = input[place]
        return out.reshape(*input.shape[:-dims], *size)

    return reference


def _unpool_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(-2, 2, 2, 3, *(6, 4, 4)[:dims])
        found = max_reference(dims)(x, 2, return_indices=True)
        yield sample(*found, 2)
        yield sample(found[0][0], found[1][0], 2, output_size=[n + (i == 0) for i, n in enumerate(x.shape[2:])])
        yield sample(np.moveaxis(np.moveaxis(found[0], 1, -1).copy(), -1, 1), found[1], 2, 2)
        yield sample(found[0][:0], found[1][:0], 2)

    return samples


def _unfold_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 3, 4, 5), 2)
    yield sample(between(-2, 2, 3, 4, 5), (2, 3), (1, 2), 1, (2, 1))
    yield sample(between(-2, 2, 1, 4, 5, 3).transpose(0, 3, 1, 2), 3, padding=1)
    yield sample(between(-2, 2, 0, 3, 4, 5), 2)


def _unfold_flat_reference(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    x = input if input.ndim == 4 else input[None]
    at = _columns("reference", x.shape[2:], kernel_size, dilation, padding, stride)
    found = _unfold_reference(x, at)
    found = found.reshape(x.shape[0], x.shape[1] * math.prod(at.kernel), math.prod(at.output))
    return found if input.ndim == 4 else found[0]


declare("unfold_images", _unfold_flat_reference, _unfold_samples)


def _fold_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 12, 12), (4, 5), 2)
    yield sample(between(-2, 2, 12, 9), (4, 5), (2, 3), (1, 2), (1, 2), (2, 2))
    yield sample(between(-2, 2, 1, 8, 16)[..., ::-1], 3, 2, 1, 1, (1, 1))
    yield sample(between(-2, 2, 0, 12, 12), (4, 5), 2)


def _fold_reference(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> np.ndarray:
    x = input if input.ndim == 3 else input[None]
    size = numbers("reference", "output_size", output_size, 2)
    at = _columns("reference", size, kernel_size, dilation, padding, stride)
    columns = x.reshape(x.shape[0], x.shape[1] // math.prod(at.kernel), math.prod(at.kernel), *at.output)
    wide = np.zeros((*columns.shape[:2], *at.wide()), input.dtype)
    for number, (_, place) in enumerate(at.taps()):
        wide[place] += columns[:, :, number]
    return wide[at.inside()] if input.ndim == 3 else wide[at.inside()][0]


declare("fold", _fold_reference, _fold_samples)


for _dims in (1, 2, 3):
    declare(f"max_unpool{_dims}d", _unpool_reference(_dims), _unpool_samples(_dims))
