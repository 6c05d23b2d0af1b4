"""Singular values of matrices of low rank, by random projections (N. Halko, P. Martinsson and J. Tropp, arXiv
0909.4061)."""

from __future__ import annotations

from ...tensor.call_errors import argument_errors, refuse_other_than_tensor
from ...tensor.tensor import Tensor
from ..creation.sampling import randn
from .orthogonal import qr
from .singular import svd


def _range_of(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that nearly span those of A."""
    found = qr(A @ randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype)).Q
    for _ in range(niter):
        found = qr(A @ qr(A.mH @ found).Q).Q
    return found


def _sizes(name: str, A: Tensor) -> tuple[int, int]:
    """The sizes of a matrix. Raises TypeError for others than tensors, RuntimeError for fewer dimensions."""
    refuse_other_than_tensor(name, "A", A)
    if A.ndim < 2:
        raise RuntimeError(f"{name}(): A must be a matrix or a batch of matrices, got shape {list(A.shape)}")
    m, n = A.shape[-2:]
    return m, n


@argument_errors
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The largest `q` singular values of (..., m, n) matrices, of A or of A - M, with vectors in columns: (U, S, V).

    Draws from the default generator; `niter` steps of subspace iteration sharpen the result. Raises ValueError for a q
    beyond the sizes, or negative.
    """
    A = A if M is None else A - M
    m, n = _sizes("svd_lowrank", A)
    if not 0 <= q <= min(m, n):
        raise ValueError(f"svd_lowrank(): q must be from 0 to the smaller size {min(m, n)}, got {q}")
    if m < n:
        U, S, V = svd_lowrank(A.mH, q, niter)
        return V, S, U
    span = _range_of(A, q, niter)
    U, S, Vh = svd(span.mH @ A, full_matrices=False)
    return span @ U, S, Vh.mH


@argument_errors
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components of the rows of (..., m, n) matrices: `svd_lowrank` of A, centred by default.

    `q` is at most 6 by default. Raises ValueError as `svd_lowrank` does.
    """
    q = min(6, *_sizes("pca_lowrank", A)) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
