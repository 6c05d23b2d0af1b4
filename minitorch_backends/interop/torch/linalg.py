"""Factorisations, solutions, inverses, determinants and distances."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from ... import linalg
from ...ops.linalg import determinant
from ...ops.names import cdist, cholesky, cholesky_inverse, cholesky_solve, geqrf, lu_unpack, ormqr, triangular_solve
from ...tensor.tensor import Tensor
from .table import runs

for _function in (cholesky, cholesky_inverse, cholesky_solve, lu_unpack, ormqr):
    runs(_function.__name__)(_function)
for _name in (
    "cholesky_ex", "eig", "householder_product", "inv_ex", "ldl_factor_ex", "ldl_solve", "lu", "lu_factor_ex",
    "lu_solve", "matrix_exp", "qr", "solve_triangular",
):  # fmt: skip
    runs(f"linalg_{_name}")(getattr(linalg, _name))
runs("linalg_eigvals", "_linalg_eigvals")(linalg.eigvals)


@runs("geqrf")
def _geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    a, tau = geqrf(input)
    return a.mT.contiguous().mT, tau  # LAPACK's layout, which torch has no rule for


@runs("linalg_lstsq")
def _lstsq(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    solution, *rest = linalg.lstsq(*args, **kwargs)
    return solution.mT.contiguous().mT if solution.ndim > 1 else solution, *rest


@runs("triangular_solve")
def _triangular_solve(b: Tensor, A: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    solution, _ = triangular_solve(b, A, *args, **kwargs)
    return solution, A.expand(*solution.shape[:-2], *A.shape[-2:])


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


@runs("linalg_pinv.atol_rtol_tensor", mixed=True)
def _pinv(A: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    return linalg.pinv(A, atol=atol, rtol=rtol, hermitian=hermitian)


@cache
def _keeps_transposed(operator: str, place: int, is_contiguous: bool) -> bool:
    """Whether torch's gradient of an operator expects the factors of the transpose of a real matrix, which differs by
    operator, layout and version of torch. The answer is that of torch's kernel for a small matrix."""
    with torch.utils._python_dispatch._disable_current_modes():
        A = torch.tensor([[4.0, 1.0], [2.0, 3.0]])
        A = A if is_contiguous else A.mT.contiguous().mT
        rest = (torch.ones(2, 1),) if operator == "_linalg_solve_ex" else ()
        LU = getattr(torch.ops.aten, operator)(A, *rest)[place]
        return bool(torch.equal(LU, torch.linalg.lu_factor(A.mT)[0]))


def _factors(operator: str, place: int, A: Tensor, LU: Tensor | None, pivots: Tensor | None) -> tuple[Tensor, Tensor]:
    """The factors that torch's gradient expects; `LU` and `pivots` are those of A, if at hand."""
    if not A.is_complex() and _keeps_transposed(operator, place, A.is_contiguous()):
        return tuple(linalg.lu_factor_ex(A.mT)[:2])
    if LU is None or pivots is None or LU.shape != A.shape:
        return tuple(linalg.lu_factor_ex(A)[:2])
    return LU, pivots


@runs("_linalg_solve_ex")
def _solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, ...]:
    found = linalg.solve_ex(A, B, left=left, check_errors=check_errors)
    return found.result, *_factors("_linalg_solve_ex", 1, A, None, None), found.info


@runs("_linalg_det")
def _det(A: Tensor) -> tuple[Tensor, ...]:
    found = determinant._determinant(A)
    return found[0], *_factors("_linalg_det", 1, A, *found[1:3])


@runs("_linalg_slogdet")
def _slogdet(A: Tensor) -> tuple[Tensor, ...]:
    found = determinant._sign_and_logarithm(A)
    return found[0], found[1], *_factors("_linalg_slogdet", 2, A, *found[2:4])


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
