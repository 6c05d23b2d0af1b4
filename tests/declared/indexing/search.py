"""Samples and references of `ops/indexing/search.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.indexing.search import _select_results, _unique

from ..samples import Sample, arrays_like, between, sample
from ..table import declare


def _sorted_samples() -> Iterator[Sample]:
    edges = np.sort(between(4, 50, 6, seed=1))
    for each in arrays_like(0, 60):
        yield sample(edges, each)
    rows = np.sort(between(4, 50, 3, 5, seed=1), -1)
    yield sample(rows, between(0, 60, 3, 4), right=True)
    yield sample(np.array([1, 3, 3, 7]), np.array([[3, 0], [9, 7]]), side="right")
    yield sample(np.array([1, 3, 3, 7]), np.array([3, 3]), out_int32=True)
    yield sample(np.array([3, 1, 7, 3]), np.array([3, 2]), sorter=np.array([1, 0, 3, 2]))


def _sorted_reference(
    sorted_sequence: np.ndarray, input: np.ndarray, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> np.ndarray:  # fmt: skip
    """By counting."""
    if sorter is not None:
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    wanted = np.asarray(input)[..., None]
    edges = sorted_sequence if sorted_sequence.ndim == 1 else sorted_sequence[..., None, :]
    below = edges <= wanted if right or side == "right" else edges < wanted
    return below.sum(-1).astype(np.int32 if out_int32 else np.int64)


declare("places_in_order", _sorted_reference, _sorted_samples)
declare("searchsorted", _sorted_reference, _sorted_samples)


def _bucket_samples() -> Iterator[Sample]:
    edges = np.sort(between(4, 50, 6, seed=1))
    for each in arrays_like(0, 60):
        yield sample(each, edges)
    yield sample(between(0, 60, 3, 4), edges, right=True)
    yield sample(np.array([[3, 0], [9, 7]]), np.array([1, 3, 3, 7]), out_int32=True)


declare(
    "bucketize",
    lambda input, boundaries, *, out_int32=False, right=False: _sorted_reference(
        boundaries, input, out_int32=out_int32, right=right
    ),
    _bucket_samples,
)
declare(
    "isin",
    lambda elements, test_elements, *, assume_unique=False, invert=False: np.isin(
        elements, test_elements, invert=invert
    ),
    lambda: iter(
        [
            sample(between(-2, 2, 3, 4), between(-2, 2, 12)[::3]),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, between(-2, 2, 4, 6)[0], invert=True),
            sample(between(-2, 2), between(-2, 2)),
            sample(between(-2, 2, 0, 3), between(-2, 2, 2)),
            sample(np.array([1, 2, 5]), np.array([[5, 1], [7, 7]]), assume_unique=False),
        ]
    ),
)


def _distinct_samples() -> Iterator[Sample]:
    yield sample(np.array([3, 1, 1, 0, 3]))
    yield sample(np.array([[3, 1], [1, 0], [3, 1]]), return_inverse=True, return_counts=True)
    yield sample(np.array([[3, 1], [1, 0], [3, 1]]), return_inverse=True, return_counts=True, dim=0)
    yield sample(between(-2, 2, 3, 4))
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, dim=1)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0))


def _unique_reference(
    input: np.ndarray, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    return _select_results(_unique(input, dim), return_inverse, return_counts)


def _runs_reference(
    input: np.ndarray, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """One after the other."""
    parts = [*input.reshape(-1)] if dim is None else [*np.moveaxis(input, dim, 0)]
    kept: list[Any] = []
    inverse: list[int] = []
    counts: list[int] = []
    for part in parts:
        if not kept or (part != kept[-1]).any():
            kept.append(part)
            counts.append(0)
        counts[-1] += 1
        inverse.append(len(kept) - 1)
    values = np.array(kept, input.dtype) if dim is None else np.stack(kept, dim)
    places = np.array(inverse, np.int64).reshape(input.shape if dim is None else -1)
    return _select_results((values, places, np.array(counts, np.int64)), return_inverse, return_counts)


def _sets_samples() -> Iterator[Sample]:
    for array in (np.array([[3, 1], [1, 0], [3, 1]]), between(-2, 2, 4, 6)[::2, ::-2].T):
        yield sample(array)
        yield sample(array, 0)
        yield sample(array, 1, True)
    yield sample(np.array([1, 1, 3, 3, 3, 1]), None, True)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0))


def _sets_reference(input: np.ndarray, dim: int | None = None, consecutive: bool = False) -> Any:
    return (_runs_reference if consecutive else _unique_reference)(
        input, return_inverse=True, return_counts=True, dim=dim
    )


declare("distinct", _sets_reference, _sets_samples)
declare("unique", _unique_reference, _distinct_samples)


def _run_samples() -> Iterator[Sample]:
    yield sample(np.array([1, 1, 3, 3, 3, 1]), return_inverse=True, return_counts=True)
    yield sample(np.array([[3, 1], [3, 1], [1, 0]]), return_inverse=True, return_counts=True, dim=0)
    yield sample(np.array([[3, 1], [1, 0]]), return_counts=True)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, dim=1)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0))


declare("unique_consecutive", _runs_reference, _run_samples)
