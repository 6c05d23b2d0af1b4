"""Samples and references of `ops/linalg/legacy.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..linalg.lu import _lu_reference as _factors_reference
from ..linalg.lu import _lu_solve_reference, _systems
from ..linalg.orthogonal import _product_reference, _reflectors
from ..linalg.samples import absolute_results, definite, eye_plus, of_hermitian, squares
from ..reductions.variance import _norm_reference, _norm_samples
from ..samples import Sample, between, sample
from ..table import declare

declare(
    "cholesky",
    lambda input, upper=False: np.linalg.cholesky(input, upper=upper),
    squares(definite, upper=False),
    tested_as=of_hermitian,
)
declare("inverse", np.linalg.inv, squares(eye_plus))
declare(
    "pinverse",
    lambda input, rcond=1e-15: np.linalg.pinv(input, rcond),
    lambda: iter(
        [sample(eye_plus(3, 2)), sample(eye_plus(2, 3, 4).mT), sample(eye_plus(3, 3), 1e-6), sample(eye_plus(0, 3))]
    ),
)
declare("det", np.linalg.det, squares(eye_plus))
declare("slogdet", np.linalg.slogdet, squares(eye_plus))
declare(
    "qr",
    lambda input, some=True: tuple(np.linalg.qr(input, "reduced" if some else "complete")),
    lambda: iter(
        [sample(eye_plus(4, 2)), sample(eye_plus(2, 3, 3).mT), sample(eye_plus(2, 4), False), sample(eye_plus(0, 2))]
    ),
    tested_as=absolute_results(0, 1),
)


def _svd_reference(input: Any, some: bool = True, compute_uv: bool = True) -> tuple:
    U, S, Vh = np.linalg.svd(input, full_matrices=not some)
    return U, S, Vh.conj().mT


def _svd_samples() -> Iterator[Sample]:
    yield sample(eye_plus(4, 2))
    yield sample(eye_plus(2, 3, 2, seed=1).mT)
    yield sample(eye_plus(3, 3), False)
    yield sample(eye_plus(0, 2))


declare("svd", _svd_reference, _svd_samples, tested_as=absolute_results(0, 2))
declare(
    "lu_solve",
    lambda b, LU, pivots: _lu_solve_reference(LU, pivots, b),
    lambda: iter([sample(call.args[2], *call.args[:2]) for call in _systems()][:1]),
)


def _triangular_reference(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple:
    A_ = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        A_ = A_ - np.eye(A.shape[-1]) * A_ + np.eye(A.shape[-1])
    return np.linalg.solve(A_.mT if transpose else A_, b), A


def _triangular_samples() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 2), eye_plus(3, 3))
    yield sample(between(-1, 1, 3, 2), eye_plus(3, 3), False)
    yield sample(between(-1, 1, 2, 3, 1), eye_plus(2, 3, 3).mT, True, True, True)


declare("triangular_solve", _triangular_reference, _triangular_samples)
declare("orgqr", _product_reference, _reflectors)


def _lu_reference(A: Any, pivot: bool = True, get_infos: bool = False) -> tuple:
    return _factors_reference(A)[: 3 if get_infos else 2]


declare(
    "lu",
    _lu_reference,
    lambda: iter([sample(eye_plus(3, 3)), sample(eye_plus(2, 3, 2).mT, True, True), sample(eye_plus(0, 2, 2))]),
)


def _multiply(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    m, count = input.shape[-2], tau.shape[-1]
    square = np.concatenate([input[..., :count], np.zeros((*input.shape[:-1], m - count), input.dtype)], -1)
    Q = _product_reference(square, tau)
    Q = Q.conj().mT if transpose else Q
    return Q @ other if left else other @ Q


def _ormqr_samples() -> Iterator[Sample]:
    reflectors, tau = between(-1, 1, 4, 2), between(0.2, 1.5, 2)
    yield sample(reflectors, tau, between(-1, 1, 4, 3))
    yield sample(reflectors, tau, between(-1, 1, 4, 3), True, True)
    yield sample(reflectors, tau, between(-1, 1, 2, 4), False)
    yield sample(between(-1, 1, 2, 5), tau, between(-1, 1, 2, 3))
    yield sample(between(-1, 1, 0, 4, 2), between(0.2, 1.5, 0, 2), between(-1, 1, 0, 4, 3))
    yield sample(between(-1, 1, 2, 3, 3).mT, between(0.2, 1.5, 2, 3), between(-1, 1, 2, 3, 3), False, True)


declare("ormqr", _multiply, _ormqr_samples)


def _vander_samples() -> Iterator[Sample]:
    yield sample(between(0.5, 2, 3))
    yield sample(between(0.5, 2, 6)[::2], 4, True)
    yield sample(between(0.5, 2, 0), 2)


def _vander_reference(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    powers = np.arange(len(x) if N is None else N)
    return x[:, None] ** (powers if increasing else powers[::-1])


declare("vander", _vander_reference, _vander_samples)


def _either_norm_samples() -> Iterator[Sample]:
    yield from _norm_samples()
    yield sample(eye_plus(3, 2), "nuc")
    yield sample(eye_plus(2, 4, 3), "nuc", (0, -1), True)


def _either_norm_reference(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if p == "nuc":
        return np.linalg.norm(input, p, dim, keepdim)
    return _norm_reference(input, p, dim, keepdim)


declare("norm", _either_norm_reference, _either_norm_samples)
