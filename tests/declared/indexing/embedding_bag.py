"""Samples and references of `ops/indexing/embedding_bag.py`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


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
