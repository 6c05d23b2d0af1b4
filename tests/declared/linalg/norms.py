"""Samples and references of `ops/linalg/norms.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..linalg.samples import eye_plus
from ..reductions.variance import _norm_reference as _elements_reference
from ..reductions.variance import _norm_samples as _elements_samples
from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


def _vector_samples() -> Iterator[Sample]:
    for order in (2, 1, 3.5, math.inf, -math.inf, 0, -1):
        yield sample(between(-2, 2.3, 3, 4), order, 1)
    yield sample(strided_matrix(), 2, None, True)
    yield sample(between(-2, 2.3, 2, 3, 2), 2, (0, -1))
    yield sample(between(-2, 2.3), 2)
    yield sample(between(-2, 2.3, 0, 3), 2, 0)


def _vector_reference(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    size = np.abs(x)
    named: dict[str, Any] = {"axis": None if dim is None else dim, "keepdims": keepdim}
    if ord == 0:
        return np.sum(size != 0, dtype=size.dtype, **named)
    if math.isinf(ord):
        return (np.max if ord > 0 else np.min)(size, **named)
    return np.sum(size**ord, **named) ** (1 / ord)


declare("linalg_vector_norm", _vector_reference, _vector_samples)


def _matrix_samples() -> Iterator[Sample]:
    for order in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf):
        yield sample(eye_plus(3, 3), order)
        yield sample(eye_plus(2, 4, 3), order, (0, -1), True)
    yield sample(eye_plus(4, 3).T, "nuc")
    yield sample(eye_plus(2, 0, 3), "fro")


def _matrix_reference(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return np.linalg.norm(A, ord, axis=tuple(dim), keepdims=keepdim)


declare("linalg_matrix_norm", _matrix_reference, _matrix_samples)


def _norm_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2.3, 3, 4))
    yield sample(between(-2, 2.3))
    yield sample(strided_matrix(), None, 0, True)
    yield sample(between(-2, 2.3, 4), 3)
    yield sample(eye_plus(3, 3), "nuc")
    yield sample(eye_plus(3, 3), 2)
    yield sample(eye_plus(2, 3, 3), 1, (1, 2))
    yield sample(between(-2, 2.3, 2, 3, 2), 1, 1)
    yield sample(between(-2, 2.3, 0, 3))


def _norm_reference(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if ord is None:
        return _vector_reference(input, 2, dim, keepdim)
    return np.linalg.norm(input, ord, axis=dim, keepdims=keepdim)


declare("linalg_norm", _norm_reference, _norm_samples)


def _cond_samples() -> Iterator[Sample]:
    yield sample(eye_plus(3, 3))
    yield sample(eye_plus(4, 2))
    yield sample(eye_plus(2, 3, 3).mT, "nuc")
    for order in ("fro", 2, -2, 1, -1, math.inf, -math.inf):
        yield sample(eye_plus(3, 3), order)
    yield sample(eye_plus(0, 2, 2))


def _cond_reference(A: Any, p: Any = None) -> Any:
    if p in (None, 2, -2):
        S = np.linalg.svd(A, compute_uv=False)
        return S[..., 0] / S[..., -1] if p != -2 else S[..., -1] / S[..., 0]
    axes = (-2, -1)
    return np.linalg.norm(A, p, axes) * np.linalg.norm(np.linalg.inv(A), p, axes)


declare("linalg_cond", _cond_reference, _cond_samples)


def _either_norm_samples() -> Iterator[Sample]:
    yield from _elements_samples()
    yield sample(eye_plus(3, 2), "nuc")
    yield sample(eye_plus(2, 4, 3), "nuc", (0, -1), True)


def _either_norm_reference(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if p == "nuc":
        return np.linalg.norm(input, p, dim, keepdim)
    return _elements_reference(input, p, dim, keepdim)


declare("norm", _either_norm_reference, _either_norm_samples)
