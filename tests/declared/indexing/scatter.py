"""Samples and references of `ops/indexing/scatter.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.declared.samples import Sample, between, sample, strided_matrix
from tests.declared.table import declare


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


def _scatter_samples_of_scatter_reduce() -> Iterator[Sample]:
    index = np.array([[0, 2, 2, 1], [0, 2, 0, 1]])
    for reduce in ("amax", "sum", "prod", "mean", "amin"):
        for include_self in (True, False):
            args = between(1, 30, 3, 4), 0, index, between(1.3, 27, 2, 4, seed=1), reduce
            yield sample(*args, include_self=include_self)
    yield sample(strided_matrix(), -1, np.array([[1, 1, 0]]), between(-3, 3, 3, 3, seed=1), "amin")
    yield sample(between(-2, 2), 0, np.array([0, 0]), between(-3, 3, 2, seed=1), "amax")
    yield sample(between(-2, 2, 0, 3), 1, np.zeros((0, 2), np.int64), between(-3, 3, 0, 2), "amax")


def _scatter_reference_of_scatter_reduce(
    input: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, *, include_self: bool = True
) -> np.ndarray:
    shape = input.shape or (1,)
    places = np.empty(index.shape, np.int64)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        places[place] = np.ravel_multi_index(target, shape)
    return _reference(input, src[tuple(map(slice, index.shape))], places, reduce, include_self)


declare("scatter_reduce", _scatter_reference_of_scatter_reduce, _scatter_samples_of_scatter_reduce)


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


def _select_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 4), 0, 1)
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3), -1, -2)
    yield sample(strided_matrix(), between(-3, 3, 2), 0, 0)
    yield sample(between(-2, 2, 3), between(-3, 3), 0, 2)
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 0), 1, 0)


def _select_reference(input: np.ndarray, src: np.ndarray, dim: int, index: int) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[index] = src
    return out


declare("select_scatter", _select_reference, _select_samples)


def _slice_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2, 4), 0, 1)
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3, 2), 1, 0, 4, 2)
    yield sample(strided_matrix(), strided_matrix(), dim=-1)
    yield sample(between(-2, 2, 3), between(-3, 3, 0), 0, 1, 1)


def _slice_reference(
    input: np.ndarray, src: np.ndarray, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[start:end:step] = np.moveaxis(src, dim, 0)
    return out


declare("slice_scatter", _slice_reference, _slice_samples)


def _diagonal_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3))
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2), -1)
    yield sample(between(-2, 2, 2, 3, 2), between(-3, 3, 3, 1), 1, 0, 2)
    yield sample(strided_matrix(), between(-3, 3, 2))
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 0))


def _diagonal_reference(
    input: np.ndarray, src: np.ndarray, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> np.ndarray:
    out = input.copy()
    places = np.arange(out.size).reshape(out.shape).diagonal(offset, dim1, dim2)
    out.reshape(-1)[places] = src
    return out


declare("diagonal_scatter", _diagonal_reference, _diagonal_samples)


def _window_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2, 3), (2, 3), (1, 4), 0)
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2, 2), (2, 2), (5, 2), 1)
    yield sample(between(-2, 2), between(-3, 3, 1), (1,), (3,))
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 0), (0,), (1,))


def _window_reference(
    input: np.ndarray, src: np.ndarray, size: Any, stride: Any, storage_offset: int = 0
) -> np.ndarray:
    out = input.copy()
    for place in np.ndindex(*size):
        out.reshape(-1)[storage_offset + sum(np.array(place, int) * np.array(stride, int))] = src[place]
    return out


declare("as_strided_scatter", _window_reference, _window_samples)
