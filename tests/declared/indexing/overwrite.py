"""Samples and references of `ops/indexing/overwrite.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, strided_matrix
from ..table import declare


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
