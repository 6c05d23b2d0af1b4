"""Least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor
from ..matmul.matmul import adjoint, times
from .checks import call_at_precision, declare, of_finite, of_floating, of_matrices, raise_for, tensor_argument
from .singular import _pinv_gradient, pinv, roundoff

__all__ = ["lstsq"]

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
