"""Samples and references of `ops/linalg/solve.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels import linalg as kernels
from minitorch_backends.ops.linalg.solve import _is_vector

from ..linalg.samples import eye_plus, leading, squares
from ..samples import Sample, between, sample
from ..table import declare

_inverses = squares(eye_plus)
declare("linalg_inv_ex", lambda A, **_: (np.linalg.inv(A), np.zeros(A.shape[:-2], np.int32)), _inverses)
declare("linalg_inv", lambda A, **_: np.linalg.inv(A), _inverses)


def _plain_reference(A: Any, B: Any, left: bool, *_: Any) -> Any:
    x = np.linalg.solve(A, B) if left else np.linalg.solve(A.mT, B.mT).mT
    factors = kernels.lu_factor["lapack"](np.broadcast_to(A if left else A.mT, (*x.shape[:-2], *A.shape[-2:])))
    return x, *factors[:3]


def _solver_samples() -> Iterator[Sample]:
    yield sample(eye_plus(3, 3), between(-1, 1, 3, 2), True)
    yield sample(eye_plus(3, 3).T, between(-1, 1, 2, 3), False)
    yield sample(eye_plus(2, 3, 3), between(-1, 1, 2, 3, 1), True)
    yield sample(eye_plus(0, 0), between(-1, 1, 0, 2), True)


declare("solve_with_factors", _plain_reference, _solver_samples, tested_as=leading(1))


def _solve_reference(A: Any, B: Any, *, left: bool = True, **_: Any) -> Any:
    if _is_vector(A, B):
        return np.linalg.solve(A, B[..., None])[..., 0]
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.mT, B.mT).mT


def _systems() -> Iterator[Sample]:
    yield sample(eye_plus(3, 3), between(-1, 1, 3, 2))
    yield sample(eye_plus(3, 3), between(-1, 1, 3))
    yield sample(eye_plus(2, 3, 3), between(-1, 1, 2, 3))
    yield sample(eye_plus(3, 3).T, between(-1, 1, 2, 3), left=False)
    yield sample(eye_plus(2, 1, 3, 3), between(-1, 1, 3, 3, 2))
    yield sample(eye_plus(3, 3), between(-1, 1, 2, 3, 2))
    yield sample(eye_plus(2, 2), between(-1, 1, 2, 0))
    yield sample(eye_plus(0, 0), between(-1, 1, 0))


declare(
    "linalg_solve_ex",
    lambda A, B, **named: (_solve_reference(A, B, **named), np.zeros(A.shape[:-2], np.int32)),
    _systems,
)
declare("linalg_solve", _solve_reference, _systems)


def _tensorinv_samples() -> Iterator[Sample]:
    yield sample(eye_plus(4, 4).reshape(4, 2, 2), 1)
    yield sample(eye_plus(6, 6).reshape(2, 3, 6), 2)
    yield sample(eye_plus(4, 4).T.reshape(2, 2, 2, 2))


declare("linalg_tensorinv", lambda A, ind=2: np.linalg.tensorinv(A, ind), _tensorinv_samples)


def _tensorsolve_samples() -> Iterator[Sample]:
    yield sample(eye_plus(6, 6).reshape(2, 3, 6), between(-1, 1, 2, 3))
    yield sample(eye_plus(4, 4).T.reshape(2, 2, 2, 2), between(-1, 1, 2, 2))
    yield sample(eye_plus(4, 4).reshape(4, 2, 2), between(-1, 1, 4), (1,))
    yield sample(between(1, 2), between(-1, 1))


def _tensorsolve_reference(A: Any, B: Any, dims: Any = None) -> Any:
    return np.linalg.tensorsolve(A, B, axes=dims)


declare("linalg_tensorsolve", _tensorsolve_reference, _tensorsolve_samples)
declare("inverse", np.linalg.inv, squares(eye_plus))
