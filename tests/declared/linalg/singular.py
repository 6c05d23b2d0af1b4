"""Samples and references of `ops/linalg/singular.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.linalg.singular import _cut

from ..linalg.samples import absolute_results, definite, eye_plus
from ..samples import Sample, between, sample
from ..table import declare


def _svd_reference(A: Any, full_matrices: bool = True, *, driver: Any = None) -> tuple:
    return tuple(np.linalg.svd(A, full_matrices=full_matrices))


def _shapes(**options: Any) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0)):
        yield sample(_apart(*shape), **options)
    yield sample(_apart(3, 3, seed=2).T, **options)


def _apart(*shape: int, seed: int = 0) -> np.ndarray:
    """Matrices with singular values well separated from each other and from zero."""
    return between(-1, 1, *shape, seed=seed) + np.eye(shape[-2], shape[-1]) * (1.5 + 1.5 * np.arange(shape[-1]))


def _thin() -> Iterator[Sample]:
    yield from _shapes(full_matrices=False)
    for shape in ((4, 2), (2, 4), (2, 3, 2), (0, 3, 2)):
        yield sample(_apart(*shape), full_matrices=False)
    yield sample(_apart(4, 3), False, driver="gesvd")


def _thin_and_full() -> Iterator[Sample]:
    yield from _thin()
    yield from _shapes()


declare("linalg_svd", _svd_reference, _thin_and_full, tested_as=absolute_results(0, 2))
declare(
    "values_of_svd",
    lambda A, driver=None: np.linalg.svd(A, compute_uv=False),
    lambda: iter([sample(_apart(3, 2)), sample(_apart(2, 2, 3)), sample(_apart(0, 2))]),
)


def _any_shapes() -> Iterator[Sample]:
    for shape in ((3, 3), (4, 2), (2, 2, 4), (0, 2, 2), (0, 3)):
        yield sample(_apart(*shape))
    yield sample(_apart(4, 3).T)


declare("linalg_svdvals", lambda A, driver=None: np.linalg.svd(A, compute_uv=False), _any_shapes)


def _pinv_reference(A: Any, *_: Any, **__: Any) -> Any:
    return np.linalg.pinv(A) if A.size else A.mT.conj()


def _pinv_samples() -> Iterator[Sample]:
    for shape in ((3, 3), (4, 2), (2, 2, 4), (0, 2, 2), (0, 3)):
        yield sample(eye_plus(*shape))
    yield sample(eye_plus(4, 3).T)
    yield sample(eye_plus(3, 2), atol=1e-6, rtol=1e-6)
    yield sample(definite(3, 3), hermitian=False)


declare(
    "pseudo_inverse",
    _pinv_reference,
    lambda: iter([sample(eye_plus(*s), None, None, False) for s in ((3, 2), (2, 2, 3), (0, 3))]),
)
declare("linalg_pinv", _pinv_reference, _pinv_samples)


def _rank_samples() -> Iterator[Sample]:
    rows = eye_plus(3, 3)
    rows[2] = rows[0]
    for array in (eye_plus(3, 3), eye_plus(2, 4, 2), eye_plus(4, 3).T, eye_plus(0, 2, 2), eye_plus(0, 3)):
        yield sample(array)
    yield sample(np.zeros((2, 2)))
    yield sample(eye_plus(3, 3), atol=10.0)
    yield sample(eye_plus(3, 3), rtol=0.9)


def _rank_reference(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    S = np.linalg.svd(A, compute_uv=False) if A.size else np.zeros((*A.shape[:-2], 0))
    return np.count_nonzero(_cut(S.max(-1, initial=0), A.shape, A.dtype, atol, rtol)[..., None] < S, axis=-1)


declare("linalg_matrix_rank", _rank_reference, _rank_samples)
declare(
    "pinverse",
    lambda input, rcond=1e-15: np.linalg.pinv(input, rcond),
    lambda: iter(
        [sample(eye_plus(3, 2)), sample(eye_plus(2, 3, 4).mT), sample(eye_plus(3, 3), 1e-6), sample(eye_plus(0, 3))]
    ),
)


def _svd_with_v(input: Any, some: bool = True, compute_uv: bool = True) -> tuple:
    U, S, Vh = np.linalg.svd(input, full_matrices=not some)
    return U, S, Vh.conj().mT


def _thin_or_not() -> Iterator[Sample]:
    yield sample(eye_plus(4, 2))
    yield sample(eye_plus(2, 3, 2, seed=1).mT)
    yield sample(eye_plus(3, 3), False)
    yield sample(eye_plus(0, 2))


declare("svd", _svd_with_v, _thin_or_not, tested_as=absolute_results(0, 2))
