"""Samples and references of `ops/indexing/scatter.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, strided_matrix
from ..table import declare


def _gather_samples() -> Any:
    a = between(-2, 2, 3, 4)
    yield sample(a, 0, np.array([[0, 2, 1, 1], [2, 0, 0, 1]]))
    yield sample(a, 1, np.array([[3, 3], [0, 1]]))
    yield sample(strided_matrix(), -1, np.array([[1, 0, 1]]))
    yield sample(between(-2, 2), 0, np.array([0, 0]))
    yield sample(between(-2, 2, 0, 3), 1, np.zeros((0, 2), np.int64))


def _gather_reference(input: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    out, input = np.zeros(index.shape, input.dtype), np.atleast_1d(input)
    for place in np.ndindex(index.shape):
        source = list(place)
        source[dim] = index[place]
        out[place] = input[tuple(source)]
    return out


def _positions_samples() -> Any:
    for (input, dim, index), _ in _gather_samples():
        if input.ndim:
            yield sample(input, dim % input.ndim, index)


declare("gather_along", _gather_reference, _positions_samples)
declare("gather", _gather_reference, _gather_samples)


def _scatter_samples() -> Any:
    a, first = between(-2, 2, 3, 4), np.array([[0, 2, 1, 1], [2, 0, 0, 2]])
    yield sample(a, 0, first, between(-3, 3, 2, 4))
    yield sample(a, 0, first, between(-3, 3, 3, 5))
    yield sample(a, 1, np.array([[3, 2], [0, 1]]), between(-3, 3, 2, 2))
    yield sample(strided_matrix(), -1, np.array([[1, 0]]), between(-3, 3, 1, 2))
    yield sample(between(-2, 2, 0, 3), 1, np.zeros((0, 2), np.int64), between(-2, 2, 0, 2))


def _scatter_value_samples() -> Any:
    yield from _scatter_samples()
    yield sample(between(-2, 2, 3, 4), 0, np.array([[0, 2, 1, 1]]), 1.5)
    yield sample(between(-2, 2, 3, 4), 1, np.array([[0], [3]]), value=-1.5)
    yield sample(between(-2, 2, 3, 4), 0, np.array([[0, 0, 1, 1]]), between(-3, 3, 1, 4), reduce="add")


def _add_samples() -> Any:
    yield from _scatter_samples()
    yield sample(between(-2, 2, 3, 4), 0, np.array([[0, 2, 1, 1], [0, 0, 0, 1]]), between(-3, 3, 2, 4))
    yield sample(between(-2, 2), 0, np.array([0, 0]), between(-2, 2, 2))


def _scatter_reference(
    input: np.ndarray, dim: int, index: np.ndarray, src: Any = None, *, value: Any = None, reduce: Any = None
) -> np.ndarray:
    if reduce == "add":
        return _add_reference(input, dim, index, src)
    out, src = input.copy(), np.asarray(value if src is None else src)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        out[tuple(target)] = src[place] if src.ndim else src
    return out


def _add_reference(input: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray:
    out = input.reshape(input.shape or (1,)).copy()
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        out[tuple(target)] += src[place]
    return out.reshape(input.shape)


declare("scatter", _scatter_reference, _scatter_value_samples)
declare("scatter_add", _add_reference, _add_samples)


def _along_samples() -> Any:
    a = between(-2, 2, 3, 4)
    yield sample(a, np.array([[0, -1, 1, 1]]), 0)
    yield sample(a, np.array([[3, 3], [0, 1], [-2, 0]]), 1)
    yield sample(a[:, :1], np.array([[0, -1, 1, 1]]), 0)
    yield sample(a, np.array([7, 0, 11]))
    yield sample(strided_matrix(), np.array([[1]]), -1)
    yield sample(between(-2, 2, 0, 3), np.zeros((0, 2), np.int64), 1)


def _along_reference(input: np.ndarray, indices: np.ndarray, dim: int | None = None) -> np.ndarray:
    if dim is None:
        return input.flatten()[indices]
    others = [1 if axis == dim % input.ndim else size for axis, size in enumerate(input.shape)]
    wide = [1 if axis == dim % input.ndim else size for axis, size in enumerate(indices.shape)]
    return np.take_along_axis(input + np.zeros(wide), indices + np.zeros(others, int), dim)


declare("take_along_dim", _along_reference, _along_samples)
