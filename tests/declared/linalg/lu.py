"""Samples and references of `ops/linalg/lu.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels import linalg as kernels
from minitorch_backends.ops.linalg.lu import LUUnpacked, permutation

from ..linalg.samples import eye_plus, of_hermitian, squares, symmetric
from ..samples import Sample, between, sample
from ..table import declare


def _unpack(LU: Any, pivots: Any) -> tuple[Any, Any, Any]:
    m, n = LU.shape[-2:]
    k = min(m, n)
    P = np.eye(m)[permutation(np.asarray(pivots), m)].mT.astype(LU.dtype)
    return P, np.tril(LU[..., :k], -1) + np.eye(m, k), np.triu(LU[..., :k, :])


def _lu_reference(A: Any, **_: Any) -> tuple[Any, Any, Any]:
    found = kernels.lu_factor["lapack"](np.asarray(A))
    return found[:3]


def _matrices() -> Iterator[Sample]:
    for shape in ((3, 3), (2, 1, 2, 2), (4, 2), (2, 4), (2, 3, 5), (1, 1), (0, 2, 2), (0, 0), (3, 0)):
        yield sample(between(-1, 1, *shape) + 2 * np.eye(*shape[-2:])[::-1])
    yield sample((between(-1, 1, 4, 3) + 2 * np.eye(4, 3)).T)


declare("linalg_lu_factor_ex", _lu_reference, _matrices)
declare("linalg_lu_factor", lambda A, **_: _lu_reference(A)[:2], _matrices)


def _unpack_samples() -> Iterator[Sample]:
    for call_ in _matrices():
        LU, pivots, _ = _lu_reference(call_.args[0])
        yield sample(LU, pivots)


declare("lu_unpack", lambda LU, pivots: LUUnpacked(*_unpack(LU, pivots)), _unpack_samples)
declare("linalg_lu", lambda A, **_: LUUnpacked(*_unpack(*_lu_reference(A)[:2])), _matrices)


def _lu_solve_reference(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    P, L, U = _unpack(LU, pivots)
    A = P @ L @ U
    A = A.conj().mT if adjoint else A
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.mT, B.mT).mT


def _systems() -> Iterator[Sample]:
    LU, pivots, _ = _lu_reference(eye_plus(3, 3)[::-1])
    for left in (True, False):
        for adjoint_ in (False, True):
            B = between(-1, 1, 3, 2) if left else between(-1, 1, 2, 3)
            yield sample(LU, pivots, B, left=left, adjoint=adjoint_)
    LU, pivots, _ = _lu_reference(eye_plus(2, 3, 3).mT)
    yield sample(LU, pivots, between(-1, 1, 2, 3, 1))
    yield sample(LU, pivots, between(-1, 1, 3, 2))
    yield sample(np.zeros((0, 0)), np.zeros(0, np.int32), between(-1, 1, 0, 2))


declare("linalg_lu_solve", _lu_solve_reference, _systems)


def _ldl_reference(A: Any, *, hermitian: bool = False, **_: Any) -> tuple:
    return tuple(kernels.ldl_factor["lapack"](A, hermitian=hermitian)[:3])


def _indefinite() -> Iterator[Sample]:
    yield from squares(lambda *shape, seed=0: symmetric(*shape, seed=seed) - np.eye(shape[-1]), hermitian=True)()


declare("linalg_ldl_factor_ex", _ldl_reference, _indefinite, tested_as=of_hermitian)


declare("linalg_ldl_factor", lambda A, **named: _ldl_reference(A, **named)[:2], _indefinite, tested_as=of_hermitian)


def _ldl_solve_reference(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    return kernels.ldl_solve["lapack"](LD, pivots, B, hermitian=hermitian)


def _ldl_systems() -> Iterator[Sample]:
    for shape in ((3, 3), (2, 3, 3), (0, 0)):
        LD, pivots, _ = _ldl_reference(symmetric(*shape) - np.eye(shape[-1]))
        yield sample(LD, pivots, between(-1, 1, *shape[:-1], 2))


declare("linalg_ldl_solve", _ldl_solve_reference, _ldl_systems)
declare(
    "lu_solve",
    lambda b, LU, pivots: _lu_solve_reference(LU, pivots, b),
    lambda: iter([sample(call.args[2], *call.args[:2]) for call in _systems()][:1]),
)


def _plain_factors(A: Any, pivot: bool = True, get_infos: bool = False) -> tuple:
    return _lu_reference(A)[: 3 if get_infos else 2]


declare(
    "lu",
    _plain_factors,
    lambda: iter([sample(eye_plus(3, 3)), sample(eye_plus(2, 3, 2).mT, True, True), sample(eye_plus(0, 2, 2))]),
)
