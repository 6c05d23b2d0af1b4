"""Samples and references of `ops/views/slices.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, samples_of_shapes, strided_matrix
from ..table import declare


def _getitem_samples() -> Any:
    a = between(-2, 2, 3, 4)
    for index in (
        (1, ...),
        (slice(None), slice(1, 3)),
        (..., None, 2),
        (slice(2, 0), ...),
        (-1, slice(None, None, 2)),
        (0, 1, ...),
        (slice(None, None, -1), slice(2, None, -2)),
    ):
        yield sample(a, index)
    yield sample(strided_matrix(), (slice(1, None), ...))
    yield sample(between(-2, 2), (None, ...))
    yield sample(between(-2, 2, 0, 3), (slice(None), 1))


declare("getitem", lambda input, index: input[index], _getitem_samples)


def _select_reference(input: np.ndarray, dim: int, index: int) -> np.ndarray:
    return np.take(input, index, axis=dim)


declare(
    "select",
    _select_reference,
    samples_of_shapes(((3, 4), 0, 1), ((3, 4), -1, -2), (strided_matrix(), 1, 0), ((0, 3), 1, 2), ((3,), 0, 1)),
)


def _narrow_reference(input: np.ndarray, dim: int, start: int, length: int) -> np.ndarray:
    return np.take(input, np.arange(start, start + length), axis=dim)


declare(
    "narrow",
    _narrow_reference,
    samples_of_shapes(
        ((3, 4), 0, 1, 2),
        ((3, 4), -1, 0, 4),
        ((3, 4), 1, -3, 2),
        (strided_matrix(), 0, 2, 1),
        ((3, 4), 0, 3, 0),
        ((0, 3), 1, 1, 2),
    ),
)


def _diagonal_samples() -> Any:
    yield from samples_of_shapes(
        ((3, 4),), ((3, 4), 1), ((3, 4), -2), ((3, 4), 4), ((2, 3, 4), 0, 2, 0), (strided_matrix(), 0), ((0, 3),)
    )()


declare("diagonal", np.diagonal, _diagonal_samples)


def _unfold_reference(input: np.ndarray, dimension: int, size: int, step: int) -> np.ndarray:
    starts = range(0, input.shape[dimension] - size + 1, step)
    return np.stack(
        [np.moveaxis(np.take(input, range(start, start + size), axis=dimension), dimension, -1) for start in starts],
        dimension,
    )


declare(
    "unfold",
    _unfold_reference,
    samples_of_shapes(((7,), 0, 3, 2), ((3, 4), 1, 2, 1), (strided_matrix(), 0, 2, 1), ((0, 3), 1, 2, 1)),
)


def _split_reference(tensor: np.ndarray, split_size_or_sections: Any, dim: int = 0) -> tuple[np.ndarray, ...]:
    each = split_size_or_sections
    cuts = np.cumsum(each)[:-1] if isinstance(each, (tuple, list)) else np.arange(each, tensor.shape[dim], each)
    return tuple(np.split(tensor, cuts, dim))


_split_samples = samples_of_shapes(
    ((5, 2), 2),
    ((5, 2), (1, 0, 4)),
    ((2, 5), 3, 1),
    ((2, 4), 2, -1),
    (strided_matrix(), 2),
    ((0, 3), 2),
    ((0, 3), 2, 1),
)
declare("split", _split_reference, _split_samples)


def _unbind_reference(input: np.ndarray, dim: int = 0) -> tuple[np.ndarray, ...]:
    return tuple(np.moveaxis(input, dim, 0))


declare(
    "unbind", _unbind_reference, samples_of_shapes(((3, 2),), ((3, 2), 1), ((3,),), (strided_matrix(), -1), ((2, 0),))
)
declare(
    "chunk",
    lambda input, chunks, dim=0: tuple(np.array_split(input, chunks, dim)),
    samples_of_shapes(((6, 2), 3), ((2, 4), 2, 1), ((2, 4), 2, -1), (strided_matrix(), 3), ((0, 2), 3)),
)
declare(
    "split_with_sizes", _split_reference, samples_of_shapes(((5, 2), (2, 3)), ((2, 5), (1, 4), 1), ((0, 3), (0, 0)))
)
declare(
    "tensor_split",
    lambda input, indices_or_sections, dim=0: tuple(np.array_split(input, indices_or_sections, dim)),
    samples_of_shapes(((7, 2), 3), ((7, 2), (2, 5)), ((2, 4), 3, 1), (strided_matrix(), (1,)), ((0, 3), 2)),
)
declare(
    "hsplit", np.hsplit, samples_of_shapes(((4,), 2), ((2, 4), (1, 3)), ((2, 4), 2), (strided_matrix(), 2), ((0, 4), 2))
)
declare("vsplit", np.vsplit, samples_of_shapes(((4, 2), 2), ((4, 2), (1, 3)), (strided_matrix(), 3), ((0, 2), 2)))
declare(
    "dsplit",
    np.dsplit,
    samples_of_shapes(((1, 2, 4), 2), ((1, 2, 4), (1, 3)), (strided_matrix()[None], 2), ((0, 1, 4), 2)),
)


declare(
    "narrow_copy",
    lambda input, dim, start, length: input.take(range(start, start + length), dim),
    samples_of_shapes(((3, 4), 1, 1, 2), ((3, 4), 0, 2, 0), ((0, 3), 1, 0, 2)),
)
