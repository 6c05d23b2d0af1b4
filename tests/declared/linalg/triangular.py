"""Samples and references of `ops/linalg/triangular.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..linalg.samples import definite, eye_plus, of_factor, of_hermitian, squares
from ..samples import Sample, between, sample
from ..table import declare


def _factor(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    L = np.linalg.cholesky(A)
    return L.conj().mT if upper else L


def _definite() -> Iterator[Sample]:
    yield from squares(definite)()
    yield from squares(definite, upper=True)()


declare(
    "linalg_cholesky_ex",
    lambda A, **named: (_factor(A, **named), np.zeros(A.shape[:-2], np.int32)),
    _definite,
    tested_as=of_hermitian,
)
declare("linalg_cholesky", _factor, _definite, tested_as=of_hermitian)


def _orient(A: np.ndarray, upper: bool) -> np.ndarray:
    return np.triu(A) if upper else np.tril(A)


def _triangular_reference(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False, precision: Any = None
) -> Any:
    A = _orient(A, upper)
    if unitriangular:
        A = A - np.eye(A.shape[-1]) * A + np.eye(A.shape[-1])
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.mT, B.mT).mT


def _triangular_samples() -> Iterator[Sample]:
    yield sample(eye_plus(3, 3), between(-1, 1, 3, 2), upper=True)
    yield sample(eye_plus(3, 3), between(-1, 1, 3, 2), upper=False)
    yield sample(eye_plus(2, 3, 3).mT, between(-1, 1, 3, 2), upper=False, unitriangular=True)
    yield sample(eye_plus(3, 3), between(-1, 1, 2, 2, 3), upper=True, left=False)
    yield sample(eye_plus(3, 3), between(-1, 1, 2, 3).T[:, :1].T, upper=False, left=False, unitriangular=True)
    yield sample(eye_plus(0, 0), between(-1, 1, 0, 2), upper=True)
    yield sample(eye_plus(2, 2), between(-1, 1, 2, 0), upper=True)


declare("linalg_solve_triangular", _triangular_reference, _triangular_samples)


def _lower(factor: Any, upper: bool) -> Any:
    return np.triu(factor).conj().mT if upper else np.tril(factor)


def _cholesky_solve_reference(
    B: Any, L: Any, upper: bool = False, *, precision: Any = None, refine: bool = True
) -> Any:
    L = _lower(L, upper)
    return np.linalg.solve(L @ L.conj().mT, B)


def _factors() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 2), eye_plus(3, 3))
    yield sample(between(-1, 1, 3, 2), eye_plus(3, 3).T, True)
    yield sample(between(-1, 1, 2, 3, 1), eye_plus(3, 3))
    yield sample(between(-1, 1, 3, 0), eye_plus(2, 3, 3))
    yield sample(between(-1, 1, 0, 2), eye_plus(0, 0))


declare("cholesky_solve", _cholesky_solve_reference, _factors, tested_as=of_factor(1))


def _of_factors() -> Iterator[Sample]:
    yield from squares(eye_plus)()
    yield from squares(eye_plus, upper=True)()


declare(
    "cholesky_inverse",
    lambda L, upper=False: np.linalg.inv(_lower(L, upper) @ _lower(L, upper).conj().mT),
    _of_factors,
    tested_as=of_factor(0),
)
declare(
    "inverse_of_factor",
    lambda L, upper: np.linalg.inv(_lower(L, upper) @ _lower(L, upper).conj().mT),
    lambda: iter([sample(eye_plus(3, 3), False), sample(eye_plus(2, 3, 3).mT, True), sample(eye_plus(0, 0), False)]),
    tested_as=of_factor(0),
)
declare(
    "cholesky",
    lambda input, upper=False: np.linalg.cholesky(input, upper=upper),
    squares(definite, upper=False),
    tested_as=of_hermitian,
)


def _older_reference(b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> tuple:
    A_ = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        A_ = A_ - np.eye(A.shape[-1]) * A_ + np.eye(A.shape[-1])
    return np.linalg.solve(A_.mT if transpose else A_, b), A


def _older_samples() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 2), eye_plus(3, 3))
    yield sample(between(-1, 1, 3, 2), eye_plus(3, 3), False)
    yield sample(between(-1, 1, 2, 3, 1), eye_plus(2, 3, 3).mT, True, True, True)


declare("triangular_solve", _older_reference, _older_samples)
