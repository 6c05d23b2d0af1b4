"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...autograd.modes import derives_from
from ...dispatch.op import Array, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor
from ..matmul.matmul import adjoint
from .calls import call
from .checks import declare, of_finite, of_square, raise_for
from .gauge import equal_values, is_zero, over_differences, refuse_phases, through_values
from .solve import solve

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


class Eig(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


_NOT_CONVERGED = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues "
    "(error code: {info})."
)


# Hermitian matrices


def _eigh_gradient(g: tuple, out: tuple) -> Tensor:
    """V (diag(gw) + (V.H gV) / (w_j - w_i)) V.H, whose second term has no diagonal: lengths are fixed, and phases free.
    Of V.H gV only the skew-Hermitian part counts, without which the gradient would not be Hermitian.

    (Giles, Collected matrix derivative results for forward and reverse mode AD, 2008, section 3.1, made complex.)
    """
    w, V, gw, gV = out[0], out[1], g[0], g[1]
    inner = gw.diag_embed() if V._array.dtype.kind != "c" else (gw + 0j).diag_embed()
    if not is_zero(gV):
        turned = adjoint(V) @ gV
        refuse_phases("linalg_eigh_backward", "eigenvectors", turned.diagonal(0, -2, -1), gV)
        skew = (turned - adjoint(turned)) / 2
        equal = equal_values(w, skew, turned)
        inner = inner + over_differences(skew, w, equal)
        if equal is not None:
            inner = inner + through_values(turned, w, gw, equal)
    return V @ inner @ adjoint(V)


@op(name="eigh_of_triangle", called="linalg_eigh", method=False, takes="fc", A=_eigh_gradient)
def _eigh(A: Array, UPLO: str = "L") -> Eig:
    """The eigenvalues and eigenvectors of the Hermitian matrices whose lower ("L") or upper triangles these are."""
    of_square("eigh", A)
    found = call(kernels.eigh, A, **_triangle("eigh", UPLO, A))
    raise_for("eigh", found.info, _NOT_CONVERGED)
    return Eig(found.w, found.V)


def _triangle(function: str, UPLO: Any, A: np.ndarray) -> dict[str, Any]:
    """The kernel's name for the triangle, which must be finite."""
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"linalg.{function}: Expected UPLO argument to be 'L' or 'U', but got {UPLO!r}")
    lower = UPLO.upper() == "L"
    of_finite(function, A, triangle=np.tril if lower else np.triu)
    return {} if lower else {"lower": False}


@declare(autocast="float32")
def eigh(A: Tensor, UPLO: str = "L") -> Eig:
    """The eigenvalues of Hermitian matrices, real and ascending, and orthonormal eigenvectors, the columns of V.

    A: (..., n, n); one triangle is read. Returns (eigenvalues, eigenvectors): A = V @ diag(w) @ V.H. Gradients are
    those of a Hermitian matrix. Gradients through eigenvectors exist if eigenvalues are distinct and the loss does not
    depend on signs or phases of the vectors. Raises LinAlgError if the iteration fails or a number is not finite.
    """
    return Eig(*_eigh(A, UPLO))


@op(name="values_of_triangle", called="linalg_eigvalsh", method=False, takes="fc")
def _eigvalsh(A: Array, UPLO: str = "L") -> Array:
    """The eigenvalues of Hermitian matrices, without gradients."""
    of_square("eigvalsh", A)
    found = call(kernels.eigh, A, vectors=False, **_triangle("eigvalsh", UPLO, A))
    raise_for("eigvalsh", found.info, _NOT_CONVERGED)
    return found.w


@declare(autocast="float32")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, real and ascending, without vectors unless a gradient needs them."""
    if isinstance(A, Tensor) and derives_from(A):
        return _eigh(A, UPLO)[0]
    return _eigvalsh(A, UPLO)


# General matrices


def _eig_gradient(g: tuple, out: tuple) -> Tensor:
    """V^-H (diag(gw) + (V.H gV - V.H V diag(Re(V.H gV))) / conj(w_j - w_i)) V.H, for vectors of length 1.

    (Boeddeker, Hanebrink, Drude, Heymann, Haeb-Umbach, On the computation of complex-valued gradients, 2017, 4.77.)
    """
    w, V, gw, gV = out[0], out[1], g[0], g[1]
    inner = gw.diag_embed()
    if not is_zero(gV):
        turned = adjoint(V) @ gV
        along = turned.diagonal(0, -2, -1)
        refuse_phases("linalg_eig_backward", "eigenvectors", along, gV)
        turned = turned - (adjoint(V) @ V) * along.real[..., None, :]
        inner = inner + over_differences(turned, w.conj())
    return solve(adjoint(V), inner @ adjoint(V))


@op(name="linalg_eig", method=False, takes="fc", A=_eig_gradient, autocast="float32")
def eig(A: Array) -> Eig:
    """The eigenvalues of square matrices and eigenvectors of length 1, the columns of V; both are complex.

    A: (..., n, n). Returns (eigenvalues, eigenvectors): A @ V = V @ diag(w). Gradients exist where eigenvalues are
    distinct and the loss does not depend on the vectors' phases. Raises RuntimeError for numbers that are not finite.
    """
    of_square("eig", A)
    of_finite("eig", A, RuntimeError)
    found = call(kernels.eig, A)
    raise_for("eig", found.info, _NOT_CONVERGED)
    return Eig(found.w, found.V)


@op(name="values_of_matrix", called="linalg_eigvals", method=False, takes="fc")
def _eigvals(A: Array) -> Array:
    """The eigenvalues of square matrices, without gradients."""
    of_square("eigvals", A)
    of_finite("eigvals", A, RuntimeError)
    found = call(kernels.eig, A, vectors=False)
    raise_for("eigvals", found.info, _NOT_CONVERGED)
    return found.w


@declare(autocast="float32")
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex, without vectors unless a gradient needs them. A: (..., n, n)."""
    if isinstance(A, Tensor) and derives_from(A):
        return eig(A)[0]
    return _eigvals(A)
