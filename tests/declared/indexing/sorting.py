"""Samples and references of `ops/indexing/sorting.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


def _reference_order(input: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """By counting: an element's place is the number of elements that come before it."""
    values = np.moveaxis(np.atleast_1d(input), dim, -1).astype(float)
    index = np.arange(values.shape[-1])
    one, other = values[..., :, None], values[..., None, :]
    before = (other > one if descending else other < one) | ((other == one) & (index < index[:, None]))
    place = before.sum(-1)
    order = np.empty_like(place)
    np.put_along_axis(order, place, np.broadcast_to(index, place.shape), -1)
    return np.moveaxis(order, -1, dim)


def _sort_reference(input: np.ndarray, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    order = _reference_order(input, dim, descending)
    return np.take_along_axis(np.atleast_1d(input), order, dim).reshape(input.shape), order.reshape(input.shape)


def _sort_samples() -> Iterator[Sample]:
    for array in (between(-2, 2, 3, 4), strided_matrix(), between(-2, 2), between(-2, 2, 0, 3), between(-2, 2, 3, 0)):
        yield sample(array, -1, False)
        yield sample(array, 0, True)


def _with_ties(samples: Any) -> Any:
    """The samples, and a call on equal elements, whose order must be kept."""

    def all_samples() -> Iterator[Sample]:
        yield from samples()
        yield sample(np.array([[3, 1, 3, 1], [0, 0, 0, -1]]), -1, False)
        yield sample(np.array([[3, 1, 3, 1], [0, 0, 0, -1]]), 1, True)

    return all_samples


declare("sorted_along", _sort_reference, _sort_samples)
declare("sort", _sort_reference, _with_ties(_sort_samples))
declare("argsort", lambda *args, **named: _sort_reference(*args, **named)[1], _with_ties(_sort_samples))
declare(
    "msort",
    lambda input: np.sort(input, axis=0) if input.ndim else input,
    lambda: (sample(array) for array in (between(-2, 2, 3, 4), strided_matrix(), between(-2, 2), between(-2, 2, 0, 3))),
)


def distinct_matrix() -> np.ndarray:
    """A matrix of 3 x 2 with gaps in memory, whose elements differ as integers too: torch takes any of equal ones."""
    return between(1, 30, 4, 6)[::2, ::-2].T


def _topk_samples() -> Iterator[Sample]:
    yield sample(between(1, 30, 3, 4), 2)
    yield sample(between(1, 30, 3, 4), 3, 0, False)
    yield sample(between(1, 30, 3, 4), 4, -1, True)
    yield sample(between(1, 30, 3, 4), 0)
    yield sample(distinct_matrix(), 1, 0)
    yield sample(between(-2, 2), 1)
    yield sample(between(-2, 2, 0, 3), 2)


def _topk_reference(input: np.ndarray, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, order = _sort_reference(np.atleast_1d(input), dim, largest)
    shape = input.shape or ()
    kept = tuple(k if axis == dim % len(shape) else size for axis, size in enumerate(shape))
    return values.take(range(k), axis=dim).reshape(kept), order.take(range(k), axis=dim).reshape(kept)


declare("topk", _topk_reference, _topk_samples)


def rank_reference(input: np.ndarray, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    results = (each.take([k - 1], axis=dim) for each in _sort_reference(np.atleast_1d(input), dim))
    return tuple(each if keepdim and input.ndim else np.squeeze(each, dim) for each in results)


def rank_samples() -> Iterator[Sample]:
    yield sample(between(1, 30, 3, 4), 2)
    yield sample(between(1, 30, 3, 4), 3, 0, True)
    yield sample(distinct_matrix(), 1, 0)
    yield sample(between(-2, 2), 1)
    yield sample(between(-2, 2, 0, 3), 2)


declare("kthvalue", rank_reference, rank_samples)
