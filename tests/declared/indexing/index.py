"""Samples and references of `ops/indexing/index.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, strided_matrix
from ..table import declare

_ALL = slice(None)


def _index_samples() -> Any:
    """(input, indices) for every kind of array index."""
    a, rows, columns = between(-2, 2, 3, 4), np.array([2, 0, 2]), np.array([1, -1, 1])
    for indices in ((rows,), (_ALL, columns), (rows, columns), (rows[:, None], columns), (np.array([[0, 1], [2, 2]]),)):
        yield sample(a, indices)
    yield sample(between(-2, 2, 2, 3, 4), (np.array([0, 1, 1]), _ALL, columns))
    yield sample(strided_matrix(), (rows,))
    yield sample(a, (np.empty(0, np.int64),))
    yield sample(between(-2, 2, 0, 3), (_ALL, rows))
    yield sample(between(-2, 2, 3), (np.array(1),))


declare("look_up", lambda input, indices: input[indices], _index_samples)


def _embed_samples() -> Any:
    for (array, indices), _ in _index_samples():
        yield sample(array[indices], array.shape, indices)


def _embed_reference(value: np.ndarray, shape: tuple[int, ...], indices: tuple[Any, ...]) -> np.ndarray:
    """By the definition: the sum over all elements that came from one place."""
    places = np.arange(int(np.prod(shape))).reshape(shape)[indices]
    sums = [value[places == place].sum() for place in range(int(np.prod(shape)))]
    return np.array(sums, value.dtype).reshape(shape)


declare("index_embed", _embed_reference, _embed_samples)


def _assign_samples() -> Any:
    """(input, values, indices, accumulate) where no place is named twice, unless values are added."""
    a, rows, columns = between(-2, 2, 3, 4), np.array([2, 0]), np.array([1, -1])
    yield sample(a, between(-3, 3, 2, 4), (rows,))
    yield sample(a, between(-3, 3, 4), (rows,))
    yield sample(a, between(-3, 3, 2), (rows, columns))
    yield sample(a, between(-3, 3, 3, 1), (_ALL, columns))
    yield sample(a, between(-3, 3, 3, 4), (np.array([1, 1, 0]),), accumulate=True)
    yield sample(a, between(-3, 3, 3), (np.array([1, 1, 0]), np.array([3, 3, -1])), accumulate=True)
    yield sample(strided_matrix(), between(-3, 3, 2, 2), (rows,))
    yield sample(a, between(-3, 3, 0, 4), (np.empty(0, np.int64),))


def _assign_reference(input: np.ndarray, values: np.ndarray, indices: Any, accumulate: bool = False) -> np.ndarray:
    out = input.flatten()
    places = np.arange(out.size).reshape(input.shape)[tuple(indices)]
    for place, value in zip(places.flat, np.broadcast_to(values, places.shape).flat, strict=True):
        out[place] = value + (out[place] if accumulate else 0)
    return out.reshape(input.shape)


declare("index_assign", _assign_reference, _assign_samples)


def _multiply_reference(input: np.ndarray, values: np.ndarray, indices: Any) -> np.ndarray:
    out = input.flatten()
    places = np.arange(out.size).reshape(input.shape)[tuple(indices)]
    for place, value in zip(places.flat, np.broadcast_to(values, places.shape).flat, strict=True):
        out[place] *= value
    return out.reshape(input.shape)


declare(
    "index_multiply",
    _multiply_reference,
    lambda: (sample(*call.args[:3]) for call in _assign_samples() if not call.kwargs),
)
