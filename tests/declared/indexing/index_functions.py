"""Samples and references of `ops/indexing/index_functions.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch_backends.ops.indexing.index_functions import _pad_rows

from ..samples import between, sample, strided_matrix
from ..table import declare


def _select_samples() -> Any:
    a = between(-2, 2, 3, 4)
    yield sample(a, 0, np.array([2, 0, 2]))
    yield sample(a, -1, np.array([1]))
    yield sample(strided_matrix(), 1, np.array([1, 0, 1]))
    yield sample(a, 0, np.empty(0, np.int64))
    yield sample(between(-2, 2, 0, 3), 1, np.array([2]))


declare("index_select", lambda input, dim, index: np.take(input, index, dim), _select_samples)


def _write_samples(*more: Any) -> Any:
    def samples() -> Any:
        a = between(-2, 2, 3, 4)
        yield sample(a, 0, np.array([2, 0]), between(-3, 3, 2, 4))
        yield sample(a, -1, np.array([1, 3, 0]), between(-3, 3, 3, 3))
        yield sample(strided_matrix(), 1, np.array([1]), between(-3, 3, 3, 1))
        yield sample(a, 0, np.empty(0, np.int64), between(-3, 3, 0, 4))
        yield from more

    return samples


def _add_reference(
    input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, *, alpha: float = 1
) -> np.ndarray:
    out = np.moveaxis(input.copy(), dim, 0)
    for position, rows in zip(index, np.moveaxis(source, dim, 0), strict=True):
        out[position] += alpha * rows
    return np.moveaxis(out, 0, dim)


declare(
    "index_add",
    _add_reference,
    _write_samples(
        sample(between(-2, 2, 3, 4), 0, np.array([1, 1, 0]), between(-3, 3, 3, 4)),
        sample(between(-2, 2, 3, 4), 0, np.array([1, 1]), between(-3, 3, 2, 4), alpha=-2),
    ),
)


def _copy_reference(input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[index] = np.moveaxis(source, dim, 0)
    return out


declare("index_copy", _copy_reference, _write_samples())


def _fill_samples() -> Any:
    for (array, dim, index, _), _ in _write_samples()():
        yield sample(array, dim, index, 1.5)
    yield sample(between(-2, 2, 3, 4), 0, np.array([1]), between(-3, 3))


def _fill_reference(input: np.ndarray, dim: int, index: np.ndarray, value: Any) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[index] = value
    return out


declare("index_fill", _fill_reference, _fill_samples)


def _put_samples() -> Any:
    a, rows, columns = between(-2, 2, 3, 4), np.array([2, 0]), np.array([1, -1])
    yield sample(a, (rows,), between(-3, 3, 2, 4))
    yield sample(a, (rows,), between(-3, 3, 4))
    yield sample(a, (rows, columns), between(-3, 3, 2))
    yield sample(a, (a > 0,), between(-3, 3))
    yield sample(a, (np.array([1, 1, 0]),), between(-3, 3, 3, 4), accumulate=True)
    yield sample(strided_matrix(), (rows,), between(-3, 3, 2, 2))
    yield sample(a, (np.empty(0, np.int64),), between(-3, 3, 0, 4))


def _put_reference(input: np.ndarray, indices: Any, values: np.ndarray, accumulate: bool = False) -> np.ndarray:
    out = input.copy()
    places = np.arange(out.size).reshape(out.shape)[tuple(indices)]
    for place, value in zip(places.flat, np.broadcast_to(values, places.shape).flat, strict=True):
        out.flat[place] = value + (out.flat[place] if accumulate else 0)
    return out


declare("index_put", _put_reference, _put_samples)


def _take_samples() -> Any:
    for array in (between(-2, 2, 3, 4), strided_matrix()):
        yield sample(array, np.array([[0, 5], [-1, 5]]))
    yield sample(between(-2, 2), np.array(0))
    yield sample(between(-2, 2, 0, 3), np.empty(0, np.int64))


declare("take", np.take, _take_samples)


def _write_flat_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), np.array([[0, 5], [-1, 7]]), between(-3, 3, 2, 2))
    yield sample(between(-2, 2, 3, 4), np.array([3, 3, -9]), between(-3, 3, 3), True)
    yield sample(strided_matrix(), np.array([4, 1]), between(-3, 3, 2, 1))
    yield sample(between(-2, 2), np.array([0, 0]), between(-3, 3, 2), accumulate=True)
    yield sample(between(-2, 2, 0, 3), np.empty(0, np.int64), between(-3, 3, 0))


def _write_flat_reference(input: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False) -> Any:
    return _put_reference(input.flatten(), (index.reshape(-1),), source.reshape(-1), accumulate).reshape(input.shape)


declare("put", _write_flat_reference, _write_flat_samples)


def _unravel_samples() -> Any:
    yield sample(np.array([[4, 11], [0, 7]]), (3, 4))
    yield sample(np.array(11), [2, 3, 2])
    yield sample(np.array([3, 1]), 5)
    yield sample(np.empty(0, np.int64), (3, 0))


declare(
    "unravel_index",
    lambda indices, shape: tuple(np.array(each) for each in np.unravel_index(indices, shape)),
    _unravel_samples,
)


def _masks() -> Any:
    a = between(-2, 2, 3, 4)
    yield a, a > 0.5
    yield a, a[0] > 0
    yield a[0], a > 0
    yield strided_matrix(), strided_matrix() > 0
    yield between(-2, 2), np.array(True)
    yield between(-2, 2, 0, 3), np.zeros((0, 3), bool)


def _masked_select_samples() -> Any:
    for array, mask in _masks():
        yield sample(array, mask)


declare(
    "masked_select",
    lambda input, mask: (input + np.zeros(mask.shape))[mask & np.ones(input.shape, bool)],
    _masked_select_samples,
)


def _masked_scatter_samples() -> Any:
    for array, mask in _masks():
        if array.ndim >= mask.ndim:
            yield sample(array, mask, between(-3, 3, max(array.size, 1) + 1))


def _masked_scatter_reference(input: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    out, mask = input.copy(), mask & np.ones(input.shape, bool)
    out[mask] = source.flatten()[: mask.sum()]
    return out


declare("masked_scatter", _masked_scatter_reference, _masked_scatter_samples)


def _nonzero_samples() -> Any:
    for array, mask in _masks():
        yield sample(np.where(np.broadcast_to(mask, array.shape) if mask.size == array.size else True, array, 0.0))


def _nonzero_reference(input: np.ndarray, *, as_tuple: bool = False) -> Any:
    return np.argwhere(input)


declare("argwhere", np.argwhere, _nonzero_samples)
declare("nonzero", _nonzero_reference, _nonzero_samples)


declare(
    "nonzero_static",
    lambda input, *, size, fill_value=-1: _pad_rows(np.argwhere(input), size, fill_value),
    lambda: (
        sample(array, size=size)
        for array, size in ((np.eye(3)[:2], 1), (np.eye(3), 5), (np.zeros((0, 2)), 2), (np.array(2.0), 2))
    ),
)
