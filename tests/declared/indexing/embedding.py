"""Samples and references of `ops/indexing/embedding.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _rows_samples() -> Iterator[Sample]:
    indices = np.array([[1, 4, 2], [0, 1, 1]])
    yield sample(indices, between(-1, 1, 5, 3))
    yield sample(indices.T, between(-1, 1, 6, 10)[::2, ::-2].T)
    yield sample(np.array(2), between(-1, 1, 5, 3))
    yield sample(np.zeros((0, 2), np.int64), between(-1, 1, 5, 3))


def _sums_samples() -> Iterator[Sample]:
    for (input, weight), _ in _rows_samples():
        yield sample(between(-1, 1, *input.shape, weight.shape[1]), input, weight.shape[0])
    yield sample(between(-1, 1, 6, 4)[::-2, ::2], np.array([1, 0, 1]), 3, 1)


def _sums_reference(grad_output: Any, input: Any, count: int, padding_idx: int | None = None) -> np.ndarray:
    out = np.zeros((count, grad_output.shape[-1]), grad_output.dtype)
    for place in np.ndindex(input.shape):
        if input[place] != padding_idx:
            out[input[place]] += grad_output[place]
    return out


declare("embedding_sums", _sums_reference, _sums_samples)
declare("embedding_rows", lambda input, weight, padding_idx=None: weight[input], _rows_samples)
declare("embedding", lambda input, weight, padding_idx=None: weight[input], _rows_samples)


def _one_hot_samples() -> Iterator[Sample]:
    yield sample(np.array([[1, 4], [0, 2]]))
    yield sample(np.array([1, 2, 0, 3])[::-2], 6)
    yield sample(np.array(2), 3)
    yield sample(np.zeros((0, 2), np.int64), 3)


declare(
    "one_hot",
    lambda input, num_classes=-1: np.eye(input.max() + 1 if num_classes == -1 else num_classes, dtype=np.int64)[input],
    _one_hot_samples,
)
