"""Factorisations, solutions, inverses, determinants and distances."""

from __future__ import annotations

from ... import linalg
from ...ops import cdist, cholesky, cholesky_inverse, cholesky_solve, geqrf, lu_unpack, ormqr, triangular_solve
from ...ops.linalg import determinant
from ...tensor.tensor import Tensor
from .table import runs

for _function in (cholesky, cholesky_inverse, cholesky_solve, geqrf, lu_unpack, ormqr, triangular_solve):
    runs(_function.__name__)(_function)
for _name in (
    "cholesky_ex", "eig", "householder_product", "inv_ex", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor_ex",
    "lu_solve", "matrix_exp", "qr", "solve_triangular",
):  # fmt: skip
    runs(f"linalg_{_name}")(getattr(linalg, _name))
runs("linalg_eigvals", "_linalg_eigvals")(linalg.eigvals)


@runs("_linalg_eigh")
def _eigh(A: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    return tuple(linalg.eigh(A, UPLO)) if compute_v else (linalg.eigvalsh(A, UPLO), A.new_empty(0))


@runs("_linalg_svd")
def _svd(
    A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, ...]:
    if compute_uv:
        return tuple(linalg.svd(A, full_matrices, driver=driver))
    return A.new_empty(0), linalg.svdvals(A, driver=driver), A.new_empty(0)


@runs("linalg_pinv.atol_rtol_tensor")
def _pinv(A: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    return linalg.pinv(A, atol=atol, rtol=rtol, hermitian=hermitian)


# Of a contiguous real matrix, torch's gradients of the following expect the factors of its transpose.


def _factors(A: Tensor, LU: Tensor | None, pivots: Tensor | None) -> tuple[Tensor, Tensor]:
    """The factors that torch's gradient expects; `LU` and `pivots` are those of A, if at hand."""
    if A.is_contiguous() and not A.is_complex():
        return tuple(linalg.lu_factor_ex(A.mT)[:2])
    if LU is None or pivots is None or LU.shape != A.shape:
        return tuple(linalg.lu_factor_ex(A)[:2])
    return LU, pivots


@runs("_linalg_solve_ex")
def _solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, ...]:
    found = linalg.solve_ex(A, B, left=left, check_errors=check_errors)
    return found.result, *_factors(A, None, None), found.info


@runs("_linalg_det")
def _det(A: Tensor) -> tuple[Tensor, ...]:
    found = determinant._determinant(A)
    return found[0], *_factors(A, *found[1:3])


@runs("_linalg_slogdet")
def _slogdet(A: Tensor) -> tuple[Tensor, ...]:
    found = determinant._sign_and_logarithm(A)
    return found[0], found[1], *_factors(A, *found[2:4])


_EUCLIDEAN_BY = {
    None: "use_mm_for_euclid_dist_if_necessary",
    0: "use_mm_for_euclid_dist_if_necessary",
    1: "use_mm_for_euclid_dist",
    2: "donot_use_mm_for_euclid_dist",
}
"""torch's numbers of the ways to compute distances."""


@runs("_cdist_forward")
def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return cdist(x1, x2, p, _EUCLIDEAN_BY[compute_mode])


@runs("_euclidean_dist")
def _euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    return cdist(x1, x2, 2.0, "use_mm_for_euclid_dist")
