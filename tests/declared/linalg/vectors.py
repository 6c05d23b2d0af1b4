"""Samples and references of `ops/linalg/vectors.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..linalg.samples import eye_plus
from ..samples import Sample, between, sample
from ..table import declare


def _cross_samples() -> Iterator[Sample]:
    yield sample(between(-1, 1, 2, 3), between(-1, 1, 2, 3, seed=1))
    yield sample(between(-1, 1, 1, 3), between(-1, 1, 2, 3, seed=1))
    yield sample(between(-1, 1, 2, 3).T, between(-1, 1, 3, 1, seed=1), dim=0)
    yield sample(between(-1, 1, 0, 3), between(-1, 1, 0, 3))


def _cross_reference(input: Any, other: Any, *, dim: int = -1) -> Any:
    return np.cross(input, other, axis=dim)


declare("linalg_cross", _cross_reference, _cross_samples)


def _vecdot_samples() -> Iterator[Sample]:
    yield sample(between(-1, 1, 2, 3), between(-1, 1, 2, 3, seed=1))
    yield sample(between(-1, 1, 3), between(-1, 1, 2, 3, seed=1))
    yield sample(between(-1, 1, 3, 2).T, between(-1, 1, 2, 3, seed=1), dim=0)
    yield sample(between(-1, 1, 0, 3), between(-1, 1, 0, 3))
    yield sample(between(-1, 1, 2, 0), between(-1, 1, 2, 0))
    yield sample(between(-1, 1), between(-1, 1, seed=1))


def _vecdot_reference(x: Any, y: Any, *, dim: int = -1) -> Any:
    return np.sum(np.atleast_1d(np.conj(x) * y), axis=dim)


declare("linalg_vecdot", _vecdot_reference, _vecdot_samples)


def _vander_reference(x: Any, *, N: int | None = None) -> Any:
    return x[..., None] ** np.arange(x.shape[-1] if N is None else N)


def _vander_samples() -> Iterator[Sample]:
    yield sample(between(0.5, 2, 3))
    yield sample(between(0.5, 2, 2, 3), N=2)
    yield sample(between(0.5, 2, 4, 2).T, N=5)
    yield sample(between(0.5, 2, 0), N=2)


declare("linalg_vander", _vander_reference, _vander_samples)
declare(
    "linalg_diagonal",
    lambda A, *, offset=0, dim1=-2, dim2=-1: np.diagonal(A, offset, dim1, dim2),
    lambda: iter([sample(eye_plus(3, 4)), sample(eye_plus(2, 3, 3).mT, offset=1), sample(eye_plus(0, 2, 2), dim1=0)]),
)


def _crosses_by_position() -> Iterator[Sample]:
    for call in _cross_samples():
        yield sample(*call.args, call.kwargs.get("dim", -1))


declare("cross", lambda input, other, dim=-1: np.cross(input, other, axis=dim), _crosses_by_position)


def _descending() -> Iterator[Sample]:
    yield sample(between(0.5, 2, 3))
    yield sample(between(0.5, 2, 6)[::2], 4, True)
    yield sample(between(0.5, 2, 0), 2)


def _powers_reference(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    powers = np.arange(len(x) if N is None else N)
    return x[:, None] ** (powers if increasing else powers[::-1])


declare("vander", _powers_reference, _descending)
