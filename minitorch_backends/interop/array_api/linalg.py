"""The extension `linalg` of the array API standard."""

from __future__ import annotations

from typing import Any

from ... import linalg
from ...linalg import (
    cholesky,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    matrix_power,
    qr,
    slogdet,
    svd,
    svdvals,
)
from ...ops import names as ops
from ...tensor.tensor import Tensor
from .functions import matrix_transpose, tensordot, vecdot
from .renaming import alike, promoting, rename
from .statistics import over
from .statistics import sum as _sum

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

matmul = promoting(ops.matmul, "matmul")
matrix_norm = rename(linalg.matrix_norm, "x, /, *, keepdims=False, ord='fro'", "matrix_norm")
matrix_rank = rename(linalg.matrix_rank, "x, /, *, rtol=None", "matrix_rank")
pinv = rename(linalg.pinv, "x, /, *, rtol=None", "pinv")


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product over an axis of size 3."""
    return linalg.cross(*ops.broadcast_tensors(*alike(x1, x2)), dim=axis)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of `x1 @ x = x2`, where `x2` is one vector only if it has one axis."""
    x1, x2 = alike(x1, x2)
    matrices = 1 < x2.ndim < x1.ndim  # which torch may take for a batch of vectors
    return linalg.solve(x1, x2[None] if matrices else x2)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of each matrix."""
    return _sum(linalg.diagonal(x, offset=offset), axis=-1, dtype=dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of each element of one vector and each of another."""
    return ops.mul(*alike(x1[:, None], x2))


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norm of order `ord` over some axes, or all."""
    x, axis, keepdims = over(x, axis, keepdims)
    return linalg.vector_norm(x, ord, axis, keepdims)
