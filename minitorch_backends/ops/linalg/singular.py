"""Singular values, pseudo-inverses and ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...autograd.modes import derives_from
from ...dispatch.op import Array, composite, op
from ...kernels import linalg as kernels
from ...tensor.call_errors import argument_errors, refuse_other_than_tensor, scalar
from ...tensor.tensor import Tensor, adopt
from ..creation.sampling import randn
from ..matmul.dispatch import product
from ..matmul.matmul import adjoint
from .checks import call, declare, of_finite, of_floating, of_matrices, of_square, raise_for
from .eigen import eigvalsh, equal_values, is_zero, over_differences, quotient, refuse_phases, through_values
from .orthogonal import qr

__all__ = ["matrix_rank", "pinv", "pinverse", "svd", "svd_of", "svdvals"]


DRIVERS = (None, "gesvd", "gesvdj", "gesvda")


class SVD(NamedTuple):
    U: Any
    S: Any
    Vh: Any


_NOT_CONVERGED = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular "
    "values (error code: {info})."
)


def _skew(matrix: Tensor) -> Tensor:
    return matrix - adjoint(matrix)


def _svd_gradient(g: tuple, out: tuple, full_matrices: bool) -> Tensor:
    """U [(skew(U.H gU) / E) S + S (skew(V.H gV) / E) + diag(gS)] V.H with E_ij = s_j^2 - s_i^2 = (s_j - s_i) (s_j +
    s_i), whose factors do not underflow where squares would; plus the parts of gU and gV outside the spaces of U and V.
    For complex matrices it includes the phases that U and V share.

    (Wan and Zhang, Automatic differentiation for complex valued SVD, arXiv 1909.02659.) Full matrices have the gradient
    of their first min(m, n) columns, since the others are not unique.
    """
    gU, gS, gVh = g
    U, S, Vh = out
    m, n, k = U._array.shape[-2], Vh._array.shape[-1], S._array.shape[-1]
    if full_matrices:
        U, gU, Vh, gVh = U[..., :k], gU[..., :k], Vh[..., :k, :], gVh[..., :k, :]
    of_vectors = not (is_zero(gU) and is_zero(gVh))
    if not of_vectors:
        return (U * gS[..., None, :]) @ Vh
    kind = U._array.dtype
    turned_u, turned_v = adjoint(U) @ gU, Vh @ adjoint(gVh)
    s_i, s_j, one = S[..., :, None], S[..., None, :], adopt(np.eye(k, dtype=S._array.dtype))
    skew_u, skew_v, total = _skew(turned_u), _skew(turned_v), s_j + s_i + one
    equal = equal_values(S, skew_u + skew_v, turned_u)
    first, second = quotient(s_j, total), quotient(s_i, total)
    inner = over_differences(skew_u, S, equal) * first + second * over_differences(skew_v, S, equal)
    inner = inner + gS.to(turned_u.dtype).diag_embed()
    if equal is not None:
        between = adopt((equal & ~np.eye(k, dtype=bool)).astype(S._array.dtype))
        inner = inner + quotient(skew_u * between, total) + through_values(turned_u, S, gS, equal)
    if kind.kind == "c":
        refuse_phases("svd_backward", "singular vectors", (turned_u + turned_v).diagonal(0, -2, -1), gU, gVh)
        inner = inner + quotient(skew_u.diagonal(0, -2, -1), 2 * S).diag_embed()
    gA = U @ inner @ Vh
    if m > k:
        gA = gA + quotient(gU - U @ turned_u, S[..., None, :]) @ Vh
    if n > k:
        gA = gA + U @ quotient(gVh - adjoint(turned_v) @ Vh, S[..., :, None])
    return gA


@op(name="linalg_svd", traits="function", takes="fc", A=_svd_gradient, autocast="float32")
def svd(A: Array, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """A = U @ diag(S) @ Vh with orthonormal columns in U and rows in Vh, S real and descending. A: (..., m, n).

    Returns (U, S, Vh): (..., m, k), (..., k), (..., k, n) with k = min(m, n); square U and Vh if `full_matrices`.
    `driver`:
    "gesvd" (QR iteration), "gesvdj" and "gesvda" (Jacobi rotations); None uses the flag. Gradients through vectors
    exist if
    singular values are distinct (and nonzero, for a matrix that is not square) and the loss does not depend on signs or
    phases. Raises LinAlgError if the iteration fails or a number is not finite.
    """
    found = _decompose("svd", A, driver, full=full_matrices)
    return SVD(found.U, found.S, found.Vh)


def _decompose(function: str, A: np.ndarray, driver: str | None, full: bool = False, vectors: bool = True) -> Any:
    of_matrices(function, A)
    if driver not in DRIVERS:
        raise RuntimeError(
            f"linalg.{function}: keyword argument `driver={driver!r}` is unknown; expected one of None, 'gesvd', "
            "'gesvdj', 'gesvda'"
        )
    of_finite(function, A)
    options: dict[str, Any] = {"full": True} if full and vectors else {}
    if not vectors:
        options["vectors"] = False
    found = call(kernels.svd, A, driver=driver, **options)
    raise_for(function, found.info, _NOT_CONVERGED)
    return found


@op(name=("values_of_svd", "linalg_svdvals"), traits="function", takes="fc")
def _svdvals(A: Array, driver: str | None = None) -> Array:
    """The singular values, without gradients."""
    return _decompose("svdvals", A, driver, vectors=False).S


@declare(autocast="float32")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending, without vectors unless a gradient needs them. A: (..., m, n)."""
    if isinstance(A, Tensor) and derives_from(A):
        return svd(A, False, driver=driver)[1]
    return _svdvals(A, driver)


# Pseudo-inverses


def roundoff(kind: np.dtype) -> float:
    """The eps of a dtype; for half types that of float32, the dtype of their factorisation."""
    return float(np.finfo(kind if kind.itemsize > 2 else np.float32).eps)


def _cut(largest: Any, shape: tuple[int, ...], kind: Any, atol: Any, rtol: Any) -> Any:
    """Below which size a singular value counts as zero: max(atol, rtol * largest), as arrays that broadcast."""
    if rtol is None:
        rtol = 0.0 if atol is not None and np.any(np.asarray(atol) > 0) else max(shape[-2:]) * roundoff(kind)
    return np.maximum(0.0 if atol is None else atol, rtol * largest)


def _tolerance(name: str, argument: str, value: Any) -> Any:
    """A tolerance as a number or an array of one for each matrix. Raises TypeError for others."""
    if isinstance(value, Tensor):
        return value._array
    return scalar(name, argument, value, (float, int, type(None))) if value is not None else None


def _pinv_gradient(g: Tensor, A: Tensor, out: Tensor) -> Tensor:
    """Golub and Pereyra, The differentiation of pseudo-inverses (1973), theorem 4.3, for constant rank."""
    m, n = A._array.shape[-2:]
    P, PH, gH = out, adjoint(out), adjoint(g)
    if m <= n:
        K = gH @ P
        along = K @ PH
        return -adjoint(P @ K) + along - (A @ P) @ along + (PH @ P) @ (gH - K @ A)
    K = P @ gH
    along = PH @ K
    return -adjoint(K @ P) + (gH - A @ K) @ P @ PH + along - (along @ P) @ A


@op(name=("pseudo_inverse", "linalg_pinv"), traits="function", takes="fc", A=_pinv_gradient)
def _pinv(A: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    """`linalg.pinv` for tolerances that are numbers, arrays of them, or None."""
    if hermitian:
        of_square("pinv", A)
        of_finite("pinv", A, triangle=np.tril)
        found = call(kernels.eigh, A)
        raise_for("pinv", found.info, _NOT_CONVERGED)
        U, values, Vh = found.V, found.w, found.V.conj().swapaxes(-1, -2)
    else:
        found = _decompose("pinv", A, None)
        U, values, Vh = found.U, found.S, found.Vh
    size = np.abs(values)
    kept = size > _cut(size.max(-1, initial=0), A.shape, A.dtype, atol, rtol)[..., None]
    inverse = np.divide(1, values, out=np.zeros(kept.shape, values.dtype), where=kept)
    return product(Vh.conj().swapaxes(-1, -2) * inverse[..., None, :], U.conj().swapaxes(-1, -2))


@declare()
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse. A: (..., m, n).

    Singular values up to max(atol, rtol * the largest) count as zero; rtol is max(m, n) * eps unless atol is given.
    Both may be tensors with a value per matrix; `rcond` is an older name of rtol. With `hermitian`, eigenvalues of the
    lower triangle are used. The gradient is that at constant rank. Raises RuntimeError for vectors, LinAlgError as
    `svd` does.
    """
    of_matrices("pinv", of_floating("pinv", A))
    relative = ("rcond", rcond) if rtol is None else ("rtol", rtol)
    return _pinv(A, _tolerance("pinv", "atol", atol), _tolerance("pinv", *relative), hermitian)


# Ranks


@declare(autocast="float32")
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The number of singular values (absolute eigenvalues, if `hermitian`) above max(atol, rtol * the largest), int64.

    rtol is max(m, n) * eps unless atol is given. A: (..., m, n).
    """
    of_matrices("matrix_rank", of_floating("matrix_rank", A))
    absolute = _tolerance("matrix_rank", *(("tol", tol) if atol is None else ("atol", atol)))
    relative = _tolerance("matrix_rank", "rtol", rtol)
    plain = A.detach()
    sizes = np.abs((eigvalsh(plain) if hermitian else svdvals(plain))._array)
    cut = _cut(sizes.max(-1, initial=0), A.shape, A._array.dtype, absolute, relative)
    return adopt(np.asarray(np.count_nonzero(sizes > np.asarray(cut)[..., None], axis=-1)).astype(np.int64))


# Singular values of matrices of low rank, by random projections (N. Halko, P. Martinsson and J. Tropp, arXiv
# 0909.4061).


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


# As names of the package, with their older arguments


@composite(takes="fc", autocast="float32")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with `rtol=rcond`."""
    return pinv(input, rtol=rcond)


class SVDWithV(NamedTuple):
    U: Any
    S: Any
    V: Any


@composite(name="svd", takes="fc", autocast="float32")
def svd_of(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVDWithV:
    """`linalg.svd` with V in place of its adjoint; thin matrices if `some`; zeros for U and V unless `compute_uv`."""
    if compute_uv:
        U, S, Vh = svd(input, not some)
        return SVDWithV(U, S, Vh.mH)
    m, n = input._array.shape[-2:]
    batch = input._array.shape[:-2]
    nothing = [adopt(np.zeros((*batch, size, size), input._array.dtype)) for size in (m, n)]
    return SVDWithV(nothing[0], svdvals(input), nothing[1])
