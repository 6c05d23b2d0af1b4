"""LU factors with partial pivoting, LDL factors of symmetric indefinite matrices, and systems with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor, adopt
from ..gradients import no_derivative
from ..matmul.matmul import adjoint
from ..views.join import cat
from .checks import call, declare, of_floating, of_matrices, of_square, raise_for, tensor_argument, transpose_last
from .triangular import fitting, solve_triangular

__all__ = [
    "ldl_factor", "ldl_factor_ex", "ldl_solve", "lu", "lu_factor", "lu_factor_ex", "lu_of", "lu_solve", "lu_solve_of",
    "lu_unpack", "permutation", "permute_rows", "unit_lower",
]  # fmt: skip


def permutation(pivots: np.ndarray, rows: int) -> np.ndarray:
    """For LAPACK's interchanges, the row of A that stands at each place: (P.T @ A) = A[permutation]."""
    batch = pivots.shape[:-1]
    order = np.tile(np.arange(rows), (int(np.prod(batch)), 1))
    swaps = pivots.reshape(len(order), pivots.shape[-1])
    if len(order) == 1:
        places = order[0].tolist()
        for row, other in enumerate(swaps[0].tolist()):
            places[row], places[other - 1] = places[other - 1], places[row]
        return np.array(places, np.intp).reshape(*batch, rows)
    matrices = np.arange(len(order))
    for row, others in enumerate(swaps.T):
        kept = order[:, row].copy()
        order[:, row] = order[matrices, others - 1]
        order[matrices, others - 1] = kept
    return order.reshape(*batch, rows)


def permute_rows(matrix: Tensor, order: np.ndarray) -> Tensor:
    """The rows of each matrix in another order."""
    index = np.broadcast_to(order[..., None], matrix._array.shape)
    return matrix.gather(-2, adopt(np.ascontiguousarray(index)))


def unit_lower(LU: Tensor) -> Tensor:
    """L, with ones on its diagonal."""
    m, n = LU._array.shape[-2:]
    return LU[..., : min(m, n)].tril(-1) + adopt(np.eye(m, min(m, n), dtype=LU._array.dtype))


# Factors


class LUFactorEx(NamedTuple):
    LU: Any
    pivots: Any
    info: Any


class LUFactor(NamedTuple):
    LU: Any
    pivots: Any


class LUUnpacked(NamedTuple):
    P: Any
    L: Any
    U: Any


def _lu_gradient(g: tuple[Tensor, ...], out: tuple[Tensor, ...]) -> Tensor:
    """With B = P.T @ A = L @ U and M = L^-1 dB U^-1 (of the leading square parts): dL = L tril(M, -1), dU = triu(M) U.
    The parts outside the squares follow from dB = dL U + L dU."""
    LU, gLU = out[0], g[0]
    m, n = LU._array.shape[-2:]
    k = min(m, n)
    L, U = unit_lower(LU), LU[..., :k, :].triu()
    gL, gU = gLU[..., :k].tril(-1), gLU[..., :k, :].triu()
    lower, upper = adjoint(L[..., :k, :]) @ gL[..., :k, :], gU[..., :k] @ adjoint(U[..., :k])
    if n > k:
        lower = lower - gU[..., k:] @ adjoint(U[..., k:])
    if m > k:
        upper = upper - adjoint(L[..., k:, :]) @ gL[..., k:, :]
    square, right = adjoint(L[..., :k, :]), adjoint(U[..., :k])
    gB = solve_triangular(square, lower.tril(-1) + upper.triu(), upper=True, unitriangular=True)
    gB = solve_triangular(right, gB, upper=False, left=False)
    if n > k:
        gB = cat([gB, solve_triangular(square, gU[..., k:], upper=True, unitriangular=True)], -1)
    if m > k:
        gB = cat([gB, solve_triangular(right, gL[..., k:, :], upper=False, left=False)], -2)
    return permute_rows(gB, np.argsort(permutation(out[1]._array, m), axis=-1))


@op(name="linalg_lu_factor_ex", traits="function", takes="fc", A=lambda g, out: _lu_gradient(g, out))
def lu_factor_ex(A: Array, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """`lu_factor`, and with it info, int32: 0, or the number of the first diagonal element of U that is zero.

    Returns (LU, pivots, info); raises only for shapes and types, and with `check_errors` as `lu_factor` does. Raises
    RuntimeError for `pivot=False`, which torch has on GPUs only.
    """
    of_matrices("lu_factor", A)
    if not pivot:
        raise RuntimeError(
            "linalg.lu_factor: LU without pivoting is not implemented on the CPU, got pivot=False; expected True"
        )
    found = call(kernels.lu_factor, A)
    if check_errors:
        raise_for("lu_factor_ex", found.info, _SINGULAR)
    return LUFactorEx(found.LU, found.pivots, found.info)


_SINGULAR = (
    "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


@declare()
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """A = P @ L @ U with partial pivoting, in LAPACK's compact form: U on and above the diagonal of LU, L below it.

    A: (..., m, n). Returns (LU, pivots), the pivots int32 (..., min(m, n)): row i, counted from 1, was exchanged with
    row pivots[i]. Raises LinAlgError where U has a zero on its diagonal.
    """
    LU, pivots, info = lu_factor_ex(A, pivot=pivot)
    raise_for("lu_factor", info, _SINGULAR)
    return LUFactor(LU, pivots)


@composite(method=False, takes="fc")
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LUUnpacked:
    """(P, L, U) from the result of `lu_factor`; empty tensors for parts that are not requested. Raises RuntimeError for
    pivots of another shape or dtype than those of `lu_factor`, and out of range."""
    of_matrices("lu_unpack", of_floating("lu_unpack", LU_data, "LU_data"), "LU_data")
    if LU_pivots._array.dtype != np.int32:
        raise RuntimeError(
            "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
            f"{LU_pivots.dtype!r}; pass the pivots of lu_factor"
        )
    array, (m, n) = LU_data._array, LU_data._array.shape[-2:]
    swaps = LU_pivots._array
    if swaps.shape != (*array.shape[:-2], min(m, n)):
        raise RuntimeError(
            f"lu_unpack: expected LU_pivots of shape {[*array.shape[:-2], min(m, n)]} for LU_data of shape "
            f"{list(array.shape)}, got {list(swaps.shape)}; pass the pivots of lu_factor"
        )
    if unpack_pivots and swaps.size and not 1 <= swaps.min() <= swaps.max() <= m:
        wrong = swaps.min() if swaps.min() < 1 else swaps.max()
        raise RuntimeError(f"lu_unpack: pivots must be between 1 and {m}, got {wrong}; pass those of lu_factor")
    P = L = U = adopt(np.empty(0, array.dtype))
    if unpack_pivots:
        rows = permutation(swaps, m)
        P = adopt(np.ascontiguousarray(np.eye(m, dtype=array.dtype)[rows].swapaxes(-1, -2)))
    if unpack_data:
        L, U = unit_lower(LU_data), LU_data[..., : min(m, n), :].triu()
    return LUUnpacked(P, L, U)


@declare()
def lu(A: Tensor, *, pivot: bool = True) -> LUUnpacked:
    """(P, L, U) so that A = P @ L @ U: a permutation, a unit lower and an upper triangular matrix. A: (..., m, n)."""
    LU, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return lu_unpack(LU, pivots)


# Systems


def _gradient_of_factors(
    g: Tensor, LU: Tensor, B_shape: tuple, out: Tensor, pivots: Tensor, left: bool, adjoint: bool
) -> Tensor:
    gB = lu_solve(LU, pivots, g, left=left, adjoint=not adjoint)
    gA = -(gB @ out.mH if left else out.mH @ gB)
    gA = permute_rows(gA.mH if adjoint else gA, permutation(pivots._array, LU._array.shape[-1]))
    return (gA @ LU.triu().mH).tril(-1) + (unit_lower(LU).mH @ gA).triu()


@op(
    name="linalg_lu_solve",
    traits="function",
    takes="fc",
    LU=_gradient_of_factors,
    B=lambda g, LU, pivots, left, adjoint: lu_solve(LU, pivots, g, left=left, adjoint=not adjoint),
    batch="loop: operands that broadcast in pairs",
)
def lu_solve(LU: Array, pivots: Any, B: Array, *, left: bool = True, adjoint: bool = False) -> Array:
    """X so that A @ X = B (X @ A = B unless `left`; A.H in place of A if `adjoint`), for A of `lu_factor`.

    LU: (..., n, n). pivots: int32 (..., n). B: (..., n, k), or (..., k, n) unless `left`. A zero on the diagonal of U
    gives inf or NaN. Raises RuntimeError for shapes that do not meet.
    """
    swaps = tensor_argument("lu_solve", "pivots", pivots)._array
    of_square("lu_solve", LU, "LU")
    of_matrices("lu_solve", B, "B")
    if swaps.dtype != np.int32 or swaps.shape != LU.shape[:-1]:
        raise RuntimeError(
            f"linalg.lu_solve: pivots should be a Tensor of int32 of shape {list(LU.shape[:-1])}, got "
            f"{swaps.dtype}{list(swaps.shape)}; pass the pivots of lu_factor"
        )
    if LU.shape[-1] and swaps.size and not (swaps.min() >= 1 and swaps.max() <= LU.shape[-1]):
        raise RuntimeError(
            f"linalg.lu_solve: pivots should be between 1 and {LU.shape[-1]}, got {swaps.min()} to {swaps.max()}"
        )
    factors, right = fitting("lu_solve", LU, B, left)
    swaps = np.broadcast_to(swaps, factors.shape[:-1])
    # X A = B is A.T X.T = B.T, and A.H X = B is A.T conj(X) = conj(B).
    right = right if left else transpose_last(right)
    right = right.conj() if adjoint else right
    options: dict[str, Any] = {"transpose": True} if left == adjoint else {}
    x = call(kernels.lu_solve, factors, np.ascontiguousarray(swaps), right, **options)
    x = x.conj() if adjoint else x
    return x if left else transpose_last(x)


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


# As names of the package, with their older arguments


@composite(name="lu_solve", takes="fc", aliases={"input": "b"}, autocast="float32")
def lu_solve_of(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve`, the right side first."""
    return lu_solve(LU_data, LU_pivots, b)


@composite(name="lu", takes="fc")
def lu_of(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """`linalg.lu_factor` as a plain tuple, or with `get_infos` `linalg.lu_factor_ex`."""
    return lu_factor_ex(A, pivot=pivot) if get_infos else tuple(lu_factor(A, pivot=pivot))
