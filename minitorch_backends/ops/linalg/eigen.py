"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...autograd.modes import derives_from
from ...dispatch.op import Array, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor, adopt
from ..matmul.matmul import adjoint
from .checks import call, declare, of_finite, of_square, raise_for
from .solve import solve

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


# The gauge freedom of eigenvectors and singular vectors, and checks that a loss does not depend on it.
#
# Vectors of equal values may be rotated among themselves. For a loss invariant under such rotations the gradient is 0 /
# 0 there: the skew-Hermitian part of V.H gV vanishes, over a vanishing difference of values. Its limit depends on the
# loss. Suppose the loss uses the vectors in one product V f(w) V.H (or U f(S) V.H). Then V.H gV has the Hermitian part
# f X, where X is the gradient of the product between the vectors. The values have the gradient f' diag(X), and the
# limit is f' X. So the ratio f' / f can be read off the diagonal. Where the Hermitian part vanishes, so does the limit,
# unless f vanishes, as for values of 0. In that case, and if the diagonals are not in one ratio, the limit is unknown:
# the gradient is NaN.


def is_zero(g: Tensor) -> bool:
    """Whether a gradient is one that nothing has sent: zeros without a history."""
    return g._node is None and not g._array.any()


def over_differences(matrix: Tensor, w: Tensor, equal: np.ndarray | None = None) -> Tensor:
    """matrix_ij / (w_j - w_i), and 0 on the diagonal and where values are `equal`."""
    apart = 1 - np.eye(w._array.shape[-1], dtype=w._array.dtype)
    if equal is not None:
        apart = np.where(equal, 0, apart).astype(apart.dtype)
    return matrix * adopt(apart) / (w[..., None, :] - w[..., :, None] + adopt(1 - apart))


def equal_values(w: Tensor, vanishing: Tensor, turned: Tensor) -> np.ndarray | None:
    """Which pairs of values are equal, and the elements of the matrix `vanishing` 0, up to rounding; None where no two
    are. An element of it is as exact as the columns of `turned` are large. The diagonal is true."""
    values, identity = w._array, np.eye(w._array.shape[-1], dtype=bool)
    gaps = np.abs(values[..., None, :] - values[..., :, None])
    equal = gaps <= _rounding(values) * np.abs(values).max(-1, initial=0)[..., None, None]
    if not (equal & ~identity).any():
        return None
    return (equal & (np.abs(vanishing._array) <= 8 * _rounding(values) * _sizes(turned._array))) | identity


def _rounding(values: np.ndarray) -> float:
    return 8 * max(values.shape[-1], 1) * float(np.finfo(values.dtype).eps)


def _sizes(matrix: np.ndarray) -> np.ndarray:
    """For each pair of columns the largest element of both."""
    columns = np.abs(matrix).max(-2, initial=0)
    return np.maximum(columns[..., None, :], columns[..., :, None])


def through_values(turned: Tensor, w: Tensor, of_values: Tensor, equal: np.ndarray) -> Tensor:
    """The limit of the gradient between the vectors of `equal` values w, from `turned`, V.H gV, and the gradient of the
    values; 0 elsewhere."""
    blocks = adopt(equal.astype(of_values._array.dtype))
    diagonal, even = turned.diagonal(0, -2, -1).real, (turned + adjoint(turned)) / 2
    squares = blocks @ diagonal.square()[..., None]
    ratios = quotient(blocks @ (of_values * diagonal)[..., None], squares)
    small, sizes = _rounding(of_values._array), _sizes(turned._array)
    rest = np.abs(of_values._array - ratios._array[..., 0] * diagonal._array)
    exact = rest <= 8 * small**0.5 * np.abs(of_values._array)
    known = np.all(exact[..., None, :] | ~equal, -1, keepdims=True) & (squares._array > (8 * small * sizes) ** 2)
    hidden = np.any(((w._array == 0) & (of_values._array != 0))[..., None, :] & equal, -1, keepdims=True)  # f(0) = 0
    between = equal & ~np.eye(equal.shape[-1], dtype=bool) & ((np.abs(even._array) > 8 * small * sizes) | hidden)
    return (even * ratios.where(adopt(known & ~hidden), np.nan)).where(adopt(between), 0)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where both are 0."""
    nothing = (a._array == 0) & (b._array == 0)
    return a / b.where(adopt(~nothing), 1) if nothing.any() else a / b


def refuse_phases(function: str, vectors: str, along: Tensor, *gradients: Tensor) -> None:
    """Raise RuntimeError if a complex loss changes with the phases of vectors, which are arbitrary.

    `along`: for each vector its inner product with its gradient; the imaginary part is the derivative by the phase.
    """
    turning = along._array
    if turning.dtype.kind != "c" or not turning.size:
        return
    scale = max(1.0, *(float(np.abs(g._array).max(initial=0)) for g in gradients))
    largest = float(np.abs(turning.imag).max())
    tolerance = (1e-2 if turning.dtype == np.complex64 else 1e-6) * scale
    if largest > tolerance:
        raise RuntimeError(
            f"{function}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The "
            f"specified loss function depends on this quantity, so it is ill-defined: its derivative by a phase is "
            f"{largest:.3g}, expected at most {tolerance:.1g}"
        )


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


@op(name=("eigh_of_triangle", "linalg_eigh"), traits="function", takes="fc", A=_eigh_gradient)
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


@op(name=("values_of_triangle", "linalg_eigvalsh"), traits="function", takes="fc")
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


@op(name="linalg_eig", traits="function", takes="fc", A=_eig_gradient, autocast="float32")
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


@op(name=("values_of_matrix", "linalg_eigvals"), traits="function", takes="fc")
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
