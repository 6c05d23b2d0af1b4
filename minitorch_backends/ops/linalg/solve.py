"""Systems of linear equations, and inverses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...autograd.modes import derives
from ...backends.precision_policy import resolve
from ...dispatch.op import Array, composite, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor
from ..matmul.matmul import adjoint, times
from .checks import call_at_precision, declare, of_matrices, of_square, raise_for, tensor_argument, transpose_last
from .lu import lu_solve
from .triangular import fitting

__all__ = ["inv", "inv_ex", "inverse", "solve", "solve_ex", "solve_with_factors", "tensorinv", "tensorsolve"]


# Inverses


class InvEx(NamedTuple):
    inverse: Any
    info: Any


def _inverse_gradient(g: tuple[Tensor, ...], out: tuple[Tensor, ...], precision: Any) -> Tensor:
    X = adjoint(out[0])
    return -times(times(X, g[0], precision), X, precision)


@op(name="linalg_inv_ex", traits="function", takes="fc", product="matmul", A=_inverse_gradient, autocast="float32")
def inv_ex(A: Array, *, check_errors: bool = False, precision: str | None = None, refine: bool = True) -> InvEx:
    """`inv`, and with it info, int32: 0, or the number of the first pivot that is zero.

    Returns (inverse, info); raises only for shapes and types, and with `check_errors` as `inv` does.
    """
    of_square("inv", A)
    found = call_at_precision(kernels.inv, A, precision=precision, refine=refine)
    if check_errors:
        raise_for("inv_ex", found.info, _NOT_INVERTIBLE)
    return InvEx(found.inverse, found.info)


_NOT_INVERTIBLE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
)


@declare(product="matmul", autocast="float32")
def inv(A: Tensor, *, precision: str | None = None, refine: bool = True) -> Tensor:
    """The inverse of each matrix. A: (..., n, n).

    At a `precision` below float32's (None: that of the flags) the inner products run at that precision, and the inverse
    is refined to float32's accuracy unless `refine` is False. Raises LinAlgError for a singular matrix.
    """
    inverse, info = inv_ex(A, precision=precision, refine=refine)
    raise_for("inv", info, _NOT_INVERTIBLE)
    return inverse


# Systems


class SolveEx(NamedTuple):
    result: Any
    info: Any


class Solved(NamedTuple):
    result: Any
    LU: Any
    pivots: Any
    info: Any


def _of_adjoint(g: Tensor, A: Tensor, out: tuple, left: bool, precision: Any, refine: bool) -> Tensor:
    """The gradient of the right side: the solution for A.H, by the factors at hand where nothing is recorded."""
    array = A._array
    exact = not resolve("linalg", array.dtype, precision).keywords
    if derives() or not exact or out[1]._array.shape != array.shape:
        return solve_with_factors(adjoint(A), g, left, precision, refine)[0]
    # For X A = B the factors are those of A.T.
    gB = lu_solve(out[1], out[2], g if left else g.mT, adjoint=True)
    return gB if left else gB.mT


def _gradient_of_matrix(g: tuple, A: Tensor, out: tuple, left: bool, precision: Any, refine: bool) -> Tensor:
    gB = _of_adjoint(g[0], A, out, left, precision, refine)
    X = adjoint(out[0])
    return -(times(gB, X, precision) if left else times(X, gB, precision))


@op(
    name=("solve_with_factors", "linalg_solve_ex"),
    traits="function",
    takes="fc",
    product="matmul",
    A=_gradient_of_matrix,
    B=lambda g, A, out, left, precision, refine: _of_adjoint(g[0], A, out, left, precision, refine),
    batch="loop: operands that broadcast in pairs",
)
def solve_with_factors(A: Array, B: Array, left: bool, precision: str | None = None, refine: bool = True) -> Solved:
    """The solutions of A @ X = B (or X @ A = B) for matrices B, from the LU factors of A (or of A.T)."""
    of_square("solve", A)
    of_matrices("solve", B, "B")
    A, B = fitting("solve", A, B, left)
    A, B = (A, B) if left else (transpose_last(A), transpose_last(B))
    found = call_at_precision(kernels.solve, A, B, precision=precision, refine=refine)
    return Solved(found.x if left else transpose_last(found.x), found.LU, found.pivots, found.info)


def _is_vector(A: Any, B: Any) -> bool:
    """Whether B is a vector, or a batch of vectors of exactly A's batch dimensions (torch's rule)."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


@declare(widen=True, product="matmul")
def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    precision: str | None = None,
    refine: bool = True,
) -> SolveEx:
    """`solve`, and with it info, int32: 0, or the number of the first pivot that is zero.

    Returns (result, info); raises only for shapes and types, and with `check_errors` as `solve` does. Raises
    RuntimeError for vectors with `left=False`.
    """
    of_square("solve", tensor_argument("solve", "A", A))
    tensor_argument("solve", "B", B)
    vector = _is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False; the shapes are "
            f"{list(A.shape)} and {list(B.shape)}"
        )
    right = B.unsqueeze(-1) if vector else B
    of_matrices("solve", right, "B")
    if A._array.shape[:-2] == right._array.shape[:-2]:
        result, _, _, info = solve_with_factors(A, right, left, precision, refine)
    elif left:
        result, info = _as_columns(A, right, precision, refine)
    else:
        result, info = _as_columns(A.mT, right.mT, precision, refine)
        result = result.mT
    if check_errors:
        raise_for("solve_ex", info, _NO_SOLUTION)
    return SolveEx(result.squeeze(-1) if vector else result, info)


def _as_columns(A: Tensor, B: Tensor, precision: Any, refine: bool) -> tuple[Tensor, Tensor]:
    """Where one matrix meets several right sides of a batch, they are columns of one: it is factored once."""
    batch = fitting("solve", A._array, B._array)[1].shape[:-2]
    sizes = (1,) * (len(batch) - A.ndim + 2) + tuple(A.shape[:-2])
    one = [dim for dim, size in enumerate(sizes) if size == 1]
    many = [dim for dim, size in enumerate(sizes) if size != 1]
    n, k = B.shape[-2:]
    order = [*many, len(batch), *one, len(batch) + 1]
    kept, columns = [batch[dim] for dim in many], [batch[dim] for dim in one]
    right = B.expand((*batch, n, k)).permute(order).reshape(*kept, n, math.prod(columns) * k)
    x, _, _, info = solve_with_factors(A.reshape(*kept, n, n), right, True, precision, refine)
    back = [order.index(dim) for dim in range(len(order))]
    return x.reshape(*kept, n, *columns, k).permute(back), info.reshape(A.shape[:-2])


_NO_SOLUTION = "The solver failed because the input matrix is singular: the diagonal element {info} of U is zero."


@declare(widen=True, product="matmul", autocast="float32")
def solve(A: Tensor, B: Tensor, *, left: bool = True, precision: str | None = None, refine: bool = True) -> Tensor:
    """Solve A @ X = B, or X @ A = B unless `left`.

    A: (..., n, n). B: (n), or (..., n) with exactly A's batch dimensions, or (..., n, k), or (..., k, n) unless `left`;
    batches broadcast. At a `precision` below float32's (None: that of the flags) A is factored at that precision, and
    the
    solution is refined to float32's accuracy unless `refine` is False. Raises LinAlgError for a singular matrix.
    """
    result, info = solve_ex(A, B, left=left, precision=precision, refine=refine)
    raise_for("solve", info, _NO_SOLUTION)
    return result


# Tensors as matrices


@declare(product="matmul", autocast="float32")
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A, whose first `ind` dimensions are those of the rows of a square matrix.

    Raises RuntimeError for `ind` < 1 and for sizes that make no square, LinAlgError for a singular matrix.
    """
    shape = tuple(tensor_argument("tensorinv", "A", A).shape)
    if ind < 1:
        raise RuntimeError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', got {ind}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "linalg.tensorinv: Expected self to satisfy prod(self.shape[ind:]) == prod(self.shape[:ind]), but they are "
            f"{columns} and {rows} for shape {list(shape)} and ind={ind}"
        )
    return inv(A.reshape(rows, columns)).reshape(*shape[ind:], *shape[:ind])


@declare(product="matmul", autocast="float32")
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X so that tensordot(A, X, X.ndim) = B, where the dimensions `dims` of A are moved to its end first.

    A: of shape B.shape + X.shape. Raises RuntimeError for sizes that make no square, LinAlgError for a singular matrix.
    """
    moved = tensor_argument("tensorsolve", "A", A)
    tensor_argument("tensorsolve", "B", B)
    if dims is not None:
        moved = moved.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    wanted = tuple(moved.shape[B.ndim :])
    rows, columns = B.numel(), math.prod(wanted)
    if rows != columns or moved.numel() != rows * columns:
        raise RuntimeError(
            "linalg.tensorsolve: Expected self to satisfy prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} and {math.prod(moved.shape[: B.ndim])} for shapes "
            f"{list(A.shape)} and {list(B.shape)}"
        )
    return solve(moved.reshape(rows, columns), B.reshape(rows)).reshape(wanted)


# As names of the package, with their older arguments


@composite(takes="fc", product="matmul", autocast="float32")
def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`."""
    return inv(input)
