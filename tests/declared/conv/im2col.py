"""Samples and references of `ops/conv/im2col.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minitorch_backends.kernels.conv.shapes import Steps, windows
from minitorch_backends.ops.conv.im2col import Pooled, Windows, _gather_reference, _kernel_axes

from ..samples import Sample, between, sample
from ..table import declare

_AT = (
    Windows((5, 4), (2, 3), (2, 1), (1, 1), (1, 1), (3, 4)),
    Windows((6,), (3,), (1,), (0,), (2,), (2,)),
    Windows((5,), (2,), (2,), (0,), (1,), (3,)),
    Windows((3, 3, 2), (2, 1, 2), (1, 2, 1), (0, 0, 1), (1, 1, 1), (2, 2, 3)),
)


def _image_samples() -> Iterator[Sample]:
    for at in _AT:
        yield sample(between(-1, 1, 2, 3, *at.size), at)
    yield sample(np.moveaxis(between(-1, 1, 1, *_AT[0].size, 2), -1, 1), _AT[0])
    yield sample(between(-1, 1, 0, 3, *_AT[0].size), _AT[0])


def _column_samples() -> Iterator[Sample]:
    for at in _AT:
        yield sample(between(-1, 1, 2, 3, *at.kernel, *at.output), at)
    yield sample(between(-1, 1, 0, 3, *_AT[0].kernel, *_AT[0].output), _AT[0])


def _output_samples() -> Iterator[Sample]:
    for at in _AT:
        yield sample(between(-1, 1, 2, 3, *at.output), at)
    yield sample(between(-1, 1, 0, 3, *_AT[0].output), _AT[0])


def _unfold_reference(input: Any, at: Windows) -> np.ndarray:
    wide = np.zeros((*input.shape[:2], *at.wide()), input.dtype)
    wide[at.inside()] = input
    out = np.zeros((*input.shape[:2], *at.kernel, *at.output), input.dtype)
    for tap, place in at.taps():
        out[(slice(None), slice(None), *tap)] = wide[place]
    return out


def _fold_reference(input: Any, at: Windows) -> np.ndarray:
    wide = np.zeros((*input.shape[:2], *at.wide()), input.dtype)
    for tap, place in at.taps():
        wide[place] += input[(slice(None), slice(None), *tap)]
    return wide[at.inside()]


declare("unfold_windows", _unfold_reference, _image_samples)
declare("fold_windows", _fold_reference, _column_samples)
declare("sum_windows", lambda input, at: _unfold_reference(input, at).sum(_kernel_axes(at)), _image_samples)


def _spread_reference(input: Any, at: Windows) -> np.ndarray:
    ones = (1,) * len(at.kernel)
    columns = input.reshape(*input.shape[:2], *ones, *at.output)
    return _fold_reference(np.broadcast_to(columns, (*input.shape[:2], *at.kernel, *at.output)), at)


declare("spread_windows", _spread_reference, _output_samples)


def _pool_reference(input: Any, at: Windows) -> Pooled:
    wide = np.full((*input.shape[:2], *at.wide()), -np.inf)
    wide[at.inside()] = input
    where = np.full(wide.shape, -1)
    where[at.inside()] = np.arange(math.prod(at.size)).reshape(at.size)
    steps = Steps(at.stride, at.padding, at.dilation)
    count = (*input.shape[:2], math.prod(at.kernel), *at.output)
    seen, places = (windows(x, at.kernel, at.output, steps).reshape(count) for x in (wide, where))
    least = np.finfo(np.float64).min  # the image's own values take precedence over padding
    best = np.expand_dims(np.where(places >= 0, np.maximum(seen, least), -np.inf).argmax(2), 2)
    return Pooled(*(np.take_along_axis(x, best, 2)[:, :, 0].astype(d) for x, d in ((seen, input.dtype), (places, int))))


declare("pool_max", _pool_reference, _image_samples)


def _flat_samples() -> Iterator[Sample]:
    for shape, count in (((2, 3, 2, 2), 9), ((1, 2, 3), 4), ((0, 3, 2, 2), 9)):
        yield sample(between(-1, 1, *shape), np.arange(math.prod(shape)).reshape(shape) * 5 % count)


def _scatter_samples() -> Iterator[Sample]:
    for (grad, indices), _ in _flat_samples():
        yield sample(grad, indices, (3, 3) if grad.ndim == 4 else (4,))
    yield sample(between(-1, 1, 2, 1, 3), np.array([[[2, 0, -1]], [[1, 3, 2]]]), (4,))
    at = Windows((4,), (2,), (2,), (0,), (1,), (2,))
    yield sample(between(-1, 1, 2, 1, 2), np.array([[[1, 2]], [[0, -1]]]), (4,), at)


def _gather_samples() -> Iterator[Sample]:
    for (output, indices), _ in _flat_samples():
        yield sample(between(-1, 1, *output.shape[:2], *((3, 3) if output.ndim == 4 else (4,)), seed=1), indices)


def _scatter_reference(input: Any, indices: Any, size: Sequence[int], at: Windows | None = None) -> np.ndarray:
    out = np.zeros((*input.shape[:2], math.prod(size)), input.dtype)
    for place in np.ndindex(*input.shape):
        if indices[place] >= 0:
            out[place[0], place[1], indices[place]] += input[place]
    return out.reshape(*input.shape[:2], *size)


declare("scatter_flat", _scatter_reference, _scatter_samples)
declare("gather_flat", _gather_reference, _gather_samples)


def _unpool_reference(input: Any, indices: Any, size: Sequence[int]) -> np.ndarray:
    out = np.zeros((*input.shape[:2], math.prod(size)), input.dtype)
    for place in np.ndindex(*input.shape):
        out[place[0], place[1], indices[place]] = input[place]
    return out.reshape(*input.shape[:2], *size)


def _unpool_samples() -> Iterator[Sample]:
    for shape, size in (((2, 3, 2, 2), (3, 3)), ((1, 2, 3), (4,)), ((0, 3, 2, 2), (3, 3))):
        order = np.random.default_rng(0).permutation(math.prod(size))[: math.prod(shape[2:])]
        yield sample(between(-1, 1, *shape), np.broadcast_to(order.reshape(shape[2:]), shape).copy(), size)


declare("unpool", _unpool_reference, _unpool_samples)
