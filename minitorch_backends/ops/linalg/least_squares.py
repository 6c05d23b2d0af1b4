"""Least squares, and symmetric indefinite systems."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor
from ..gradients import no_derivative
from ..matmul.matmul import adjoint, times
from .checks import (
    call,
    call_at_precision,
    declare,
    of_finite,
    of_floating,
    of_matrices,
    of_square,
    raise_for,
    tensor_argument,
)
from .singular import _pinv_gradient, pinv, roundoff
from .triangular import fitting

__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq"]

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class LeastSquares(NamedTuple):
    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class Solved(NamedTuple):
    x: Any
    rank: Any
    singular_values: Any


def _gradient_of_matrix(g: tuple, A: Tensor, B: Tensor, precision: Any) -> Tensor:
    return _pinv_gradient(times(g[0], adjoint(B), precision), A, pinv(A))


@op(
    name=("least_squares", "linalg_lstsq"),
    traits="function",
    takes="fc",
    product="matmul",
    A=_gradient_of_matrix,
    B=lambda g, A, precision: times(adjoint(pinv(A)), g[0], precision),
    batch="loop: operands that broadcast in pairs",
)
def _least_squares(
    A: Array, B: Array, rcond: Any, driver: str | None, precision: str | None = None, refine: bool = True
) -> Solved:
    """The minimum-norm solution x of min norm(A @ x - B), with ranks and singular values if known."""
    of_finite("lstsq", A, RuntimeError)
    options = {"rcond": rcond, "driver": driver}
    found = call_at_precision(kernels.lstsq, A, B, precision=precision, refine=refine, **options)
    raise_for("lstsq", found.info, _FAILED)
    nothing = np.zeros(0, A.real.dtype)
    rank = np.zeros(0, np.int64) if found.rank is None else found.rank
    return Solved(found.x, rank, nothing if found.S is None else found.S)


_FAILED = (
    "The least squares solution could not be computed because the input matrix does not have full rank (error code: "
    "{info})."
)


def _is_vector(A: Any, B: Any) -> bool:
    return A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])


@declare(widen=True, product="matmul", autocast="float32")
def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    precision: str | None = None,
    refine: bool = True,
) -> LeastSquares:
    """The least-squares solution X of min norm(A @ X - B), of minimum norm among all minimisers.

    A: (..., m, n). B: (..., m, k), or (..., m) with exactly A's batch dimensions. `driver`: "gels" (QR, for full rank),
    "gelsy" (QR with pivoting; the default), "gelsd" or "gelss" (singular values). Singular values up to `rcond` times
    the largest count as zero; the default is eps * max(m, n).

    Returns (solution, residuals, rank, singular_values). Residuals are squared norms, only for m > n, full rank and a
    driver other than "gelsy". The rank is returned except for "gels", singular values only for "gelsd" and "gelss".
    Missing results are empty. Raises RuntimeError for mismatched shapes or dtypes and for unknown drivers.
    """
    of_matrices("lstsq", of_floating("lstsq", A))
    if tensor_argument("lstsq", "B", B)._array.dtype != A._array.dtype:
        raise RuntimeError(
            f"torch.linalg.lstsq: Expected A and B to have the same dtype, got {A.dtype!r} and {B.dtype!r}; "
            "convert one with .to(dtype)"
        )
    driver = "gelsy" if driver is None else driver
    if driver not in DRIVERS:
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of ({', '.join(DRIVERS)}), got {driver!r}"
        )
    vector = _is_vector(A, B)
    right = B.unsqueeze(-1) if vector else B
    of_matrices("lstsq", right, "B")
    m, n = A._array.shape[-2:]
    if right._array.shape[-2] != m or right._array.shape[:-2] != A._array.shape[:-2]:
        raise RuntimeError(
            "torch.linalg.lstsq: A.shape[:-1] should be equal to that of B but for its last dimension, and the shapes "
            f"are {list(A.shape)} and {list(B.shape)}"
        )
    limit = roundoff(A._array.dtype) * max(m, n) if rcond is None else float(rcond)
    x, rank, values = _least_squares(A, right, limit, driver, precision, refine)
    residuals = (x.real if x.is_complex() else x).reshape(-1)[:0]
    if m > n and driver != "gelsy" and (driver == "gels" or (rank._array == n).all()):
        difference = A @ x - right
        residuals = (difference * difference.conj()).real.sum(-2) if A.is_complex() else difference.square().sum(-2)
    return LeastSquares(x.squeeze(-1) if vector else x, residuals, rank, values.detach())


# Symmetric indefinite matrices


class LDLFactorEx(NamedTuple):
    LD: Any
    pivots: Any
    info: Any


class LDLFactor(NamedTuple):
    LD: Any
    pivots: Any


@op(A=no_derivative("linalg.ldl_factor"), name="linalg_ldl_factor_ex", traits="function", takes="fc")
def ldl_factor_ex(A: Array, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """`ldl_factor`, and with it info, int32: 0, or the number of the first block of D that is zero."""
    of_square("ldl_factor", A)
    found = call(kernels.ldl_factor, A, **_options(hermitian))
    if check_errors:
        raise_for("ldl_factor_ex", found.info, _ZERO_BLOCK)
    return LDLFactorEx(found.LD, found.pivots, found.info)


def _options(hermitian: bool) -> dict[str, Any]:
    return {"hermitian": True} if hermitian else {}


_ZERO_BLOCK = "The factorization has a zero block D[{info},{info}], with which a system cannot be solved."


@declare()
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDLFactor:
    """A = L @ D @ L.T (L.H if `hermitian`) with 1 x 1 and 2 x 2 blocks in D, in LAPACK's compact form (sytrf, hetrf).

    A: (..., n, n), symmetric (Hermitian); the lower triangle is read. Returns (LD, pivots) for `ldl_solve`. Not
    differentiable: backward raises NotImplementedError, as in torch. Raises LinAlgError if D has a zero block.
    """
    LD, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    raise_for("ldl_factor", info, _ZERO_BLOCK)
    return LDLFactor(LD, pivots)


@op(
    LD=no_derivative("linalg.ldl_solve"),
    B=no_derivative("linalg.ldl_solve"),
    name="linalg_ldl_solve",
    traits="function",
    takes="fc",
    batch="loop: operands that broadcast in pairs",
)
def ldl_solve(LD: Array, pivots: Any, B: Array, *, hermitian: bool = False) -> Array:
    """X so that A @ X = B, for A of `ldl_factor`; has no gradient, as that.

    LD: (..., n, n). pivots: int32 (..., n). B: (..., n, k). Raises RuntimeError for shapes that do not meet.
    """
    swaps = tensor_argument("ldl_solve", "pivots", pivots)._array
    of_square("ldl_solve", LD, "LD")
    of_matrices("ldl_solve", B, "B")
    if swaps.dtype.kind != "i" or swaps.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, got {list(LD.shape[:-1])} "
            f"and {list(swaps.shape)} of {swaps.dtype}; pass the pivots of ldl_factor"
        )
    _refuse_pivots(swaps, LD.shape[-1])
    LD, B = fitting("ldl_solve", LD, B)
    swaps = np.ascontiguousarray(np.broadcast_to(swaps, LD.shape[:-1]).astype(np.int32))
    return call(kernels.ldl_solve, LD, swaps, B, **_options(hermitian))


def _refuse_pivots(swaps: np.ndarray, n: int) -> None:
    """Raise RuntimeError for pivots that `ldl_factor` cannot return: LAPACK would access memory out of bounds."""
    if not swaps.size:
        return
    wrong = swaps[(swaps == 0) | (np.abs(swaps.astype(np.int64)) > n)]
    if wrong.size:
        raise RuntimeError(
            f"linalg.ldl_solve: pivots must be between 1 and {n}, or their negatives, got {wrong[0]}; pass "
            "those of ldl_factor"
        )
    for row in (swaps.reshape(-1, n) < 0).tolist():
        at = 0
        while at < n:
            if row[at] and not (at + 1 < n and row[at + 1]):
                raise RuntimeError(
                    "linalg.ldl_solve: negative pivots stand in pairs, one for each row of a block of 2 x 2, and that "
                    f"of row {at + 1} has no second; pass the pivots of ldl_factor"
                )
            at += 1 + row[at]
