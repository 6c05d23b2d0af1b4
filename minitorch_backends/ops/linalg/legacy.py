"""torch's linear algebra functions outside `linalg`, with their older arguments, and as methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING, bool_
from ...tensor.tensor import Tensor, adopt
from ..reductions.variance import norm_of_elements
from ..views.join import cat
from . import determinant, norms, orthogonal, singular, solve, triangular, vectors
from .lu import lu_factor, lu_factor_ex
from .lu import lu_solve as _solve_factored

__all__ = [
    "cholesky", "det", "inverse", "lu_of", "lu_solve", "norm_of", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "svd",
    "triangular_solve", "vander_of",
]  # fmt: skip


@composite(takes="fc", autocast="float32")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`."""
    return triangular.cholesky(input, upper=upper)


@composite(takes="fc", product="matmul", autocast="float32")
def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`."""
    return solve.inv(input)


@composite(takes="fc", autocast="float32")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with `rtol=rcond`."""
    return singular.pinv(input, rtol=rcond)


@composite(takes="fc")
def det(input: Tensor) -> Tensor:
    """`linalg.det`."""
    return determinant.det(input)


@composite(takes="fc")
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """`linalg.slogdet`."""
    return determinant.slogdet(input)


class QR(NamedTuple):
    Q: Any
    R: Any


@composite(takes="fc", autocast="float32")
def qr(input: Tensor, some: bool = True) -> QR:
    """`linalg.qr` in mode "reduced" if `some`, else "complete"."""
    return QR(*orthogonal.qr(input, "reduced" if some else "complete"))


class SVD(NamedTuple):
    U: Any
    S: Any
    V: Any


@composite(takes="fc", autocast="float32")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """`linalg.svd` with V in place of its adjoint; thin matrices if `some`; zeros for U and V unless `compute_uv`."""
    if compute_uv:
        U, S, Vh = singular.svd(input, not some)
        return SVD(U, S, Vh.mH)
    m, n = input._array.shape[-2:]
    batch = input._array.shape[:-2]
    nothing = [adopt(np.zeros((*batch, size, size), input._array.dtype)) for size in (m, n)]
    return SVD(nothing[0], singular.svdvals(input), nothing[1])


@composite(takes="fc", aliases={"input": "b"}, autocast="float32")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve`, the right side first."""
    return _solve_factored(LU_data, LU_pivots, b)


class TriangularSolve(NamedTuple):
    solution: Any
    cloned_coefficient: Any


@composite(widen=True, takes="fc", aliases={"input": "b"}, autocast="float32")
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """X so that A @ X = b for a triangular A (A.T if `transpose`), and a copy of A; see `linalg.solve_triangular`."""
    turned = A.mT if transpose else A
    x = triangular.solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(x, A.clone())


@composite(widen=True, takes="fc", product="matmul", autocast="float32")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """`linalg.householder_product`."""
    return orthogonal.householder_product(input, input2)


@composite(name="lu", takes="fc")
def lu_of(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """`linalg.lu_factor` as a plain tuple, or with `get_infos` `linalg.lu_factor_ex`."""
    return lu_factor_ex(A, pivot=pivot) if get_infos else tuple(lu_factor(A, pivot=pivot))


@composite(widen=True, takes="fc", product="matmul", aliases={"input2": "tau", "input3": "other"}, autocast="float32")
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


@composite(widen=True, name="vander", method=False, takes="bifc")
def vander_of(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of a vector, the highest first unless `increasing`; see `linalg.vander`. Raises
    RuntimeError for other than vectors."""
    x = x.long() if x.dtype is bool_ else x
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, and its shape is {list(x.shape)}")
    count = len(x._array) if N is None else N
    if count < 2:
        ones = x.new_ones((len(x._array), count))
        return ones if x.dtype.category >= FLOATING else ones.long()
    found = vectors.vander(x, N=count)
    return found if increasing else found.flip(-1)


@composite(name="norm", takes="fc")
def norm_of(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """sum(|input|^p)^(1/p) of vectors along `dim`, an int or several; of all elements by default.

    `p` is 2 by default ("fro"). inf and -inf give the largest and smallest absolute value, 0 counts nonzero elements.
    "nuc" gives the sum of the singular values of matrices along two dimensions. The gradient is 0 where the norm is.
    Raises RuntimeError for integers, and for infinite and negative norms of empty vectors.
    """
    if p == "nuc":
        return norms.matrix_norm(input, p, range(input.ndim) if dim is None else dim, keepdim, dtype=dtype)
    return norm_of_elements(input, p, dim, keepdim, dtype=dtype)
