"""QR factors and Householder reflectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor, adopt
from ..gradients import no_derivative
from ..matmul.matmul import adjoint
from ..views.join import cat
from .checks import call, declare, empty_factors, of_matrices
from .triangular import halved_diagonal, solve_triangular

__all__ = ["geqrf", "householder_product", "orgqr", "ormqr", "qr", "qr_of"]


class QR(NamedTuple):
    Q: Any
    R: Any


MODES = ("reduced", "complete", "r")


def _refuse_gradient(mode: str, m: int, n: int) -> None:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols: the last columns of Q "
            f"are not unique for a {m} by {n} matrix; use mode='reduced'"
        )


def _qr_gradient(g: tuple, A: Tensor, out: tuple, mode: str) -> Tensor:
    """Walter and Lehmann, Algorithmic differentiation of linear algebra functions (arXiv 1001.1654), section 4.5. For
    wide matrices A = [X, Y] the part of X is that of its square QR, plus the contribution of Y, since Q.H @ Y is the
    rest of R."""
    m, n = A._array.shape[-2:]
    _refuse_gradient(mode, m, n)
    Q, R, gQ, gR = out[0], out[1], g[0], g[1]
    if m >= n:
        return _tall_gradient(gQ, gR, Q, R)
    gX = _tall_gradient(gQ + A[..., m:] @ adjoint(gR[..., m:]), gR[..., :m], Q, R[..., :m])
    return cat([gX, Q @ gR[..., m:]], -1)


def _tall_gradient(gQ: Tensor, gR: Tensor, Q: Tensor, R: Tensor) -> Tensor:
    M = R @ adjoint(gR.triu()) - adjoint(gQ) @ Q
    lower = halved_diagonal(M)
    return solve_triangular(adjoint(R), gQ + Q @ (lower + adjoint(lower)), upper=False, left=False)


@op(name="linalg_qr", traits="function", takes="fc", A=_qr_gradient, autocast="float32")
def qr(A: Array, mode: str = "reduced") -> QR:
    """A = Q @ R, with orthonormal columns in Q and R upper triangular. A: (..., m, n). Returns (Q, R).

    With k = min(m, n), Q is (..., m, k) and R (..., k, n); for mode "complete" k is m; for mode "r" Q is empty. Signs
    (phases) of rows of R are not unique. Raises RuntimeError for other modes, and for gradients where Q is not unique.
    """
    of_matrices("qr", A)
    if mode not in MODES:
        raise RuntimeError(f"qr received unrecognized mode {mode!r} but expected one of {', '.join(map(repr, MODES))}")
    found = call(kernels.qr, A, **({} if mode == "reduced" else {"mode": mode}))
    return QR(empty_factors(A) if found.Q is None else found.Q, found.R)


# Reflectors


class Geqrf(NamedTuple):
    a: Any
    tau: Any


@op(input=no_derivative("geqrf"), takes="fc", autocast="float32")
def geqrf(input: Array) -> Geqrf:
    """The QR factorisation in LAPACK's compact form: (a, tau), R on and above the diagonal of a, reflectors below.

    input: (..., m, n); tau: (..., min(m, n)). See `householder_product`. Has no gradient: backward raises
    NotImplementedError.
    """
    of_matrices("geqrf", input, "input")
    found = call(kernels.geqrf, input)
    return Geqrf(found.a, found.tau)


@declare(widen=True, name="linalg_householder_product", product="matmul", autocast="float32")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of H_1 @ H_2 ... H_k with H_i = I - tau_i v_i v_i.H, where v_i is 0 above row i, 1 in it, and
    column i of A below.

    A: (..., m, n), n <= m. tau: (..., k), k <= n. In compact form (Schreiber and Van Loan, 1989) the product is
    I - V T V.H with T = (I + diag(tau) striu(V.H V))^-1 diag(tau). Raises RuntimeError for other shapes.
    """
    of_matrices("householder_product", A)
    (m, n), k = A.shape[-2:], tau.shape[-1] if tau.ndim else -1
    if not k <= n <= m or tau.ndim != A.ndim - 1 or tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(
            "linalg.householder_product: Expected input.shape[-2] >= input.shape[-1] >= tau.shape[-1] and equal batch "
            f"dimensions, got shapes {list(A.shape)} and {list(tau.shape)}"
        )
    if tau.dtype is not A.dtype:
        raise RuntimeError(
            f"linalg.householder_product: tau dtype {tau.dtype!r} does not match input dtype {A.dtype!r}; convert one"
        )
    identity = adopt(np.eye(m, n, dtype=A._array.dtype))
    if k < 1:
        return identity.expand(A.shape) + A * 0
    V = A[..., :k].tril(-1) + identity[:, :k]
    inner = adopt(np.eye(k, dtype=A._array.dtype)) + tau[..., None] * (adjoint(V) @ V).triu(1)
    T = solve_triangular(inner, tau.diag_embed(), upper=True, unitriangular=True)
    return identity - V @ (T @ adjoint(V[..., :n, :]))


# As names of the package, with their older arguments


@composite(name="qr", takes="fc", autocast="float32")
def qr_of(input: Tensor, some: bool = True) -> QR:
    """`linalg.qr` in mode "reduced" if `some`, else "complete"."""
    return qr(input, "reduced" if some else "complete")


@composite(widen=True, takes="fc", product="matmul", autocast="float32")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """`linalg.householder_product`."""
    return householder_product(input, input2)


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
    Q = householder_product(cat([input[..., :count], columns], -1), tau)
    Q = Q.mH if transpose else Q
    return Q @ other if left else other @ Q
