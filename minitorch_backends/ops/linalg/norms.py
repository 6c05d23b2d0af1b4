"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.op import composite
from ...tensor.dtypes import promote_types, to_dtype
from ...tensor.tensor import Tensor
from ..dims import wrap_dims
from ..reductions.variance import norm_of_elements
from .checks import declare, of_floating, of_matrices, of_square, tensor_argument
from .singular import svdvals
from .solve import inv_ex

__all__ = ["cond", "matrix_norm", "norm", "norm_of", "vector_norm"]

_BY_VALUES = ("nuc", 2, -2)
_BY_SUMS = (1, -1, math.inf, -math.inf)
_ORDERS = ("fro", *_BY_VALUES, *_BY_SUMS)


@declare()
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """sum(|x|^ord)^(1/ord) over `dim`, an int or several; all dimensions by default. The result is real.

    inf and -inf give the largest and smallest absolute value, 0 counts nonzero elements. Raises RuntimeError for
    integers, and for infinite and negative norms of empty vectors.
    """
    tensor_argument("vector_norm", "x", x)
    if not isinstance(ord, (int, float)):
        raise RuntimeError(f"linalg.vector_norm: expected a number for ord, got {ord!r}; see matrix_norm for others")
    _refuse_dtype("vector_norm", x, dtype)
    return norm_of_elements(x, ord, None if dim == () else dim, keepdim, dtype=dtype)


def _refuse_dtype(function: str, x: Tensor, dtype: Any) -> None:
    """Raise RuntimeError for a type to compute in that is not of the input's kind, or holds less."""
    if dtype is None:
        return
    wanted = to_dtype(dtype)
    if not (wanted.is_complex or wanted.is_floating_point):
        raise RuntimeError(f"linalg.{function}: dtype should be floating or complex, but got {wanted!r}")
    if wanted.is_complex != x.is_complex():
        kind = "complex for complex" if x.is_complex() else "real for real"
        raise RuntimeError(f"linalg.{function}: dtype should be {kind} inputs, but got {wanted!r}")
    if promote_types(x.dtype, wanted) is not wanted:
        raise RuntimeError(
            f"linalg.{function}: the dtype of the input, {x.dtype!r}, should be convertible without narrowing to the "
            f"specified dtype, {wanted!r}; convert the input with .to(dtype)"
        )


@declare()
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of the matrices along two dimensions; the result is real.

    `ord`: "fro" (root of the sum of squares), "nuc" (sum of singular values), 2 and -2 (largest and smallest singular
    value), 1 and -1 (largest and smallest column sum of absolute values), inf and -inf (row sums). Raises RuntimeError
    for other orders and unless two dimensions are given, IndexError for negative orders of empty matrices.
    """
    of_matrices("matrix_norm", tensor_argument("matrix_norm", "A", A))
    dims = wrap_dims(tuple(dim) if isinstance(dim, (tuple, list, range)) else (dim,), A.ndim)
    if len(dims) != 2 or dims[0] == dims[1]:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple of different dimensions. Got {dim!r}")
    if ord not in _ORDERS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord!r} not supported; expected one of {_ORDERS}")
    _refuse_dtype("matrix_norm", of_floating("matrix_norm", A), dtype)
    A = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return norm_of_elements(A, 2, dims, keepdim)
    if ord in _BY_VALUES:
        values = svdvals(A.movedim(dims, (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else _extreme(values, ord, -1)
    else:
        summed, other = dims if abs(ord) == 1 else dims[::-1]
        found = _extreme(A.abs().sum(summed), ord, other - (other > summed))
    return found.unsqueeze(min(dims)).unsqueeze(max(dims)) if keepdim else found


def _extreme(values: Tensor, ord: Any, dim: int) -> Tensor:
    """The largest for positive orders, 0 of none; the smallest for negative ones."""
    if not values._array.shape[dim]:
        if ord < 0:
            raise IndexError(
                f"linalg.matrix_norm: order {ord} is the norm of a smallest value, which an empty matrix does not have"
            )
        return values.sum(dim)
    return values.amax(dim) if ord > 0 else values.amin(dim)


@declare()
def norm(input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A vector norm for one `dim`, a matrix norm for two; without `ord`, the 2-norm of all elements.

    With an `ord` and no `dim` the input must have one or two dimensions. See `vector_norm` and `matrix_norm`. Raises
    RuntimeError for other numbers of dimensions.
    """
    tensor_argument("norm", "input", input)
    if isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if input.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                f"{input.ndim}D; pass dim"
            )
        dim = 0 if input.ndim == 1 else (0, 1)
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) == 2:
        return matrix_norm(input, ord, dims, keepdim, dtype=dtype)
    return vector_norm(input, ord, dims, keepdim, dtype=dtype)


# Condition numbers


@declare(widen=True, product="matmul", autocast="float32")
def cond(A: Tensor, p: Any = None) -> Tensor:
    """norm(A, p) * norm(inv(A), p); for None, 2 and -2 the ratio of extreme singular values, of any m x n matrix.

    inf for a singular matrix and another p. A: (..., m, n). Raises RuntimeError for orders that `matrix_norm` has not.
    """
    of_matrices("cond", tensor_argument("cond", "A", A))
    if p is not None and p not in _ORDERS:
        raise RuntimeError(f"linalg.cond: Order {p!r} not supported; expected None or one of {_ORDERS}")
    by_values = p in (None, 2, -2)
    if not by_values:
        of_square("cond", A)
    if 0 in A._array.shape[-2:]:
        return matrix_norm(A, "fro") * 0
    if by_values:
        values = svdvals(A)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    inverse, info = inv_ex(A)
    if info._array.any():
        inverse = inverse.where((info == 0)[..., None, None], 0)
    found = matrix_norm(A, p) * matrix_norm(inverse, p)
    return found.where(info == 0, math.inf) if info._array.any() else found


# As names of the package, with their older arguments


@composite(name="norm", takes="fc")
def norm_of(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """sum(|input|^p)^(1/p) of vectors along `dim`, an int or several; of all elements by default.

    `p` is 2 by default ("fro"). inf and -inf give the largest and smallest absolute value, 0 counts nonzero elements.
    "nuc" gives the sum of the singular values of matrices along two dimensions. The gradient is 0 where the norm is.
    Raises RuntimeError for integers, and for infinite and negative norms of empty vectors.
    """
    if p == "nuc":
        return matrix_norm(input, p, range(input.ndim) if dim is None else dim, keepdim, dtype=dtype)
    return norm_of_elements(input, p, dim, keepdim, dtype=dtype)
