"""Cholesky factors, and systems with triangular matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, Forms, composite, op
from ...kernels import linalg as kernels
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor
from ..matmul.matmul import adjoint, times
from .checks import call, call_at_precision, declare, of_matrices, of_square, raise_for, transpose_last

__all__ = [
    "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_of", "cholesky_solve", "halved_diagonal",
    "solve_triangular", "triangular_solve",
]  # fmt: skip


def halved_diagonal(matrix: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal: the adjoint of L -> L + L.H."""
    return matrix.tril() - (matrix.diagonal(0, -2, -1) / 2).diag_embed()


# Cholesky


class CholeskyEx(NamedTuple):
    L: Any
    info: Any


def _cholesky_gradient(g: tuple[Tensor, ...], out: tuple[Tensor, ...], upper: bool) -> Tensor:
    """Murray, Differentiation of the Cholesky decomposition (arXiv 1602.07527), section 3: with P = L.H @ g, it is the
    Hermitian part of L^-H @ (tril(P) - diag(P) / 2) @ L^-1."""
    L, gL = (adjoint(each) if upper else each for each in (out[0], g[0]))
    phi = halved_diagonal(adjoint(L) @ gL.tril())
    right = solve_triangular(L, phi, upper=False, left=False)
    gA = solve_triangular(adjoint(L), right, upper=True)
    return (gA + adjoint(gA)) / 2


@op(name="linalg_cholesky_ex", traits="function", takes="fc", A=_cholesky_gradient, autocast="float32")
def cholesky_ex(A: Array, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """`cholesky`, and with it info, int32: 0, or the order of the leading minor that is not positive definite.

    Returns (L, info); raises only for shapes and types, and with `check_errors` as `cholesky` does.
    """
    of_square("cholesky", A)
    found = call(kernels.cholesky, transpose_last(A).conj() if upper else A)
    if check_errors:
        raise_for("cholesky_ex", found.info, _INDEFINITE)
    return CholeskyEx(transpose_last(found.L).conj() if upper else found.L, found.info)


_INDEFINITE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{info} is not positive-definite)."
)


@declare(autocast="float32")
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L, lower triangular with a positive diagonal, so that A = L @ L.H; U so that A = U.H @ U, if `upper`.

    A: (..., n, n), Hermitian and positive definite; only its lower (upper) triangle is read, and its gradient is that
    of a Hermitian matrix. Raises LinAlgError for a matrix that is not positive definite.
    """
    L, info = cholesky_ex(A, upper=upper)
    raise_for("cholesky", info, _INDEFINITE)
    return L


# Triangular systems


def _gradient_of_right_side(
    g: Tensor, A: Tensor, upper: bool, left: bool, unitriangular: bool, precision: Any
) -> Tensor:
    return solve_triangular(adjoint(A), g, upper=not upper, left=left, unitriangular=unitriangular)


def _gradient_of_triangle(
    g: Tensor, A: Tensor, out: Tensor, upper: bool, left: bool, unitriangular: bool, precision: Any
) -> Tensor:
    gB = solve_triangular(adjoint(A), g, upper=not upper, left=left, unitriangular=unitriangular)
    gA = -(times(gB, adjoint(out), precision) if left else times(adjoint(out), gB, precision))
    off = int(unitriangular)
    return gA.triu(off) if upper else gA.tril(-off)


@op(
    name="linalg_solve_triangular",
    traits="function",
    takes="fc",
    product="matmul",
    A=_gradient_of_triangle,
    B=_gradient_of_right_side,
    batch="loop: operands that broadcast in pairs",
)
def solve_triangular(
    A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False, precision: str | None = None
) -> Array:
    """Solve A @ X = B (X @ A = B unless `left`), reading one triangle of A, with ones on its diagonal if
    `unitriangular`.

    A: (..., n, n). B: (..., n, k), or (..., k, n) unless `left`; batches broadcast. A zero on the diagonal gives inf or
    NaN. `precision` applies to the products in its gradient. Raises RuntimeError for mismatched shapes.
    """
    of_square("solve_triangular", A)
    of_matrices("solve_triangular", B, "B")
    A, B = fitting("solve_triangular", A, B, left)
    options: dict[str, Any] = {"upper": upper, "left": left, "unitriangular": unitriangular}
    plain = {"upper": False, "left": True, "unitriangular": False}
    return call(kernels.triangular_solve, A, B, **{name: v for name, v in options.items() if v != plain[name]})


def fitting(function: str, A: np.ndarray, B: np.ndarray, left: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The matrices of a system with equal batches; raises RuntimeError for types that differ and shapes that do not
    meet."""
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.{function}: Expected A and B to have the same dtype, but found {dtype_of(A)!r} and "
            f"{dtype_of(B)!r} instead; convert one of them with .to(dtype)"
        )
    if A.shape[-2] != B.shape[-2 if left else -1]:
        a, b = (f"{each.shape[-2]}x{each.shape[-1]}" for each in (A, B))
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"linalg.{function}: Incompatible shapes of A and B for the equation {equation} ({a} and {b})"
        )
    if A.shape[:-2] == B.shape[:-2]:
        return A, B
    try:
        batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except ValueError:
        raise RuntimeError(
            f"linalg.{function}: the batch dimensions {list(A.shape[:-2])} of A and {list(B.shape[:-2])} of B do not "
            "broadcast; expected equal sizes, or 1, counted from the right"
        ) from None
    return np.broadcast_to(A, (*batch, *A.shape[-2:])), np.broadcast_to(B, (*batch, *B.shape[-2:]))


# Systems with a Cholesky factor


def _cholesky_solve_gradient_of_factor(
    g: Tensor, L: Tensor, out: Tensor, upper: bool, precision: Any, refine: bool
) -> Tensor:
    gB = cholesky_solve(g, L, upper, precision=precision, refine=refine)
    gA = times(gB, adjoint(out), precision)
    gA = -(gA + adjoint(gA))
    return times(L.triu(), gA, precision).triu() if upper else times(gA, L.tril(), precision).tril()


@op(
    takes="fc",
    product="matmul",
    forms=Forms(aliases={"input": "B", "input2": "L"}),
    B=lambda g, L, upper, precision, refine: cholesky_solve(g, L, upper, precision=precision, refine=refine),
    L=_cholesky_solve_gradient_of_factor,
    autocast="float32",
    batch="loop: operands that broadcast in pairs",
)
def cholesky_solve(
    B: Array, L: Array, upper: bool = False, *, precision: str | None = None, refine: bool = True
) -> Array:
    """Solve A @ X = B for A = L @ L.H (L.H @ L if `upper`). B: (..., n, k). L: (..., n, n); batches broadcast.

    At a `precision` below float32's (None: that of the flags) the inner products run at that precision, and the
    solution is refined to float32's accuracy unless `refine` is False. Raises RuntimeError for mismatched shapes.
    """
    of_matrices("cholesky_solve", B, "B")
    of_square("cholesky_solve", L, "L")
    L, B = fitting("cholesky_solve", L, B)
    factor = transpose_last(L).conj() if upper else L
    return call_at_precision(kernels.cholesky_solve, factor, B, precision=precision, refine=refine)


@composite(takes="fc", aliases={"input": "L"}, autocast="float32")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A = L @ L.H (L.H @ L if `upper`). L: (..., n, n). A zero on its diagonal gives inf and NaN."""
    return inverse_of_factor(L, upper)


def _cholesky_inverse_gradient(g: Tensor, L: Tensor, out: Tensor, upper: bool) -> Tensor:
    gA = -(out @ (g + adjoint(g)) @ out)
    return (L.triu() @ gA).triu() if upper else (gA @ L.tril()).tril()


@op(traits="function", takes="fc", L=_cholesky_inverse_gradient)
def inverse_of_factor(L: Array, upper: bool) -> Array:
    """`cholesky_inverse`, with `upper` given."""
    of_square("cholesky_inverse", L, "L")
    return call(kernels.cholesky_inverse, transpose_last(L).conj() if upper else L)


# As names of the package, with their older arguments


@composite(name="cholesky", takes="fc", autocast="float32")
def cholesky_of(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`."""
    return cholesky(input, upper=upper)


class TriangularSolve(NamedTuple):
    solution: Any
    cloned_coefficient: Any


@composite(widen=True, takes="fc", aliases={"input": "b"}, autocast="float32")
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """X so that A @ X = b for a triangular A (A.T if `transpose`), and a copy of A; see `linalg.solve_triangular`."""
    turned = A.mT if transpose else A
    x = solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(x, A.clone())
