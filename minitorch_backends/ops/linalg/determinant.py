"""Determinants, with gradients that hold at singular matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...autograd.half_types import widen
from ...autograd.modes import derives
from ...dispatch.op import Array, composite, op
from ...kernels import linalg as kernels
from ...kernels.arrays import sums
from ...tensor.tensor import Tensor, adopt
from ..matmul.matmul import adjoint
from ..views.join import cat, stack
from .checks import call, declare, of_square
from .lu import lu_solve
from .solve import inv_ex

__all__ = ["det", "det_of", "logdet", "slogdet", "slogdet_of"]


def _parity(pivots: np.ndarray) -> np.ndarray:
    """1 for an even number of interchanges of rows, -1 for an odd one."""
    moved = np.count_nonzero(pivots != np.arange(1, pivots.shape[-1] + 1), axis=-1)
    return 1 - 2 * (moved % 2)


# The determinant


class WithFactors(NamedTuple):
    result: Any
    LU: Any
    pivots: Any


SMALL = 1e-3
"""Singular values below this fraction of the largest are treated separately in a cofactor; inverting larger ones loses
at most three digits."""


def _det_gradient(g: tuple, A: Tensor, out: tuple) -> Tensor:
    """g * conj(cofactors): by LU factors for matrices far from singular, if nothing is recorded."""
    found, LU, pivots = out
    sizes = np.abs(LU._array.diagonal(0, -2, -1))
    near = ~(sizes.min(-1, initial=np.inf) > SMALL * sizes.max(-1, initial=0))
    if derives() or near.all():
        return _by_cofactors(g[0], A)
    scale = g[0] * found.conj()
    if not near.any():
        return _by_factors(scale, LU, pivots)
    gradient, far = np.empty_like(LU._array), ~near
    gradient[near] = _by_cofactors(_part(g[0], near), _part(A, near))._array
    gradient[far] = _by_factors(_part(scale, far), _part(LU, far), _part(pivots, far))._array
    return adopt(gradient)


def _part(x: Tensor, which: np.ndarray) -> Tensor:
    return adopt(x._array[which])


def _by_cofactors(g: Tensor, A: Tensor) -> Tensor:
    return g[..., None, None] * cofactors(widen(A)).conj()


def _by_factors(scale: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:
    identity = np.broadcast_to(np.eye(LU.shape[-1], dtype=LU._array.dtype), LU.shape)
    return scale[..., None, None] * lu_solve(LU, pivots, adopt(np.ascontiguousarray(identity)), adjoint=True)


def cofactors(A: Tensor) -> Tensor:
    """The derivative of the determinant by each element, det(A) * inv(A).T, for singular matrices too.

    With A = U S Vh, and the small singular values put last, U.H A V = [[F, G], [H, K]] has a Schur complement
    C = K - H F^-1 G that is small. Then adj(A) = det(U) det(Vh) V adj(U.H A V) U.H, and the adjugate of the blocks is
    given by F^-1, det(C) and adj(C), which are polynomials of C. (Horn and Johnson, Matrix Analysis, 0.8.2 and 0.8.5.)
    U and V are constants here, so that every derivative is exact.
    """
    array = A._array
    if array.ndim > 2:
        if not array.size:
            return A * 0
        flat = A.reshape(-1, *array.shape[-2:])
        return stack([cofactors(flat[index]) for index in range(len(flat._array))]).reshape(array.shape)
    n = array.shape[-1]
    if n == 0 or not np.isfinite(array).all():
        return A * np.nan
    found = call(kernels.svd, array)
    U, S, V = found.U, found.S, found.Vh.conj().T
    rank = int(np.count_nonzero(SMALL * S[0] < S))
    sign = np.linalg.det(U) * np.linalg.det(V).conj()
    left, right = adopt(U.conj().T.copy()), adopt(V.copy())
    inner = left @ A @ right
    return (right @ (_adjugate(inner, rank) * sign.item()) @ left).mT


def _adjugate(inner: Tensor, rank: int) -> Tensor:
    """adj of [[F, G], [H, K]], F of size `rank` and far from singular."""
    if rank == 0:
        return _small_adjugate(inner)[1]
    F, G, H, K = inner[:rank, :rank], inner[:rank, rank:], inner[rank:, :rank], inner[rank:, rank:]
    inverse = inv_ex(F)[0]
    if rank == inner._array.shape[0]:
        return inverse * det(F)
    X, Y = inverse @ G, H @ inverse
    of_complement, adjugate = _small_adjugate(K - H @ X)
    upper = cat([inverse * of_complement + X @ adjugate @ Y, -(X @ adjugate)], -1)
    return cat([upper, cat([-(adjugate @ Y), adjugate], -1)], -2) * det(F)


def _small_adjugate(C: Tensor) -> tuple[Tensor, Tensor]:
    """det(C) and adj(C), polynomials of C, by the method of Faddeev and Le Verrier, which is exact at C = 0."""
    size = C._array.shape[0]
    identity = adopt(np.eye(size, dtype=C._array.dtype))
    adjugate, coefficient = identity, C.trace()
    for step in range(2, size + 1):
        product = C @ adjugate
        adjugate = product - identity * coefficient
        coefficient = (C @ adjugate).trace() / step
    sign = -1 if size % 2 == 0 else 1
    return coefficient * sign, adjugate * sign


@op(name=("determinant", "linalg_det"), traits="function", takes="fc", A=_det_gradient)
def _determinant(A: Array) -> WithFactors:
    """The determinants, with the LU factors."""
    of_square("det", A)
    found = call(kernels.lu_factor, A)
    product = np.multiply.reduce(found.LU.diagonal(0, -2, -1), axis=-1)
    return WithFactors(np.asarray(product * _parity(found.pivots)).astype(A.dtype), found.LU, found.pivots)


@declare(widen=True)
def det(A: Tensor) -> Tensor:
    """The determinant of each matrix. A: (..., n, n). Its gradients are exact at singular matrices, of every rank."""
    return _determinant(A)[0]


# Its logarithm


class SlogDet(NamedTuple):
    sign: Any
    logabsdet: Any


class SignAndLogarithm(NamedTuple):
    sign: Any
    logabsdet: Any
    LU: Any
    pivots: Any


def _slogdet_gradient(g: tuple, A: Tensor, out: tuple) -> Tensor:
    """d logabsdet = Re(tr(A^-1 dA)), and d sign = i sign Im(tr(A^-1 dA)), which is 0 for real matrices."""
    scale: Any = g[1]
    if A._array.dtype.kind == "c":
        turned = g[0].conj() * out[0]
        scale = scale - turned.imag * 1j if turned._array.any() or turned.requires_grad else scale + 0j
    if derives():
        return scale[..., None, None] * adjoint(inv_ex(A)[0])
    identity = np.broadcast_to(np.eye(A._array.shape[-1], dtype=A._array.dtype), A._array.shape)
    return lu_solve(out[2], out[3], adopt(np.ascontiguousarray(identity)), adjoint=True) * scale[..., None, None]


@op(name=("sign_and_logarithm", "linalg_slogdet"), traits="function", takes="fc", A=_slogdet_gradient)
def _sign_and_logarithm(A: Array) -> SignAndLogarithm:
    """The signs and logarithms of the determinants, with the LU factors."""
    of_square("slogdet", A)
    found = call(kernels.lu_factor, A)
    diagonal = found.LU.diagonal(0, -2, -1)
    size = np.abs(diagonal)
    if A.dtype.kind == "c":
        units = np.divide(diagonal, size, out=np.zeros_like(diagonal), where=size != 0)
    else:
        units = np.sign(diagonal)  # of infinite ones, too
    sign = np.multiply.reduce(units, axis=-1) * _parity(found.pivots)
    logarithm = sums.sum(np.log(size), -1)
    return SignAndLogarithm(np.asarray(sign).astype(A.dtype), np.asarray(logarithm), found.LU, found.pivots)


@declare()
def slogdet(A: Tensor) -> SlogDet:
    """The sign (of absolute value 1) of each determinant and the logarithm of its absolute value.

    A: (..., n, n). A singular matrix has sign 0 and logarithm -inf, and an infinite gradient.
    """
    found = _sign_and_logarithm(A)
    return SlogDet(found[0], found[1])


@composite(takes="fc", aliases={"input": "A"})
def logdet(A: Tensor) -> Tensor:
    """The logarithm of each determinant; NaN where that of a real matrix is negative. A: (..., n, n)."""
    sign, logarithm = slogdet(A)
    if A._array.dtype.kind == "c":
        return sign.log() + logarithm
    return logarithm.where(sign >= 0, float("nan"))


# As names of the package, with their older arguments


@composite(name="det", takes="fc")
def det_of(input: Tensor) -> Tensor:
    """`linalg.det`."""
    return det(input)


@composite(name="slogdet", takes="fc")
def slogdet_of(input: Tensor) -> tuple[Tensor, Tensor]:
    """`linalg.slogdet`."""
    return slogdet(input)
