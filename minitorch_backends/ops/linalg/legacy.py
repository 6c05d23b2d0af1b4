"""torch's linear algebra functions outside `linalg`, with their older arguments, and as methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING, bool_
from ...tensor.tensor import Tensor, adopt
from ..reductions.variance import _norm_reference, _norm_samples, norm_of_elements
from ..samples import Sample, between, sample
from ..views.join import cat
from . import determinant, norms, orthogonal, singular, solve, triangular, vectors
from .lu import _lu_reference as _factors_reference
from .lu import _lu_solve_reference, _systems, lu_factor, lu_factor_ex
from .lu import lu_solve as _solve_factored
from .samples import absolute_results, definite, eye_plus, of_hermitian, squares

__all__ = [
    "cholesky", "det", "inverse", "lu_of", "lu_solve", "norm_of", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "svd",
    "triangular_solve", "vander_of",
]  # fmt: skip


@composite(
    takes="fc",
    reference=lambda input, upper=False: np.linalg.cholesky(input, upper=upper),
    samples=squares(definite, upper=False),
    tested_as=of_hermitian,
)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`."""
    return triangular.cholesky(input, upper=upper)


@composite(takes="fc", product="matmul", reference=np.linalg.inv, samples=squares(eye_plus))
def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`."""
    return solve.inv(input)


@composite(
    takes="fc",
    reference=lambda input, rcond=1e-15: np.linalg.pinv(input, rcond),
    samples=lambda: iter(
        [sample(eye_plus(3, 2)), sample(eye_plus(2, 3, 4).mT), sample(eye_plus(3, 3), 1e-6), sample(eye_plus(0, 3))]
    ),
)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with `rtol=rcond`."""
    return singular.pinv(input, rtol=rcond)


@composite(takes="fc", reference=np.linalg.det, samples=squares(eye_plus))
def det(input: Tensor) -> Tensor:
    """`linalg.det`."""
    return determinant.det(input)


@composite(takes="fc", reference=np.linalg.slogdet, samples=squares(eye_plus))
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """`linalg.slogdet`."""
    return determinant.slogdet(input)


class QR(NamedTuple):
    Q: Any
    R: Any


@composite(
    takes="fc",
    reference=lambda input, some=True: tuple(np.linalg.qr(input, "reduced" if some else "complete")),
    samples=lambda: iter(
        [sample(eye_plus(4, 2)), sample(eye_plus(2, 3, 3).mT), sample(eye_plus(2, 4), False), sample(eye_plus(0, 2))]
    ),
    tested_as=absolute_results(0, 1),
)
def qr(input: Tensor, some: bool = True) -> QR:
    """`linalg.qr` in mode "reduced" if `some`, else "complete"."""
    return QR(*orthogonal.qr(input, "reduced" if some else "complete"))


class SVD(NamedTuple):
    U: Any
    S: Any
    V: Any


def _svd_reference(input: Any, some: bool = True, compute_uv: bool = True) -> tuple:
    U, S, Vh = np.linalg.svd(input, full_matrices=not some)
    return U, S, Vh.conj().mT


def _svd_samples() -> Iterator[Sample]:
    yield sample(eye_plus(4, 2))
    yield sample(eye_plus(2, 3, 2, seed=1).mT)
    yield sample(eye_plus(3, 3), False)
    yield sample(eye_plus(0, 2))


@composite(takes="fc", reference=_svd_reference, samples=_svd_samples, tested_as=absolute_results(0, 2))
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """`linalg.svd` with V in place of its adjoint; thin matrices if `some`; zeros for U and V unless `compute_uv`."""
    if compute_uv:
        U, S, Vh = singular.svd(input, not some)
        return SVD(U, S, Vh.mH)
    m, n = input._array.shape[-2:]
    batch = input._array.shape[:-2]
    nothing = [adopt(np.zeros((*batch, size, size), input._array.dtype)) for size in (m, n)]
    return SVD(nothing[0], singular.svdvals(input), nothing[1])


@composite(
    takes="fc",
    reference=lambda b, LU, pivots: _lu_solve_reference(LU, pivots, b),
    samples=lambda: iter([sample(call.args[2], *call.args[:2]) for call in _systems()][:1]),
    aliases={"input": "b"},
)
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve`, the right side first."""
    return _solve_factored(LU_data, LU_pivots, b)


class TriangularSolve(NamedTuple):
    solution: Any
    cloned_coefficient: Any


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


@composite(widen=True, takes="fc", reference=_triangular_reference, samples=_triangular_samples, aliases={"input": "b"})
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """X so that A @ X = b for a triangular A (A.T if `transpose`), and a copy of A; see `linalg.solve_triangular`."""
    turned = A.mT if transpose else A
    x = triangular.solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(x, A.clone())


@composite(
    widen=True, takes="fc", product="matmul", reference=orthogonal._product_reference, samples=orthogonal._reflectors
)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """`linalg.householder_product`."""
    return orthogonal.householder_product(input, input2)


def _lu_reference(A: Any, pivot: bool = True, get_infos: bool = False) -> tuple:
    return _factors_reference(A)[: 3 if get_infos else 2]


@composite(
    name="lu",
    takes="fc",
    reference=_lu_reference,
    samples=lambda: iter([sample(eye_plus(3, 3)), sample(eye_plus(2, 3, 2).mT, True, True), sample(eye_plus(0, 2, 2))]),
)
def lu_of(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """`linalg.lu_factor` as a plain tuple, or with `get_infos` `linalg.lu_factor_ex`."""
    return lu_factor_ex(A, pivot=pivot) if get_infos else tuple(lu_factor(A, pivot=pivot))


def _multiply(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    m, count = input.shape[-2], tau.shape[-1]
    square = np.concatenate([input[..., :count], np.zeros((*input.shape[:-1], m - count), input.dtype)], -1)
    Q = orthogonal._product_reference(square, tau)
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


@composite(
    widen=True,
    takes="fc",
    product="matmul",
    reference=_multiply,
    samples=_ormqr_samples,
    aliases={"input2": "tau", "input3": "other"},
)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other, or other @ Q unless `left`, with the whole square Q of `geqrf`'s reflectors; Q.H if `transpose`.

    input: (..., m, n); tau: (..., r), of the first r columns, where r is at most m and n; other: (..., m, k), or
    (..., k, m). Raises RuntimeError otherwise.
    """
    if input.ndim < 2 or other.ndim < 2 or not tau.ndim or tau.shape[-1] > min(input.shape[-2:]):
        raise RuntimeError(
            "ormqr(): input must be (..., m, n), tau (..., r) with r <= min(m, n), and other (..., m, k) or "
            f"(..., k, m), got shapes {list(input.shape)}, {list(tau.shape)} and {list(other.shape)}"
        )
    m, count = input._array.shape[-2], tau._array.shape[-1]
    columns = adopt(np.zeros((*input._array.shape[:-1], m - count), input._array.dtype))
    Q = orthogonal.householder_product(cat([input[..., :count], columns], -1), tau)
    Q = Q.mH if transpose else Q
    return Q @ other if left else other @ Q


def _vander_samples() -> Iterator[Sample]:
    yield sample(between(0.5, 2, 3))
    yield sample(between(0.5, 2, 6)[::2], 4, True)
    yield sample(between(0.5, 2, 0), 2)


def _vander_reference(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    powers = np.arange(len(x) if N is None else N)
    return x[:, None] ** (powers if increasing else powers[::-1])


@composite(widen=True, name="vander", method=False, takes="bifc", reference=_vander_reference, samples=_vander_samples)
def vander_of(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of a vector, the highest first unless `increasing`; see `linalg.vander`."""
    x = x.long() if x.dtype is bool_ else x
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, and its shape is {list(x.shape)}")
    count = len(x._array) if N is None else N
    if count < 2:
        ones = x.new_ones((len(x._array), count))
        return ones if x.dtype.category >= FLOATING else ones.long()
    found = vectors.vander(x, N=count)
    return found if increasing else found.flip(-1)


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


@composite(name="norm", takes="fc", reference=_either_norm_reference, samples=_either_norm_samples)
def norm_of(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """sum(|input|^p)^(1/p) of vectors along `dim`, an int or several; of all elements by default.

    `p` is 2 by default ("fro"). inf and -inf give the largest and smallest absolute value, 0 counts nonzero elements.
    "nuc" gives the sum of the singular values of matrices along two dimensions. The gradient is 0 where the norm is.
    Raises RuntimeError for integers, and for infinite and negative norms of empty vectors.
    """
    if p == "nuc":
        return norms.matrix_norm(input, p, range(input.ndim) if dim is None else dim, keepdim, dtype=dtype)
    return norm_of_elements(input, p, dim, keepdim, dtype=dtype)
