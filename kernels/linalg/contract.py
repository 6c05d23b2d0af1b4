"""The tasks of dense linear algebra: their call forms, results, and contracts.

Every task takes any number of leading batch dimensions, equal in all of its arguments, and float32, float64, complex64
and complex128. `info` is int32, one per batch entry, with LAPACK's meaning: 0, or the 1-based number of what failed
(the leading minor that is not positive, the pivot that is zero, the count of values that did not converge).
Eigenvalue and singular value problems are given finite matrices only. `report` says what an implementation has to tell
of itself (the routine, sweeps, iterations), for `explain`.

    cholesky(a)                                         -> Cholesky    a = L @ L.H, from the lower triangle of a
    cholesky_solve(L, b), cholesky_inverse(L)           -> array       of the lower factor L
    lu_factor(a)                                        -> LU          LAPACK's getrf, pivots from 1; any m x n
    lu_solve(LU, pivots, b, transpose=False)            -> array       a @ x = b, or a.T @ x = b
    triangular_solve(a, b, upper, left, unitriangular, transpose) -> array
    inv(a)                                              -> Inverse
    solve(a, b)                                         -> Solution
    qr(a, mode="reduced" | "complete" | "r")            -> QR
    geqrf(a)                                            -> Reflectors
    householder_product(a, tau)                         -> array       the first n columns of H_1 H_2 ... H_k
    eigh(a, vectors=True, lower=True)                   -> Eigh        values ascending
    svd(a, full=False, vectors=True, driver=None)       -> SVD         values descending
    eig(a, vectors=True)                                -> Eig         complex, vectors of length 1
    lstsq(a, b, rcond, driver)                          -> Lstsq
    ldl_factor(a, hermitian=False)                      -> LDL         Bunch and Kaufman's sytrf or hetrf, lower
    ldl_solve(LD, pivots, b, hermitian=False)           -> array

Keywords are left out where they have their defaults. `precision` (and `rounding`) name the precision of the float32
products inside, `unit` the matrix unit of a device that sums them, and `refine=False` leaves out the refinement that
brings a solution back to float32's accuracy.

Implementations are named by family: "magma" (blocked, on the project's own products), "batched" (compiled for many
small matrices) and "jacobi" (rotations), which together are the family "cusolver", and "lapack", which refuses
nothing.

`bound` is the unit roundoff at each precision: backward errors (`residuals.py`), in multiples of it, grow slowly with
the size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..precisions.products import ProductBound
from ..registry import Call, Kernel, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.first_use import calls_blas
from ..runtime.invariance import BATCH

__all__ = [
    "LDL", "LU", "QR", "SVD", "Cholesky", "Eig", "Eigh", "Inverse", "Lstsq", "Reflectors", "Solution", "cholesky",
    "cholesky_inverse", "cholesky_solve", "eig", "eigh", "geqrf", "householder_product", "inv", "ldl_factor",
    "ldl_solve", "lstsq", "lu_factor", "lu_solve", "qr", "solve", "svd", "triangular_solve",
]  # fmt: skip

Report = dict[str, Any]


class Cholesky(NamedTuple):
    """L: lower triangular (..., n, n), zeros above; where info is k > 0, only the columns before k are right."""

    L: np.ndarray
    info: np.ndarray
    report: Report | None = None


class LU(NamedTuple):
    """LU: (..., m, n), U above and on the diagonal, L below it. pivots: int32 (..., min(m, n)), from 1."""

    LU: np.ndarray
    pivots: np.ndarray
    info: np.ndarray
    report: Report | None = None


class Inverse(NamedTuple):
    inverse: np.ndarray
    info: np.ndarray
    report: Report | None = None


class Solution(NamedTuple):
    """x: (..., n, k), not to be looked at where info is not 0; LU and pivots: those of a."""

    x: np.ndarray
    LU: np.ndarray
    pivots: np.ndarray
    info: np.ndarray
    report: Report | None = None


class QR(NamedTuple):
    """Q: (..., m, k), or None for mode "r"; R: (..., k, n). k is min(m, n), or m for mode "complete"."""

    Q: np.ndarray | None
    R: np.ndarray
    report: Report | None = None


class Reflectors(NamedTuple):
    """a: (..., m, n), R above and on the diagonal, the reflectors below it. tau: (..., min(m, n))."""

    a: np.ndarray
    tau: np.ndarray
    report: Report | None = None


class Eigh(NamedTuple):
    """w: real (..., n), ascending. V: (..., n, n), or None."""

    w: np.ndarray
    V: np.ndarray | None
    info: np.ndarray
    report: Report | None = None


class SVD(NamedTuple):
    """U: (..., m, k) and Vh: (..., k, n), or None, square if full. S: real (..., k), descending. k is min(m, n)."""

    U: np.ndarray | None
    S: np.ndarray
    Vh: np.ndarray | None
    info: np.ndarray
    report: Report | None = None


class Eig(NamedTuple):
    """w: complex (..., n). V: complex (..., n, n), or None."""

    w: np.ndarray
    V: np.ndarray | None
    info: np.ndarray
    report: Report | None = None


class Lstsq(NamedTuple):
    """x: (..., n, k). rank: int64 (...), and S: real (..., min(m, n)), or None where the driver finds none."""

    x: np.ndarray
    rank: np.ndarray | None
    S: np.ndarray | None
    info: np.ndarray
    report: Report | None = None


class LDL(NamedTuple):
    """LD: (..., n, n), D on the diagonal and, for its blocks of two, below it; L below. pivots: int32 (..., n)."""

    LD: np.ndarray
    pivots: np.ndarray
    info: np.ndarray
    report: Report | None = None


_ROUNDOFF = ProductBound(least=2.0**-24)


def _describe(call: Call) -> dict[str, Any]:
    """What traces show: the keywords, the family that was asked first, what the implementation reports, and whether a
    lower precision had no product to act in."""
    asked = {} if call.prefer is None else {"prefer": call.prefer}
    acts = {"computed_at": "ieee"} if "precision" in call.keywords and _without_products(call) else {}
    return {**call.keywords, **asked, **acts, **(getattr(call.result, "report", None) or {})}


def _without_products(call: Call) -> bool:
    from .choice import multiplies_by_matmul
    from .few_sides import FEW
    from .updates import BLOCK

    few = call.kernel == "cholesky_solve" and call.shapes[1][-1] <= FEW and not multiplies_by_matmul(call.keywords)
    if call.implementation == "lapack" or few:
        return True
    return call.kernel in ("solve", "inv", "cholesky_solve") and call.shapes[0][-1] <= BLOCK


class _Task(Kernel):
    """A kernel whose implementations use others without a line of their own in traces."""

    def impl(self, name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def declare(run: Callable[..., Any]) -> Callable[..., Any]:
            @calls_blas
            @functools.wraps(run)
            @restore_on_failure
            def alone(*arrays: Any, **keywords: Any) -> Any:
                with without_observers():
                    return run(*arrays, **keywords)

            # One matrix after the other, without products to change.
            exact: dict[str, Any] = {"by_unit": True, "scales": True, "keeps": BATCH} if name == "lapack" else {}
            super(_Task, self).impl(name, **exact, **options)(alone)
            return run

        return declare


def _kernel(name: str) -> Kernel:
    def in_double(*arrays: np.ndarray, **keywords: Any) -> Any:
        """By LAPACK in float64 or complex128."""
        wide = [a if a.dtype.kind == "i" else a.astype("c16" if a.dtype.kind == "c" else "f8") for a in arrays]
        run: Callable[..., Any] = kernel["lapack"]
        return run(*wide, **{key: value for key, value in keywords.items() if key not in ("precision", "rounding")})

    kernel = _Task(name, reference=in_double, bound=_ROUNDOFF)
    kernel.describe = _describe
    return kernel


cholesky = _kernel("cholesky")
cholesky_solve = _kernel("cholesky_solve")
cholesky_inverse = _kernel("cholesky_inverse")
lu_factor = _kernel("lu_factor")
lu_solve = _kernel("lu_solve")
triangular_solve = _kernel("triangular_solve")
inv = _kernel("inv")
solve = _kernel("solve")
qr = _kernel("qr")
geqrf = _kernel("geqrf")
householder_product = _kernel("householder_product")
eigh = _kernel("eigh")
svd = _kernel("svd")
eig = _kernel("eig")
lstsq = _kernel("lstsq")
ldl_factor = _kernel("ldl_factor")
ldl_solve = _kernel("ldl_solve")
