"""Samples and references of `ops/indexing/scatter_reduce.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


def _reference(
    input: np.ndarray, src: np.ndarray, places: np.ndarray, reduce: str, include_self: bool = True
) -> np.ndarray:
    """Reduce one place after the other, by the definition."""
    functions: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}
    out = input.copy().reshape(-1)
    for place in range(out.size):
        found = src[places == place]
        if found.size:
            out[place] = functions[reduce](np.append(found, out[place]) if include_self else found)
    return out.reshape(input.shape)


def _samples(*reductions: str) -> Any:
    def samples() -> Iterator[Sample]:
        places = np.array([[5, 0, 0], [3, 5, 5]])
        for reduce in reductions:
            for include_self in (True, False):
                yield sample(between(1, 30, 2, 4), between(1.3, 27, 2, 3, seed=1), places, reduce, include_self)
        yield sample(strided_matrix(), between(-3, 3, 3, seed=1), np.array([1, 1, 4]), reductions[0])
        yield sample(between(-2, 2), between(-3, 3, 2, seed=1), np.array([0, 0]), reductions[0])
        yield sample(between(-2, 2, 0, 3), between(-3, 3, 0), np.zeros(0, np.int64), reductions[0])

    return samples


declare(
    "combine_at",
    _reference,
    lambda: iter(
        [
            *_samples("sum", "prod", "mean")(),
            sample(between(1, 3, 3), np.array([0.0, 2.0, 3.0, 0.0, 0.0]), np.array([0, 0, 1, 2, 2]), "prod"),
            sample(np.array([0.0, 2.0, 3.0]), np.array([4.0, 0.0, 0.0]), np.array([0, 0, 1]), "prod", False),
        ]
    ),
)
declare("extreme_at", _reference, _samples("amax", "amin"))


def _scatter_samples() -> Iterator[Sample]:
    index = np.array([[0, 2, 2, 1], [0, 2, 0, 1]])
    for reduce in ("amax", "sum", "prod", "mean", "amin"):
        for include_self in (True, False):
            args = between(1, 30, 3, 4), 0, index, between(1.3, 27, 2, 4, seed=1), reduce
            yield sample(*args, include_self=include_self)
    yield sample(strided_matrix(), -1, np.array([[1, 1, 0]]), between(-3, 3, 3, 3, seed=1), "amin")
    yield sample(between(-2, 2), 0, np.array([0, 0]), between(-3, 3, 2, seed=1), "amax")
    yield sample(between(-2, 2, 0, 3), 1, np.zeros((0, 2), np.int64), between(-3, 3, 0, 2), "amax")


def _scatter_reference(
    input: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, *, include_self: bool = True
) -> np.ndarray:
    shape = input.shape or (1,)
    places = np.empty(index.shape, np.int64)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        places[place] = np.ravel_multi_index(target, shape)
    return _reference(input, src[tuple(map(slice, index.shape))], places, reduce, include_self)


declare("scatter_reduce", _scatter_reference, _scatter_samples)


def _index_samples() -> Iterator[Sample]:
    for reduce in ("amax", "prod", "mean", "amin"):
        for include_self in (True, False):
            args = between(1, 30, 3, 4), 0, np.array([2, 0, 2]), between(1.3, 27, 3, 4, seed=1), reduce
            yield sample(*args, include_self=include_self)
    yield sample(strided_matrix() + 3, -1, np.array([1]), between(1, 4, 3, 1), "mean")
    yield sample(between(-2, 2), 0, np.array(0), between(-3, 5), "amax")
    yield sample(between(-2, 2, 0, 3), 1, np.array([2, 2]), between(-3, 3, 0, 2), "amax")


def _index_reference(
    input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, *, include_self: bool = True
) -> np.ndarray:
    places = np.arange(input.size).reshape(input.shape or (1,)).take(index.reshape(-1), dim)
    return _reference(input, source.reshape(places.shape), places, reduce, include_self)


declare("index_reduce", _index_reference, _index_samples)
