"""Samples and references of `ops/indexing/embedding.py`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


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


def _reference(
    input: np.ndarray, weight: np.ndarray, offsets: Any = None, *_: Any, mode: str = "mean",
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> np.ndarray:  # fmt: skip
    """Reduce one bag after the other."""
    flat = input.reshape(-1)
    ends = np.arange(len(input) + 1) * input.shape[-1] if offsets is None else offsets
    ends = ends if offsets is None or include_last_offset else np.append(ends, flat.size)
    factors = np.ones(flat.size) if per_sample_weights is None else per_sample_weights.reshape(-1)
    out = np.zeros((len(ends) - 1, weight.shape[1]))
    for bag, (start, end) in enumerate(itertools.pairwise(ends)):
        named = [k for k in range(start, end) if padding_idx is None or flat[k] != padding_idx % len(weight)]
        if named:
            rows = weight[flat[named]] * factors[named, None]
            out[bag] = getattr(np, mode)(rows, axis=0)
    return out


def _samples() -> Iterator[Sample]:
    indices, weight, offsets = np.array([1, 4, 2, 5, 4, 3]), between(-1, 1, 6, 3), np.array([0, 2, 2])
    for mode in ("mean", "sum", "max"):
        yield sample(indices.reshape(2, 3), weight, mode=mode)
        yield sample(indices, weight, offsets, mode=mode, padding_idx=-2)
    yield sample(indices, weight, np.array([0, 4]), mode="sum", per_sample_weights=between(-2, 2, 6))
    yield sample(indices, weight, np.array([0, 4, 6]), include_last_offset=True)
    yield sample(indices[::2], between(-1, 1, 6, 12)[::2, ::-2].T, np.array([0, 1]), mode="sum")
    yield sample(np.zeros(0, np.int64), weight, np.array([0, 0]), mode="max")


declare("embedding_bag", _reference, _samples)
