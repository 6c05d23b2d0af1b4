"""Vectors along a dimension: cross and inner products, Vandermonde matrices, diagonals."""

from __future__ import annotations

import numpy as np

from ...autograd.half_types import rounding_once
from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING, bool_
from ...tensor.tensor import Tensor, adopt
from ..views.join import cat
from ..views.slices import diagonal as diagonal_of_first
from .checks import declare, of_floating, of_numbers, tensor_argument

__all__ = ["cross", "diagonal", "vander", "vander_of", "vecdot"]


@declare(widen=True, takes="ifc")
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross products of vectors of three elements along `dim`; the other dimensions broadcast.

    Raises RuntimeError for other lengths, and for inputs with different numbers of dimensions.
    """
    tensor_argument("cross", "input", input)
    tensor_argument("cross", "other", other)
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, and their shapes are "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if input.size(dim) != 3 or other.size(dim) != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.size(dim)} and {other.size(dim)}"
        )
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)


@rounding_once
def _inner_products(x: Tensor, y: Tensor, dim: int) -> Tensor:
    return ((x.conj() if x.is_complex() else x) * y).sum(dim)


@declare(autocast="lower")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The inner products of vectors along `dim`, the first conjugated; the other dimensions broadcast.

    Raises RuntimeError for vectors of two dtypes.
    """
    of_floating("vecdot", x, "x")
    of_floating("vecdot", y, "y")
    if x.dtype is not y.dtype:
        raise RuntimeError(f"linalg.vecdot(): y must be of the dtype of x, {x.dtype!r}, got {y.dtype!r}; convert one")
    return _inner_products(x, y, dim)


@declare(widen=True, takes="ifc")
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to N - 1 of each element along a new last dimension; N is the size of the last one by default.

    x: (..., n); a 0-dim tensor counts as a vector of one element. Raises RuntimeError for N < 2 given.
    """
    of_numbers("vander", x, "x")
    if not x.ndim:
        x, N = x.reshape(1), 1 if N is None else N
    if N is not None and N < 2:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {N}")
    count = x.shape[-1] if N is None else N
    ones = adopt(np.ones((*x.shape, 1), x._array.dtype))
    return cat([ones, x.unsqueeze(-1).expand((*x.shape, max(count - 1, 0)))], -1).cumprod(-1)[..., :count]


@declare(takes="bifc")
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of matrices that lie along two dimensions, the last two by default; a view."""
    return diagonal_of_first(tensor_argument("diagonal", "A", A), offset, dim1, dim2)


def _default_dim(input: Tensor) -> int:
    """torch.cross without `dim`: the first dimension of size 3."""
    return next((dim for dim, size in enumerate(input.shape) if size == 3), -1)


@composite(widen=True, name="cross", takes="ifc")
def cross_product(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """`linalg.cross` along `dim`; by default, along the first dimension of size 3."""
    return cross(input, other, dim=_default_dim(input) if dim is None else dim)


# As names of the package, with their older arguments


@composite(widen=True, name="vander", method=False, takes="bifc")
def vander_of(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of a vector, the highest first unless `increasing`; see `linalg.vander`. Raises
    RuntimeError for other than"""
    x = x.long() if x.dtype is bool_ else x
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, and its shape is {list(x.shape)}")
    count = len(x._array) if N is None else N
    if count < 2:
        ones = x.new_ones((len(x._array), count))
        return ones if x.dtype.category >= FLOATING else ones.long()
    found = vander(x, N=count)
    return found if increasing else found.flip(-1)
